/* Decoders: each step makes a new list of texts, which are joined at the end. */
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
enum { REPLACEMENT_BYTES = sizeof replacement - 1 };

/* Ends the text that has been added to list->bytes. */
static void end_text(iso_token_list *list)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        size_t *end = iso_grow(list->end, list->room, room, sizeof *end);
        list->failed |= !end;
        if (!end)
            return;
        list->end = end;
        list->room = room;
    }
    list->end[list->count++] = list->bytes.size;
}

void iso_token_list_add(iso_token_list *list, const char *text, size_t size)
{
    iso_bytes_add(&list->bytes, text, size);
    end_text(list);
}

void iso_token_list_free(iso_token_list *list)
{
    iso_bytes_free(&list->bytes);
    iso_free(list->end);
    *list = (iso_token_list){0};
}

static const char *text_at(const iso_token_list *list, size_t at, size_t *size)
{
    const size_t begin = at ? list->end[at - 1] : 0;
    *size = list->end[at] - begin;
    return *size ? list->bytes.data + begin : "";
}

/* ---- steps ---- */

/* Appends bytes; what is no UTF-8 becomes U+FFFD, one for each longest beginning of a character (Unicode, 3.9). */
static void add_lossy(iso_bytes *out, const char *text, size_t size)
{
    for (size_t at = 0, good, length; at < size; at += length) {
        good = iso_utf8_check(text + at, size - at, &length);
        iso_bytes_add(out, text + at, good);
        at += good;
        if (at == size)
            return;
        iso_bytes_add(out, replacement, REPLACEMENT_BYTES);
    }
}

/* Appends the bytes that a text's characters stand for; the text as it is if one stands for none. */
static void add_bytes_of(iso_bytes *out, const char *text, size_t size)
{
    const size_t before = out->size;
    for (size_t at = 0; at < size; at += iso_utf8_size(text[at])) {
        const int byte = iso_byte_of_character(iso_utf8_get(text + at));
        if (byte < 0) {
            out->size = before;
            iso_bytes_add(out, text, size);
            return;
        }
        iso_bytes_add(out, &(char){(char)byte}, 1);
    }
}

static iso_status from_bytes(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                             iso_token_list *out)
{
    iso_bytes bytes = {0};
    (void)step, (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        add_bytes_of(&bytes, text, size);
    }
    add_lossy(&out->bytes, bytes.data, bytes.size);
    end_text(out);
    out->failed |= bytes.failed;
    iso_bytes_free(&bytes);
    return ISO_OK;
}

static iso_status fuse(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                       iso_token_list *out)
{
    (void)step, (void)scratch;
    iso_token_list_add(out, in->bytes.data, in->bytes.size);
    return ISO_OK;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of a token <0x0A>, or -1. */
static int byte_of_token(const char *text, size_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex(text[3]) < 0 || hex(text[4]) < 0)
        return -1;
    return 16 * hex(text[3]) + hex(text[4]);
}

/* Adds the character or characters of bytes; a U+FFFD for each byte if they are no UTF-8. */
static void end_bytes(iso_bytes *bytes, iso_token_list *out)
{
    if (bytes->size && iso_utf8_check(bytes->data, bytes->size, NULL) == bytes->size)
        iso_token_list_add(out, bytes->data, bytes->size);
    else
        for (size_t i = 0; i < bytes->size; i++)
            iso_token_list_add(out, replacement, REPLACEMENT_BYTES);
    bytes->size = 0;
}

static iso_status fallback(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                           iso_token_list *out)
{
    iso_bytes bytes = {0};
    (void)step, (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        const int byte = byte_of_token(text, size);
        if (byte >= 0) {
            iso_bytes_add(&bytes, &(char){(char)byte}, 1);
            continue;
        }
        end_bytes(&bytes, out);
        iso_token_list_add(out, text, size);
    }
    end_bytes(&bytes, out);
    out->failed |= bytes.failed;
    iso_bytes_free(&bytes);
    return ISO_OK;
}

/* Appends a text with each `from` replaced by `to`. */
static void add_replaced(iso_bytes *out, const char *text, size_t size, const char *from, size_t from_size,
                         const char *to, size_t to_size)
{
    for (const char *found;
         from_size && size >= from_size && (found = memmem(text, size, from, from_size));) {
        const size_t before = (size_t)(found - text);
        iso_bytes_add(out, text, before);
        iso_bytes_add(out, to, to_size);
        text = found + from_size;
        size -= before + from_size;
    }
    iso_bytes_add(out, text, size);
}

enum { CLEANS_UP };

static iso_status wordpiece_read(const char *file, const json_t *value, iso_token_step *step)
{
    step->on[CLEANS_UP] = iso_token_flag(value, "cleanup", true);
    return iso_token_step_text(file, value, "prefix", step);
}

/* English without the spaces that a tokenizer puts before punctuation. */
static void clean_up(iso_bytes *text)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        iso_bytes next = {0};
        add_replaced(&next, text->data, text->size, pairs[i][0], strlen(pairs[i][0]), pairs[i][1],
                     strlen(pairs[i][1]));
        next.failed |= text->failed;
        iso_bytes_free(text);
        *text = next;
    }
}

static iso_status join_words(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                             iso_token_list *out)
{
    (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        const bool continues = size >= step->size && memcmp(text, step->text, step->size) == 0;
        const size_t skipped = i > 0 && continues ? step->size : 0;
        iso_bytes made = {0};
        iso_bytes_add(&made, " ", i > 0 && !continues);
        iso_bytes_add(&made, text + skipped, size - skipped);
        if (step->on[CLEANS_UP])
            clean_up(&made);
        iso_token_list_add(out, made.data, made.size);
        out->failed |= made.failed;
        iso_bytes_free(&made);
    }
    return ISO_OK;
}

static iso_status meta_read(const char *file, const json_t *value, iso_token_step *step)
{
    const char *scheme = json_string_value(json_object_get(value, "prepend_scheme"));
    step->on[0] = scheme ? strcmp(scheme, "never") != 0 : iso_token_flag(value, "add_prefix_space", true);
    return iso_token_step_text(file, value, "replacement", step);
}

static iso_status meta(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                       iso_token_list *out)
{
    (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        add_replaced(&out->bytes, text, size, step->text, step->size, " ", i > 0 || !step->on[0]);
        end_text(out);
    }
    return ISO_OK;
}

static iso_status suffix_read(const char *file, const json_t *value, iso_token_step *step)
{
    return iso_token_step_text(file, value, "suffix", step);
}

static iso_status suffix(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                         iso_token_list *out)
{
    (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        add_replaced(&out->bytes, text, size, step->text, step->size, " ", i + 1 < in->count);
        end_text(out);
    }
    return ISO_OK;
}

static iso_status replace_read(const char *file, const json_t *value, iso_token_step *step)
{
    iso_status status =
        iso_token_pattern_create(file, "pattern", json_object_get(value, "pattern"), &step->pattern);
    return status == ISO_OK ? iso_token_step_text(file, value, "content", step) : status;
}

static iso_status replace(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                          iso_token_list *out)
{
    iso_status status = ISO_OK;
    for (size_t i = 0, size; status == ISO_OK && i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        size_t at = 0;
        status = iso_token_pattern_find(step->pattern, scratch, text, 0, size);
        for (size_t k = 0; status == ISO_OK && k < scratch->matches.count; k++) {
            iso_bytes_add(&out->bytes, text + at, scratch->matches.span[k].begin - at);
            iso_bytes_add(&out->bytes, step->text, step->size);
            at = scratch->matches.span[k].end;
        }
        iso_token_list_add(out, text + at, size - at);
    }
    return status;
}

static iso_status strip_read(const char *file, const json_t *value, iso_token_step *step)
{
    step->first = json_integer_value(json_object_get(value, "start"));
    step->last = json_integer_value(json_object_get(value, "stop"));
    return iso_token_step_text(file, value, "content", step);
}

static iso_status strip(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                        iso_token_list *out)
{
    (void)scratch;
    for (size_t i = 0, size; i < in->count; i++) {
        const char *text = text_at(in, i, &size);
        for (int64_t k = 0;
             step->size && k < step->first && size >= step->size && !memcmp(text, step->text, step->size);
             k++) {
            text += step->size;
            size -= step->size;
        }
        for (int64_t k = 0; step->size && k < step->last && size >= step->size &&
                            !memcmp(text + size - step->size, step->text, step->size);
             k++)
            size -= step->size;
        iso_token_list_add(out, text, size);
    }
    return ISO_OK;
}

static const iso_token_kind kinds[] = {
    {"ByteLevel", NULL, .decode = from_bytes},    {"WordPiece", wordpiece_read, .decode = join_words},
    {"Metaspace", meta_read, .decode = meta},     {"BPEDecoder", suffix_read, .decode = suffix},
    {"Replace", replace_read, .decode = replace}, {"Strip", strip_read, .decode = strip},
    {"ByteFallback", NULL, .decode = fallback},   {"Fuse", NULL, .decode = fuse},
};

iso_status iso_decoders_read(const char *file, const json_t *value, iso_token_steps *steps)
{
    return iso_token_steps_read(file, "decoder", "decoders", value, kinds, sizeof kinds / sizeof *kinds,
                                steps);
}

iso_status iso_decoders_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_token_list *tokens,
                            iso_bytes *text)
{
    iso_status status = ISO_OK;
    for (int i = 0; status == ISO_OK && i < steps->count; i++) {
        iso_token_list next = {0};
        status = steps->step[i].kind->decode(&steps->step[i], scratch, tokens, &next);
        next.failed |= tokens->failed || tokens->bytes.failed;
        iso_token_list_free(tokens);
        *tokens = next;
    }
    for (size_t i = 0, size; i < tokens->count; i++) {
        const char *of = text_at(tokens, i, &size);
        iso_bytes_add(text, " ", i > 0 && steps->count == 0);
        iso_bytes_add(text, of, size);
    }
    if (status == ISO_OK && (tokens->failed || tokens->bytes.failed || text->failed))
        status = iso_no_memory("the text of %zu tokens", tokens->count);
    return status;
}
