/* Files of tokens for language models: text, each byte of which is a token, and files of 16-bit or 32-bit tokens as
 * nanoGPT (.bin) and llm.c (with a header) write them. Row r has the tokens [r * context, (r + 1) * context), and its
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
#include "runtime/data/tokenizer/documents_impl.h"
#include "runtime/data/tokens.h"

enum {
    FIRST_ROOM = 1 << 20,
    HEADER_BYTES = 1024, /* of llm.c: 256 words of 32 bits, of which the first three are used */
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

/* llm.c's headers: two words, then the number of tokens. */
typedef struct header {
    uint32_t magic, version;
    int width; /* bytes of a token, lowest first */
} header;

static const header *header_of(const uint8_t *bytes, size_t size)
{
    static const header headers[] = {{20240520, 1, 2}, {20240801, 7, 4 /* for Llama 3 */}};
    const uint32_t magic = size >= 4 ? little_endian(bytes, 4) : 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (headers[i].magic == magic)
            return &headers[i];
    return NULL;
}

static iso_status check_header(const char *path, const header *h, const uint8_t *bytes, size_t size)
{
    if (size < HEADER_BYTES)
        return iso_error(
            ISO_INVALID,
            "'%s' is truncated: it begins as llm.c's files of tokens do, and has %zu of the %d bytes of "
            "their header",
            path, size, HEADER_BYTES);
    const uint32_t version = little_endian(bytes + 4, 4), count = little_endian(bytes + 8, 4);
    const size_t tokens = (size - HEADER_BYTES) / (size_t)h->width;
    if (version != h->version)
        return iso_error(ISO_INVALID,
                         "'%s' has version %" PRIu32
                         " of llm.c's files of %d-bit tokens; supported: %" PRIu32,
                         path, version, 8 * h->width, h->version);
    if (count != tokens)
        return iso_error(ISO_INVALID,
                         "'%s' is truncated or too long: its header says %" PRIu32 " tokens, it has %zu",
                         path, count, tokens);
    return ISO_OK;
}

/* Where the tokens of a .bin file are. */
typedef struct token_layout {
    size_t begin, count; /* byte of the first, number of tokens */
    int width;           /* bytes of each */
} token_layout;

/* nanoGPT's files have no header. Tokens of a vocabulary that 16 bits cannot number have 32 there. */
static iso_status find_tokens(const char *path, const iso_dataset_open_options *options, const uint8_t *bytes,
                              size_t size, token_layout *found)
{
    const header *h = header_of(bytes, size);
    const bool large = options->vocabulary > UINT16_MAX + 1;
    iso_status status = h ? check_header(path, h, bytes, size) : ISO_OK;
    if (status != ISO_OK)
        return status;
    found->width = h ? h->width : large ? 4 : 2;
    found->begin = h ? HEADER_BYTES : 0;
    found->count = (size - found->begin) / (size_t)found->width;
    if (size % (size_t)found->width == 0)
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s' has %zu bytes, which are no whole number of %d-bit tokens%s", path,
                     size, 8 * found->width,
                     large && !h ? "; files for more than 65536 tokens have 32 bits for each" : "");
}

/* Replaces the bytes of a .bin file by its tokens. */
static iso_status widen(const char *path, const iso_dataset_open_options *options, uint8_t **bytes,
                        size_t *count)
{
    token_layout at = {0};
    void *memory = NULL;
    iso_status status;
    ISO_TRY(find_tokens(path, options, *bytes, *count, &at));
    ISO_TRY(iso_alloc((at.count ? at.count : 1) * sizeof(int32_t), path, &memory));
    for (size_t i = 0; i < at.count; i++)
        ((int32_t *)memory)[i] = (int32_t)little_endian(*bytes + at.begin + i * (size_t)at.width, at.width);
    iso_free(*bytes);
    *bytes = memory;
    *count = at.count;
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
    return is_named_wide(path) || header_of(head, count);
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
    static const char hint[] =
        "tokens of 16 or 32 bits are read from files named .bin, or with llm.c's header";
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

/* As it is in the file, without a sign. */
static int64_t token_at(const void *tokens, iso_dtype dtype, size_t at)
{
    return dtype == ISO_I32 ? ((const uint32_t *)tokens)[at] : ((const uint8_t *)tokens)[at];
}

/* All tokens are below it. */
static int64_t token_limit(const iso_dataset_open_options *options)
{
    return options->vocabulary > 0 ? options->vocabulary : (int64_t)INT32_MAX + 1;
}

/* The tokens of all rows and the last target, which are checked, not those after them. count: of the file. */
static size_t tokens_used(const iso_dataset_open_options *options, size_t count)
{
    const size_t rows = whole_rows(options, count);
    return rows * (size_t)options->context + (rows > 0 && !options->no_targets);
}

static iso_status bad_token(const char *path, const iso_dataset_open_options *options, int64_t token,
                            size_t at)
{
    iso_text vocabulary = {0};
    if (options->vocabulary == 0)
        return iso_error(ISO_INVALID, "'%s': token %" PRId64 " at position %zu (counted from 0) is above %d",
                         path, token, at, INT32_MAX);
    add_vocabulary(&vocabulary, options);
    iso_status status = iso_error(ISO_INVALID,
                                  "'%s': token %" PRId64
                                  " at position %zu (counted from 0) is not in the vocabulary, which has %s",
                                  path, token, at, iso_text_get(&vocabulary));
    iso_text_free(&vocabulary);
    return status;
}

/* tokens: `count` of them, from token `first` of the file on. */
static iso_status check_tokens(const char *path, const iso_dataset_open_options *options, const void *tokens,
                               iso_dtype dtype, size_t first, size_t count)
{
    size_t at = 0;
    while (at < count && token_at(tokens, dtype, at) < token_limit(options))
        at++;
    return at == count ? ISO_OK : bad_token(path, options, token_at(tokens, dtype, at), first + at);
}

static iso_status open_in_memory(const char *path, const iso_dataset_open_options *options, iso_node **node)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    iso_status status = read_bytes(path, &bytes, &count);
    const bool wide = status == ISO_OK && is_wide(path, bytes, count);
    const iso_dtype dtype = wide ? ISO_I32 : ISO_U8;
    if (wide)
        status = widen(path, options, &bytes, &count);
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

/* ---- text by a tokenizer ---- */

/* The first bytes of a file, inflated. */
static iso_status read_head(const char *path, uint8_t head[HEADER_BYTES], size_t *count)
{
    iso_byte_stream *stream = NULL;
    *count = 0;
    iso_status status = iso_byte_stream_open(path, NULL, 0, &stream);
    if (status == ISO_OK)
        status = iso_byte_stream_read(stream, head, HEADER_BYTES, count);
    iso_byte_stream_close(stream);
    return status;
}

bool iso_is_text_file(const char *path, int64_t context)
{
    uint8_t head[HEADER_BYTES];
    size_t count = 0;
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && iso_is_token_file(path, context) &&
           !is_named_wide(path) && read_head(path, head, &count) == ISO_OK && !header_of(head, count);
}

/* The tokens of a text, one document, block by block. */
static iso_status tokenize(const char *path, const iso_tokenizer *tokenizer, iso_ids *ids)
{
    iso_documents how = {.tokenizer = tokenizer, .separator = -1};
    iso_text_blocks *blocks = NULL;
    iso_text_block block = {0};
    int64_t documents = 0;
    how.scratch = iso_tokenizer_scratch_get(tokenizer);
    iso_status status = how.scratch ? ISO_OK : iso_no_memory("the tokens of '%s'", path);
    ISO_TRY(status);
    ISO_TRY(iso_text_blocks_open(tokenizer, &path, 1, false, 0, &blocks));
    for (;;) {
        ISO_TRY(iso_text_blocks_next(blocks, &block));
        if (!block.data)
            break;
        ISO_TRY(iso_text_blocks_error(blocks, iso_documents_append(&how, &block, ids, &documents)));
    }
done:
    iso_text_blocks_close(blocks);
    if (how.scratch)
        iso_tokenizer_scratch_put(tokenizer, how.scratch);
    return status;
}

static iso_status open_by_tokenizer(const char *path, const iso_dataset_open_options *options,
                                    iso_node **node)
{
    iso_tokenizer *tokenizer = NULL;
    iso_ids ids = {0};
    iso_memory_rows memory = {0};
    iso_status status;
    ISO_TRY(iso_tokenizer_open(options->tokenizer, &tokenizer));
    ISO_TRY(tokenize(path, tokenizer, &ids));
    ISO_TRY(check_tokens(path, options, ids.id, ISO_I32, 0, tokens_used(options, ids.count)));
    memory.owned[0] = ids.id;
    ISO_TRY(make_node(path, options, ISO_I32, ids.count, &memory, node));
    ids.id = NULL;
done:
    iso_tokenizer_close(tokenizer);
    iso_ids_free(&ids);
    return status;
}

/* ---- rows in the file ---- */

static iso_status check_file(const iso_token_file *from, const iso_dataset_open_options *options, size_t used)
{
    const int64_t values = (int64_t)1 << 8 * from->width;
    void *memory = NULL;
    iso_status status = ISO_OK;
    if (token_limit(options) >= values) /* no token is beyond it */
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
    token_layout at = {.count = from->size, .width = 1};
    if (is_wide(from->path, head, count))
        ISO_TRY(find_tokens(from->path, options, head, from->size, &at));
    else if (!checked)
        doubt_text(from->path, options, head, count);
    from->begin = at.begin;
    from->width = at.width;
    count = at.count;
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
    bool begun = large && pread(from->file, head, HEADER_BYTES, 0) >= 2;
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
    if (options->tokenizer && iso_is_text_file(path, options->context)) {
        iso_status made = open_by_tokenizer(path, options, node);
        if (made == ISO_OK)
            (*node)->identity =
                iso_file_identity(options->tokenizer, iso_file_identity(path, (uint64_t)options->context));
        return made;
    }
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
