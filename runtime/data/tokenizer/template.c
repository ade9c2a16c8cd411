/* Post-processors: the tokens that are added around a text, or around two. */
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

static iso_status add(iso_template *t, int text, int64_t token, int64_t type)
{
    const iso_template_item item = {text, (int32_t)token, (int32_t)type};
    return iso_list_add(t->item, t->count, item, "a post-processor");
}

/* Adds the ids of a special token. */
static iso_status add_special(const char *file, const json_t *tokens, const char *name, int64_t type,
                              iso_template *t)
{
    const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
    iso_status status = ISO_OK;
    if (!json_is_array(ids))
        return iso_error(ISO_INVALID, "'%s': the post-processor's token '%s' is not in its special_tokens",
                         file, name);
    for (size_t i = 0; status == ISO_OK && i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return iso_token_unsupported(file, "ids", id);
        status = add(t, -1, json_integer_value(id), type);
    }
    return status;
}

static iso_status read_template(const char *file, const char *key, const json_t *value, iso_template *t)
{
    const json_t *items = json_object_get(value, key), *tokens = json_object_get(value, "special_tokens");
    iso_status status = ISO_OK;
    if (!json_is_array(items))
        return iso_token_unsupported(file, key, items);
    for (size_t i = 0; status == ISO_OK && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i), *text = json_object_get(item, "Sequence"),
                     *special = json_object_get(item, "SpecialToken");
        const char *id = json_string_value(json_object_get(text ? text : special, "id"));
        const int64_t type = json_integer_value(json_object_get(text ? text : special, "type_id"));
        if (!id || type < 0 || type > INT32_MAX || (text && strcmp(id, "A") != 0 && strcmp(id, "B") != 0))
            return iso_token_unsupported(file, key, item);
        status = text ? add(t, *id == 'B', 0, type) : add_special(file, tokens, id, type, t);
    }
    return status;
}

/* BertProcessing and RobertaProcessing: cls A sep, and of two texts cls A sep B sep, or cls A sep sep B sep. */
static iso_status read_fixed(const char *file, const json_t *value, bool roberta, iso_template *single,
                             iso_template *pair)
{
    const json_t *cls = json_array_get(json_object_get(value, "cls"), 1),
                 *sep = json_array_get(json_object_get(value, "sep"), 1);
    const int64_t begin = json_integer_value(cls), end = json_integer_value(sep), second = roberta ? 0 : 1;
    iso_status status = ISO_OK;
    if (!json_is_integer(cls) || !json_is_integer(sep) || begin < 0 || end < 0 || begin > INT32_MAX ||
        end > INT32_MAX)
        return iso_token_unsupported(file, "post_processor", value);
    for (int i = 0; i < 2; i++) {
        iso_template *t = i ? pair : single;
        ISO_TRY(add(t, -1, begin, 0));
        ISO_TRY(add(t, 0, 0, 0));
        ISO_TRY(add(t, -1, end, 0));
    }
    if (roberta)
        ISO_TRY(add(pair, -1, end, 0));
    ISO_TRY(add(pair, 1, 0, second));
    ISO_TRY(add(pair, -1, end, second));
done:
    return status;
}

static iso_status read_default(iso_template *single, iso_template *pair)
{
    iso_status status;
    ISO_TRY(add(single, 0, 0, 0));
    ISO_TRY(add(pair, 0, 0, 0));
    ISO_TRY(add(pair, 1, 0, 1));
done:
    return status;
}

/* *found: a step that adds tokens; ByteLevel adds none. */
static iso_status read_steps(const char *file, const json_t *value, iso_template *single, iso_template *pair,
                             bool *found)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *list = json_object_get(value, "processors");
    iso_status status = ISO_OK;
    if (!value || json_is_null(value) || (type && !strcmp(type, "ByteLevel")))
        return ISO_OK;
    if (type && !strcmp(type, "Sequence") && json_is_array(list)) {
        for (size_t i = 0; status == ISO_OK && i < json_array_size(list); i++) {
            const json_t *step = json_array_get(list, i);
            const char *of = json_string_value(json_object_get(step, "type"));
            status = of && !strcmp(of, "Sequence") ? iso_token_unsupported(file, "post_processor", step)
                                                   : read_steps(file, step, single, pair, found);
        }
        return status;
    }
    const bool roberta = type && !strcmp(type, "RobertaProcessing");
    const bool fixed = roberta || (type && !strcmp(type, "BertProcessing"));
    if (*found || !type || (!fixed && strcmp(type, "TemplateProcessing") != 0))
        return iso_token_unsupported(file, "post_processor", value);
    *found = true;
    if (fixed)
        return read_fixed(file, value, roberta, single, pair);
    status = read_template(file, "single", value, single);
    return status == ISO_OK ? read_template(file, "pair", value, pair) : status;
}

iso_status iso_templates_read(const char *file, const json_t *value, iso_template *single, iso_template *pair)
{
    bool found = false;
    iso_status status = read_steps(file, value, single, pair, &found);
    return status == ISO_OK && !found ? read_default(single, pair) : status;
}
