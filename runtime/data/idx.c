#include "runtime/data/idx.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/data/stream_impl.h"

enum { MAGIC_BYTES = 4, DIMENSION_BYTES = 4, FIRST_ROOM = 64 << 20 };

typedef struct idx_type {
    uint8_t code;
    int bytes;
    iso_dtype dtype;
} idx_type;

static const idx_type types[] = {
    {0x08, 1, ISO_U8},  {0x09, 1, ISO_I32}, {0x0b, 2, ISO_I32},
    {0x0c, 4, ISO_I32}, {0x0d, 4, ISO_F32}, {0x0e, 8, ISO_F64},
};

static uint64_t big_endian(const uint8_t *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

static iso_status read_all(iso_byte_stream *stream, const char *name, void *out, size_t bytes,
                           const char *what)
{
    size_t got = 0;
    iso_status status = iso_byte_stream_read(stream, out, bytes, &got);
    if (status == ISO_OK && got < bytes)
        return iso_error(ISO_INVALID, "'%s' is truncated: %zu of the %zu bytes of its %s", name, got, bytes,
                         what);
    return status;
}

static iso_status read_magic(iso_byte_stream *stream, const char *name, const idx_type **type, int *rank)
{
    uint8_t magic[MAGIC_BYTES];
    size_t got = 0;
    iso_status status = iso_byte_stream_read(stream, magic, sizeof magic, &got);
    if (status != ISO_OK)
        return status;
    if (got < sizeof magic)
        return iso_error(ISO_INVALID, "'%s' is not an IDX file: it has %zu bytes", name, got);
    if (magic[0] || magic[1])
        return iso_error(ISO_INVALID,
                         "'%s' is not an IDX file: it begins with %02x %02x %02x %02x, not with 00 00", name,
                         magic[0], magic[1], magic[2], magic[3]);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == magic[2])
            *type = &types[i];
    if (!*type)
        return iso_error(ISO_INVALID,
                         "'%s': element type 0x%02x is not one of IDX's (08, 09, 0b, 0c, 0d, 0e)", name,
                         magic[2]);
    if (magic[3] < 1 || magic[3] > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "'%s' has %d dimensions; 1 to %d", name, magic[3], ISO_MAX_RANK);
    *rank = magic[3];
    return ISO_OK;
}

static iso_status read_shape(iso_byte_stream *stream, const char *name, int rank, iso_shape *shape)
{
    uint8_t bytes[ISO_MAX_RANK * DIMENSION_BYTES];
    char text[128];
    iso_status status = read_all(stream, name, bytes, (size_t)rank * DIMENSION_BYTES, "header");
    if (status != ISO_OK)
        return status;
    *shape = (iso_shape){.rank = rank};
    for (int i = 0; i < rank; i++)
        shape->dim[i] = (int64_t)big_endian(bytes + (size_t)i * DIMENSION_BYTES, DIMENSION_BYTES);
    for (int i = 0; i < rank; i++)
        if (shape->dim[i] == 0)
            return iso_error(ISO_INVALID, "'%s' is empty: its shape is %s", name,
                             iso_shape_text(shape, text, sizeof text));
    return ISO_OK;
}

/* Bytes of the elements in the file; an error if the file cannot hold as many. */
static iso_status check_size(const iso_byte_stream *stream, const char *name, const iso_shape *shape,
                             const idx_type *type, size_t *bytes)
{
    size_t header = MAGIC_BYTES + (size_t)shape->rank * DIMENSION_BYTES,
           limit = iso_byte_stream_limit(stream);
    char text[128];
    int64_t elements = 0;
    iso_shape_text(shape, text, sizeof text);
    if (iso_shape_count(shape, &elements) != ISO_OK ||
        __builtin_mul_overflow((size_t)elements, (size_t)type->bytes, bytes) ||
        *bytes > PTRDIFF_MAX / sizeof(int64_t))
        return iso_error(ISO_INVALID, "'%s': a shape of %s overflows", name, text);
    if (*bytes > limit || header > limit - *bytes)
        return iso_error(ISO_INVALID, "'%s' is truncated: its header says %s, %zu bytes; it %s %zu", name,
                         text, header + *bytes, iso_byte_stream_is_gzip(stream) ? "can hold at most" : "has",
                         limit);
    return ISO_OK;
}

/* Converts elements from the file's format to the machine's. raw and data may be equal if the element sizes
 * are. */
static void to_native(const idx_type *type, int64_t elements, const uint8_t *raw, void *data)
{
    for (int64_t i = 0; i < elements; i++) {
        uint64_t word = big_endian(raw + i * type->bytes, type->bytes);
        if (type->bytes == 8) {
            ((uint64_t *)data)[i] = word;
        } else if (type->dtype == ISO_I32) {
            int shift = 32 - 8 * type->bytes;
            ((int32_t *)data)[i] = (int32_t)((uint32_t)word << shift) >> shift;
        } else {
            ((uint32_t *)data)[i] = (uint32_t)word;
        }
    }
}

/* A small gzip'd file may claim to hold a thousand times its size, so memory grows as bytes arrive. */
static iso_status read_raw(iso_byte_stream *stream, const char *name, size_t bytes, void **raw)
{
    size_t room = bytes < FIRST_ROOM ? bytes : FIRST_ROOM, done = 0, got = 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_alloc(room, name, raw));
    for (;;) {
        ISO_TRY(iso_byte_stream_read(stream, (char *)*raw + done, room - done, &got));
        done += got;
        if (done < room)
            return iso_error(ISO_INVALID, "'%s' is truncated: %zu of the %zu bytes of its elements", name,
                             done, bytes);
        if (done == bytes)
            return ISO_OK;
        room = room < bytes / 2 ? 2 * room : bytes;
        void *more = iso_grow(*raw, done, room, 1);
        if (!more)
            return iso_no_memory("'%s' (%zu bytes)", name, room);
        *raw = more;
    }
done:
    return status;
}

static iso_status read_elements(iso_byte_stream *stream, const char *name, const idx_type *type, size_t bytes,
                                iso_idx *idx)
{
    int64_t elements = (int64_t)(bytes / (size_t)type->bytes);
    size_t all = (size_t)elements * iso_dtype_size(type->dtype);
    void *raw = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(read_raw(stream, name, bytes, &raw));
    if (all != bytes)
        ISO_TRY(iso_alloc(all, name, &idx->data));
    if (type->dtype != ISO_U8)
        to_native(type, elements, raw, idx->data ? idx->data : raw);
    if (!idx->data) {
        idx->data = raw;
        raw = NULL;
    }
done:
    iso_free(raw);
    return status;
}

static iso_status check_end(iso_byte_stream *stream, const char *name, const iso_shape *shape)
{
    uint8_t extra;
    size_t got = 0;
    char text[128];
    iso_status status = iso_byte_stream_read(stream, &extra, 1, &got);
    if (status == ISO_OK && got > 0)
        return iso_error(ISO_INVALID, "'%s' has more bytes than the shape %s in its header says", name,
                         iso_shape_text(shape, text, sizeof text));
    return status;
}

static iso_status read_idx(iso_byte_stream *stream, const char *name, iso_idx *idx)
{
    const idx_type *type = NULL;
    iso_idx fresh = {0};
    iso_status status = ISO_OK;
    size_t bytes = 0;
    int rank = 0;
    ISO_TRY(read_magic(stream, name, &type, &rank));
    ISO_TRY(read_shape(stream, name, rank, &fresh.shape));
    ISO_TRY(check_size(stream, name, &fresh.shape, type, &bytes));
    ISO_TRY(read_elements(stream, name, type, bytes, &fresh));
    ISO_TRY(check_end(stream, name, &fresh.shape));
    fresh.dtype = type->dtype;
    *idx = fresh;
    return ISO_OK;
done:
    iso_free(fresh.data);
    return status;
}

static iso_status open_and_read(const char *name, const void *bytes, size_t size, iso_idx *idx)
{
    iso_byte_stream *stream = NULL;
    iso_status status = iso_byte_stream_open(name, bytes, size, &stream);
    if (status == ISO_OK)
        status = read_idx(stream, name, idx);
    iso_byte_stream_close(stream);
    return status;
}

iso_status iso_idx_parse(const void *bytes, size_t size, const char *name, iso_idx *idx)
{
    static const char nothing[1];
    return open_and_read(name, bytes ? bytes : nothing, bytes ? size : 0, idx);
}

iso_status iso_idx_load(const char *path, iso_idx *idx)
{
    return open_and_read(path, NULL, 0, idx);
}
