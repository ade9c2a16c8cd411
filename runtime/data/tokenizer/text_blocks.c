#include "runtime/data/tokenizer/text_blocks_impl.h"

#include "runtime/data/stream_impl.h"

enum {
    BLOCK = 1 << 20,
    READ = 1 << 16,
    ASCII = 128,
    DELETE = 127,
};

struct iso_text_blocks {
    const iso_tokenizer *tokenizer;
    iso_token_scratch *scratch;
    const char *const *files;
    int count, at; /* file */
    bool lines, ended, begins;
    size_t block;
    iso_byte_stream *stream; /* of file `at`; NULL: not open yet */
    iso_bytes buffer;
    size_t given, offset;      /* bytes that were given out; place of the buffer in its file */
    uint8_t cut[ASCII][ASCII]; /* whether a text may be cut between two characters */
};

iso_status iso_text_blocks_open(const iso_tokenizer *tokenizer, const char *const *files, int count,
                                bool lines, size_t block, iso_text_blocks **blocks)
{
    iso_text_blocks *b = iso_new(sizeof *b);
    iso_token_scratch *scratch = b ? iso_tokenizer_scratch_get(tokenizer) : NULL;
    if (!scratch) {
        iso_free(b);
        return iso_no_memory("the texts of %d files", count);
    }
    *b = (iso_text_blocks){.tokenizer = tokenizer,
                           .scratch = scratch,
                           .files = files,
                           .count = count,
                           .lines = lines,
                           .block = block ? block : BLOCK};
    *blocks = b;
    return ISO_OK;
}

void iso_text_blocks_close(iso_text_blocks *b)
{
    if (!b)
        return;
    iso_byte_stream_close(b->stream);
    iso_tokenizer_scratch_put(b->tokenizer, b->scratch);
    iso_bytes_free(&b->buffer);
    iso_free(b);
}

iso_status iso_text_blocks_error(const iso_text_blocks *b, iso_status status)
{
    return b->at < b->count ? iso_error_prefix(status, "'%s': ", b->files[b->at]) : status;
}

/* ---- where a text can be cut ---- */

enum { UNKNOWN, SAFE, UNSAFE }; /* of b->cut */

static bool is_candidate(char left, char right)
{
    return left > ' ' && left < DELETE && (right >= ' ' || right == '\t' || right == '\n' || right == '\r') &&
           right < DELETE;
}

static bool is_cut(iso_text_blocks *b, char left, char right)
{
    if (!is_candidate(left, right))
        return false;
    uint8_t *known = &b->cut[(uint8_t)left][(uint8_t)right];
    if (*known == UNKNOWN)
        *known = iso_text_may_be_cut(b->tokenizer, b->scratch, left, right) ? SAFE : UNSAFE;
    return *known == SAFE;
}

/* The last cut; 0: there is none. */
static size_t find_cut(iso_text_blocks *b, const char *text, size_t size)
{
    const char *line = b->lines ? memrchr(text, '\n', size) : NULL;
    if (line)
        return (size_t)(line - text) + 1;
    for (size_t at = size; at-- > 1;)
        if (is_cut(b, text[at - 1], text[at]))
            return at;
    return 0;
}

/* ---- reading ---- */

/* Fills the buffer until it has `wanted` bytes or the file has ended. */
static iso_status fill(iso_text_blocks *b, size_t wanted)
{
    iso_status status = ISO_OK;
    while (b->buffer.size < wanted && !b->ended) {
        const size_t left = wanted - b->buffer.size, asked = left < READ ? left : READ;
        size_t got;
        if (b->buffer.room - b->buffer.size < asked && !iso_bytes_grow(&b->buffer, asked))
            return iso_no_memory("a text of %zu bytes", b->buffer.size);
        ISO_TRY(iso_byte_stream_read(b->stream, b->buffer.data + b->buffer.size, asked, &got));
        b->buffer.size += got;
        b->ended = got < asked;
    }
done:
    return status;
}

/* *good: bytes of whole characters. */
static iso_status check(const iso_text_blocks *b, size_t *good)
{
    size_t length = 0;
    *good = iso_utf8_check(b->buffer.data, b->buffer.size, &length);
    const size_t left = b->buffer.size - *good;
    if (left == 0 || (!b->ended && length == left)) /* the next bytes continue the character */
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s' is not UTF-8: byte %zu (counted from 0) is 0x%02x", b->files[b->at],
                     b->offset + *good, (uint8_t)b->buffer.data[*good]);
}

static void drop_given(iso_text_blocks *b)
{
    if (b->given == 0)
        return;
    memmove(b->buffer.data, b->buffer.data + b->given, b->buffer.size - b->given);
    b->buffer.size -= b->given;
    b->offset += b->given;
    b->given = 0;
}

/* The next block of the open file; of no bytes at its end. */
static iso_status next_of_file(iso_text_blocks *b, iso_text_block *block)
{
    size_t good = 0, cut = 0;
    iso_status status = ISO_OK;
    drop_given(b);
    for (size_t wanted = b->block; cut == 0; wanted *= 2) {
        ISO_TRY(fill(b, wanted));
        ISO_TRY(check(b, &good));
        cut = b->ended ? good : find_cut(b, b->buffer.data, good);
        if (b->ended)
            break;
    }
    const bool line = b->lines && cut > 0 && b->buffer.data[cut - 1] == '\n';
    *block = (iso_text_block){b->buffer.data, cut, b->begins, line || (b->ended && cut == b->buffer.size)};
    b->begins = block->ends;
    b->given = cut;
done:
    return status;
}

iso_status iso_text_blocks_next(iso_text_blocks *b, iso_text_block *block)
{
    iso_status status = ISO_OK;
    for (; b->at < b->count; b->at++) {
        if (!b->stream) {
            ISO_TRY(iso_byte_stream_open(b->files[b->at], NULL, 0, &b->stream));
            b->begins = true;
            b->ended = false;
            b->buffer.size = b->given = b->offset = 0;
        }
        ISO_TRY(next_of_file(b, block));
        if (block->size > 0)
            return ISO_OK;
        iso_byte_stream_close(b->stream);
        b->stream = NULL;
    }
    *block = (iso_text_block){0};
done:
    return status;
}
