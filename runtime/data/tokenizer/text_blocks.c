#include "runtime/data/tokenizer/text_blocks_impl.h"

#include "runtime/data/stream_impl.h"

enum {
    BLOCK = 1 << 20,
    READ = 1 << 16,
    AROUND = 128,     /* bytes on each side of a cut that are compared */
    MOST_TRIES = 200, /* of each kind of cut */
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
    size_t given, offset; /* bytes that were given out; place of the buffer in its file */
    iso_ids ids[2];       /* of the text around a cut, and of its two sides */
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
    iso_ids_free(&b->ids[0]);
    iso_ids_free(&b->ids[1]);
    iso_free(b);
}

iso_status iso_text_blocks_error(const iso_text_blocks *b, iso_status status)
{
    return b->at < b->count ? iso_error_prefix(status, "'%s': ", b->files[b->at]) : status;
}

/* ---- where a text can be cut ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Before the space between two words. */
static bool is_between_words(const char *text, size_t at)
{
    return text[at] == ' ' && is_letter(text[at - 1]) && is_letter(text[at + 1]);
}

/* Beside a character that is no part of a word. */
static bool is_at_mark(const char *text, size_t at)
{
    size_t before = at - 1;
    while (before > 0 && iso_utf8_continues(text[before]))
        before--;
    const uint32_t left = iso_utf8_get(text + before), right = iso_utf8_get(text + at);
    return iso_is_white(left) || iso_is_white(right) || iso_is_punctuation(left) || iso_is_punctuation(right);
}

typedef bool is_candidate(const char *text, size_t at);

/* The first byte of the character at `at`, or of the one before it. */
static size_t whole(const char *text, size_t at)
{
    while (at > 0 && iso_utf8_continues(text[at]))
        at--;
    return at;
}

/* Whether a cut at `at` changes no token of the text around it. */
static iso_status is_exact(iso_text_blocks *b, const char *text, size_t size, size_t at, bool *exact)
{
    const size_t begin = whole(text, at > AROUND ? at - AROUND : 0);
    const size_t end = at + AROUND < size ? whole(text, at + AROUND) : size;
    const iso_part_ends part = {false, false, false};
    iso_status status;
    b->ids[0].count = b->ids[1].count = 0;
    ISO_TRY(iso_tokenizer_append(b->tokenizer, b->scratch, part, text + begin, end - begin, &b->ids[0]));
    ISO_TRY(iso_tokenizer_append(b->tokenizer, b->scratch, part, text + begin, at - begin, &b->ids[1]));
    ISO_TRY(iso_tokenizer_append(b->tokenizer, b->scratch, part, text + at, end - at, &b->ids[1]));
    *exact = b->ids[0].count == b->ids[1].count &&
             (b->ids[0].count == 0 ||
              memcmp(b->ids[0].id, b->ids[1].id, b->ids[0].count * sizeof *b->ids[0].id) == 0);
done:
    return status;
}

/* The last cut of this kind that is exact; 0: there is none. */
static iso_status find_exact(iso_text_blocks *b, is_candidate *is_one, const char *text, size_t size,
                             size_t *cut)
{
    bool exact = false;
    iso_status status = ISO_OK;
    size_t at = size > 2 * AROUND ? size - AROUND : 0;
    for (int tries = 0; status == ISO_OK && !exact && at > AROUND && tries < MOST_TRIES; at--) {
        if (iso_utf8_continues(text[at]) || !is_one(text, at))
            continue;
        tries++;
        *cut = at;
        status = is_exact(b, text, size, at, &exact);
    }
    if (!exact)
        *cut = 0;
    return status;
}

static iso_status find_cut(iso_text_blocks *b, const char *text, size_t size, size_t *cut)
{
    const char *line = b->lines ? memrchr(text, '\n', size) : NULL;
    *cut = line ? (size_t)(line - text) + 1 : 0;
    if (*cut > 0)
        return ISO_OK;
    iso_status status = find_exact(b, is_between_words, text, size, cut);
    return status == ISO_OK && *cut == 0 ? find_exact(b, is_at_mark, text, size, cut) : status;
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
        ISO_TRY(fill(b, wanted + AROUND));
        ISO_TRY(check(b, &good));
        if (b->ended)
            cut = good;
        else
            ISO_TRY(find_cut(b, b->buffer.data, good, &cut));
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
