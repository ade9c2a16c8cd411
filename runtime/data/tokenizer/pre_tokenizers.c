/* Pre-tokenizers: each step splits the spans of a text, some after they have changed it. */
#include "runtime/data/tokenizer/tokenizer_impl.h"

/* ---- what a span becomes ---- */

static iso_status read_behaviour(const char *file, const json_t *value, iso_split_behaviour fallback,
                                 int *choice)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const json_t *name = json_object_get(value, "behavior");
    *choice = fallback;
    if (!name)
        return ISO_OK;
    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++) {
        *choice = (int)i;
        if (!strcmp(json_string_value(name), names[i]))
            return ISO_OK;
    }
    return iso_token_unsupported(file, "behavior", name);
}

/* The splits of one span as they are found, one after the other. Each stretch is a match or what is between matches;
 * an empty match is a stretch too. */
typedef struct splitting {
    iso_text_spans *out;
    iso_split_behaviour how;
    bool invert;
    size_t begin, end; /* what is not added yet */
    bool held, was_match;
} splitting;

static void flush(splitting *s)
{
    if (s->held)
        iso_text_spans_add(s->out, s->begin, s->end);
    s->held = false;
}

static void hold(splitting *s, size_t begin, size_t end)
{
    flush(s);
    s->begin = begin;
    s->end = end;
    s->held = true;
}

static void add_stretch(splitting *s, size_t begin, size_t end, bool match)
{
    bool joins = false;
    match ^= s->invert;
    switch (s->how) {
    case ISO_SPLIT_REMOVED:
        if (!match)
            iso_text_spans_add(s->out, begin, end);
        return;
    case ISO_SPLIT_ISOLATED:
        iso_text_spans_add(s->out, begin, end);
        return;
    case ISO_SPLIT_CONTIGUOUS:
        joins = match == s->was_match;
        break;
    case ISO_SPLIT_MERGED_WITH_PREVIOUS:
        joins = match && !s->was_match;
        break;
    case ISO_SPLIT_MERGED_WITH_NEXT: /* a match takes what follows it, unless that is a match */
        joins = !match && s->was_match;
        break;
    }
    s->was_match = match;
    if (joins && s->held)
        s->end = end;
    else
        hold(s, begin, end);
}

static void split_at_matches(splitting *s, const iso_text_spans *matches, const iso_text_span *span)
{
    size_t at = span->begin;
    for (size_t i = 0; i < matches->count; i++) {
        if (at != matches->span[i].begin)
            add_stretch(s, at, matches->span[i].begin, false);
        add_stretch(s, matches->span[i].begin, matches->span[i].end, true);
        at = matches->span[i].end;
    }
    if (at != span->end)
        add_stretch(s, at, span->end, false);
    flush(s);
}

static void split_at_characters(splitting *s, iso_character_class *is_match, const char *text,
                                const iso_text_span *span)
{
    size_t after = span->begin;
    for (size_t at = span->begin, size; at < span->end; at += size) {
        size = iso_utf8_size(text[at]);
        if (!is_match(iso_utf8_get(text + at)))
            continue;
        if (after < at)
            add_stretch(s, after, at, false);
        add_stretch(s, at, at + size, true);
        after = at + size;
    }
    if (after < span->end)
        add_stretch(s, after, span->end, false);
    flush(s);
}

static iso_status by_class(iso_token_scratch *scratch, iso_split_behaviour how, iso_character_class *is_match,
                           const iso_bytes *text)
{
    for (size_t i = 0; i < scratch->spans[0].count; i++)
        split_at_characters(&(splitting){&scratch->spans[1], how, false, 0, 0, false, false}, is_match,
                            text->data, &scratch->spans[0].span[i]);
    return ISO_OK;
}

static iso_status by_pattern(iso_token_scratch *scratch, iso_split_behaviour how, bool invert,
                             const iso_token_pattern *pattern, const iso_bytes *text)
{
    iso_status status = ISO_OK;
    for (size_t i = 0; status == ISO_OK && i < scratch->spans[0].count; i++) {
        const iso_text_span span = scratch->spans[0].span[i];
        status = iso_token_pattern_find(pattern, scratch, text->data, span.begin, span.end);
        if (status == ISO_OK)
            split_at_matches(&(splitting){&scratch->spans[1], how, invert, 0, 0, false, false},
                             &scratch->matches, &span);
    }
    return status;
}

static void swap_spans(iso_token_scratch *scratch)
{
    iso_text_spans old = scratch->spans[0];
    scratch->spans[0] = scratch->spans[1];
    scratch->spans[1] = old;
    scratch->spans[1].count = 0;
}

/* Begins to change the text: spans are added to `rewritten` one by one. */
static iso_bytes *begin_rewriting(iso_token_scratch *scratch)
{
    scratch->rewritten.size = 0;
    return &scratch->rewritten;
}

static iso_status end_rewriting(iso_token_scratch *scratch, iso_bytes *text)
{
    iso_bytes old = *text;
    *text = scratch->rewritten;
    scratch->rewritten = old;
    return text->failed ? iso_no_memory("a split text") : ISO_OK;
}

/* ---- bytes ---- */

enum { PREFIX_SPACE, USES_PATTERN }; /* of step->on */

static iso_status bytes_read(const char *file, const json_t *value, iso_token_step *step)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    step->on[PREFIX_SPACE] = iso_token_flag(value, "add_prefix_space", true);
    step->on[USES_PATTERN] = iso_token_flag(value, "use_regex", true);
    return step->on[USES_PATTERN] ? iso_token_pattern_of_text(file, "ByteLevel", gpt2, &step->pattern)
                                  : ISO_OK;
}

/* Puts a space before spans that have none. */
static iso_status prefix_spaces(iso_token_scratch *scratch, iso_part_ends part, iso_bytes *text)
{
    iso_bytes *out = begin_rewriting(scratch);
    for (size_t i = 0; i < scratch->spans[0].count; i++) {
        const iso_text_span span = scratch->spans[0].span[i];
        const size_t begin = out->size;
        if (text->data[span.begin] != ' ' && (part.begins || span.begin > 0))
            iso_bytes_add(out, " ", 1);
        iso_bytes_add(out, text->data + span.begin, span.end - span.begin);
        iso_text_spans_add(&scratch->spans[1], begin, out->size);
    }
    swap_spans(scratch);
    return end_rewriting(scratch, text);
}

/* Splits alone: what is at the end, the model does. */
static iso_status split_for_bytes(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                                  iso_bytes *text)
{
    iso_status status = ISO_OK;
    if (step->on[PREFIX_SPACE])
        ISO_TRY(prefix_spaces(scratch, part, text));
    if (step->on[USES_PATTERN]) {
        ISO_TRY(by_pattern(scratch, ISO_SPLIT_ISOLATED, false, step->pattern, text));
    } else {
        const iso_text_spans old = scratch->spans[1];
        scratch->spans[1] = scratch->spans[0];
        scratch->spans[0] = old;
    }
done:
    return status;
}

static iso_status to_bytes(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                           iso_bytes *text)
{
    iso_status status = split_for_bytes(step, scratch, part, text);
    iso_bytes *out = begin_rewriting(scratch);
    for (size_t i = 0; status == ISO_OK && i < scratch->spans[1].count; i++) {
        iso_text_span *span = &scratch->spans[1].span[i];
        const size_t begin = out->size;
        iso_byte_characters(text->data + span->begin, span->end - span->begin, out);
        *span = (iso_text_span){begin, out->size};
    }
    return status == ISO_OK ? end_rewriting(scratch, text) : status;
}

/* ---- the others ---- */

static iso_status split_read(const char *file, const json_t *value, iso_token_step *step)
{
    step->on[0] = iso_token_flag(value, "invert", false);
    iso_status status = read_behaviour(file, value, ISO_SPLIT_ISOLATED, &step->choice);
    return status == ISO_OK
               ? iso_token_pattern_create(file, "pattern", json_object_get(value, "pattern"), &step->pattern)
               : status;
}

static iso_status split(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        iso_bytes *text)
{
    (void)part;
    return by_pattern(scratch, (iso_split_behaviour)step->choice, step->on[0], step->pattern, text);
}

static iso_status delimiter_read(const char *file, const json_t *value, iso_token_step *step)
{
    return iso_token_pattern_create(file, "delimiter", json_object_get(value, "delimiter"), &step->pattern);
}

static iso_status delimiter(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                            iso_bytes *text)
{
    (void)part;
    return by_pattern(scratch, ISO_SPLIT_REMOVED, false, step->pattern, text);
}

static iso_status words_read(const char *file, const json_t *value, iso_token_step *step)
{
/* \w of Rust: letters, marks, digits, connectors, and letters in circles and squares */
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"            \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
    (void)value;
    return iso_token_pattern_of_text(file, "Whitespace", "[" WORD "]+|[^" WORD "\\s]+", &step->pattern);
}

static iso_status words(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        iso_bytes *text)
{
    (void)part;
    return by_pattern(scratch, ISO_SPLIT_REMOVED, true, step->pattern, text);
}

static iso_status white(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        iso_bytes *text)
{
    (void)step, (void)part;
    return by_class(scratch, ISO_SPLIT_REMOVED, iso_is_white, text);
}

static iso_status bert(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                       iso_bytes *text)
{
    iso_status status = white(step, scratch, part, text);
    swap_spans(scratch);
    return status == ISO_OK ? by_class(scratch, ISO_SPLIT_ISOLATED, iso_is_punctuation, text) : status;
}

static iso_status punctuation_read(const char *file, const json_t *value, iso_token_step *step)
{
    return read_behaviour(file, value, ISO_SPLIT_ISOLATED, &step->choice);
}

static iso_status punctuation(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                              iso_bytes *text)
{
    (void)part;
    return by_class(scratch, (iso_split_behaviour)step->choice, iso_is_punctuation, text);
}

static iso_status digits_read(const char *file, const json_t *value, iso_token_step *step)
{
    (void)file;
    step->choice =
        iso_token_flag(value, "individual_digits", false) ? ISO_SPLIT_ISOLATED : ISO_SPLIT_CONTIGUOUS;
    return ISO_OK;
}

static iso_status digits(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                         iso_bytes *text)
{
    (void)part;
    return by_class(scratch, (iso_split_behaviour)step->choice, iso_is_numeric, text);
}

/* ---- Metaspace: a character stands for a space ---- */

static iso_status meta_read(const char *file, const json_t *value, iso_token_step *step)
{
    static const char *const schemes[] = {"always", "first", "never"};
    const json_t *scheme = json_object_get(value, "prepend_scheme");
    iso_status status = iso_token_step_text(file, value, "replacement", step);
    if (status == ISO_OK)
        status = iso_token_pattern_create(file, "replacement", json_object_get(value, "replacement"),
                                          &step->pattern);
    if (status != ISO_OK)
        return status;
    step->on[0] = iso_token_flag(value, "split", true);
    step->choice =
        scheme || iso_token_flag(value, "add_prefix_space", true) ? ISO_META_ALWAYS : ISO_META_NEVER;
    for (int i = 0; json_is_string(scheme) && i < 3; i++) {
        step->choice = i;
        if (!strcmp(json_string_value(scheme), schemes[i]))
            return ISO_OK;
    }
    return scheme ? iso_token_unsupported(file, "prepend_scheme", scheme) : ISO_OK;
}

static void replace_spaces(const iso_token_step *step, const char *text, size_t size, iso_bytes *out)
{
    for (size_t at = 0, end; at < size; at = end) {
        const char *space = memchr(text + at, ' ', size - at);
        end = space ? (size_t)(space - text) : size;
        iso_bytes_add(out, text + at, end - at);
        if (space)
            iso_bytes_add(out, step->text, step->size);
        end += space != NULL;
    }
}

static iso_status meta(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                       iso_bytes *text)
{
    iso_bytes *out = begin_rewriting(scratch);
    for (size_t i = 0; i < scratch->spans[0].count; i++) {
        const iso_text_span span = scratch->spans[0].span[i];
        const char *from = text->data + span.begin;
        const size_t begin = out->size, size = span.end - span.begin;
        const bool has = *from == ' ' || (size >= step->size && !memcmp(from, step->text, step->size));
        const bool first = part.first && span.begin == 0;
        if (!has && (step->choice == ISO_META_ALWAYS ? part.begins || span.begin > 0
                                                     : step->choice == ISO_META_FIRST && first))
            iso_bytes_add(out, step->text, step->size);
        replace_spaces(step, from, size, out);
        iso_text_spans_add(&scratch->spans[1], begin, out->size);
    }
    iso_status status = end_rewriting(scratch, text);
    if (status != ISO_OK || !step->on[0])
        return status;
    swap_spans(scratch);
    return by_pattern(scratch, ISO_SPLIT_MERGED_WITH_NEXT, false, step->pattern, text);
}

static const iso_token_kind kinds[] = {
    {"ByteLevel", bytes_read, .split = to_bytes},
    {"Split", split_read, .split = split},
    {"Metaspace", meta_read, .split = meta},
    {"BertPreTokenizer", NULL, .split = bert},
    {"Whitespace", words_read, .split = words},
    {"WhitespaceSplit", NULL, .split = white},
    {"Punctuation", punctuation_read, .split = punctuation},
    {"Digits", digits_read, .split = digits},
    {"CharDelimiterSplit", delimiter_read, .split = delimiter},
};
static const iso_token_kind bytes_at_the_end = {"ByteLevel", NULL, .split = split_for_bytes};

iso_status iso_splitters_read(const char *file, const json_t *value, iso_token_steps *steps, bool *last_bytes)
{
    iso_status status = iso_token_steps_read(file, "pre_tokenizer", "pretokenizers", value, kinds,
                                             sizeof kinds / sizeof *kinds, steps);
    *last_bytes = status == ISO_OK && steps->count && steps->step[steps->count - 1].kind == &kinds[0];
    if (*last_bytes)
        steps->step[steps->count - 1].kind = &bytes_at_the_end;
    return status;
}

iso_status iso_splitters_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_part_ends part,
                             iso_bytes *text)
{
    iso_status status = ISO_OK;
    scratch->spans[0].count = scratch->spans[1].count = 0;
    iso_text_spans_add(&scratch->spans[0], 0, text->size);
    for (int i = 0; i < steps->count && status == ISO_OK; i++) {
        status = steps->step[i].kind->split(&steps->step[i], scratch, part, text);
        swap_spans(scratch);
    }
    if (status == ISO_OK && (scratch->spans[0].failed || scratch->spans[1].failed))
        status = iso_no_memory("the splits of a text");
    return status;
}
