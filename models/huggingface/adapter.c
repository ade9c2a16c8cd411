/* Adapters in the form of PEFT: a folder with adapter_config.json and adapter_model.safetensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/weights.h"

#define CONFIG "adapter_config.json"
#define WEIGHTS "adapter_model.safetensors"
#define PREFIX "base_model.model."

enum { MOST_CONFIG = 4 << 20 };

/* ---- names ---- */

/* The matrix of their files that a variable of an adapter is: A is [rank, in], B [out, rank]. */
typedef struct matrix {
    iso_hf_tensor row;
    char name[ISO_HF_NAME + 64];
} matrix;

/* Removes an ending; false: the text does not have it. */
static bool cut(char *text, const char *end)
{
    const size_t length = strlen(text), cut = strlen(end);
    const bool has = length > cut && strcmp(text + length - cut, end) == 0;
    if (has)
        text[length - cut] = '\0';
    return has;
}

/* "block_0/up/lora_kernel_a" -> "block_0/up/kernel" */
static bool kernel_of(const char *path, char kernel[ISO_MAX_PATH], bool *is_b)
{
    const char *name = iso_file_name(path);
    if (strncmp(name, "lora_", 5) != 0)
        return false;
    snprintf(kernel, ISO_MAX_PATH, "%.*s%s", (int)(name - path), path, name + 5);
    *is_b = cut(kernel, "_b");
    return *is_b || cut(kernel, "_a");
}

/* False: their model has no such product, or it is of another kind. */
static bool find_matrix(const iso_hf_architecture *a, const char *path, matrix *m)
{
    char kernel[ISO_MAX_PATH], module[ISO_HF_NAME];
    int64_t block;
    bool is_b = false;
    const iso_hf_tensor *row = kernel_of(path, kernel, &is_b) ? iso_hf_tensor_of(a, kernel, &block) : NULL;
    if (!row || row->inputs == 0 || row->experts || row->form != ISO_HF_PLAIN ||
        iso_file_name_ends(kernel, "/embeddings"))
        return false;
    m->row = *row;
    m->row.transposed = true;
    if (is_b)
        m->row.inputs = 1;
    else
        m->row.parts = 0;
    iso_hf_name(row, block, 0, module);
    cut(module, ".weight");
    snprintf(m->name, sizeof m->name, PREFIX "%s.lora_%c.weight", module, is_b ? 'B' : 'A');
    return true;
}

/* ---- reading what an adapter is ---- */

static iso_status check_fixed(const char *file, const json_t *config)
{
    static const struct {
        const char *key, *only;
    } keys[] = {{"peft_type", "\"LORA\""},
                {"bias", "\"none\""},
                {"use_dora", "false"},
                {"lora_bias", "false"},
                {"rank_pattern", "{}"},
                {"alpha_pattern", "{}"},
                {"modules_to_save", "null"},
                {"layer_replication", "null"},
                {"target_parameters", "null"},
                {"use_qalora", "false"},
                {"trainable_token_indices", "null"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char supported[64];
        const json_t *value = json_object_get(config, keys[i].key);
        json_t *only = json_loads(keys[i].only, JSON_DECODE_ANY, NULL);
        const bool same = !value || json_is_null(value) || json_equal(value, only);
        json_decref(only);
        snprintf(supported, sizeof supported, "only %s is supported", keys[i].only);
        if (!same)
            return iso_hf_refuse(file, keys[i].key, value, supported);
    }
    return ISO_OK;
}

static iso_status parse(const char *file, const json_t *config, iso_pretrained_adapter *adapter)
{
    double alpha = 0, dropout = 0;
    iso_status status = ISO_OK;
    ISO_TRY(check_fixed(file, config));
    ISO_TRY(iso_hf_count(file, config, "r", 8, &adapter->rank));
    ISO_TRY(iso_hf_positive(file, config, "lora_alpha", 8, &alpha));
    adapter->alpha =
        json_is_true(json_object_get(config, "use_rslora")) ? alpha * sqrt((double)adapter->rank) : alpha;
    if (!iso_hf_number(config, "lora_dropout", 0, &dropout) || dropout != 0)
        iso_warn("%s: lora_dropout is not used", file);
done:
    return status;
}

static iso_status read_config(const char *folder, iso_pretrained_adapter *adapter)
{
    char *path = iso_file_join(folder, CONFIG), *text = NULL;
    size_t bytes = 0;
    json_t *config = NULL;
    iso_status status = path ? iso_hf_read_text(path, MOST_CONFIG, &text, &bytes) : iso_no_memory("a name");
    if (status == ISO_OK)
        status = iso_json_parse(path, text, bytes, &config);
    if (status == ISO_OK)
        status = parse(path, config, adapter);
    json_decref(config);
    iso_free(text);
    iso_free(path);
    return status;
}

/* Adds the paths of the layers whose adapter has a matrix of this name; false: none has. */
static bool add_layers(const iso_hf_architecture *a, const char *name, iso_text *target)
{
    char theirs[ISO_HF_NAME + 64], ours[ISO_HF_NAME];
    bool found = false;
    snprintf(theirs, sizeof theirs, "%s", name);
    if (strncmp(theirs, PREFIX, strlen(PREFIX)) != 0 || !cut(theirs, ".lora_A.weight"))
        return strlen(theirs) > strlen(PREFIX) && cut(theirs, ".lora_B.weight");
    snprintf(theirs + strlen(theirs), sizeof theirs - strlen(theirs), ".weight");
    for (const iso_hf_tensor *row = a->tensors; row->ours; row++)
        if (iso_hf_name_fits(row, theirs + strlen(PREFIX), ours) && cut(ours, "/kernel")) {
            iso_text_add(target, "%s%s", target->length ? "|" : "", ours);
            found = true;
        }
    return found;
}

/* The layers by the names of the matrices, in the first architecture that has all. */
static iso_status find_target(const iso_saved_file *file, iso_text *target)
{
    const int count = iso_saved_file_tensors(file);
    const char *unknown = "";
    for (int i = 0; iso_hf_architectures[i] && count > 0; i++) {
        int tensor = 0;
        iso_text_free(target);
        while (tensor < count &&
               add_layers(iso_hf_architectures[i], iso_saved_file_tensor(file, tensor)->h5_path + 1, target))
            tensor++;
        if (tensor == count)
            return target->failed ? iso_no_memory("the layers of an adapter") : ISO_OK;
        unknown = iso_saved_file_tensor(file, tensor)->h5_path + 1;
    }
    return iso_error(ISO_INVALID, "'%s': '%s' is no matrix of an adapter of a product that is supported",
                     iso_saved_file_path(file), unknown);
}

static iso_status open_weights(iso_context *ctx, const char *folder, iso_hf_files *files)
{
    char *path = iso_file_join(folder, WEIGHTS);
    iso_status status = iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", folder));
    if (status == ISO_OK)
        status = iso_hf_files_open(ctx, path, files);
    iso_free(path);
    return status;
}

iso_status iso_pretrained_read_adapter(iso_context *ctx, const char *folder, iso_pretrained_adapter *adapter)
{
    ISO_DEFAULT_MODES();
    iso_pretrained_adapter read = {.rank = 0};
    iso_hf_files files = {0};
    iso_text target = {0};
    iso_status status;
    ISO_NEED(ctx);
    ISO_NEED_AGREED(ctx, folder, adapter);
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? read_config(folder, &read) : ISO_OK));
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &read, sizeof read)));
    ISO_TRY(open_weights(ctx, folder, &files));
    status = find_target(files.files[0], &target);
    read.target = status == ISO_OK ? iso_strdup(iso_text_get(&target)) : NULL;
    if (status == ISO_OK && !read.target)
        status = iso_no_memory("the layers of an adapter");
    ISO_TRY(iso_agree(ctx, status));
    *adapter = read;
done:
    iso_text_free(&target);
    iso_hf_files_close(&files);
    return status;
}

/* ---- loading ---- */

typedef struct loading {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    iso_saved_file *file;
} loading;

static int find_tensor(const iso_saved_file *file, const char *name)
{
    for (int i = 0; i < iso_saved_file_tensors(file); i++)
        if (strcmp(iso_saved_file_tensor(file, i)->h5_path + 1, name) == 0)
            return i;
    return -1;
}

static iso_status no_matrix(const loading *l, const char *path)
{
    return iso_error(ISO_INVALID, "a %s of Hugging Face has no product for '%s' that PEFT adapts",
                     l->architecture->type, path);
}

static iso_status check_variable(const loading *l, const iso_variable *variable)
{
    matrix m;
    char have[160], want[160];
    const char *path = iso_variable_path(variable), *file = iso_saved_file_path(l->file);
    if (!find_matrix(l->architecture, path, &m))
        return no_matrix(l, path);
    const int tensor = find_tensor(l->file, m.name);
    if (tensor < 0)
        return iso_error(ISO_INVALID, "'%s' has no '%s', where '%s' of the model would be", file, m.name,
                         path);
    const iso_shape shape = iso_hf_shape(&m.row, &l->settings, iso_variable_shape(variable)),
                    *theirs = &iso_saved_file_tensor(l->file, tensor)->shape;
    if (iso_shape_equal(theirs, &shape))
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s': '%s' has the shape %s; '%s' of the model needs %s", file, m.name,
                     iso_shape_text(theirs, have, sizeof have), path,
                     iso_shape_text(&shape, want, sizeof want));
}

/* Whether the file has the matrices of all adapters under an architecture's names. */
static bool has_names(const loading *l, const iso_hf_architecture *a, iso_graph *graph)
{
    bool has = true;
    for (int i = 0; i < iso_graph_variable_count(graph) && has; i++) {
        matrix m;
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (iso_variable_is_adapter(variable))
            has = find_matrix(a, iso_variable_path(variable), &m) && find_tensor(l->file, m.name) >= 0;
    }
    return has;
}

/* Architectures that have the same network differ in the names of their tensors. */
static void choose_by_names(loading *l, iso_graph *graph)
{
    const iso_hf_architecture *first = l->architecture;
    for (int i = 0; iso_hf_architectures[i]; i++)
        if (iso_hf_architecture_fits(iso_hf_architectures[i], first, &l->settings) &&
            has_names(l, iso_hf_architectures[i], graph)) {
            l->architecture = iso_hf_architectures[i];
            return;
        }
}

/* Each matrix of the file must be one of the model's. */
static iso_status check_known(const loading *l, iso_graph *graph)
{
    for (int t = 0; t < iso_saved_file_tensors(l->file); t++) {
        const char *name = iso_saved_file_tensor(l->file, t)->h5_path + 1;
        bool known = false;
        for (int i = 0; i < iso_graph_variable_count(graph) && !known; i++) {
            matrix m;
            const iso_variable *variable = iso_graph_variable(graph, i);
            known = iso_variable_is_adapter(variable) &&
                    find_matrix(l->architecture, iso_variable_path(variable), &m) &&
                    strcmp(m.name, name) == 0;
        }
        if (!known)
            return iso_error(ISO_INVALID, "'%s' holds '%s', which the model does not have",
                             iso_saved_file_path(l->file), name);
    }
    return ISO_OK;
}

static iso_status check(const loading *l, iso_graph *graph)
{
    iso_status status = ISO_OK;
    int count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (!iso_variable_is_adapter(variable))
            continue;
        ISO_TRY(check_variable(l, variable));
        count++;
    }
    if (count == 0)
        status = iso_error(ISO_INVALID, "'%s': the model has no adapters", iso_saved_file_path(l->file));
    else
        status = check_known(l, graph);
done:
    return status;
}

static iso_status read_part(void *user, const iso_state_shard *shard)
{
    const loading *l = user;
    matrix m;
    if (!find_matrix(l->architecture, shard->path, &m) || shard->count == 0)
        return ISO_OK;
    return iso_hf_read_shard(&m.row, &l->settings, l->file, find_tensor(l->file, m.name), shard);
}

iso_status iso_pretrained_load_adapter(iso_model *model, const char *folder)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    loading l = {.file = NULL};
    iso_hf_files files = {0};
    iso_graph *graph = iso_model_graph(model);
    iso_context *ctx = iso_graph_context(graph);
    iso_status status;
    ISO_NEED_AGREED(ctx, folder);
    ISO_TRY(iso_agree(ctx, iso_graph_take_error(graph)));
    ISO_TRY(iso_agree(ctx, iso_hf_architecture_of(model, folder, &l.architecture, &l.settings)));
    ISO_TRY(open_weights(ctx, folder, &files));
    l.file = files.files[0];
    choose_by_names(&l, graph);
    ISO_TRY(iso_agree(ctx, check(&l, graph)));
    ISO_TRY(iso_model_visit_weights(model, "load_adapter", ISO_WEIGHTS_REPLACE, read_part, &l));
done:
    iso_hf_files_close(&files);
    return status;
}

/* ---- saving ---- */

typedef struct saving {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    const char *folder, *base;
    int64_t rank;
    double scale; /* alpha / rank */
    int parts;    /* kernels of ours in each of their matrices; 0: one */
    int count;
    iso_saved_tensor *tensors; /* their names are the list's */
    json_t *modules;
    iso_safetensors *file;
} saving;

/* Adds the module of a matrix A to "target_modules": all of it, with the number of its block. */
static void add_module(saving *s, const matrix *m)
{
    char module[sizeof m->name];
    snprintf(module, sizeof module, "%s", m->name + strlen(PREFIX));
    if (cut(module, ".lora_A.weight"))
        json_array_append_new(s->modules, json_string(module));
}

/* One matrix there may be several here, each with an A of its own: their A has all of these, and their B a block of
 * each, with zeros beside it. Their rank is that of all together. */
static bool find_part(const saving *s, const char *path, matrix *m)
{
    char kernel[ISO_MAX_PATH];
    bool is_b = false;
    int64_t block;
    if (!find_matrix(s->architecture, path, m))
        return false;
    kernel_of(path, kernel, &is_b);
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, kernel, &block);
    if (is_b) {
        m->row.input_part = row->part;
        m->row.input_parts = row->parts;
    } else {
        m->row.part = row->part;
        m->row.parts = row->parts;
        m->row.heads = false;
    }
    return true;
}

/* Ranks that differ between matrices would need rank_pattern. */
static iso_status check_parts(saving *s, const matrix *m, const char *path)
{
    const int parts = m->row.parts > m->row.input_parts ? m->row.parts : m->row.input_parts;
    if (s->count > 0 && parts != s->parts)
        return iso_error(
            ISO_INVALID,
            "'%s': '%s' and the others are kernels of matrices of %s that are made of different numbers "
            "of kernels: adapters of one rank cannot hold them; save the merged model",
            s->folder, path, s->architecture->type);
    s->parts = parts;
    return ISO_OK;
}

static int find_listed(const saving *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].h5_path + 1, name) == 0)
            return i;
    return -1;
}

static iso_status add_tensor(saving *s, const iso_variable *variable)
{
    matrix m;
    char name[sizeof m.name + 1];
    const char *path = iso_variable_path(variable);
    const loading l = {.architecture = s->architecture};
    if (!find_part(s, path, &m))
        return no_matrix(&l, path);
    iso_status status = check_parts(s, &m, path);
    if (status != ISO_OK || find_listed(s, m.name) >= 0)
        return status;
    add_module(s, &m);
    snprintf(name, sizeof name, "/%s", m.name);
    iso_saved_tensor tensor = {.h5_path = iso_strdup(name),
                               .dtype = iso_variable_dtype(variable),
                               .shape = iso_hf_shape(&m.row, &s->settings, iso_variable_shape(variable))};
    return tensor.h5_path ? iso_list_add(s->tensors, s->count, tensor, "tensors") : iso_no_memory("a name");
}

static iso_status list_tensors(iso_graph *graph, saving *s)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        const iso_adapter *adapter = iso_variable_adapter(variable);
        if (iso_variable_is_adapter(variable))
            ISO_TRY(add_tensor(s, variable));
        else if (iso_hf_is_theirs(variable) && iso_variable_trainable(variable))
            ISO_TRY(iso_error(ISO_INVALID,
                              "'%s': '%s' is trained too, and is no adapter: save the merged model",
                              s->folder, iso_variable_path(variable)));
        if (adapter && s->rank && (adapter->rank != s->rank || adapter->scale != s->scale))
            ISO_TRY(iso_error(ISO_INVALID, "'%s': the adapters have different ranks or alphas", s->folder));
        if (adapter) {
            s->rank = adapter->rank;
            s->scale = adapter->scale;
        }
    }
done:
    return status;
}

/* What write_range needs for the shard that is being written. */
typedef struct written {
    iso_safetensors *file;
    int tensor;
} written;

static iso_status write_range(void *user, int64_t begin, int64_t count, const void *data)
{
    const written *w = user;
    return iso_safetensors_write(w->file, w->tensor, begin, count, data);
}

static iso_status write_part(void *user, const iso_state_shard *shard)
{
    const saving *s = user;
    matrix m;
    if (!shard->writer || shard->count == 0 || !find_part(s, shard->path, &m))
        return ISO_OK;
    written to = {s->file, find_listed(s, m.name)};
    return iso_hf_write_shard(&m.row, &s->settings, shard, write_range, &to);
}

static iso_status write_config(const saving *s)
{
    iso_text text = {0};
    char *path = iso_file_join(s->folder, CONFIG);
    iso_status status = path ? ISO_OK : iso_no_memory("the name of '%s'", s->folder);
    const int64_t rank = s->rank * (s->parts ? s->parts : 1);
    json_t *config = json_pack(
        "{s:s, s:s, s:s?, s:I, s:f, s:O, s:b, s:s, s:f, s:b, s:b, s:b, s:{}, s:{}}", "peft_type", "LORA",
        "task_type", s->architecture->labels ? "SEQ_CLS" : "CAUSAL_LM", "base_model_name_or_path", s->base,
        "r", (json_int_t)rank, "lora_alpha", s->scale * (double)rank, "target_modules", s->modules,
        "fan_in_fan_out", strcmp(s->architecture->type, "gpt2") == 0, "bias", "none", "lora_dropout", 0.0,
        "use_rslora", 0, "use_dora", 0, "inference_mode", 1, "rank_pattern", "alpha_pattern");
    iso_json_add(&text, config, JSON_INDENT(2) | JSON_SORT_KEYS);
    iso_text_add(&text, "\n");
    if (status == ISO_OK)
        status = text.failed ? iso_no_memory("the text of '%s'", path)
                             : iso_file_replace(path, text.data, text.length);
    iso_text_free(&text);
    iso_free(path);
    return status;
}

static iso_status write_weights(iso_model *model, saving *s)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    char *path = iso_file_join(s->folder, WEIGHTS);
    iso_status status = iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", s->folder));
    if (status == ISO_OK)
        status = iso_safetensors_create(ctx, path, s->tensors, s->count,
                                        iso_storage_type_of(s->tensors[0].dtype), &s->file);
    if (status == ISO_OK)
        status = iso_model_visit_weights(model, "save_adapter", ISO_WEIGHTS_READ, write_part, s);
    if (s->file)
        status = iso_safetensors_finish(s->file, status);
    iso_free(path);
    return status;
}

static iso_status save_prepare(iso_model *model, const char *folder, saving *s)
{
    iso_status status = iso_graph_take_error(iso_model_graph(model));
    s->folder = folder;
    s->modules = json_array();
    if (status == ISO_OK && iso_model_adapter_count(model) == 0)
        status = iso_error(ISO_INVALID, "'%s': the model has no adapters", folder);
    if (status == ISO_OK)
        status = iso_hf_architecture_of(model, folder, &s->architecture, &s->settings);
    return status == ISO_OK ? list_tensors(iso_model_graph(model), s) : status;
}

static void save_free(saving *s)
{
    for (int i = 0; i < s->count; i++)
        iso_free((void *)(uintptr_t)s->tensors[i].h5_path);
    iso_free(s->tensors);
    json_decref(s->modules);
}

iso_status iso_pretrained_save_adapter_check(iso_model *model, const char *folder)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, folder);
    saving s = {.count = 0};
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
    ISO_TRY(iso_agree(ctx, chief ? iso_folder_make(folder) : ISO_OK));
    ISO_TRY(write_weights(model, &s));
    ISO_TRY(iso_agree(ctx, chief ? write_config(&s) : ISO_OK));
done:
    save_free(&s);
    return status;
}
