/* Writes the adapters of a model as a folder of PEFT. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "models/huggingface/adapter_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/weights.h"

typedef struct saving {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    const char *folder, *base;
    int64_t rank;
    double scale; /* alpha / rank */
    int parts;    /* kernels of ours in each of their matrices; 0: one */
    iso_hf_list list;
    json_t *modules, *whole; /* names: those that are adapted, and those that are there as a whole */
    iso_safetensors *file;
} saving;

/* Adds the module of a matrix A to "target_modules": all of it, with the number of its block. */
static void add_module(saving *s, const iso_adapter_tensor *m)
{
    char module[sizeof m->name];
    snprintf(module, sizeof module, "%s", m->name + strlen(ISO_ADAPTER_PREFIX));
    if (iso_adapter_cut(module, ".lora_A.weight"))
        json_array_append_new(s->modules, json_string(module));
}

/* One matrix there may be several here, each with an A of its own: their A has all of these, and their B a block of
 * each, with zeros beside it. Their rank is that of all together. */
static bool find_part(const saving *s, const char *path, iso_adapter_tensor *m)
{
    char kernel[ISO_MAX_PATH];
    bool is_b = false;
    int64_t block;
    if (!iso_adapter_find_matrix(s->architecture, path, m))
        return false;
    iso_adapter_kernel(path, kernel, &is_b);
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, kernel, &block);
    if (is_b) {
        m->row.input_part = row->part;
        m->row.input_parts = row->parts;
    } else {
        m->row.part = row->part;
        m->row.parts = row->parts;
        m->row.order = ISO_HF_EQUAL;
    }
    return true;
}

/* Ranks that differ between matrices would need rank_pattern. */
static iso_status check_parts(saving *s, const iso_adapter_tensor *m, const char *path)
{
    const int parts = m->row.parts > m->row.input_parts ? m->row.parts : m->row.input_parts;
    if (s->list.count > 0 && parts != s->parts)
        return iso_error(
            ISO_INVALID,
            "'%s': '%s' and the others are kernels of matrices of %s that are made of different numbers "
            "of kernels: adapters of one rank cannot hold them; save the merged model",
            s->folder, path, s->architecture->type);
    s->parts = parts;
    return ISO_OK;
}

static iso_status add_matrix(saving *s, const iso_variable *variable)
{
    iso_adapter_tensor m;
    const char *path = iso_variable_path(variable);
    if (!find_part(s, path, &m))
        return iso_adapter_none(s->architecture, path);
    iso_status status = check_parts(s, &m, path);
    if (status != ISO_OK || iso_hf_list_find(&s->list, m.name) >= 0)
        return status;
    add_module(s, &m);
    return iso_hf_list_tensor(&s->list, &m.row, &s->settings, variable, m.name);
}

/* One rank and one alpha for all. */
static iso_status take_numbers(saving *s, const iso_adapter *adapter)
{
    if (s->rank && (adapter->rank != s->rank || adapter->scale != s->scale))
        return iso_error(ISO_INVALID, "'%s': the adapters have different ranks or alphas", s->folder);
    s->rank = adapter->rank;
    s->scale = adapter->scale;
    return ISO_OK;
}

static bool lists(const json_t *modules, const char *name)
{
    for (size_t i = 0; i < json_array_size(modules); i++)
        if (strcmp(json_string_value(json_array_get(modules, i)), name) == 0)
            return true;
    return false;
}

/* Adds the module of a variable that is trained and no adapter: the layer, or the whole classifier, which PEFT takes
 * as one. A layer that is adapted cannot be there as a whole too, and a table may stand in two places. */
static iso_status add_whole_module(saving *s, const iso_variable *variable)
{
    static const char classifier[] = "classifier.";
    iso_adapter_tensor m;
    const char *path = iso_variable_path(variable);
    const bool found =
        iso_adapter_find_whole(s->architecture, path, &m) && strcmp(iso_file_name(path), "embeddings") != 0;
    char *module = found ? m.name + strlen(ISO_ADAPTER_PREFIX) : NULL,
         *end = found ? strrchr(module, '.') : NULL;
    if (end)
        *end = '\0';
    if (!end || lists(s->modules, module))
        return iso_error(
            ISO_INVALID,
            "'%s': '%s' is trained too, which an adapter of PEFT cannot hold: save the merged model",
            s->folder, path);
    if (strncmp(module, classifier, strlen(classifier)) == 0)
        module[strlen(classifier) - 1] = '\0';
    if (!lists(s->whole, module))
        json_array_append_new(s->whole, json_string(module));
    return ISO_OK;
}

/* Whether a tensor is below a module that is saved: PEFT takes all whose name ends with that of "modules_to_save", so
 * with "classifier" DistilBERT's "pre_classifier" too. */
static bool is_below_whole(const saving *s, const iso_adapter_tensor *m)
{
    char module[sizeof m->name];
    snprintf(module, sizeof module, "%s", m->name + strlen(ISO_ADAPTER_PREFIX));
    for (char *end = strrchr(module, '.'); end; end = strrchr(module, '.')) {
        *end = '\0';
        for (size_t i = 0; i < json_array_size(s->whole); i++) {
            const char *name = json_string_value(json_array_get(s->whole, i));
            if (strlen(name) <= strlen(module) && strcmp(module + strlen(module) - strlen(name), name) == 0)
                return true;
        }
    }
    return false;
}

static iso_status add_whole(saving *s, const iso_variable *variable)
{
    iso_adapter_tensor m;
    return iso_adapter_find_whole(s->architecture, iso_variable_path(variable), &m) && is_below_whole(s, &m)
               ? iso_hf_list_tensor(&s->list, &m.row, &s->settings, variable, m.name)
               : ISO_OK;
}

static iso_status list_tensors(iso_graph *graph, saving *s)
{
    const int count = iso_graph_variable_count(graph);
    iso_status status = ISO_OK;
    for (int i = 0; i < count; i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (iso_variable_is_adapter(variable))
            ISO_TRY(add_matrix(s, variable));
        if (iso_variable_adapter(variable))
            ISO_TRY(take_numbers(s, iso_variable_adapter(variable)));
    }
    for (int i = 0; i < count; i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (iso_hf_is_theirs(variable) && iso_variable_trainable(variable))
            ISO_TRY(add_whole_module(s, variable));
    }
    /* PEFT has the classifier of such a model as a whole in any case. */
    if (s->architecture->labels && !lists(s->whole, "classifier"))
        json_array_append_new(s->whole, json_string("classifier"));
    for (int i = 0; i < count; i++)
        if (iso_hf_is_theirs(iso_graph_variable(graph, i)))
            ISO_TRY(add_whole(s, iso_graph_variable(graph, i)));
done:
    return status;
}

static iso_status write_part(void *user, const iso_state_shard *shard)
{
    const saving *s = user;
    iso_adapter_tensor m;
    const bool found = iso_adapter_is_path(shard->path)
                           ? find_part(s, shard->path, &m)
                           : iso_adapter_find_whole(s->architecture, shard->path, &m);
    const int tensor = found ? iso_hf_list_find(&s->list, m.name) : -1;
    if (!shard->writer || shard->count == 0 || tensor < 0)
        return ISO_OK;
    return iso_hf_write_shard(&m.row, &s->settings, shard, s->file, tensor);
}

static iso_status write_config(const saving *s)
{
    const int64_t rank = s->rank * (s->parts ? s->parts : 1);
    json_t *config =
        json_pack("{s:s, s:s?, s:s?, s:I, s:f, s:O, s:O?, s:b, s:s, s:f, s:b, s:b, s:b, s:{}, s:{}}",
                  "peft_type", "LORA", "task_type", s->architecture->task, "base_model_name_or_path", s->base,
                  "r", (json_int_t)rank, "lora_alpha", s->scale * (double)rank, "target_modules", s->modules,
                  "modules_to_save", json_array_size(s->whole) > 0 ? s->whole : NULL, "fan_in_fan_out",
                  strcmp(s->architecture->type, "gpt2") == 0, "bias", "none", "lora_dropout", 0.0,
                  "use_rslora", 0, "use_dora", 0, "inference_mode", 1, "rank_pattern", "alpha_pattern");
    return iso_hf_write_json(s->folder, ISO_ADAPTER_CONFIG, config);
}

static iso_status write_weights(iso_model *model, saving *s)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    char *path = iso_file_join(s->folder, ISO_ADAPTER_WEIGHTS);
    iso_status status = iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", s->folder));
    if (status == ISO_OK)
        status = iso_safetensors_create(ctx, path, s->list.tensors, s->list.count,
                                        iso_storage_type_of(s->list.tensors[0].dtype), &s->file);
    if (status == ISO_OK)
        status = iso_model_visit_weights(model, "save_adapter", ISO_WEIGHTS_READ, write_part, s);
    if (s->file)
        status = iso_safetensors_finish(s->file, status);
    iso_free(path);
    return status;
}

/* Without an older adapter's numbers, which a run that is killed would leave beside new matrices. */
static iso_status begin_folder(const char *folder)
{
    iso_status status = iso_folder_make(folder);
    char *path = status == ISO_OK ? iso_file_join(folder, ISO_ADAPTER_CONFIG) : NULL;
    if (status == ISO_OK && !path)
        status = iso_no_memory("the name of '%s'", folder);
    if (status == ISO_OK && unlink(path) != 0 && errno != ENOENT)
        status = iso_error(ISO_IO, "cannot remove '%s': %s", path, strerror(errno));
    iso_free(path);
    return status;
}

/* The architecture that the base names, if it has the network: some differ in the names of their tensors alone. */
static iso_status choose_of_base(saving *s)
{
    char *path = iso_file_join(s->base, ISO_HF_CONFIG);
    json_t *config = NULL;
    iso_status status =
        path ? iso_hf_read_json(path, ISO_ADAPTER_MOST_CONFIG, &config) : iso_no_memory("a name");
    const iso_hf_architecture *a =
        status == ISO_OK ? iso_hf_architecture_like(config, s->architecture, &s->settings) : NULL;
    if (a)
        s->architecture = a;
    json_decref(config);
    iso_free(path);
    return status;
}

static iso_status save_prepare(iso_model *model, const char *folder, saving *s)
{
    iso_status status = iso_graph_take_error(iso_model_graph(model));
    s->folder = folder;
    s->modules = json_array();
    s->whole = json_array();
    if (status == ISO_OK && iso_model_adapter_count(model) == 0)
        status = iso_error(ISO_INVALID, "'%s': the model has no adapters", folder);
    if (status == ISO_OK)
        status = iso_hf_architecture_of(model, folder, &s->architecture, &s->settings);
    if (status == ISO_OK && s->base)
        status = choose_of_base(s);
    return status == ISO_OK ? list_tensors(iso_model_graph(model), s) : status;
}

static void save_free(saving *s)
{
    iso_hf_list_free(&s->list);
    json_decref(s->modules);
    json_decref(s->whole);
}

iso_status iso_pretrained_save_adapter_check(iso_model *model, const char *folder, const char *base)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, folder);
    saving s = {.base = base};
    iso_status status = save_prepare(model, folder, &s);
    save_free(&s);
    return status;
}

iso_status iso_pretrained_save_adapter(iso_model *model, const char *folder, const char *base)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    saving s = {.base = base};
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    const bool chief = iso_is_chief(ctx);
    iso_status status;
    ISO_NEED_AGREED(ctx, folder);
    ISO_TRY(iso_agree(ctx, save_prepare(model, folder, &s)));
    ISO_TRY(iso_agree(ctx, chief ? begin_folder(folder) : ISO_OK));
    ISO_TRY(write_weights(model, &s));
    ISO_TRY(iso_agree(ctx, chief ? write_config(&s) : ISO_OK));
done:
    save_free(&s);
    return status;
}
