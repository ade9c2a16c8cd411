#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

enum { MOST_BYTES = 1 << 30 };

/* ---- opening ---- */

static iso_status read_json(const char *path, json_t **root)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return iso_file_cannot_open(path);
    iso_status status = ISO_OK;
    if (!iso_file_read_all(file, MOST_BYTES, &text, &size))
        status = errno == EFBIG    ? iso_error(ISO_INVALID, "'%s' has %d bytes or more", path, MOST_BYTES)
                 : errno == ENOMEM ? iso_no_memory("the text of '%s'", path)
                                   : iso_file_failed(path, "it cannot be read");
    fclose(file);
    if (status == ISO_OK)
        status = iso_json_parse(path, text, size, root);
    iso_free(text);
    return status;
}

/* Whether there are tokens of the ids that the post-processor adds. */
static iso_status check_template(const iso_tokenizer *t, const iso_template *template)
{
    for (int i = 0; i < template->count; i++)
        if (template->item[i].text < 0 && template->item[i].token >= t->vocabulary)
            return iso_error(ISO_INVALID, "'%s': the post-processor adds the id %d; ids end at %lld", t->file,
                             template->item[i].token, (long long)t->vocabulary - 1);
    return ISO_OK;
}

/* Flags of the parts; a text "true" must not be read as false. */
static iso_status check_flags(const char *file, const json_t *value)
{
    static const char *const flags[] = {
        "add_prefix_space", "use_regex",   "invert",        "individual_digits", "split",
        "byte_fallback",    "fuse_unk",    "ignore_merges", "clean_text",        "lowercase",
        "strip_accents",    "strip_left",  "strip_right",   "special",           "lstrip",
        "rstrip",           "single_word", "normalized",    "cleanup",           "handle_chinese_chars"};
    iso_status status = ISO_OK;
    for (size_t i = 0; json_is_object(value) && i < sizeof flags / sizeof *flags; i++) {
        const json_t *flag = json_object_get(value, flags[i]);
        if (flag && !json_is_boolean(flag) && !json_is_null(flag))
            return iso_token_unsupported(file, flags[i], flag);
    }
    for (size_t i = 0; status == ISO_OK && i < json_array_size(value); i++)
        status = check_flags(file, json_array_get(value, i));
    static const char *const lists[] = {"normalizers", "pretokenizers", "decoders"};
    for (size_t i = 0; json_is_object(value) && status == ISO_OK && i < sizeof lists / sizeof *lists; i++)
        status = check_flags(file, json_object_get(value, lists[i]));
    return status;
}

static iso_status check_all_flags(const char *file, const json_t *root)
{
    static const char *const parts[] = {"normalizer", "pre_tokenizer", "decoder", "model", "added_tokens"};
    iso_status status = ISO_OK;
    for (size_t i = 0; status == ISO_OK && i < sizeof parts / sizeof *parts; i++)
        status = check_flags(file, json_object_get(root, parts[i]));
    return status;
}

/* The ids of the model come first: a text of both is one token. */
static iso_status read_parts(const json_t *root, iso_tokenizer *t)
{
    bool bytes = false;
    iso_token_scratch *scratch = iso_token_scratch_create();
    iso_status status = scratch ? ISO_OK : iso_no_memory("the tokenizer of '%s'", t->file);
    const char *file = t->file;
    if (status == ISO_OK && !json_is_object(root))
        status = iso_error(ISO_INVALID, "'%s' is no object", file);
    ISO_TRY(status);
    ISO_TRY(check_all_flags(file, root));
    ISO_TRY(iso_normalizers_read(file, json_object_get(root, "normalizer"), &t->normalizers));
    ISO_TRY(iso_splitters_read(file, json_object_get(root, "pre_tokenizer"), &t->splitters, &bytes));
    ISO_TRY(iso_decoders_read(file, json_object_get(root, "decoder"), &t->decoders));
    ISO_TRY(iso_templates_read(file, json_object_get(root, "post_processor"), &t->single, &t->pair));
    ISO_TRY(iso_token_model_read(file, json_object_get(root, "model"), bytes, &t->model));
    ISO_TRY(iso_added_read(file, json_object_get(root, "added_tokens"), &t->normalizers, scratch, &t->added));
    t->vocabulary = t->model.vocabulary.ids;
    if (t->added.names.ids > t->vocabulary)
        t->vocabulary = t->added.names.ids;
    ISO_TRY(check_template(t, &t->single));
    ISO_TRY(check_template(t, &t->pair));
done:
    iso_token_scratch_destroy(scratch);
    return status;
}

static iso_status make(const char *file, const json_t *root, iso_tokenizer **tokenizer)
{
    iso_tokenizer *t = iso_new(sizeof *t);
    if (!t)
        return iso_no_memory("the tokenizer '%s'", file);
    pthread_mutex_init(&t->lock, NULL);
    t->end = t->pad = t->mask = -1;
    t->file = iso_strdup(file);
    iso_status status = t->file ? read_parts(root, t) : iso_no_memory("the tokenizer '%s'", file);
    if (status == ISO_OK)
        *tokenizer = t;
    else
        iso_tokenizer_close(t);
    return status;
}

iso_status iso_tokenizer_parse(const char *file, const char *text, size_t size, iso_tokenizer **tokenizer)
{
    json_t *root = NULL;
    iso_status status = iso_json_parse(file, text, size, &root);
    if (status == ISO_OK)
        status = make(file, root, tokenizer);
    json_decref(root);
    return status;
}

/* What another file of the folder says; *root NULL: there is no such file, or it is no JSON. */
static void read_beside(const char *file, const char *name, json_t **root)
{
    char *folder = iso_file_folder(file), *path = folder ? iso_file_join(folder, name) : NULL;
    struct stat about;
    *root = NULL;
    if (path && stat(path, &about) == 0 && read_json(path, root) != ISO_OK)
        *root = NULL;
    iso_free(path);
    iso_free(folder);
}

/* A token of `root`: a text, or an object of an added token. *id stays if there is none, or it is known already. */
static void read_token(const iso_tokenizer *t, const json_t *root, const char *key, int32_t *id)
{
    const json_t *token = json_object_get(root, key),
                 *content = json_is_object(token) ? json_object_get(token, "content") : token;
    if (*id < 0 && json_is_string(content))
        *id = iso_tokenizer_id(t, json_string_value(content));
}

static void read_tokens(iso_tokenizer *t, const char *name)
{
    json_t *root;
    read_beside(t->file, name, &root);
    read_token(t, root, "eos_token", &t->end);
    read_token(t, root, "pad_token", &t->pad);
    read_token(t, root, "mask_token", &t->mask);
    json_decref(root);
}

/* An id of config.json, or the first of a list of them. */
static void read_id(const iso_tokenizer *t, const json_t *root, const char *key, int32_t *id)
{
    const json_t *value = json_object_get(root, key);
    const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
    if (*id < 0 && json_is_integer(first) && json_integer_value(first) >= 0 &&
        json_integer_value(first) < t->vocabulary)
        *id = (int32_t)json_integer_value(first);
}

static void read_config(iso_tokenizer *t)
{
    enum { MOST_IDS = 1 << 24 };
    json_t *root;
    read_beside(t->file, "config.json", &root);
    const json_t *size = json_object_get(root, "vocab_size");
    if (json_is_integer(size) && json_integer_value(size) > t->vocabulary &&
        json_integer_value(size) <= MOST_IDS)
        t->vocabulary = json_integer_value(size);
    read_id(t, root, "eos_token_id", &t->end);
    read_id(t, root, "pad_token_id", &t->pad);
    json_decref(root);
}

static iso_status find_file(const char *path, char **file)
{
    struct stat about;
    const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    *file = folder ? iso_file_join(path, "tokenizer.json") : iso_strdup(path);
    if (!*file)
        return iso_no_memory("the name '%s'", path);
    if (folder && stat(*file, &about) != 0 && errno == ENOENT)
        return iso_error(ISO_INVALID,
                         "the folder '%s' has no tokenizer.json; save_pretrained() of a fast tokenizer of "
                         "transformers writes it",
                         path);
    return ISO_OK;
}

iso_status iso_tokenizer_open(const char *path, iso_tokenizer **tokenizer)
{
    ISO_NEED(path, tokenizer);
    json_t *root = NULL;
    char *file = NULL;
    iso_tokenizer *t = NULL;
    iso_status status;
    ISO_TRY(find_file(path, &file));
    ISO_TRY(read_json(file, &root));
    ISO_TRY(make(file, root, &t));
    read_tokens(t, "tokenizer_config.json");
    read_tokens(t, "special_tokens_map.json");
    read_config(t);
    *tokenizer = t;
done:
    json_decref(root);
    iso_free(file);
    return status;
}

void iso_tokenizer_close(iso_tokenizer *t)
{
    if (!t)
        return;
    for (iso_token_scratch *next, *s = t->idle; s; s = next) {
        next = s->next;
        iso_token_scratch_destroy(s);
    }
    iso_token_steps_free(&t->normalizers);
    iso_token_steps_free(&t->splitters);
    iso_token_steps_free(&t->decoders);
    iso_added_free(&t->added);
    iso_token_model_free(&t->model);
    iso_free(t->single.item);
    iso_free(t->pair.item);
    iso_free(t->file);
    pthread_mutex_destroy(&t->lock);
    iso_free(t);
}

iso_token_scratch *iso_tokenizer_scratch_get(const iso_tokenizer *tokenizer)
{
    iso_tokenizer *t = (iso_tokenizer *)(uintptr_t)tokenizer;
    pthread_mutex_lock(&t->lock);
    iso_token_scratch *scratch = t->idle;
    if (scratch)
        t->idle = scratch->next;
    pthread_mutex_unlock(&t->lock);
    return scratch ? scratch : iso_token_scratch_create();
}

void iso_tokenizer_scratch_put(const iso_tokenizer *tokenizer, iso_token_scratch *scratch)
{
    iso_tokenizer *t = (iso_tokenizer *)(uintptr_t)tokenizer;
    pthread_mutex_lock(&t->lock);
    scratch->next = t->idle;
    t->idle = scratch;
    pthread_mutex_unlock(&t->lock);
}

/* ---- encoding ---- */

/* Appends the ids of what is left of a text when its added tokens are taken out: of scratch->text[0], which is
 * normalized. */
static iso_status encode_plain(const iso_tokenizer *t, iso_token_scratch *scratch, iso_part_ends part,
                               iso_bytes *text, iso_ids *ids)
{
    iso_status status = iso_splitters_run(&t->splitters, scratch, part, text);
    for (size_t i = 0; status == ISO_OK && i < scratch->spans[0].count; i++) {
        const iso_text_span *span = &scratch->spans[0].span[i];
        status = iso_token_model_encode(&t->model, scratch, text->data + span->begin, span->end - span->begin,
                                        ids);
    }
    return status;
}

/* A part [begin, end) of `size` bytes that are a part of a text themselves. */
static iso_part_ends part_of(iso_part_ends whole, const iso_added_part *p, size_t size)
{
    return (iso_part_ends){whole.first && p->begin == 0, whole.begins || p->begin > 0,
                           whole.ends || p->end < size};
}

/* Appends the ids of scratch->text[0]. */
static iso_status encode_normalized(const iso_tokenizer *t, iso_token_scratch *scratch, iso_part_ends whole,
                                    iso_ids *ids)
{
    iso_added_parts parts = {0};
    iso_bytes *normal = &scratch->text[0], span = {0};
    iso_status status = ISO_OK;
    if (!t->added.normalized.lengths)
        return encode_plain(t, scratch, whole, normal, ids);
    ISO_TRY(iso_added_find(&t->added, &t->added.normalized, normal->data, normal->size, &parts));
    for (int i = 0; i < parts.count; i++) {
        const iso_added_part *p = &parts.part[i];
        if (p->token >= 0) {
            iso_ids_add(ids, t->added.token[p->token].id);
            continue;
        }
        span.size = 0;
        iso_bytes_add(&span, normal->data + p->begin, p->end - p->begin);
        if (span.failed)
            ISO_TRY(iso_no_memory("a text of %zu bytes", normal->size));
        ISO_TRY(encode_plain(t, scratch, part_of(whole, p, normal->size), &span, ids));
    }
done:
    iso_bytes_free(&span);
    iso_free(parts.part);
    return status;
}

static iso_status encode_text(const iso_tokenizer *t, iso_token_scratch *scratch, iso_part_ends part,
                              const char *text, size_t size, iso_ids *ids)
{
    iso_bytes *normal = &scratch->text[0];
    normal->size = 0;
    iso_bytes_add(normal, text, size);
    if (normal->failed)
        return iso_no_memory("a text of %zu bytes", size);
    scratch->stripped = false;
    iso_status status = iso_normalizers_run(&t->normalizers, scratch, part);
    part.first &= !scratch->stripped; /* what is first is first in the text before it is normalized */
    return status == ISO_OK ? encode_normalized(t, scratch, part, ids) : status;
}

iso_status iso_tokenizer_append(const iso_tokenizer *t, iso_token_scratch *scratch, iso_part_ends whole,
                                const char *text, size_t size, iso_ids *ids)
{
    iso_added_parts parts = {0};
    iso_status status = iso_added_find(&t->added, &t->added.raw, text, size, &parts);
    for (int i = 0; status == ISO_OK && i < parts.count; i++) {
        const iso_added_part *p = &parts.part[i];
        if (p->token >= 0)
            iso_ids_add(ids, t->added.token[p->token].id);
        else
            status =
                encode_text(t, scratch, part_of(whole, p, size), text + p->begin, p->end - p->begin, ids);
    }
    iso_free(parts.part);
    if (status == ISO_OK && ids->failed)
        status = iso_no_memory("the tokens of a text of %zu bytes", size);
    return status;
}

/* Appends the ids of a whole text. */
static iso_status append_text(const iso_tokenizer *t, const char *text, size_t bytes, iso_ids *ids)
{
    const size_t good = iso_utf8_check(text, bytes, NULL);
    if (good < bytes)
        return iso_error(ISO_INVALID, "the text is not UTF-8: byte %zu (counted from 0) is 0x%02x", good,
                         (uint8_t)text[good]);
    iso_token_scratch *scratch = iso_tokenizer_scratch_get(t);
    if (!scratch)
        return iso_no_memory("the tokens of a text of %zu bytes", bytes);
    iso_status status = iso_tokenizer_append(t, scratch, (iso_part_ends){true, true, true}, text, bytes, ids);
    iso_tokenizer_scratch_put(t, scratch);
    return status;
}

/* Appends the ids of a template, and their types unless types is NULL. */
static void fill_template(const iso_template *template, const iso_ids texts[2], iso_ids *ids, iso_ids *types)
{
    for (int i = 0; i < template->count; i++) {
        const iso_template_item *item = &template->item[i];
        const size_t count = item->text >= 0 ? texts[item->text].count : 1;
        for (size_t k = 0; k < count; k++) {
            iso_ids_add(ids, item->text >= 0 ? texts[item->text].id[k] : item->token);
            if (types)
                iso_ids_add(types, item->type);
        }
    }
}

/* Something to free even of no ids. */
static iso_status give(iso_ids *from, int32_t **ids, size_t *count)
{
    if (!from->id && !from->failed)
        iso_ids_grow(from, 1);
    if (from->failed)
        return iso_no_memory("%zu tokens", from->count);
    *ids = from->id;
    *count = from->count;
    from->id = NULL;
    return ISO_OK;
}

iso_status iso_tokenizer_encode(const iso_tokenizer *tokenizer, const char *text, size_t bytes, bool special,
                                int32_t **ids, size_t *count)
{
    ISO_NEED(tokenizer, text, ids, count);
    iso_ids of[2] = {{0}, {0}}, all = {0};
    iso_status status = append_text(tokenizer, text, bytes, &of[0]);
    if (status == ISO_OK && special)
        fill_template(&tokenizer->single, of, &all, NULL);
    if (status == ISO_OK)
        status = give(special ? &all : &of[0], ids, count);
    iso_ids_free(&of[0]);
    iso_ids_free(&all);
    return status;
}

iso_status iso_tokenizer_encode_pair(const iso_tokenizer *tokenizer, const char *first, size_t first_bytes,
                                     const char *second, size_t second_bytes, int32_t **ids, int32_t **types,
                                     size_t *count)
{
    ISO_NEED(tokenizer, first, second, ids, types, count);
    iso_ids of[2] = {{0}, {0}}, all = {0}, kinds = {0};
    int32_t *made = NULL;
    iso_status status;
    ISO_TRY(append_text(tokenizer, first, first_bytes, &of[0]));
    ISO_TRY(append_text(tokenizer, second, second_bytes, &of[1]));
    fill_template(&tokenizer->pair, of, &all, &kinds);
    ISO_TRY(give(&all, &made, count));
    ISO_TRY(give(&kinds, types, count));
    *ids = made;
    made = NULL;
done:
    iso_free(made);
    for (int i = 0; i < 2; i++)
        iso_ids_free(&of[i]);
    iso_ids_free(&all);
    iso_ids_free(&kinds);
    return status;
}

/* ---- ids and their texts ---- */

const char *iso_tokenizer_token(const iso_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    if (ISO_ANY_NULL(tokenizer, bytes))
        return NULL;
    const char *name = iso_vocabulary_name(&tokenizer->added.names, id, bytes);
    return name ? name : iso_vocabulary_name(&tokenizer->model.vocabulary, id, bytes);
}

int32_t iso_tokenizer_id(const iso_tokenizer *tokenizer, const char *token)
{
    if (ISO_ANY_NULL(tokenizer, token))
        return -1;
    const int32_t id = iso_vocabulary_find(&tokenizer->added.names, token, strlen(token));
    return id >= 0 ? id : iso_vocabulary_find(&tokenizer->model.vocabulary, token, strlen(token));
}

int64_t iso_tokenizer_vocabulary(const iso_tokenizer *tokenizer)
{
    return ISO_ANY_NULL(tokenizer) ? 0 : tokenizer->vocabulary;
}

int32_t iso_tokenizer_end(const iso_tokenizer *tokenizer)
{
    return ISO_ANY_NULL(tokenizer) ? -1 : tokenizer->end;
}

int32_t iso_tokenizer_mask(const iso_tokenizer *tokenizer)
{
    if (ISO_ANY_NULL(tokenizer))
        return -1;
    if (tokenizer->mask >= 0)
        return tokenizer->mask;
    const int32_t of_bert = iso_tokenizer_id(tokenizer, "[MASK]");
    return of_bert >= 0 ? of_bert : iso_tokenizer_id(tokenizer, "<mask>");
}

static bool is_special(const iso_tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->added.count; i++)
        if (t->added.token[i].id == id)
            return t->added.token[i].special;
    return false;
}

bool iso_tokenizer_is_special(const iso_tokenizer *tokenizer, int32_t id)
{
    return !ISO_ANY_NULL(tokenizer) && is_special(tokenizer, id);
}

/* The texts of ids, for decoders. */
static iso_status list_tokens(const iso_tokenizer *t, const int32_t *ids, size_t count, bool special,
                              iso_token_list *list)
{
    for (size_t i = 0, size; i < count; i++) {
        const char *name = iso_tokenizer_token(t, ids[i], &size);
        if (!name)
            return iso_error(ISO_INVALID, "there is no token with id %d (element %zu, counted from 0)",
                             ids[i], i);
        if (iso_vocabulary_name(&t->added.names, ids[i], &size)) {
            if (!special && is_special(t, ids[i]))
                continue;
            const char *decoded = iso_vocabulary_name(&t->added.decoded, ids[i], &size);
            name = decoded ? decoded : iso_vocabulary_name(&t->added.names, ids[i], &size);
        }
        iso_token_list_add(list, name, size);
    }
    return ISO_OK;
}

iso_status iso_tokenizer_decode(const iso_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                bool special, char **text, size_t *bytes)
{
    ISO_NEED(tokenizer, ids, text, bytes);
    iso_token_list list = {0};
    iso_bytes made = {0};
    iso_token_scratch *scratch = iso_tokenizer_scratch_get(tokenizer);
    iso_status status = scratch ? ISO_OK : iso_no_memory("the text of %zu tokens", count);
    ISO_TRY(status);
    ISO_TRY(list_tokens(tokenizer, ids, count, special, &list));
    ISO_TRY(iso_decoders_run(&tokenizer->decoders, scratch, &list, &made));
    iso_bytes_add(&made, "", 1);
    if (made.failed)
        ISO_TRY(iso_no_memory("the text of %zu tokens", count));
    *text = made.data;
    *bytes = made.size - 1;
    made.data = NULL;
done:
    if (scratch)
        iso_tokenizer_scratch_put(tokenizer, scratch);
    iso_token_list_free(&list);
    iso_bytes_free(&made);
    return status;
}
