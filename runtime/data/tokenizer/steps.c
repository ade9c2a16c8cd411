/* Reading the steps of normalizers, pre-tokenizers and decoders. */
#include "runtime/base/list.h"
#include "runtime/base/text.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { MOST_DEPTH = 8 };

iso_status iso_token_unsupported(const char *file, const char *key, const json_t *value)
{
    char is[120];
    const char *type = json_string_value(json_object_get(value, "type"));
    if (type)
        return iso_error(ISO_INVALID, "'%s': %s: of type '%.100s' is not supported", file, key, type);
    return iso_error(ISO_INVALID, "'%s': %s: %s is not supported", file, key,
                     iso_json_shown(value, is, sizeof is));
}

iso_status iso_token_text(const char *file, const json_t *value, const char *member, const char **text,
                          size_t *size)
{
    const json_t *found = json_object_get(value, member);
    if (!json_is_string(found))
        return iso_token_unsupported(file, member, found);
    *text = json_string_value(found);
    *size = json_string_length(found);
    return ISO_OK;
}

iso_status iso_token_step_text(const char *file, const json_t *value, const char *member,
                               iso_token_step *step)
{
    const char *text = NULL;
    iso_status status = iso_token_text(file, value, member, &text, &step->size);
    if (status != ISO_OK)
        return status;
    step->text = iso_strdup(text);
    return step->text ? ISO_OK : iso_no_memory("the tokenizer of '%s'", file);
}

bool iso_token_flag(const json_t *value, const char *member, bool fallback)
{
    const json_t *found = json_object_get(value, member);
    return json_is_boolean(found) ? json_is_true(found) : fallback;
}

static const iso_token_kind *find_kind(const char *type, const iso_token_kind *kinds, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(kinds[i].name, type))
            return &kinds[i];
    return NULL;
}

/* What a section is read with. */
typedef struct reading {
    const char *file, *key, *list;
    const iso_token_kind *kinds;
    int count;
    iso_token_steps *steps;
} reading;

static iso_status read_one(const reading *r, const iso_token_kind *kind, const json_t *value)
{
    iso_token_step step = {.kind = kind};
    iso_status status = iso_list_reserve(r->steps->step, r->steps->count, 1, "the steps of a tokenizer");
    if (status != ISO_OK)
        return status;
    if (kind->read)
        status = kind->read(r->file, value, &step);
    r->steps->step[r->steps->count++] = step; /* also after an error: it is freed with the others */
    return status;
}

static iso_status read_steps(const reading *r, const json_t *value, int depth)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!value || json_is_null(value))
        return ISO_OK;
    if (!type || depth > MOST_DEPTH)
        return iso_token_unsupported(r->file, r->key, value);
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(value, r->list);
        iso_status status = json_is_array(list) ? ISO_OK : iso_token_unsupported(r->file, r->list, list);
        for (size_t i = 0; status == ISO_OK && i < json_array_size(list); i++)
            status = read_steps(r, json_array_get(list, i), depth + 1);
        return status;
    }
    const iso_token_kind *kind = find_kind(type, r->kinds, r->count);
    return kind ? read_one(r, kind, value) : iso_token_unsupported(r->file, r->key, value);
}

iso_status iso_token_steps_read(const char *file, const char *key, const char *list, const json_t *value,
                                const iso_token_kind *kinds, int kind_count, iso_token_steps *steps)
{
    return read_steps(&(reading){file, key, list, kinds, kind_count, steps}, value, 0);
}

void iso_token_steps_free(iso_token_steps *steps)
{
    for (int i = 0; i < steps->count; i++) {
        iso_token_pattern_destroy(steps->step[i].pattern);
        iso_free(steps->step[i].text);
    }
    iso_free(steps->step);
    *steps = (iso_token_steps){0};
}
