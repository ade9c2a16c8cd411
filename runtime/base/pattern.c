/* Python's regular expressions, run by PCRE2. The two agree on all that paths need. What only PCRE2 has is
 * refused, so that a key means the same in both; what both have but write differently is translated. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/base/pattern.h"

#include <ctype.h>
#include <pcre2.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"

enum { MOST_TRIES = 1000000, MOST_HEAP_KIB = 16384 };

struct iso_pattern {
    pcre2_code *code, *anywhere; /* for whole paths, for parts of paths */
    pcre2_match_context *limits;
};

static iso_status refuse(const char *text, const char *at, const char *what)
{
    return iso_error(ISO_INVALID, "not a regular expression: %s at position %d", what, (int)(at - text) + 1);
}

/* ---- plain text ---- */

static const char special[] = "\\^$.|?*+()[]{}";

bool iso_pattern_is_plain(const char *text)
{
    return text[strcspn(text, special)] == '\0';
}

void iso_pattern_add_path(iso_text *text, const char *path)
{
    for (; *path; path++)
        iso_text_add(text, strchr(special, *path) ? "\\%c" : "%c", *path);
}

/* ---- from Python's words to PCRE2's ---- */

/* Translates an escape, at a backslash. Accepts the letters that Python gives a meaning; any other letter is an
 * error in Python. */
static iso_status translate_escape(const char *text, const char **at, iso_text *out)
{
    char letter = (*at)[1];
    if (letter == 0)
        return refuse(text, *at, "a '\\' at the end");
    if (isalpha((unsigned char)letter) && !strchr("AbBdDsSwWZafnrtvxuUN", letter))
        return refuse(text, *at, "an unknown escape");
    if (strchr("uUN", letter))
        return refuse(text, *at, "an escape that is not supported (write the character itself)");
    iso_text_add(out, "\\%c", letter == 'Z' ? 'z' : letter); /* Python's \Z is the very end, PCRE2's is not */
    *at += 2;
    return ISO_OK;
}

/* A class in brackets. A '[' inside it is an ordinary character in Python, but may begin a POSIX class in
 * PCRE2. */
static iso_status translate_class(const char *text, const char **at, iso_text *out)
{
    const char *begin = *at, *c = begin + 1;
    iso_text_add(out, *c == '^' ? "[^" : "[");
    c += *c == '^';
    if (*c == ']')
        iso_text_add(out, "\\%c", *c++);
    while (*c && *c != ']') {
        iso_status status = ISO_OK;
        if (*c == '\\')
            status = translate_escape(text, &c, out);
        else
            iso_text_add(out, *c == '[' ? "\\%c" : "%c", *c), c++;
        if (status != ISO_OK)
            return status;
    }
    if (!*c)
        return refuse(text, begin, "a '[' without its ']'");
    iso_text_add(out, "]");
    *at = c + 1;
    return ISO_OK;
}

/* Checks a group at "(": only some characters may follow "(?" in Python. */
static iso_status check_group(const char *text, const char *at)
{
    static const char *const kinds[] = {":", "=", "!", "#", ">", "(", "<=", "<!", "P<", "P="};
    if (at[1] == '*')
        return refuse(text, at + 1, "nothing to repeat");
    if (at[1] != '?')
        return ISO_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(at + 2, kinds[i], strlen(kinds[i])) == 0)
            return ISO_OK;
    size_t flags = strspn(at + 2, "imsx-");
    if (flags && (at[2 + flags] == ':' || (at[2 + flags] == ')' && at == text)))
        return ISO_OK;
    return refuse(text, at, "an unknown kind of group");
}

/* "{,3}" and "{,}", which PCRE2 before 10.43 reads as ordinary characters. */
static bool from_zero(const char *at)
{
    return at[0] == '{' && at[1] == ',' && at[2 + strspn(at + 2, "0123456789")] == '}';
}

static iso_status translate(const char *text, iso_text *out)
{
    iso_status status = ISO_OK;
    for (const char *at = text; *at;) {
        if (*at == '\\') {
            ISO_TRY(translate_escape(text, &at, out));
        } else if (*at == '[') {
            ISO_TRY(translate_class(text, &at, out));
        } else {
            if (*at == '(')
                ISO_TRY(check_group(text, at));
            iso_text_add(out, from_zero(at) ? "%c0" : "%c", *at);
            at++;
        }
    }
    if (out->failed)
        ISO_TRY(iso_no_memory("the expression '%s'", text));
done:
    return status;
}

/* ---- PCRE2 ---- */

/* The character of the expression that the one at `offset` of its translation comes from: a translation
 * only adds characters ('0' before ',', '\' before '[' or ']'). */
static const char *origin(const char *text, const char *translated, size_t offset)
{
    for (size_t i = 0; i < offset && translated[i]; i++)
        text += translated[i] == *text || (translated[i] == 'z' && *text == 'Z');
    return text;
}

static iso_status compile(const char *text, const char *translated, uint32_t anchors, pcre2_code **out)
{
    int code;
    PCRE2_SIZE offset;
    PCRE2_UCHAR why[128];
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                                         anchors | PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (compiled) {
        *out = compiled;
        return ISO_OK;
    }
    pcre2_get_error_message(code, why, sizeof why);
    return refuse(text, origin(text, translated, offset), (char *)why);
}

iso_status iso_pattern_create(const char *text, iso_pattern **out)
{
    iso_status status = ISO_OK;
    iso_text translated = {0};
    iso_pattern *pattern = iso_new(sizeof *pattern);
    if (!pattern)
        return iso_no_memory("the expression '%s'", text);
    ISO_TRY(translate(text, &translated));
    ISO_TRY(compile(text, iso_text_get(&translated), PCRE2_ANCHORED | PCRE2_ENDANCHORED, &pattern->code));
    ISO_TRY(compile(text, iso_text_get(&translated), 0, &pattern->anywhere));
    pattern->limits = pcre2_match_context_create(NULL);
    if (!pattern->limits)
        ISO_TRY(iso_no_memory("the expression '%s'", text));
    pcre2_set_match_limit(pattern->limits, MOST_TRIES);
    pcre2_set_heap_limit(pattern->limits, MOST_HEAP_KIB);
    *out = pattern;
    pattern = NULL;
done:
    iso_text_free(&translated);
    iso_pattern_destroy(pattern);
    return status;
}

void iso_pattern_destroy(iso_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->anywhere);
    pcre2_match_context_free(pattern->limits);
    iso_free(pattern);
}

static int pattern_run(const iso_pattern *pattern, const pcre2_code *code, const char *path)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    int result = data
                     ? pcre2_match(code, (PCRE2_SPTR)path, PCRE2_ZERO_TERMINATED, 0, 0, data, pattern->limits)
                     : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(data);
    return result;
}

iso_status iso_pattern_match(const iso_pattern *pattern, const char *path, bool *found)
{
    PCRE2_UCHAR why[128];
    int result = pattern_run(pattern, pattern->code, path);
    *found = result >= 0;
    if (result >= 0 || result == PCRE2_ERROR_NOMATCH)
        return ISO_OK;
    pcre2_get_error_message(result, why, sizeof why);
    return iso_error(result == PCRE2_ERROR_NOMEMORY ? ISO_NO_MEMORY : ISO_INVALID,
                     "it could not be matched with '%s': %s", path, (char *)why);
}

bool iso_pattern_search(const iso_pattern *pattern, const char *path)
{
    return pattern_run(pattern, pattern->anywhere, path) >= 0;
}
