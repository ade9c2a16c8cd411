#include "runtime/data/tokenizer/unicode_impl.h"

#include <string.h>
#include <utf8proc.h>

size_t iso_utf8_put(uint32_t c, char out[4])
{
    const size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[size] | c);
    return size;
}

/* The bytes of a good character at `at`, 0 if there is none; *length: of its good beginning. */
static size_t check_one(const uint8_t *at, size_t left, size_t *length)
{
    const uint8_t b = at[0];
    const size_t size = b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
    const uint8_t least = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80; /* no longer form than needed */
    const uint8_t most = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;  /* no surrogates, none above 10FFFF */
    *length = 1;
    while (*length < size && *length < left && at[*length] >= (*length == 1 ? least : 0x80) &&
           at[*length] <= (*length == 1 ? most : 0xbf))
        ++*length;
    return *length == size ? size : 0;
}

size_t iso_utf8_check(const char *text, size_t size, size_t *length)
{
    size_t at = 0, good, ignored;
    while (at < size) {
        uint64_t word;
        if (size - at >= 8 && (memcpy(&word, text + at, 8), !(word & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        good = check_one((const uint8_t *)text + at, size - at, length ? length : &ignored);
        if (good == 0)
            return at;
        at += good;
    }
    return size;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool iso_is_white(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool iso_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
    const utf8proc_category_t of = category(c);
    return of >= UTF8PROC_CATEGORY_PC && of <= UTF8PROC_CATEGORY_PO;
}

bool iso_is_numeric(uint32_t c)
{
    const utf8proc_category_t of = category(c);
    return of >= UTF8PROC_CATEGORY_ND && of <= UTF8PROC_CATEGORY_NO;
}

bool iso_is_nonspacing(uint32_t c)
{
    return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool iso_is_mark(uint32_t c)
{
    const utf8proc_category_t of = category(c);
    return of >= UTF8PROC_CATEGORY_MN && of <= UTF8PROC_CATEGORY_ME;
}

bool iso_is_other(uint32_t c)
{
    const utf8proc_category_t of = category(c);
    return of == UTF8PROC_CATEGORY_CC || of == UTF8PROC_CATEGORY_CF || of == UTF8PROC_CATEGORY_CO;
}

bool iso_is_word(uint32_t c)
{
    const utf8proc_category_t of = category(c);
    return (of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_NL) || of == UTF8PROC_CATEGORY_PC ||
           c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

int iso_lower(uint32_t c, uint32_t out[2])
{
    enum { I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };
    out[0] = c == I_WITH_DOT ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    out[1] = DOT_ABOVE;
    return c == I_WITH_DOT ? 2 : 1;
}
