/* What the models of a tokenizer share: vocabularies, and the cache of words. */
#include "runtime/data/tokenizer/model_impl.h"

#include "runtime/base/printable.h"

enum { MOST_IDS = 1 << 24 };

iso_status iso_model_read_vocabulary(const char *file, const json_t *value, iso_token_model *model)
{
    const json_t *vocabulary = json_object_get(value, "vocab");
    iso_status status = ISO_OK;
    if (!json_is_object(vocabulary))
        return iso_error(ISO_INVALID, "'%s': the model's vocab is no object of tokens and ids", file);
    for (void *at = json_object_iter((json_t *)(uintptr_t)vocabulary); at && status == ISO_OK;
         at = json_object_iter_next((json_t *)(uintptr_t)vocabulary, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= MOST_IDS)
            return iso_error(ISO_INVALID, "'%s': the id of the token '%s' must be a number from 0 to %d",
                             file, name, MOST_IDS - 1);
        status = iso_vocabulary_add(&model->vocabulary, name, strlen(name), (int32_t)json_integer_value(id));
    }
    if (status == ISO_OK)
        status = iso_vocabulary_index(&model->vocabulary);
    return status;
}

iso_status iso_model_read_unknown(const char *file, const json_t *value, iso_token_model *model)
{
    const json_t *name = json_object_get(value, "unk_token");
    if (!name || json_is_null(name))
        return ISO_OK;
    if (!json_is_string(name))
        return iso_token_unsupported(file, "unk_token", name);
    model->unknown =
        iso_vocabulary_find(&model->vocabulary, json_string_value(name), json_string_length(name));
    return ISO_OK;
}

iso_status iso_unknown_character(const char *at)
{
    return iso_error(ISO_INVALID,
                     "the character U+%04X is not in the vocabulary, which has no token for unknown ones",
                     (unsigned)iso_utf8_get(at));
}

iso_status iso_token_model_read(const char *file, const json_t *value, bool bytes, iso_token_model *model)
{
    static const iso_model_kind *const models[] = {&iso_model_bpe, &iso_model_wordpiece,
                                                   &iso_model_wordlevel};
    const char *type = json_string_value(json_object_get(value, "type"));
    model->unknown = -1;
    model->bytes = bytes;
    if (!type && json_object_get(value, "merges"))
        type = "BPE"; /* as old files have it */
    for (size_t i = 0; type && i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i]->type, type) != 0)
            continue;
        model->kind = models[i];
        return models[i]->read(file, value, model);
    }
    return type ? iso_token_unsupported(file, "model", value)
                : iso_error(ISO_INVALID, "'%s': the model has no type", file);
}

void iso_token_model_free(iso_token_model *model)
{
    iso_vocabulary_free(&model->vocabulary);
    iso_free(model->merges.entry);
    iso_free(model->inside.entry);
    iso_free(model->prefix);
    iso_free(model->suffix);
}

static iso_status encode(const iso_token_model *model, iso_token_scratch *scratch, const char *word,
                         size_t size, iso_ids *ids)
{
    if (!model->bytes)
        return model->kind->encode(model, scratch, word, size, ids);
    scratch->word.size = 0;
    iso_byte_characters(word, size, &scratch->word);
    if (scratch->word.failed)
        return iso_no_memory("a word of %zu bytes", size);
    return model->kind->encode(model, scratch, scratch->word.data, scratch->word.size, ids);
}

iso_status iso_token_model_encode(const iso_token_model *model, iso_token_scratch *scratch, const char *word,
                                  size_t size, iso_ids *ids)
{
    if (size > ISO_CACHED_BYTES)
        return encode(model, scratch, word, size, ids);
    iso_cached_word *cached = &scratch->cache[iso_short_hash(word, size) & (ISO_CACHED_WORDS - 1)];
    if (cached->size == size && memcmp(cached->word, word, size) == 0) {
        for (int i = 0; i < cached->count; i++)
            iso_ids_add(ids, cached->id[i]);
        return ISO_OK;
    }
    const size_t begin = ids->count;
    iso_status status = encode(model, scratch, word, size, ids);
    const size_t count = ids->count - begin;
    if (status != ISO_OK || ids->failed || count > ISO_CACHED_IDS)
        return status;
    cached->size = (uint8_t)size;
    cached->count = (uint8_t)count;
    memcpy(cached->word, word, size);
    if (count)
        memcpy(cached->id, ids->id + begin, count * sizeof *cached->id);
    return ISO_OK;
}
