/* The patterns of tokenizer.json: texts, and regular expressions as Oniguruma has them, run by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/base/text.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { LEAST_STACK = 32 << 10, MOST_STACK = 8 << 20 };

struct iso_token_pattern {
    char *text; /* of `size` bytes, searched as it is; or the expression */
    size_t size;
    pcre2_code *code; /* NULL: it is no expression */
};

struct iso_matching {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

struct iso_matching *iso_matching_create(void)
{
    struct iso_matching *m = iso_new(sizeof *m);
    if (!m)
        return NULL;
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(LEAST_STACK, MOST_STACK, NULL);
    if (m->data && m->context && m->stack) {
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
        return m;
    }
    iso_matching_destroy(m);
    return NULL;
}

void iso_matching_destroy(struct iso_matching *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    iso_free(m);
}

/* ---- from Oniguruma's words to PCRE2's ---- */

static iso_status refuse(const char *file, const char *key, const char *expression, const char *what)
{
    return iso_error(ISO_INVALID, "'%s': %s: the expression '%s': %s", file, key, expression, what);
}

/* White space is White_Space of Unicode; PCRE2's \s also has U+180E. */
#define WHITE "\\x09-\\x0d\\x{85}\\p{Z}"
/* Oniguruma's \w; PCRE2's lacks marks, connectors and letters in circles and squares. */
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"               \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define EDGE "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"
#define NO_EDGE "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"

/* What an escape becomes out of brackets and in them. NULL: it is not supported there. */
static const struct escape {
    char letter;
    const char *outside, *inside;
} escapes[] = {
    {'s', "[" WHITE "]", WHITE}, {'S', "[^" WHITE "]", NULL}, {'w', "[" WORD "]", WORD},
    {'W', "[^" WORD "]", NULL},  {'b', EDGE, "\\x08"},        {'B', NO_EDGE, NULL},
    {'v', "\\x0b", "\\x0b"}, /* PCRE2's is vertical white space */
};

static bool is_category(const char *name, size_t size)
{
    static const char *const of[] = {"C",   "cfnos", "L",       "lmotu", "M",    "cen", "N",
                                     "dlo", "P",     "cdefios", "S",     "ckmo", "Z",   "lps"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i += 2)
        if (*name == *of[i])
            return size == 1 || (size == 2 && strchr(of[i + 1], name[1]));
    return false;
}

/* \p{...}: a category, or a script, which PCRE2 would take with the characters that it shares with others. */
static const char *translate_property(const char **at, iso_text *out)
{
    const char *begin = *at + 3, *end = (*at)[2] == '{' ? strchr(begin, '}') : NULL;
    bool negated = (*at)[1] == 'P';
    if (!end)
        return "a property without '{' and '}' is not supported";
    if (*begin == '^') {
        negated = !negated;
        begin++;
    }
    const size_t size = (size_t)(end - begin);
    if (size == 0 || strspn(begin, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") < size)
        return "a property that is no category and no script is not supported";
    iso_text_add(out, "\\%c{%s%.*s}", negated ? 'P' : 'p', is_category(begin, size) ? "" : "sc:", (int)size,
                 begin);
    *at = end + 1;
    return NULL;
}

/* Translates an escape at a backslash, in or out of brackets. NULL, or what is wrong. */
static const char *translate_escape(const char **at, bool inside, iso_text *out)
{
    const char letter = (*at)[1];
    if (letter == 0)
        return "a '\\' at its end";
    if (letter == 'p' || letter == 'P')
        return translate_property(at, out);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (escapes[i].letter == letter) {
            const char *to = inside ? escapes[i].inside : escapes[i].outside;
            if (!to)
                return "an escape that is not supported in brackets";
            iso_text_add(out, "%s", to);
            *at += 2;
            return NULL;
        }
    const bool word = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                      (letter >= 'A' && letter <= 'Z');
    if (word && !strchr(inside ? "dDtnrfaex" : "dDtnrfaexAzZ", letter))
        return "an escape that is not supported";
    const char *end = letter == 'x' && (*at)[2] == '{' ? strchr(*at, '}') : NULL;
    const size_t size = end ? (size_t)(end - *at) + 1 : 2;
    iso_text_add(out, "%.*s", (int)size, *at);
    *at += size;
    return NULL;
}

/* "(?..." and "(*...": only what means the same in both; Oniguruma's option m is PCRE2's s. */
static const char *translate_group(const char **at, bool first, iso_text *out)
{
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const size_t size = strlen(same[i]);
        if (strncmp(*at, same[i], size) == 0) {
            iso_text_add(out, "%s", same[i]);
            *at += size;
            return NULL;
        }
    }
    const size_t size = strspn(*at + 2, "im-");
    const char end = (*at)[2 + size];
    if ((*at)[1] == '*' || size == 0 || (end != ':' && end != ')'))
        return "a group of this kind is not supported";
    if (end == ')' && !first)
        return "an option that is not at its beginning is not supported";
    iso_text_add(out, "(?");
    for (size_t i = 0; i < size; i++)
        iso_text_add(out, "%c", (*at)[2 + i] == 'm' ? 's' : (*at)[2 + i]);
    iso_text_add(out, "%c", end);
    *at += 3 + size;
    return NULL;
}

/* An interval {2}, {1,3}, {1,} or {,3}. Oniguruma repeats one before '+', where PCRE2 makes it possessive, and makes
 * {2} before '?' optional, where PCRE2 ignores it. */
static const char *translate_interval(const char **at, iso_text *out)
{
    static const char digits[] = "0123456789";
    const size_t least = strspn(*at + 1, digits);
    const char *comma = *at + 1 + least;
    const size_t most = *comma == ',' ? strspn(comma + 1, digits) : 0;
    const char *end = *comma == ',' ? comma + 1 + most : comma;
    if (*end != '}' || least + most == 0)
        return "a '{' that begins no interval is not supported; write \\{";
    if (end[1] == '+')
        return "'+' after an interval is not supported";
    if (end[1] == '?' && *comma != ',')
        return "'?' after an interval of one number is not supported";
    iso_text_add(out, "{%s%.*s", least ? "" : "0", (int)(end - *at), *at + 1);
    *at = end + 1;
    return NULL;
}

/* Begins a class, whose first character may stand for itself. */
static const char *begin_class(const char **at, iso_text *out)
{
    const size_t size = 1 + ((*at)[1] == '^');
    if ((*at)[size] == ']')
        return "a ']' that begins a class is not supported; write \\]";
    iso_text_add(out, "%.*s", (int)size, *at);
    *at += size;
    return NULL;
}

static iso_status translate(const char *file, const char *key, const char *expression, iso_text *out)
{
    bool inside = false;
    for (const char *at = expression; *at;) {
        const char *wrong = NULL;
        if (*at == '\\') {
            wrong = translate_escape(&at, inside, out);
        } else if (inside && (*at == '[' || strncmp(at, "&&", 2) == 0)) {
            wrong = "a class within a class is not supported";
        } else if (!inside && *at == '[') {
            wrong = begin_class(&at, out);
            inside = true;
        } else if (!inside && *at == '(' && (at[1] == '?' || at[1] == '*')) {
            wrong = translate_group(&at, at == expression, out);
        } else if (!inside && *at == '{') {
            wrong = translate_interval(&at, out);
        } else {
            inside = inside && *at != ']';
            iso_text_add(out, "%c", *at++);
        }
        if (wrong)
            return refuse(file, key, expression, wrong);
    }
    return out->failed ? iso_no_memory("the expression '%s'", expression) : ISO_OK;
}

static iso_status compile(const char *file, const char *key, const char *expression, const char *translated,
                          pcre2_code **code)
{
    int error;
    PCRE2_SIZE offset;
    PCRE2_UCHAR why[128];
    *code =
        pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_MULTILINE, &error, &offset, NULL);
    if (*code) {
        pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE); /* without it they are interpreted */
        return ISO_OK;
    }
    pcre2_get_error_message(error, why, sizeof why);
    return refuse(file, key, expression, (char *)why);
}

iso_status iso_token_pattern_of_text(const char *file, const char *key, const char *expression,
                                     iso_token_pattern **pattern)
{
    iso_status status = ISO_OK;
    iso_text translated = {0};
    iso_token_pattern *made = iso_new(sizeof *made);
    if (!made)
        return iso_no_memory("the expression '%s'", expression);
    ISO_TRY(translate(file, key, expression, &translated));
    ISO_TRY(compile(file, key, expression, iso_text_get(&translated), &made->code));
    made->size = strlen(expression);
    made->text = iso_strdup(expression);
    if (!made->text)
        ISO_TRY(iso_no_memory("the expression '%s'", expression));
    *pattern = made;
    made = NULL;
done:
    iso_text_free(&translated);
    iso_token_pattern_destroy(made);
    return status;
}

iso_status iso_token_pattern_create(const char *file, const char *key, const json_t *value,
                                    iso_token_pattern **pattern)
{
    const char *expression = json_string_value(json_object_get(value, "Regex"));
    const json_t *text = json_is_string(value) ? value : json_object_get(value, "String");
    if (expression)
        return iso_token_pattern_of_text(file, key, expression, pattern);
    if (!json_is_string(text))
        return iso_token_unsupported(file, key, value);
    iso_token_pattern *made = iso_new(sizeof *made);
    if (made)
        made->text = iso_strdup(json_string_value(text));
    if (!made || !made->text) {
        iso_token_pattern_destroy(made);
        return iso_no_memory("the pattern '%s'", json_string_value(text));
    }
    made->size = json_string_length(text);
    *pattern = made;
    return ISO_OK;
}

void iso_token_pattern_destroy(iso_token_pattern *pattern)
{
    if (!pattern)
        return;
    iso_free(pattern->text);
    pcre2_code_free(pattern->code);
    iso_free(pattern);
}

const char *iso_token_pattern_source(const iso_token_pattern *pattern, size_t *size, bool *expression)
{
    *size = pattern->size;
    *expression = pattern->code;
    return pattern->text;
}

/* ---- matching ---- */

/* Pieces may be empty here. */
static void add_match(iso_text_spans *to, size_t begin, size_t end)
{
    if (to->room == to->count && !iso_text_spans_grow(to))
        return;
    to->span[to->count++] = (iso_text_span){begin, end};
}

static void find_text(const iso_token_pattern *pattern, iso_text_spans *matches, const char *text,
                      size_t begin, size_t end)
{
    const char *found;
    while (pattern->size && end - begin >= pattern->size &&
           (found = memmem(text + begin, end - begin, pattern->text, pattern->size))) {
        add_match(matches, (size_t)(found - text), (size_t)(found - text) + pattern->size);
        begin = (size_t)(found - text) + pattern->size;
    }
}

static iso_status not_matched(int code)
{
    PCRE2_UCHAR why[128];
    pcre2_get_error_message(code, why, sizeof why);
    return iso_error(code == PCRE2_ERROR_NOMEMORY ? ISO_NO_MEMORY : ISO_INVALID,
                     "a regular expression of the tokenizer could not be matched: %s", (char *)why);
}

static iso_status find_expression(const iso_token_pattern *pattern, iso_token_scratch *scratch,
                                  const char *text, size_t size)
{
    struct iso_matching *m = scratch->matching;
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    size_t at = 0, last = SIZE_MAX; /* end of the last match */
    while (at <= size) {
        int code =
            pcre2_match(pattern->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
        if (code == PCRE2_ERROR_NOMATCH)
            return ISO_OK;
        if (code < 0)
            return not_matched(code);
        const size_t begin = span[0], end = span[1];
        if (begin < end || begin != last)
            add_match(&scratch->matches, begin, end);
        last = end;
        at = end > begin ? end : end < size ? end + iso_utf8_size(text[end]) : size + 1;
    }
    return ISO_OK;
}

iso_status iso_token_pattern_find(const iso_token_pattern *pattern, iso_token_scratch *scratch,
                                  const char *text, size_t begin, size_t end)
{
    iso_status status = ISO_OK;
    scratch->matches.count = 0;
    if (!pattern->code) {
        find_text(pattern, &scratch->matches, text, begin, end);
    } else {
        status = find_expression(pattern, scratch, text + begin, end - begin);
        for (size_t i = 0; i < scratch->matches.count; i++) {
            scratch->matches.span[i].begin += begin;
            scratch->matches.span[i].end += begin;
        }
    }
    if (status == ISO_OK && scratch->matches.failed)
        return iso_no_memory("the splits of a text");
    return status;
}
