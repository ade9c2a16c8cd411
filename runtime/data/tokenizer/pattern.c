/* The patterns of tokenizer.json: texts, and regular expressions as Oniguruma has them, run by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/base/text.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { LEAST_STACK = 32 << 10, MOST_STACK = 8 << 20 };

struct iso_token_pattern {
    char *text; /* searched as it is, of `size` bytes; NULL: code */
    size_t size;
    pcre2_code *code;
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
/* Oniguruma's \w; PCRE2's lacks marks and connectors. */
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

/* Translates an escape at a backslash, in or out of brackets. NULL, or what is wrong. */
static const char *translate_escape(const char **at, bool inside, iso_text *out)
{
    const char letter = (*at)[1];
    if (letter == 0)
        return "a '\\' at its end";
    if (letter == 's')
        iso_text_add(out, inside ? WHITE : "[" WHITE "]");
    else if (letter == 'S' && !inside)
        iso_text_add(out, "[^" WHITE "]");
    else if (letter == 'w')
        iso_text_add(out, inside ? WORD : "[" WORD "]");
    else if (letter == 'W' && !inside)
        iso_text_add(out, "[^" WORD "]");
    else if (strchr("hHSWKRXGg", letter))
        return "an escape that is not supported";
    else
        iso_text_add(out, "\\%c", letter);
    *at += 2;
    return NULL;
}

/* Oniguruma repeats an interval, a{1,3}+, where PCRE2 makes it possessive. */
static bool is_repeated_interval(const char *expression, const char *at)
{
    const char *begin = at;
    if (at == expression || *at != '+' || at[-1] != '}')
        return false;
    do
        begin--;
    while (begin > expression && *begin != '{');
    return strspn(begin + 1, "0123456789,") == (size_t)(at - begin) - 2;
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
        } else if (!inside && is_repeated_interval(expression, at)) {
            wrong = "'+' after an interval is not supported";
        } else {
            inside = inside ? *at != ']' : *at == '[';
            iso_text_add(out, "%c", *at++);
            if (inside && at[-1] == '[' && *at == '^')
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
    *code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &error, &offset, NULL);
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
    if (pattern->text) {
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
