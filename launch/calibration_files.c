/* Files of calibrations and networks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/plan_impl.h"

enum { MOST_BYTES = 1 << 28 };

/* A whole file; *text is freed with iso_free. */
static iso_status read_all_of(FILE *file, const char *option, const char *path, char **text, size_t *size)
{
    size_t room = 1 << 16;
    *size = 0;
    for (*text = iso_new(room); *text; room *= 2) {
        *size += fread(*text + *size, 1, room - *size, file);
        if (ferror(file))
            return iso_error(ISO_INVALID, "%s '%s' cannot be read: %s", option, path, strerror(errno));
        if (*size < room)
            return ISO_OK;
        if (room >= MOST_BYTES)
            return iso_error(ISO_INVALID, "%s '%s' has %d bytes or more, too many for such a file", option,
                             path, MOST_BYTES);
        char *more = iso_grow(*text, room, 2 * room, 1);
        if (!more)
            break;
        *text = more;
    }
    return iso_no_memory("the file of %s", option);
}

static iso_status read_file(const char *option, const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return iso_error(ISO_INVALID, "%s '%s' cannot be opened: %s", option, path, strerror(errno));
    iso_status status = read_all_of(file, option, path, text, size);
    fclose(file);
    return status;
}

/* Rank 0 reads, all ranks get the text. */
static iso_status share(iso_context *ctx, const char *option, const char *path, char **text, size_t *size)
{
    bool reads = iso_rank(ctx) == 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, reads ? read_file(option, path, text, size) : ISO_OK));
    ISO_TRY(iso_broadcast(ctx, size, sizeof *size));
    if (!reads)
        *text = iso_new(*size + 1);
    ISO_TRY(iso_agree(ctx, *text ? ISO_OK : iso_no_memory("the file of %s", option)));
    ISO_TRY(iso_broadcast(ctx, *text, *size));
done:
    return status;
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
