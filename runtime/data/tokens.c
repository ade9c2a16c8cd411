/* Files of tokens for language models: text, each byte of which is a token, and files of 16-bit tokens as nanoGPT
 * (.bin) and llm.c (with a header) write them. Row r has the tokens [r * context, (r + 1) * context), and its
 * targets, if any, are those one further on. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/open_impl.h"
#include "runtime/data/stream_impl.h"
#include "runtime/data/token_file_impl.h"
#include "runtime/data/tokens.h"

enum {
    FIRST_ROOM = 1 << 20,
    TOKEN_BYTES = 2,
    HEADER_BYTES = 1024, /* of llm.c: 256 words of 32 bits, of which the first three are used */
    HEADER_MAGIC = 20240520,
    HEADER_VERSION = 1,    /* tokens of 16 bits */
    WIDE_MAGIC = 20240801, /* of llm.c's files for Llama 3: tokens of 32 bits */
    MEMORY_LIMIT = 64 << 20,
    BLOCK = 1 << 16, /* tokens that are checked at a time */
};

/* All bytes of a file, inflated if it is gzip'd; freed with iso_free. */
static iso_status read_bytes(const char *path, uint8_t **bytes, size_t *count)
{
    iso_byte_stream *stream = NULL;
    size_t room = FIRST_ROOM, got = 0;
    void *memory = NULL;
    iso_status status;
    *count = 0;
    ISO_TRY(iso_byte_stream_open(path, NULL, 0, &stream));
    ISO_TRY(iso_alloc(room, path, &memory));
    for (;;) {
        ISO_TRY(iso_byte_stream_read(stream, (char *)memory + *count, room - *count, &got));
        *count += got;
        if (*count < room)
            break;
        void *more = iso_grow(memory, room, 2 * room, 1);
        if (!more)
            ISO_TRY(iso_no_memory("'%s' (%zu bytes)", path, 2 * room));
        memory = more;
        room *= 2;
    }
done:
    iso_byte_stream_close(stream);
    if (status != ISO_OK)
        iso_free(memory);
    else
        *bytes = memory;
    return status;
}

static uint32_t little_endian(const uint8_t *bytes, int count)
{
    uint32_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* Finds the first token and the number of tokens of a .bin file. nanoGPT's files have no header. */
static iso_status find_tokens(const char *path, const uint8_t *bytes, size_t size, size_t *begin,
                              size_t *count)
{
    uint32_t magic = size >= 4 ? little_endian(bytes, 4) : 0;
    bool header = magic == HEADER_MAGIC;
    if ((header || magic == WIDE_MAGIC) && size < HEADER_BYTES)
        return iso_error(
            ISO_INVALID,
            "'%s' is truncated: it begins as llm.c's files of tokens do, and has %zu of the %d bytes of "
            "their header",
            path, size, HEADER_BYTES);
    uint32_t version = header ? little_endian(bytes + 4, 4) : HEADER_VERSION;
    if (magic == WIDE_MAGIC)
        return iso_error(ISO_INVALID,
                         "'%s' holds 32-bit tokens, as llm.c writes them for Llama 3; supported: "
                         "16-bit tokens",
                         path);
    *begin = header ? HEADER_BYTES : 0;
    *count = (size - *begin) / TOKEN_BYTES;
    if (version != HEADER_VERSION)
        return iso_error(ISO_INVALID,
                         "'%s' has version %" PRIu32 " of llm.c's files of tokens; supported: %d", path,
                         version, HEADER_VERSION);
    if (size % TOKEN_BYTES)
        return iso_error(ISO_INVALID, "'%s' has %zu bytes, which are no whole number of 16-bit tokens", path,
                         size);
    if (header && little_endian(bytes + 8, 4) != *count)
        return iso_error(ISO_INVALID,
                         "'%s' is truncated or too long: its header says %" PRIu32 " tokens, it has %zu",
                         path, little_endian(bytes + 8, 4), *count);
    return ISO_OK;
}

/* Replaces the bytes of a .bin file by its tokens. */
static iso_status widen(const char *path, uint8_t **bytes, size_t *count)
{
    size_t begin = 0, tokens = 0;
    void *memory = NULL;
    iso_status status;
    ISO_TRY(find_tokens(path, *bytes, *count, &begin, &tokens));
    ISO_TRY(iso_alloc((tokens ? tokens : 1) * sizeof(int32_t), path, &memory));
    for (size_t i = 0; i < tokens; i++)
        ((int32_t *)memory)[i] = (int32_t)little_endian(*bytes + begin + i * TOKEN_BYTES, TOKEN_BYTES);
    iso_free(*bytes);
    *bytes = memory;
    *count = tokens;
done:
    return status;
}

/* Of `count` tokens. The last target is one token after the last row. */
static size_t whole_rows(const iso_dataset_open_options *options, size_t count)
{
    const size_t target = options->no_targets ? 0 : 1;
    return count > target ? (count - target) / (size_t)options->context : 0;
}

static iso_status too_few_tokens(const char *path, const iso_dataset_open_options *options, size_t count)
{
    const char *s = count == 1 ? "" : "s";
    if (options->no_targets)
        return iso_error(ISO_INVALID, "'%s' has %zu token%s; a row needs %" PRId64, path, count, s,
                         options->context);
    return iso_error(ISO_INVALID,
                     "'%s' has %zu token%s; a row of %" PRId64
                     " and the target of its last one need %" PRId64,
                     path, count, s, options->context, options->context + 1);
}

/* count: of the file's tokens. */
static iso_status make_spec(const char *path, const iso_dataset_open_options *options, iso_dtype dtype,
                            size_t count, iso_spec *spec, int64_t *rows)
{
    const iso_shape row = ISO_SHAPE(options->context);
    *rows = (int64_t)whole_rows(options, count);
    *spec =
        (iso_spec){.n_components = options->no_targets ? 1 : 2, .shape = {row, row}, .dtype = {dtype, dtype}};
    return *rows > 0 ? iso_spec_finish(spec, *rows, path) : too_few_tokens(path, options, count);
}

static iso_status make_node(const char *path, const iso_dataset_open_options *options, iso_dtype dtype,
                            size_t count, iso_memory_rows *memory, iso_node **node)
{
    int64_t rows;
    iso_spec spec;
    iso_status status = make_spec(path, options, dtype, count, &spec, &rows);
    if (status != ISO_OK)
        return status;
    memory->data[0] = memory->owned[0];
    memory->data[1] = (const char *)memory->owned[0] + iso_dtype_size(dtype);
    iso_spans spans = iso_spans_of_rows(rows);
    return iso_memory_node(path, &spec, &spans, memory, node);
}

static bool has_extension(const char *path, const char *extension)
{
    const char *name = iso_file_name(path);
    size_t length = strlen(name), tail = strlen(extension);
    return length > tail && strcasecmp(name + length - tail, extension) == 0;
}

static bool is_named_wide(const char *path)
{
    return has_extension(path, ".bin") || has_extension(path, ".bin.gz");
}

/* head: the file's first `count` bytes, inflated. */
static bool is_wide(const char *path, const uint8_t *head, size_t count)
{
    uint32_t magic = count >= 4 ? little_endian(head, 4) : 0;
    return is_named_wide(path) || magic == HEADER_MAGIC || magic == WIDE_MAGIC;
}

/* "100 tokens (--classes)" */
static void add_vocabulary(iso_text *text, const iso_dataset_open_options *options)
{
    const char *of = options->vocabulary_of;
    iso_text_add(text, "%" PRId64 " token%s", options->vocabulary, options->vocabulary == 1 ? "" : "s");
    if (of)
        iso_text_add(text, " (%s)", of);
}

/* Warns of a file that is read as text and may not be one. On one rank of each host. */
static void doubt_text(const char *path, const iso_dataset_open_options *options, const uint8_t *head,
                       size_t count)
{
    static const char hint[] = "16-bit tokens are read from files named .bin, or with llm.c's header";
    iso_text vocabulary = {0};
    add_vocabulary(&vocabulary, options);
    if (memchr(head, 0, count < HEADER_BYTES ? count : HEADER_BYTES))
        iso_warn("'%s' is read as text, each byte as a token, and has bytes of 0 near its beginning; %s",
                 path, hint);
    else if (options->vocabulary > UINT8_MAX + 1)
        iso_warn("'%s' is read as text, each byte as a token, and the vocabulary has %s; %s", path,
                 iso_text_get(&vocabulary), hint);
    iso_text_free(&vocabulary);
}

bool iso_is_token_file(const char *path, int64_t context)
{
    bool named = is_named_wide(path) || has_extension(path, ".txt") || has_extension(path, ".txt.gz");
    bool array = iso_file_name_ends(path, ".h5") || iso_file_name_ends(path, ".hdf5");
    return named || (context > 0 && !array && !iso_is_hdf5(path));
}

static int32_t token_at(const void *tokens, iso_dtype dtype, size_t at)
{
    return dtype == ISO_I32 ? ((const int32_t *)tokens)[at] : ((const uint8_t *)tokens)[at];
}

/* The tokens of all rows and the last target, which are checked, not those after them. count: of the file. */
static size_t tokens_used(const iso_dataset_open_options *options, size_t count)
{
    const size_t rows = whole_rows(options, count);
    return rows * (size_t)options->context + (rows > 0 && !options->no_targets);
}

static iso_status bad_token(const char *path, const iso_dataset_open_options *options, int token, size_t at)
{
    iso_text vocabulary = {0};
    add_vocabulary(&vocabulary, options);
    iso_status status = iso_error(
        ISO_INVALID, "'%s': token %d at position %zu (counted from 0) is not in the vocabulary, which has %s",
        path, token, at, iso_text_get(&vocabulary));
    iso_text_free(&vocabulary);
    return status;
}

/* tokens: `count` of them, from token `first` of the file on. */
static iso_status check_tokens(const char *path, const iso_dataset_open_options *options, const void *tokens,
                               iso_dtype dtype, size_t first, size_t count)
{
    size_t at = 0;
    while (options->vocabulary > 0 && at < count && token_at(tokens, dtype, at) < options->vocabulary)
        at++;
    if (options->vocabulary == 0 || at == count)
        return ISO_OK;
    return bad_token(path, options, (int)token_at(tokens, dtype, at), first + at);
}

static iso_status open_in_memory(const char *path, const iso_dataset_open_options *options, iso_node **node)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    iso_status status = read_bytes(path, &bytes, &count);
    const bool wide = status == ISO_OK && is_wide(path, bytes, count);
    const iso_dtype dtype = wide ? ISO_I32 : ISO_U8;
    if (wide)
        status = widen(path, &bytes, &count);
    else if (status == ISO_OK)
        doubt_text(path, options, bytes, count);
    if (status == ISO_OK)
        status = check_tokens(path, options, bytes, dtype, 0, tokens_used(options, count));
    iso_memory_rows memory = {.owned = {bytes}};
    if (status == ISO_OK)
        status = make_node(path, options, dtype, count, &memory, node);
    if (status != ISO_OK)
        iso_free(bytes);
    return status;
}

/* ---- rows in the file ---- */

static iso_status check_file(const iso_token_file *from, const iso_dataset_open_options *options, size_t used)
{
    const int64_t values = (int64_t)1 << 8 * from->width;
    void *memory = NULL;
    iso_status status = ISO_OK;
    if (options->vocabulary == 0 || options->vocabulary >= values) /* any token is in it */
        return ISO_OK;
    ISO_TRY(iso_alloc(BLOCK * sizeof(int32_t), from->path, &memory));
    for (size_t at = 0; at < used; at += BLOCK) {
        size_t count = used - at < BLOCK ? used - at : BLOCK;
        ISO_TRY(iso_token_file_read(from, (int64_t)at, (int64_t)count, memory));
        ISO_TRY(check_tokens(from->path, options, memory, ISO_I32, at, count));
    }
done:
    iso_free(memory);
    return status;
}

/* head: the file's first bytes; checked: by another rank of the host. */
static iso_status open_rows(iso_token_file *from, const iso_dataset_open_options *options,
                            const uint8_t *head, bool checked, iso_node **node)
{
    size_t count = from->size;
    int64_t rows;
    iso_spec spec;
    iso_status status = ISO_OK;
    from->width = is_wide(from->path, head, count) ? TOKEN_BYTES : 1;
    if (from->width == TOKEN_BYTES)
        ISO_TRY(find_tokens(from->path, head, from->size, &from->begin, &count));
    else if (!checked)
        doubt_text(from->path, options, head, count);
    ISO_TRY(make_spec(from->path, options, from->width == 1 ? ISO_U8 : ISO_I32, count, &spec, &rows));
    if (!checked)
        ISO_TRY(check_file(from, options, tokens_used(options, count)));
    ISO_TRY(iso_token_file_node(from, &spec, rows, node));
done:
    return status;
}

/* Whether rows are read when they are needed: the file is large, and not compressed. head: gets its first bytes. */
static bool stays_in_file(iso_token_file *from, size_t limit, uint8_t *head)
{
    struct stat about = {0};
    bool found = from->file >= 0 && fstat(from->file, &about) == 0, large;
    from->size = (size_t)about.st_size;
    large = found && from->size > limit;
    bool begun = large && pread(from->file, head, HEADER_BYTES, 0) >= TOKEN_BYTES;
    return begun && !(head[0] == 0x1f && head[1] == 0x8b); /* gzip's */
}

iso_status iso_open_tokens(const char *path, const iso_dataset_open_options *options, bool checked,
                           iso_node **node)
{
    uint8_t head[HEADER_BYTES] = {0};
    if (options->context == 0)
        return iso_error(ISO_INVALID,
                         "'%s' holds text or tokens, for models that take rows of tokens, such as gpt; this "
                         "model takes other inputs",
                         path);
    if (options->context < 0)
        return iso_error(ISO_INVALID, "'%s': a context of %" PRId64 " tokens; it must be at least 1", path,
                         options->context);
    if (options->vocabulary < 0)
        return iso_error(ISO_INVALID, "'%s': a vocabulary of %" PRId64 " tokens; it must not be negative",
                         path, options->vocabulary);
    iso_token_file from = {.file = open(path, O_RDONLY | O_CLOEXEC), .path = path};
    bool stays = stays_in_file(&from, options->memory_limit ? options->memory_limit : MEMORY_LIMIT, head);
    iso_status status =
        stays ? open_rows(&from, options, head, checked, node) : open_in_memory(path, options, node);
    if (from.file >= 0 && !(stays && status == ISO_OK))
        close(from.file);
    if (status == ISO_OK)
        (*node)->identity = iso_file_identity(path, (uint64_t)options->context);
    return status;
}
