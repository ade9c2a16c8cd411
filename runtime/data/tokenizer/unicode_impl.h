/* Characters of valid UTF-8, and their classes in Unicode. */
#ifndef ISO_DATA_TOKENIZER_UNICODE_IMPL_H
#define ISO_DATA_TOKENIZER_UNICODE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins with this byte. */
static inline size_t iso_utf8_size(char first)
{
    const uint8_t byte = (uint8_t)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/* Whether the byte is not the first of a character. */
static inline bool iso_utf8_continues(char byte)
{
    return ((uint8_t)byte & 0xc0) == 0x80;
}

static inline uint32_t iso_utf8_get(const char *at)
{
    const uint8_t *b = (const uint8_t *)at;
    if (b[0] < 0x80)
        return b[0];
    if (b[0] < 0xe0)
        return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    if (b[0] < 0xf0)
        return (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    return (b[0] & 7u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
}

/* Writes a character; its bytes are returned. */
size_t iso_utf8_put(uint32_t character, char out[4]);
/* The byte at which a text stops being UTF-8, or `size`. *length, unless NULL, gets the bytes there that begin a
 * character and could be continued, at least 1. */
size_t iso_utf8_check(const char *text, size_t size, size_t *length);

typedef bool iso_character_class(uint32_t character);
iso_character_class iso_is_white, /* White_Space */
    iso_is_punctuation,           /* P*, and ASCII's */
    iso_is_numeric,               /* N* */
    iso_is_nonspacing,            /* Mn */
    iso_is_mark,                  /* M* */
    iso_is_other,                 /* Cc, Cf, Co */
    iso_is_word;                  /* \w of regular expressions */
/* Lower case, as Rust's to_lowercase: one character, but two of U+0130. Returns their number. */
int iso_lower(uint32_t character, uint32_t out[2]);

typedef enum iso_normal_form { ISO_NFC, ISO_NFD, ISO_NFKC, ISO_NFKD } iso_normal_form;

#endif
