/* Adapters in the form of PEFT: a folder with adapter_config.json and adapter_model.safetensors. It may also have
 * whole layers ("modules_to_save"), such as a new classifier. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        strcmp(iso_file_name(kernel), "embeddings") == 0)
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

/* The tensor of a variable that is there as in the whole model. False: there is none, or experts have one each. */
static bool find_whole(const iso_hf_architecture *a, const char *path, matrix *m)
{
    char name[ISO_HF_NAME];
    int64_t block;
    const iso_hf_tensor *row = iso_hf_tensor_of(a, path, &block);
    if (!row || row->experts)
        return false;
    m->row = *row;
    snprintf(m->name, sizeof m->name, PREFIX "%s", iso_hf_name(row, block, 0, name));
    return true;
}

static bool is_of_adapter(const char *path)
{
    char kernel[ISO_MAX_PATH];
    bool is_b;
    return kernel_of(path, kernel, &is_b);
}

static bool find_tensor_of(const iso_hf_architecture *a, const char *path, matrix *m)
{
    return is_of_adapter(path) ? find_matrix(a, path, m) : find_whole(a, path, m);
}

/* ---- reading what an adapter is ---- */

/* Keys that change no number, or that are read below. "loftq_config" and the like are of ways to initialise. */
static const char *const known_keys[] = {"auto_mapping",
                                         "base_model_name_or_path",
                                         "corda_config",
                                         "ensure_weight_tying",
                                         "eva_config",
                                         "exclude_modules",
                                         "fan_in_fan_out",
                                         "inference_mode",
                                         "init_lora_weights",
                                         "layers_pattern",
                                         "layers_to_transform",
                                         "loftq_config",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "lora_ga_config",
                                         "megatron_config",
                                         "megatron_core",
                                         "modules_to_save",
                                         "peft_version",
                                         "qalora_group_size",
                                         "r",
                                         "revision",
                                         "runtime_config",
                                         "target_modules",
                                         "task_type",
                                         "use_rslora"};

static bool is_known_key(const char *key)
{
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (strcmp(known_keys[i], key) == 0)
            return true;
    return false;
}

/* null, false, and lists and objects without members. */
static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Some ways to initialise change the weights of the model, also when PEFT reads the adapter. */
static iso_status check_initialisation(const char *file, const json_t *config)
{
    static const char *const names[] = {"gaussian", "eva"};
    const json_t *value = json_object_get(config, "init_lora_weights");
    if (!value || json_is_null(value) || json_is_boolean(value))
        return ISO_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && json_is_string(value); i++)
        if (strcmp(json_string_value(value), names[i]) == 0)
            return ISO_OK;
    return iso_hf_refuse(
        file, "init_lora_weights", value,
        "only those that leave the model's weights are supported: true, false, gaussian, eva");
}

/* Other keys are those of variants of LoRA, which compute something else. */
static iso_status check_keys(const char *file, json_t *config)
{
    static const struct {
        const char *key, *only;
    } keys[] = {{"peft_type", "LORA"}, {"bias", "none"}};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        value = json_object_get(config, keys[i].key);
        const char *text = json_string_value(value);
        if (text ? strcmp(text, keys[i].only) != 0 : value || i == 0)
            return iso_hf_refuse(file, keys[i].key, value,
                                 i == 0 ? "only \"LORA\" is supported" : "only \"none\" is supported");
        if (value)
            json_object_del(config, keys[i].key);
    }
    json_object_foreach(config, key,
                        value) if (!is_known_key(key) &&
                                   !is_nothing(value)) return iso_hf_refuse(file, key, value,
                                                                            "it is not supported");
    value = json_object_get(config, "use_rslora");
    if (value && !json_is_null(value) && !json_is_boolean(value))
        return iso_hf_refuse(file, "use_rslora", value, "it is true or false");
    value = json_object_get(config, "modules_to_save"); /* the file of weights has their tensors */
    if (value && !json_is_null(value) && !json_is_array(value))
        return iso_hf_refuse(file, "modules_to_save", value, "it is a list of names, or null");
    return check_initialisation(file, config);
}

static iso_status parse(const char *file, json_t *config, iso_pretrained_adapter *adapter)
{
    double alpha = 0, dropout = 0;
    iso_status status = ISO_OK;
    if (!json_is_object(config))
        ISO_TRY(iso_error(ISO_INVALID, "%s: it is no object", file));
    ISO_TRY(check_keys(file, config));
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

/* Adds a layer's path to an expression, unless it is there. */
static void add_layer(iso_text *layers, const char *path)
{
    const size_t length = strlen(path);
    for (const char *at = iso_text_get(layers); (at = strstr(at, path)) != NULL; at += length)
        if ((at == iso_text_get(layers) || at[-1] == '|') && (at[length] == '|' || at[length] == '\0'))
            return;
    iso_text_add(layers, "%s%s", layers->length ? "|" : "", path);
}

/* The layers that are adapted, and those that are there as a whole: expressions. */
typedef struct layer_lists {
    iso_text adapted, whole;
} layer_lists;

/* Adds the layers of a tensor of this name; false: no layer has it. */
static bool add_layers(const iso_hf_architecture *a, const char *name, layer_lists *layers)
{
    char theirs[ISO_HF_NAME + 64], ours[ISO_HF_NAME];
    bool found = false;
    snprintf(theirs, sizeof theirs, "%s", name);
    if (strncmp(theirs, PREFIX, strlen(PREFIX)) != 0)
        return false;
    if (cut(theirs, ".lora_B.weight"))
        return true;
    const bool adapted = cut(theirs, ".lora_A.weight");
    if (adapted)
        snprintf(theirs + strlen(theirs), sizeof theirs - strlen(theirs), ".weight");
    for (const iso_hf_tensor *row = a->tensors; row->ours; row++) {
        if (!iso_hf_name_fits(row, theirs + strlen(PREFIX), ours) || (adapted && !cut(ours, "/kernel")))
            continue;
        if (!adapted)
            *strrchr(ours, '/') = '\0';
        add_layer(adapted ? &layers->adapted : &layers->whole, ours);
        found = true;
    }
    return found;
}

static void layer_lists_free(layer_lists *layers)
{
    iso_text_free(&layers->adapted);
    iso_text_free(&layers->whole);
}

/* The layers by the names of the tensors, in the first architecture that has all. */
static iso_status find_layers(const iso_saved_file *file, layer_lists *layers)
{
    const int count = iso_saved_file_tensors(file);
    const char *unknown = "";
    int most = -1; /* tensors that an architecture has, for the message */
    for (int i = 0; iso_hf_architectures[i] && count > 0; i++) {
        int tensor = 0;
        layer_lists_free(layers);
        while (tensor < count &&
               add_layers(iso_hf_architectures[i], iso_saved_file_tensor(file, tensor)->h5_path + 1, layers))
            tensor++;
        if (tensor == count)
            return layers->adapted.failed || layers->whole.failed ? iso_no_memory("the layers of an adapter")
                                                                  : ISO_OK;
        if (tensor > most)
            unknown = iso_saved_file_tensor(file, tensor)->h5_path + 1;
        most = tensor > most ? tensor : most;
    }
    return iso_error(
        ISO_INVALID,
        "'%s': '%s' is neither a matrix of an adapter of a product that is supported nor a tensor of a "
        "layer",
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
    layer_lists layers = {0};
    iso_status status;
    ISO_NEED(ctx);
    ISO_NEED_AGREED(ctx, folder, adapter);
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? read_config(folder, &read) : ISO_OK));
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &read, sizeof read)));
    ISO_TRY(open_weights(ctx, folder, &files));
    status = find_layers(files.files[0], &layers);
    read.target = status == ISO_OK ? iso_strdup(iso_text_get(&layers.adapted)) : NULL;
    read.trained = status == ISO_OK ? iso_strdup(iso_text_get(&layers.whole)) : NULL;
    if (status == ISO_OK && (!read.target || !read.trained))
        status = iso_no_memory("the layers of an adapter");
    ISO_TRY(iso_agree(ctx, status));
    *adapter = read;
    read.target = read.trained = NULL;
done:
    iso_free(read.target);
    iso_free(read.trained);
    layer_lists_free(&layers);
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

/* The file must have the matrices of all adapters, and may have whole layers. */
static iso_status check_variable(const loading *l, const iso_variable *variable)
{
    matrix m;
    char have[160], want[160];
    const char *path = iso_variable_path(variable), *file = iso_saved_file_path(l->file);
    const bool found = find_tensor_of(l->architecture, path, &m);
    if (!found && iso_variable_is_adapter(variable))
        return no_matrix(l, path);
    const int tensor = found ? find_tensor(l->file, m.name) : -1;
    if (tensor < 0 && !iso_variable_is_adapter(variable))
        return ISO_OK;
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

/* Each tensor of the file must be one of the model's. */
static iso_status check_known(const loading *l, iso_graph *graph)
{
    for (int t = 0; t < iso_saved_file_tensors(l->file); t++) {
        const char *name = iso_saved_file_tensor(l->file, t)->h5_path + 1;
        bool known = false;
        for (int i = 0; i < iso_graph_variable_count(graph) && !known; i++) {
            matrix m;
            const iso_variable *variable = iso_graph_variable(graph, i);
            known =
                find_tensor_of(l->architecture, iso_variable_path(variable), &m) && strcmp(m.name, name) == 0;
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
        ISO_TRY(check_variable(l, variable));
        count += iso_variable_is_adapter(variable);
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
    const int tensor = find_tensor_of(l->architecture, shard->path, &m) ? find_tensor(l->file, m.name) : -1;
    if (tensor < 0 || shard->count == 0)
        return ISO_OK;
    return iso_hf_read_shard(&m.row, &l->settings, l->file, tensor, shard);
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
    json_t *modules, *whole;   /* names: those that are adapted, and those that are there as a whole */
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

static iso_status add_tensor(saving *s, const iso_variable *variable, const matrix *m)
{
    char name[sizeof m->name + 1];
    if (find_listed(s, m->name) >= 0)
        return ISO_OK;
    snprintf(name, sizeof name, "/%s", m->name);
    iso_saved_tensor tensor = {.h5_path = iso_strdup(name),
                               .dtype = iso_variable_dtype(variable),
                               .shape = iso_hf_shape(&m->row, &s->settings, iso_variable_shape(variable))};
    return tensor.h5_path ? iso_list_add(s->tensors, s->count, tensor, "tensors") : iso_no_memory("a name");
}

static iso_status add_matrix(saving *s, const iso_variable *variable)
{
    matrix m;
    const char *path = iso_variable_path(variable);
    const loading l = {.architecture = s->architecture};
    if (!find_part(s, path, &m))
        return no_matrix(&l, path);
    iso_status status = check_parts(s, &m, path);
    if (status != ISO_OK || find_listed(s, m.name) >= 0)
        return status;
    add_module(s, &m);
    return add_tensor(s, variable, &m);
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
    matrix m;
    const char *path = iso_variable_path(variable);
    const bool found =
        find_whole(s->architecture, path, &m) && strcmp(iso_file_name(path), "embeddings") != 0;
    char *module = found ? m.name + strlen(PREFIX) : NULL, *end = found ? strrchr(module, '.') : NULL;
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
static bool is_below_whole(const saving *s, const matrix *m)
{
    char module[sizeof m->name];
    snprintf(module, sizeof module, "%s", m->name + strlen(PREFIX));
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
    matrix m;
    return find_whole(s->architecture, iso_variable_path(variable), &m) && is_below_whole(s, &m)
               ? add_tensor(s, variable, &m)
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
    const bool found = is_of_adapter(shard->path) ? find_part(s, shard->path, &m)
                                                  : find_whole(s->architecture, shard->path, &m);
    written to = {s->file, found ? find_listed(s, m.name) : -1};
    if (!shard->writer || shard->count == 0 || to.tensor < 0)
        return ISO_OK;
    return iso_hf_write_shard(&m.row, &s->settings, shard, write_range, &to);
}

static iso_status write_config(const saving *s)
{
    iso_text text = {0};
    char *path = iso_file_join(s->folder, CONFIG);
    iso_status status = path ? ISO_OK : iso_no_memory("the name of '%s'", s->folder);
    const int64_t rank = s->rank * (s->parts ? s->parts : 1);
    json_t *config = json_pack(
        "{s:s, s:s, s:s?, s:I, s:f, s:O, s:O?, s:b, s:s, s:f, s:b, s:b, s:b, s:{}, s:{}}", "peft_type",
        "LORA", "task_type", s->architecture->labels ? "SEQ_CLS" : "CAUSAL_LM", "base_model_name_or_path",
        s->base, "r", (json_int_t)rank, "lora_alpha", s->scale * (double)rank, "target_modules", s->modules,
        "modules_to_save", json_array_size(s->whole) > 0 ? s->whole : NULL, "fan_in_fan_out",
        strcmp(s->architecture->type, "gpt2") == 0, "bias", "none", "lora_dropout", 0.0, "use_rslora", 0,
        "use_dora", 0, "inference_mode", 1, "rank_pattern", "alpha_pattern");
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

/* Without an older adapter's numbers, which a run that is killed would leave beside new matrices. */
static iso_status begin_folder(const char *folder)
{
    iso_status status = iso_folder_make(folder);
    char *path = status == ISO_OK ? iso_file_join(folder, CONFIG) : NULL;
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
    char *path = iso_file_join(s->base, ISO_HF_CONFIG), *text = NULL;
    size_t bytes = 0;
    json_t *config = NULL;
    iso_status status = path ? iso_hf_read_text(path, MOST_CONFIG, &text, &bytes) : iso_no_memory("a name");
    if (status == ISO_OK)
        status = iso_json_parse(path, text, bytes, &config);
    const iso_hf_architecture *a = status == ISO_OK ? iso_hf_architecture_find(config) : NULL;
    if (a && iso_hf_architecture_fits(a, s->architecture, &s->settings))
        s->architecture = a;
    json_decref(config);
    iso_free(text);
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
    for (int i = 0; i < s->count; i++)
        iso_free((void *)(uintptr_t)s->tensors[i].h5_path);
    iso_free(s->tensors);
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
