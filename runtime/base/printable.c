/* Whether a text may be shown on a terminal. */
#include "runtime/base/printable.h"

/* Bytes of the UTF-8 character that begins here; 0 if none does. */
static int character(const unsigned char *c)
{
    int bytes = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < bytes; i++)
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    return bytes;
}

/* Bytes of the character that begins here; 0 if it must not be shown. */
static int shown(const unsigned char *c)
{
    int bytes = character(c);
    bool control = *c < 32 || *c == 127 || (c[0] == 0xC2 && c[1] < 0xA0);
    return control ? 0 : bytes;
}

bool iso_text_is_printable(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c) {
        int bytes = shown(c);
        if (bytes == 0)
            return false;
        c += bytes;
    }
    return true;
}

const char *iso_text_printable(const char *text, char *out, size_t size)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t at = 0;
    while (*c) {
        int bytes = shown(c), length = bytes ? bytes : 1;
        if (at + (size_t)length >= size)
            break;
        for (int i = 0; i < length; i++)
            out[at++] = bytes ? (char)c[i] : '?';
        c += length;
    }
    out[at] = 0;
    return out;
}

void iso_text_disarm(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c;) {
        int bytes = *c == '\n' ? 1 : shown(c);
        if (bytes == 0)
            *c = '?';
        c += bytes ? bytes : 1;
    }
}
