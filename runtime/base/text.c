#include "runtime/base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/arguments.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"

void iso_text_add(iso_text *text, const char *format, ...)
{
    ISO_DEFAULT_MODES();
    va_list args;
    if (ISO_ANY_NULL(text, format))
        return;
    va_start(args, format);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need < 0)
        return;
    size_t wanted = text->length + (size_t)need + 1;
    if (iso_list_reserve(text->data, text->length, wanted - text->length, "a text") != ISO_OK) {
        text->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(text->data + text->length, wanted - text->length, format, args);
    va_end(args);
    text->length += (size_t)need;
}

void iso_text_free(iso_text *text)
{
    if (!text)
        return;
    iso_free(text->data);
    *text = (iso_text){0};
}

const char *iso_text_get(const iso_text *text)
{
    if (ISO_ANY_NULL(text))
        return NULL;
    return text->data ? text->data : "";
}

enum { LONGEST_NAME = 64, NEAREST = 3, LISTED = 48 };

/* Levenshtein's distance between the first LONGEST_NAME characters of two names. */
static int distance(const char *a, const char *b)
{
    int row[LONGEST_NAME + 1];
    int n = (int)strnlen(a, LONGEST_NAME), m = (int)strnlen(b, LONGEST_NAME);
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

/* A small number means near, -1 not near at all. */
static int nearness(const char *wrong, const char *name)
{
    size_t length = strlen(wrong);
    int most = length < 4 ? 0 : 1 + (int)strnlen(wrong, LONGEST_NAME) / 4; /* one of three is another word */
    int edits = abs((int)strnlen(wrong, LONGEST_NAME) - (int)strnlen(name, LONGEST_NAME)); /* or more */
    if (edits <= 2 || edits <= most)
        edits = distance(wrong, name);
    if (length >= 3 && (strcasestr(name, wrong) || (strlen(name) >= 3 && strcasestr(wrong, name))))
        return edits < 2 ? edits : 2;
    return edits <= most ? edits : -1;
}

static void add_all(iso_text *text, const char *before, const char *const *names, int count)
{
    if (count == 0 || count > LISTED)
        return;
    iso_text_add(text, "; there %s: ", count == 1 ? "is" : "are");
    for (int i = 0; i < count; i++)
        iso_text_add(text, "%s%s%s", i ? ", " : "", before, names[i]);
}

/* before: printed before each name. */
static bool add_near(iso_text *text, const char *wrong, const char *before, const char *const *names,
                     int count)
{
    int found = 0, nearest = -1;
    for (int i = 0; i < count; i++) {
        int near = nearness(wrong, names[i]);
        if (near >= 0 && (nearest < 0 || near < nearest))
            nearest = near;
    }
    /* Those at the same distance; of one or no edit both. */
    for (int near = nearest; near >= 0 && near <= (nearest > 1 ? nearest : 1); near++)
        for (int i = 0; i < count && found < NEAREST; i++)
            if (nearness(wrong, names[i]) == near)
                iso_text_add(text, "%s'%s%s'", found++ ? ", " : "; did you mean ", before, names[i]);
    iso_text_add(text, "%s", found ? "?" : "");
    return found > 0;
}

bool iso_text_add_near(iso_text *text, const char *wrong, const char *const *names, int count)
{
    if (ISO_ANY_NULL(text, wrong) || (count > 0 && ISO_ANY_NULL(names)))
        return false;
    return add_near(text, wrong, "", names, count);
}

void iso_text_add_nearest(iso_text *text, const char *wrong, const char *const *names, int count)
{
    if (ISO_ANY_NULL(text, wrong) || (count > 0 && ISO_ANY_NULL(names)))
        return;
    if (!add_near(text, wrong, "", names, count))
        add_all(text, "", names, count);
}

void iso_text_add_nearest_options(iso_text *text, const char *wrong, const char *const *names, int count)
{
    if (ISO_ANY_NULL(text, wrong) || (count > 0 && ISO_ANY_NULL(names)))
        return;
    if (!add_near(text, wrong, "--", names, count))
        add_all(text, "--", names, count);
}

char *iso_text_scaled(double value, const char *unit, char *text, size_t size)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(unit, text))
        return NULL;
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    for (; value >= 999.5 && i < 5; i++)
        value /= 1000;
    snprintf(text, size, i ? "%.3g %s%s" : "%.0f %s%s", value, prefix[i], unit);
    return text;
}

char *iso_text_seconds(double seconds, char *text, size_t size)
{
    ISO_DEFAULT_MODES();
    static const char *const unit[] = {"s", "ms", "us"};
    if (ISO_ANY_NULL(text))
        return NULL;
    int i = 0;
    for (; seconds < 0.9995 && i < 2; i++)
        seconds *= 1000;
    snprintf(text, size, seconds < 999.5 ? "%.3g %s" : "%.0f %s", seconds, unit[i]);
    return text;
}

void iso_text_snake_case(const char *name, char *text, size_t size)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(name, text))
        return;
    /* A capital begins a word if a small letter precedes it or small letters follow it. */
    size_t at = 0;
    for (size_t i = 0; name[i] && at + 2 < size; i++) {
        bool begins = i > 0 && isupper((unsigned char)name[i]) &&
                      (islower((unsigned char)name[i - 1]) || islower((unsigned char)name[i + 1]));
        if (begins)
            text[at++] = '_';
        text[at++] = (char)tolower((unsigned char)name[i]);
    }
    text[at] = 0;
}
