/* Added tokens: texts that are tokens wherever they stand, such as <|endoftext|>. They are found before the text is
 * normalized, or (`normalized`) in the normalized text. */
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { MOST_IDS = 1 << 24, MOST_LENGTH = 255, WORD_BITS = 64 };

static void set_length(iso_added_matcher *m, const char *text, size_t size)
{
    m->lengths[(uint8_t)text[0]][size / WORD_BITS] |= (uint64_t)1 << size % WORD_BITS;
}

static iso_status matcher_add(iso_added_matcher *m, const char *text, size_t size, int token)
{
    if (size == 0)
        return ISO_OK;
    if (size > MOST_LENGTH)
        return iso_error(ISO_INVALID, "it has %zu bytes; at most %d are supported", size, MOST_LENGTH);
    if (!m->lengths)
        m->lengths = iso_new(256 * sizeof *m->lengths);
    if (!m->lengths)
        return iso_no_memory("added tokens");
    set_length(m, text, size);
    return iso_vocabulary_add(&m->texts, text, size, token);
}

/* The longest token that stands at `at`, -1: none. */
static int32_t match_at(const iso_added_matcher *m, const char *at, size_t left, size_t *size)
{
    const uint64_t *lengths = m->lengths[(uint8_t)*at];
    for (int word = MOST_LENGTH / WORD_BITS; word >= 0; word--)
        for (uint64_t bits = lengths[word]; bits;) {
            const int bit = WORD_BITS - 1 - __builtin_clzll(bits);
            *size = (size_t)(word * WORD_BITS + bit);
            bits &= ~((uint64_t)1 << bit);
            const int32_t found = *size <= left ? iso_vocabulary_find(&m->texts, at, *size) : -1;
            if (found >= 0)
                return found;
        }
    return -1;
}

static size_t character_before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && iso_utf8_continues(text[at]));
    return at;
}

/* Whether a token at [begin, end) touches a word. */
static bool touches_word(const char *text, size_t size, size_t begin, size_t end)
{
    return (begin > 0 && iso_is_word(iso_utf8_get(text + character_before(text, begin)))) ||
           (end < size && iso_is_word(iso_utf8_get(text + end)));
}

/* white: the end of the white space that was last passed over, which later tokens need not pass again. */
static void take_white_space(const iso_added_token *token, const char *text, size_t size, size_t least,
                             size_t *begin, size_t *end, size_t *white)
{
    while (token->left && *begin > least) {
        const size_t before = character_before(text, *begin);
        if (!iso_is_white(iso_utf8_get(text + before)))
            break;
        *begin = before;
    }
    if (!token->right)
        return;
    if (*end < *white)
        *end = *white;
    while (*end < size && iso_is_white(iso_utf8_get(text + *end)))
        *end += iso_utf8_size(text[*end]);
    *white = *end;
}

static iso_status add_part(iso_added_parts *parts, size_t begin, size_t end, int token)
{
    const iso_added_part part = {begin, end, token};
    return begin == end && token < 0 ? ISO_OK : iso_list_add(parts->part, parts->count, part, "a text");
}

iso_status iso_added_find(const iso_added *added, const iso_added_matcher *m, const char *text, size_t size,
                          iso_added_parts *parts)
{
    size_t done_to = 0, white = 0, length;
    iso_status status = ISO_OK;
    parts->count = 0;
    for (size_t at = 0; m->lengths && at < size;) {
        const int32_t found = match_at(m, text + at, size - at, &length);
        if (found < 0) {
            at++;
            continue;
        }
        size_t begin = at, end = at + length;
        const iso_added_token *token = &added->token[found];
        at = end;
        if (token->word && touches_word(text, size, begin, end))
            continue;
        take_white_space(token, text, size, done_to, &begin, &end, &white);
        if (done_to < begin)
            ISO_TRY(add_part(parts, done_to, begin, -1));
        ISO_TRY(add_part(parts, begin, end, found));
        done_to = end;
    }
    ISO_TRY(add_part(parts, done_to, done_to > size ? done_to : size, -1));
done:
    return status;
}

/* ---- reading ---- */

static iso_status add_normalized(const iso_token_steps *normalizers, iso_token_scratch *scratch,
                                 const char *text, size_t size, int index, iso_added *added)
{
    iso_bytes *normal = &scratch->text[0];
    normal->size = 0;
    iso_bytes_add(normal, text, size);
    iso_status status = iso_normalizers_run(normalizers, scratch, (iso_part_ends){true, true, true});
    if (status != ISO_OK)
        return status;
    if (normal->size != size || memcmp(normal->data, text, size) != 0)
        status = iso_vocabulary_add(&added->decoded, normal->size ? normal->data : "", normal->size,
                                    added->token[index].id);
    return status == ISO_OK ? matcher_add(&added->normalized, normal->data, normal->size, index) : status;
}

static iso_status read_one(const char *file, const json_t *value, const iso_token_steps *normalizers,
                           iso_token_scratch *scratch, iso_added *added)
{
    const json_t *id = json_object_get(value, "id");
    const char *text = NULL;
    size_t size = 0;
    iso_status status = iso_token_text(file, value, "content", &text, &size);
    if (status != ISO_OK)
        return status;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= MOST_IDS)
        return iso_error(ISO_INVALID, "'%s': the id of the added token '%s' must be a number from 0 to %d",
                         file, text, MOST_IDS - 1);
    if (size == 0)
        return ISO_OK;
    const iso_added_token token = {
        .id = (int32_t)json_integer_value(id),
        .special = iso_token_flag(value, "special", false),
        .left = iso_token_flag(value, "lstrip", false),
        .right = iso_token_flag(value, "rstrip", false),
        .word = iso_token_flag(value, "single_word", false),
        .normalized = iso_token_flag(value, "normalized", false),
    };
    ISO_TRY(iso_list_add(added->token, added->count, token, "added tokens"));
    ISO_TRY(iso_vocabulary_add(&added->names, text, size, token.id));
    ISO_TRY(token.normalized ? add_normalized(normalizers, scratch, text, size, added->count - 1, added)
                             : matcher_add(&added->raw, text, size, added->count - 1));
done:
    return status == ISO_INVALID ? iso_error_prefix(status, "'%s': the added token '%.40s': ", file, text)
                                 : status;
}

iso_status iso_added_read(const char *file, const json_t *value, const iso_token_steps *normalizers,
                          iso_token_scratch *scratch, iso_added *added)
{
    iso_status status = ISO_OK;
    if (value && !json_is_null(value) && !json_is_array(value))
        return iso_error(ISO_INVALID, "'%s': added_tokens is no list", file);
    for (size_t i = 0; status == ISO_OK && i < json_array_size(value); i++)
        status = read_one(file, json_array_get(value, i), normalizers, scratch, added);
    if (status == ISO_OK)
        status = iso_vocabulary_index(&added->names);
    if (status == ISO_OK)
        status = iso_vocabulary_index(&added->decoded);
    if (status == ISO_OK)
        status = iso_vocabulary_index(&added->raw.texts);
    if (status == ISO_OK)
        status = iso_vocabulary_index(&added->normalized.texts);
    return status;
}

static void matcher_free(iso_added_matcher *m)
{
    iso_vocabulary_free(&m->texts);
    iso_free(m->lengths);
}

void iso_added_free(iso_added *added)
{
    iso_free(added->token);
    iso_vocabulary_free(&added->names);
    iso_vocabulary_free(&added->decoded);
    matcher_free(&added->raw);
    matcher_free(&added->normalized);
}
