/* Files of calibrations and networks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/plan_impl.h"
#include "runtime/base/file.h"

enum { MOST_BYTES = 1 << 28 };

static iso_status read_stream(FILE *file, const char *option, const char *path, char **text, size_t *size)
{
    if (iso_file_read_all(file, MOST_BYTES, text, size))
        return ISO_OK;
    if (errno == EFBIG)
        return iso_error(ISO_INVALID, "%s '%s' has %d bytes or more, too many for such a file", option, path,
                         MOST_BYTES);
    return errno == ENOMEM
               ? iso_no_memory("the file of %s", option)
               : iso_error(ISO_INVALID, "%s '%s' cannot be read: %s", option, path, strerror(errno));
}

static iso_status read_file(const char *option, const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return iso_error(ISO_INVALID, "%s '%s' cannot be opened: %s", option, path, strerror(errno));
    iso_status status = read_stream(file, option, path, text, size);
    fclose(file);
    return status;
}

/* Rank 0 reads, all ranks get the text. */
static iso_status share(iso_context *ctx, const char *option, const char *path, char **text, size_t *size)
{
    bool reads = iso_rank(ctx) == 0;
    return iso_share_text(ctx, reads ? read_file(option, path, text, size) : ISO_OK, path, text, size);
}

iso_status iso_calibration_read(iso_context *ctx, const char *option, const char *path,
                                iso_calibration **calibration)
{
    char *text = NULL;
    size_t size = 0;
    iso_status status;
    ISO_TRY(share(ctx, option, path, &text, &size));
    ISO_TRY(iso_agree(ctx, iso_calibration_parse(path, text, size, calibration)));
done:
    iso_free(text);
    return status;
}

iso_status iso_network_read(iso_context *ctx, const char *option, const char *path, iso_network *network)
{
    char *text = NULL;
    size_t size = 0;
    iso_status status;
    ISO_TRY(share(ctx, option, path, &text, &size));
    ISO_TRY(iso_agree(ctx, iso_network_parse(path, text, size, network)));
done:
    iso_free(text);
    return status;
}
