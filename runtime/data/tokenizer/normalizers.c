/* Normalizers: each step makes a new text. */
#include <stdlib.h>
#include <utf8proc.h>

#include "runtime/data/tokenizer/tokenizer_impl.h"

/* ---- forms of Unicode ---- */

/* Whether no character of the text is changed: those below the first that a form changes. */
static bool is_plain(iso_normal_form form, const char *text, size_t size)
{
    /* Of C, U+00C0 to U+02FF stay as they are, and before U+0300 nothing is composed; U+00A0 changes in KC. */
    const uint32_t below = form == ISO_NFC ? 0x300 : form == ISO_NFD ? 0xc0 : 0x80;
    for (size_t at = 0; at < size; at += iso_utf8_size(text[at]))
        if (iso_utf8_get(text + at) >= below)
            return false;
    return true;
}

static iso_status to_form(iso_normal_form form, const iso_bytes *in, iso_bytes *out)
{
    static const int options[] = {[ISO_NFC] = UTF8PROC_COMPOSE,
                                  [ISO_NFD] = UTF8PROC_DECOMPOSE,
                                  [ISO_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                  [ISO_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *made = NULL;
    if (is_plain(form, in->data, in->size)) {
        iso_bytes_add(out, in->data, in->size);
        return ISO_OK;
    }
    utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)in->data, (utf8proc_ssize_t)in->size,
                                         &made, (utf8proc_option_t)(UTF8PROC_STABLE | options[form]));
    if (size < 0)
        return iso_error(size == UTF8PROC_ERROR_NOMEM ? ISO_NO_MEMORY : ISO_INVALID,
                         "a text could not be normalized: %s", utf8proc_errmsg(size));
    iso_bytes_add(out, (const char *)made, (size_t)size);
    free(made);
    return ISO_OK;
}

#define FORM(name, form)                                                                                     \
    static iso_status name(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,       \
                           const iso_bytes *in, iso_bytes *out)                                              \
    {                                                                                                        \
        (void)step, (void)scratch, (void)part;                                                               \
        return to_form(form, in, out);                                                                       \
    }
FORM(nfc, ISO_NFC)
FORM(nfd, ISO_NFD)
FORM(nfkc, ISO_NFKC)
FORM(nfkd, ISO_NFKD)

/* ---- characters ---- */

static void add_lower(uint32_t c, iso_bytes *out)
{
    uint32_t lower[2];
    const int count = iso_lower(c, lower);
    for (int i = 0; i < count; i++)
        iso_bytes_add_character(out, lower[i]);
}

static iso_status lowercase(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                            const iso_bytes *in, iso_bytes *out)
{
    (void)step, (void)scratch, (void)part;
    for (size_t at = 0; at < in->size; at += iso_utf8_size(in->data[at]))
        add_lower(iso_utf8_get(in->data + at), out);
    return ISO_OK;
}

static iso_status strip_accents(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                                const iso_bytes *in, iso_bytes *out)
{
    (void)step, (void)scratch, (void)part;
    for (size_t at = 0, size; at < in->size; at += size) {
        size = iso_utf8_size(in->data[at]);
        if (!iso_is_mark(iso_utf8_get(in->data + at)))
            iso_bytes_add(out, in->data + at, size);
    }
    return ISO_OK;
}

/* ---- BERT's ---- */

enum { CLEAN, CHINESE, ACCENTS, LOWER }; /* of step->on */

static iso_status bert_read(const char *file, const json_t *value, iso_token_step *step)
{
    (void)file;
    step->on[CLEAN] = iso_token_flag(value, "clean_text", true);
    step->on[CHINESE] = iso_token_flag(value, "handle_chinese_chars", true);
    step->on[LOWER] = iso_token_flag(value, "lowercase", true);
    step->on[ACCENTS] = iso_token_flag(value, "strip_accents", step->on[LOWER]);
    return ISO_OK;
}

static bool is_chinese(uint32_t c)
{
    static const uint32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                         {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                         {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    bool is = false;
    for (size_t i = 0; c >= ranges[0][0] && i < sizeof ranges / sizeof *ranges; i++)
        is |= c >= ranges[i][0] && c <= ranges[i][1];
    return is;
}

/* Control characters go, white space becomes a space, and spaces surround Chinese characters. */
static void clean(const iso_token_step *step, const iso_bytes *in, iso_bytes *out)
{
    for (size_t at = 0; at < in->size; at += iso_utf8_size(in->data[at])) {
        uint32_t c = iso_utf8_get(in->data + at);
        const bool kept = c == '\t' || c == '\n' || c == '\r';
        if (step->on[CLEAN] && (c == 0xfffd || (!kept && iso_is_other(c))))
            continue;
        if (step->on[CLEAN] && iso_is_white(c))
            c = ' ';
        const bool surrounded = step->on[CHINESE] && is_chinese(c);
        if (surrounded)
            iso_bytes_add(out, " ", 1);
        iso_bytes_add_character(out, c);
        if (surrounded)
            iso_bytes_add(out, " ", 1);
    }
}

static iso_status bert(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                       const iso_bytes *in, iso_bytes *out)
{
    iso_bytes *middle = &scratch->rewritten; /* pre-tokenizers run later */
    iso_status status = ISO_OK;
    (void)part;
    middle->size = 0;
    clean(step, in, step->on[ACCENTS] || step->on[LOWER] ? middle : out);
    if (!step->on[ACCENTS] && !step->on[LOWER])
        return ISO_OK;
    if (step->on[ACCENTS]) {
        ISO_TRY(to_form(ISO_NFD, middle, out));
    } else {
        iso_bytes_add(out, middle->data, middle->size);
    }
    middle->size = 0;
    iso_bytes_add(middle, out->data, out->size);
    out->size = 0;
    for (size_t at = 0; at < middle->size; at += iso_utf8_size(middle->data[at])) {
        const uint32_t c = iso_utf8_get(middle->data + at);
        if (step->on[ACCENTS] && iso_is_nonspacing(c))
            continue;
        if (step->on[LOWER])
            add_lower(c, out);
        else
            iso_bytes_add_character(out, c);
    }
    if (middle->failed)
        status = iso_no_memory("a normalized text");
done:
    return status;
}

/* ---- texts ---- */

static iso_status prepend_read(const char *file, const json_t *value, iso_token_step *step)
{
    return iso_token_step_text(file, value, "prepend", step);
}

static iso_status prepend(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                          const iso_bytes *in, iso_bytes *out)
{
    (void)scratch;
    if (in->size && part.begins)
        iso_bytes_add(out, step->text, step->size);
    iso_bytes_add(out, in->data, in->size);
    return ISO_OK;
}

static iso_status replace_read(const char *file, const json_t *value, iso_token_step *step)
{
    iso_status status =
        iso_token_pattern_create(file, "pattern", json_object_get(value, "pattern"), &step->pattern);
    return status == ISO_OK ? iso_token_step_text(file, value, "content", step) : status;
}

static iso_status replace(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                          const iso_bytes *in, iso_bytes *out)
{
    size_t at = 0;
    (void)part;
    iso_status status = iso_token_pattern_find(step->pattern, scratch, in->data, 0, in->size);
    for (size_t i = 0; status == ISO_OK && i < scratch->matches.count; i++) {
        const iso_text_span *match = &scratch->matches.span[i];
        iso_bytes_add(out, in->data + at, match->begin - at);
        iso_bytes_add(out, step->text, step->size);
        at = match->end;
    }
    if (status == ISO_OK)
        iso_bytes_add(out, in->data + at, in->size - at);
    return status;
}

enum { STRIP_LEFT, STRIP_RIGHT };

static iso_status strip_read(const char *file, const json_t *value, iso_token_step *step)
{
    (void)file;
    step->on[STRIP_LEFT] = iso_token_flag(value, "strip_left", true);
    step->on[STRIP_RIGHT] = iso_token_flag(value, "strip_right", true);
    return ISO_OK;
}

static iso_status strip(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        const iso_bytes *in, iso_bytes *out)
{
    size_t begin = 0, end = in->size, last = 0;
    while (step->on[STRIP_LEFT] && part.begins && begin < end && iso_is_white(iso_utf8_get(in->data + begin)))
        begin += iso_utf8_size(in->data[begin]);
    scratch->stripped |= begin > 0;
    for (size_t at = begin; at < in->size; at += iso_utf8_size(in->data[at]))
        if (!iso_is_white(iso_utf8_get(in->data + at)))
            last = at + iso_utf8_size(in->data[at]);
    if (step->on[STRIP_RIGHT] && part.ends)
        end = last > begin ? last : begin;
    iso_bytes_add(out, in->data + begin, end - begin);
    return ISO_OK;
}

static iso_status bytes(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        const iso_bytes *in, iso_bytes *out)
{
    (void)step, (void)scratch, (void)part;
    iso_byte_characters(in->data, in->size, out);
    return ISO_OK;
}

static const iso_token_kind kinds[] = {
    {"NFC", NULL, .normalize = nfc},
    {"NFD", NULL, .normalize = nfd},
    {"NFKC", NULL, .normalize = nfkc},
    {"NFKD", NULL, .normalize = nfkd},
    {"Lowercase", NULL, .normalize = lowercase},
    {"StripAccents", NULL, .normalize = strip_accents},
    {"BertNormalizer", bert_read, .normalize = bert},
    {"Prepend", prepend_read, .normalize = prepend},
    {"Replace", replace_read, .normalize = replace},
    {"Strip", strip_read, .normalize = strip},
    {"ByteLevel", NULL, .normalize = bytes},
};

iso_status iso_normalizers_read(const char *file, const json_t *value, iso_token_steps *steps)
{
    return iso_token_steps_read(file, "normalizer", "normalizers", value, kinds, sizeof kinds / sizeof *kinds,
                                steps);
}

iso_status iso_normalizers_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_part_ends part)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < steps->count && status == ISO_OK; i++) {
        const iso_token_step *step = &steps->step[i];
        iso_bytes old = scratch->text[0];
        scratch->text[1].size = 0;
        status = step->kind->normalize(step, scratch, part, &scratch->text[0], &scratch->text[1]);
        scratch->text[0] = scratch->text[1];
        scratch->text[1] = old;
        if (status == ISO_OK && scratch->text[0].failed)
            status = iso_no_memory("a normalized text");
    }
    return status;
}
