/* Models that look words up: WordPiece takes the longest beginning of what is left, WordLevel the whole word. */
#include "runtime/data/tokenizer/model_impl.h"

enum { MOST_CHARACTERS = 100 };

static iso_status read_both(const char *file, const json_t *value, iso_token_model *model)
{
    iso_status status = iso_model_read_vocabulary(file, value, model);
    return status == ISO_OK ? iso_model_read_unknown(file, value, model) : status;
}

static iso_status wordpiece_read(const char *file, const json_t *value, iso_token_model *model)
{
    const json_t *longest = json_object_get(value, "max_input_chars_per_word"),
                 *prefix = json_object_get(value, "continuing_subword_prefix");
    model->longest = json_is_integer(longest) ? json_integer_value(longest) : MOST_CHARACTERS;
    model->prefix = iso_strdup(json_is_string(prefix) ? json_string_value(prefix) : "##");
    if (!model->prefix)
        return iso_no_memory("the tokenizer of '%s'", file);
    model->prefix_size = strlen(model->prefix);
    return read_both(file, value, model);
}

static iso_status add_unknown(const iso_token_model *model, const char *text, iso_ids *ids)
{
    if (model->unknown < 0)
        return iso_unknown_character(text);
    iso_ids_add(ids, model->unknown);
    return ISO_OK;
}

/* The id of the longest token at `at`, whose end goes to *end; -1: there is none. room: for the prefix. */
static int32_t find_longest(const iso_token_model *model, iso_bytes *room, const char *text, size_t at,
                            size_t size, size_t *end)
{
    const size_t prefix = at > 0 ? model->prefix_size : 0;
    room->size = 0;
    iso_bytes_add(room, model->prefix, prefix);
    iso_bytes_add(room, text + at, size - at);
    for (*end = size; !room->failed && *end > at;) {
        const int32_t id = iso_vocabulary_find(&model->vocabulary, room->data, prefix + *end - at);
        if (id >= 0)
            return id;
        do
            --*end;
        while (*end > at && iso_utf8_continues(text[*end]));
    }
    return -1;
}

static iso_status wordpiece_encode(const iso_token_model *model, iso_token_scratch *scratch, const char *text,
                                   size_t size, iso_ids *ids)
{
    const size_t before = ids->count;
    int64_t characters = 0;
    iso_bytes room = {0};
    bool found = true;
    (void)scratch;
    for (size_t at = 0; at < size; at += iso_utf8_size(text[at]))
        characters++;
    if (characters > model->longest)
        return add_unknown(model, text, ids);
    for (size_t at = 0, end; found && at < size; at = end) {
        const int32_t id = find_longest(model, &room, text, at, size, &end);
        found = id >= 0;
        if (found)
            iso_ids_add(ids, id);
    }
    const bool failed = room.failed;
    iso_bytes_free(&room);
    if (failed)
        return iso_no_memory("a word of %zu bytes", size);
    if (found)
        return ISO_OK;
    ids->count = before;
    return add_unknown(model, text, ids);
}

static iso_status whole_encode(const iso_token_model *model, iso_token_scratch *scratch, const char *text,
                               size_t size, iso_ids *ids)
{
    const int32_t id = iso_vocabulary_find(&model->vocabulary, text, size);
    (void)scratch;
    if (id < 0)
        return add_unknown(model, text, ids);
    iso_ids_add(ids, id);
    return ISO_OK;
}

const iso_model_kind iso_model_wordpiece = {"WordPiece", wordpiece_read, wordpiece_encode};
const iso_model_kind iso_model_wordlevel = {"WordLevel", read_both, whole_encode};
