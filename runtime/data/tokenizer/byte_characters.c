/* The characters that stand for bytes in byte-level vocabularies, as GPT-2 has them: visible bytes of Latin-1 stand
 * for themselves, the others are U+0100 and on, in order. */
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { FIRST_OTHER = 0x100, BEFORE_EXCLAMATION = 0x21, DELETE_TO_SPACE = 0x22, SOFT_HYPHEN = 0xad };

static uint32_t character_of_byte(uint8_t byte)
{
    if (byte < BEFORE_EXCLAMATION)
        return FIRST_OTHER + byte;
    if (byte < 0x7f)
        return byte;
    if (byte <= 0xa0)
        return FIRST_OTHER + BEFORE_EXCLAMATION + byte - 0x7f;
    return byte == SOFT_HYPHEN ? FIRST_OTHER + BEFORE_EXCLAMATION + DELETE_TO_SPACE : byte;
}

void iso_byte_characters(const char *bytes, size_t size, iso_bytes *out)
{
    for (size_t i = 0; i < size; i++)
        iso_bytes_add_character(out, character_of_byte((uint8_t)bytes[i]));
}

int iso_byte_of_character(uint32_t c)
{
    if (c < FIRST_OTHER)
        return character_of_byte((uint8_t)c) == c ? (int)c : -1;
    c -= FIRST_OTHER;
    if (c < BEFORE_EXCLAMATION)
        return (int)c;
    c -= BEFORE_EXCLAMATION;
    return c < DELETE_TO_SPACE ? (int)(0x7f + c) : c == DELETE_TO_SPACE ? SOFT_HYPHEN : -1;
}
