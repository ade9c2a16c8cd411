/* Rows of a file of tokens. They are read with pread, not mapped: if the file is truncated while it is used, a
 * mapping ends the process by a signal; a read gives an error that names the file. In both cases the system's cache
 * holds the pages once for all ranks of a host. */
#include "runtime/data/token_file_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/convert.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

enum { BLOCK = 4096, /* tokens that are read and converted at a time */ MOST_WIDTH = 4 };

/* ---- reading ---- */

static iso_status is_truncated(const iso_token_file *from, int64_t token)
{
    struct stat about = {0};
    fstat(from->file, &about);
    return iso_error(ISO_IO,
                     "'%s': token %" PRId64 " cannot be read: the file had %zu bytes when it was opened, and "
                     "has %lld now",
                     from->path, token, from->size, (long long)about.st_size);
}

static int32_t token_of(const uint8_t *bytes, size_t width)
{
    uint32_t token = 0;
    for (size_t i = width; i-- > 0;)
        token = token << 8 | bytes[i];
    return (int32_t)token;
}

/* At most BLOCK tokens. */
static iso_status read_block(const iso_token_file *from, int64_t first, int64_t count, int32_t *tokens)
{
    uint8_t bytes[MOST_WIDTH * BLOCK];
    const size_t width = (size_t)from->width, wanted = (size_t)count * width;
    size_t got;
    if (!iso_file_read(from->file, bytes, wanted, from->begin + (size_t)first * width, &got))
        return iso_error(ISO_IO, "cannot read '%s': %s", from->path, strerror(errno));
    if (got < wanted)
        return is_truncated(from, first + (int64_t)(got / width));
    for (int64_t i = 0; i < count; i++)
        tokens[i] = token_of(bytes + (size_t)i * width, width);
    return ISO_OK;
}

iso_status iso_token_file_read(const iso_token_file *from, int64_t first, int64_t count, int32_t *tokens)
{
    iso_status status = ISO_OK;
    for (int64_t at = 0; at < count && status == ISO_OK; at += BLOCK)
        status = read_block(from, first + at, count - at < BLOCK ? count - at : BLOCK, tokens + at);
    return status;
}

/* ---- the node ---- */

/* Converts `count` tokens from token `first` of the file on. */
static iso_status convert_tokens(const iso_node *node, int component, int64_t first, int64_t count,
                                 iso_dtype dtype, char *out)
{
    int32_t tokens[BLOCK];
    iso_status status = ISO_OK;
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t n = count - at < BLOCK ? count - at : BLOCK;
        ISO_TRY(read_block(node->impl, first + at, n, tokens));
        int64_t bad = iso_convert(ISO_I32, tokens, dtype, out + (size_t)at * iso_dtype_size(dtype), n);
        if (bad < 0)
            continue;
        const uint8_t byte = (uint8_t)tokens[bad]; /* in the stored type */
        const void *element = node->spec.dtype[component] == ISO_U8 ? (const void *)&byte : &tokens[bad];
        return iso_bad_element(
            node, component, (first + at + bad - component) / node->spec.elements[component], element, dtype);
    }
done:
    return status;
}

static iso_status token_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                               void *out)
{
    const int64_t context = node->spec.elements[component],
                  begin = rows->part ? rows->part->box->offset[0] : 0,
                  each = rows->part ? rows->part->box->extent[0] : context;
    char *to = out;
    iso_status status = ISO_OK;
    for (int64_t i = 0, count; i < rows->count && status == ISO_OK; i += count) {
        count = iso_rows_consecutive(rows, i, rows->part ? 1 : rows->count); /* whole rows are one piece */
        status = convert_tokens(node, component, iso_rows_at(rows, i) * context + begin + component,
                                count * each, dtype, to);
        to += (size_t)(count * each) * iso_dtype_size(dtype);
    }
    return status;
}

static void token_destroy(iso_node *node)
{
    iso_token_file *from = node->impl;
    close(from->file);
    iso_free((void *)(uintptr_t)from->path);
    iso_free(from);
}

static const iso_node_ops token_ops = {.gather = token_gather, .destroy = token_destroy};

iso_status iso_token_file_node(const iso_token_file *from, const iso_spec *spec, int64_t rows,
                               iso_node **node)
{
    iso_token_file *copy = iso_new(sizeof *copy);
    char *path = iso_strdup(from->path);
    iso_status status = copy && path ? iso_node_create(&token_ops, path, spec, NULL, NULL, copy, node)
                                     : iso_error(ISO_NO_MEMORY, "no memory to open '%s'", from->path);
    if (status != ISO_OK) {
        iso_free(path);
        iso_free(copy);
        return status;
    }
    *copy = *from;
    copy->path = path;
    (*node)->spans = iso_spans_of_rows(rows);
    return ISO_OK;
}
