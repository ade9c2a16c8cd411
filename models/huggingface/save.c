/* Writes a model as a folder of Hugging Face. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/weights.h"

enum { MOST_SMALL = 64 << 20 /* bytes of a file of a tokenizer, and of a config.json */ };

typedef struct saving {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    iso_dtype dtype;
    char *folder, *weights; /* folder: NULL: a file of weights alone */
    int count;
    iso_saved_tensor *tensors; /* their names are the list's */
    iso_safetensors *file;
} saving;

/* ---- the list of tensors ---- */

/* The number of a tensor with this name, which begins with '/'; -1: none. */
static int find(const saving *s, const char *name)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (strcmp(s->tensors[i].h5_path, name) == 0)
            return i;
    return -1;
}

/* The tensor's name of a row after a '/'. */
static const char *name_of(const iso_hf_tensor *row, int64_t block, char text[ISO_HF_NAME + 1])
{
    text[0] = '/';
    iso_hf_name(row->theirs, block, text + 1);
    return text;
}

static iso_status add_tensor(saving *s, const iso_variable *variable)
{
    char name[ISO_HF_NAME + 1];
    int64_t block;
    const char *path = iso_variable_path(variable);
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, path, &block);
    if (!row)
        return iso_error(ISO_INVALID, "a %s of Hugging Face has no '%s'", s->architecture->type, path);
    if (find(s, name_of(row, block, name)) >= 0)
        return ISO_OK;
    s->dtype = iso_variable_dtype(variable);
    iso_saved_tensor tensor = {.h5_path = iso_strdup(name),
                               .dtype = s->dtype,
                               .shape = iso_hf_shape(row, iso_variable_shape(variable))};
    return tensor.h5_path ? iso_list_add(s->tensors, s->count, tensor, "tensors") : iso_no_memory("a name");
}

static iso_status save_prepare(iso_model *model, const char *path, saving *s)
{
    iso_graph *graph = iso_model_graph(model);
    iso_status status;
    ISO_TRY(iso_hf_architecture_of(model, path, &s->architecture, &s->settings));
    bool alone = iso_file_name_ends(path, ".safetensors");
    s->folder = iso_strdup(path);
    s->weights = alone ? iso_strdup(path) : iso_file_join(path, ISO_HF_WEIGHTS);
    if (!s->folder || !s->weights)
        ISO_TRY(iso_no_memory("the name of '%s'", path));
    if (alone) {
        iso_free(s->folder);
        s->folder = NULL;
    }
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        if (!iso_path_below_optimizer(iso_variable_path(iso_graph_variable(graph, i))))
            ISO_TRY(add_tensor(s, iso_graph_variable(graph, i)));
done:
    return status;
}

static void save_free(saving *s)
{
    for (int i = 0; i < s->count; i++)
        iso_free((void *)(uintptr_t)s->tensors[i].h5_path);
    iso_free(s->tensors);
    iso_free(s->folder);
    iso_free(s->weights);
}

iso_status iso_pretrained_save_check(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, path);
    saving s = {0};
    iso_status status = save_prepare(model, path, &s);
    save_free(&s);
    return status;
}

/* ---- weights ---- */

/* What write_range needs for the shard that is being written. */
typedef struct target {
    iso_safetensors *file;
    int tensor;
} target;

static iso_status write_range(void *user, int64_t begin, int64_t count, const void *data)
{
    const target *t = user;
    return iso_safetensors_write(t->file, t->tensor, begin, count, data);
}

static iso_status write_part(void *user, const iso_state_shard *shard)
{
    const saving *s = user;
    char name[ISO_HF_NAME + 1];
    int64_t block;
    if (!shard->writer)
        return ISO_OK;
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, shard->path, &block);
    target to = {s->file, find(s, name_of(row, block, name))};
    return iso_hf_write_shard(row, shard, write_range, &to);
}

static iso_status save_weights(iso_model *model, saving *s)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    iso_status status = iso_safetensors_create(ctx, s->weights, s->tensors, s->count, &s->file);
    if (status != ISO_OK)
        return status;
    status = iso_model_visit_weights(model, "save_weights", ISO_WEIGHTS_READ, write_part, s);
    return iso_safetensors_finish(s->file, status);
}

/* ---- the other files ---- */

/* The object of the source's config.json; a new one if there is no source. */
static iso_status begin_config(const char *source, json_t **config)
{
    char *path = source ? iso_file_join(source, ISO_HF_CONFIG) : NULL, *text = NULL;
    size_t bytes = 0;
    iso_status status = source && !path ? iso_no_memory("the name of '%s'", source) : ISO_OK;
    *config = NULL;
    if (path)
        status = iso_hf_read_text(path, MOST_SMALL, &text, &bytes);
    if (text)
        status = iso_json_parse(path, text, bytes, config);
    if (status == ISO_OK && !json_is_object(*config)) {
        json_decref(*config); /* else transformers takes special tokens of its own */
        *config = json_pack("{s:n, s:n}", "bos_token_id", "eos_token_id");
    }
    iso_free(text);
    iso_free(path);
    return status;
}

/* The architecture of the source, if it has the network too. */
static const iso_hf_architecture *same_type(const saving *s, const json_t *config)
{
    const iso_hf_architecture *a = iso_hf_architecture_find(config);
    bool fits = a && strcmp(a->builtin, s->architecture->builtin) == 0 && (!a->has || a->has(&s->settings));
    return fits ? a : s->architecture;
}

static iso_status write_config(iso_model *model, const saving *s, const char *source)
{
    json_t *config = NULL;
    iso_text text = {0};
    char *path = iso_file_join(s->folder, ISO_HF_CONFIG);
    iso_status status = path ? begin_config(source, &config) : iso_no_memory("the name of '%s'", s->folder);
    if (status == ISO_OK) {
        const iso_shape *logits = iso_tensor_shape(iso_model_output(model));
        iso_hf_config_write(same_type(s, config), &s->settings, s->dtype, config);
        json_object_set_new(config, "vocab_size", json_integer((json_int_t)logits->dim[logits->rank - 1]));
        iso_json_add(&text, config, JSON_INDENT(2) | JSON_SORT_KEYS);
        iso_text_add(&text, "\n");
        status = text.failed ? iso_no_memory("the text of '%s'", path)
                             : iso_file_replace(path, text.data, text.length);
    }
    iso_text_free(&text);
    iso_free(path);
    return status;
}

/* A file that the source lacks is not copied. */
static iso_status copy(const char *source, const char *folder, const char *name)
{
    struct stat of_from, of_to;
    char *from = iso_file_join(source, name), *to = iso_file_join(folder, name), *text = NULL;
    size_t bytes = 0;
    iso_status status = from && to ? ISO_OK : iso_no_memory("the name of '%s'", name);
    bool there = status == ISO_OK && stat(from, &of_from) == 0;
    if (there && stat(to, &of_to) == 0 && iso_file_is_same(&of_from, &of_to))
        there = false;
    if (there)
        status = iso_hf_read_text(from, MOST_SMALL, &text, &bytes);
    if (text)
        status = iso_file_replace(to, text, bytes);
    iso_free(text);
    iso_free(from);
    iso_free(to);
    return status;
}

/* config.json is the last: a folder without it is no model. */
static iso_status write_others(iso_model *model, const saving *s, const char *source)
{
    static const char *const names[] = {
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
        "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "generation_config.json"};
    iso_status status = ISO_OK;
    for (size_t i = 0; source && i < sizeof names / sizeof *names; i++)
        ISO_TRY(copy(source, s->folder, names[i]));
    ISO_TRY(write_config(model, s, source));
    ISO_TRY(iso_hf_remove_index(s->folder));
done:
    return status;
}

iso_status iso_pretrained_save_with(iso_model *model, const iso_pretrained_save_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_pretrained_save_options options = {0};
    saving s = {0};
    iso_graph *graph = iso_model_graph(model);
    iso_context *ctx = iso_graph_context(graph);
    bool chief = iso_is_chief(ctx);
    iso_options_copy(&options, sizeof options, given, size);
    ISO_NEED_AGREED_AS(ctx, "path", options.path);
    iso_status status = iso_graph_take_error(graph);
    ISO_TRY(iso_agree(ctx, status == ISO_OK ? save_prepare(model, options.path, &s) : status));
    ISO_TRY(iso_agree(ctx, chief && s.folder ? iso_folder_make(s.folder) : ISO_OK));
    ISO_TRY(save_weights(model, &s));
    ISO_TRY(iso_agree(ctx, chief && s.folder ? write_others(model, &s, options.source) : ISO_OK));
done:
    save_free(&s);
    return status;
}
