/* What a folder of PEFT adapts, and the names of its tensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/adapter_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"

/* ---- names ---- */

bool iso_adapter_cut(char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    const bool has = length > tail && strcmp(text + length - tail, end) == 0;
    if (has)
        text[length - tail] = '\0';
    return has;
}

bool iso_adapter_kernel(const char *path, char kernel[ISO_MAX_PATH], bool *is_b)
{
    const char *name = iso_file_name(path);
    if (strncmp(name, "lora_", 5) != 0)
        return false;
    snprintf(kernel, ISO_MAX_PATH, "%.*s%s", (int)(name - path), path, name + 5);
    *is_b = iso_adapter_cut(kernel, "_b");
    return *is_b || iso_adapter_cut(kernel, "_a");
}

bool iso_adapter_find_matrix(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m)
{
    char kernel[ISO_MAX_PATH], module[ISO_HF_NAME];
    int64_t block;
    bool is_b = false;
    const iso_hf_tensor *row =
        iso_adapter_kernel(path, kernel, &is_b) ? iso_hf_tensor_of(a, kernel, &block) : NULL;
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
    iso_adapter_cut(module, ".weight");
    snprintf(m->name, sizeof m->name, ISO_ADAPTER_PREFIX "%s.lora_%c.weight", module, is_b ? 'B' : 'A');
    return true;
}

bool iso_adapter_find_whole(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m)
{
    char name[ISO_HF_NAME];
    int64_t block;
    const iso_hf_tensor *row = iso_hf_tensor_of(a, path, &block);
    if (!row || row->experts)
        return false;
    m->row = *row;
    snprintf(m->name, sizeof m->name, ISO_ADAPTER_PREFIX "%s", iso_hf_name(row, block, 0, name));
    return true;
}

bool iso_adapter_is_path(const char *path)
{
    char kernel[ISO_MAX_PATH];
    bool is_b;
    return iso_adapter_kernel(path, kernel, &is_b);
}

bool iso_adapter_find(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m)
{
    return iso_adapter_is_path(path) ? iso_adapter_find_matrix(a, path, m)
                                     : iso_adapter_find_whole(a, path, m);
}

iso_status iso_adapter_none(const iso_hf_architecture *a, const char *path)
{
    return iso_error(ISO_INVALID, "a %s of Hugging Face has no product for '%s' that PEFT adapts", a->type,
                     path);
}

/* ---- reading ---- */

iso_status iso_adapter_open(iso_context *ctx, const char *folder, iso_hf_files *files)
{
    char *path = iso_file_join(folder, ISO_ADAPTER_WEIGHTS);
    iso_status status = iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", folder));
    if (status == ISO_OK)
        status = iso_hf_files_open(ctx, path, files);
    iso_free(path);
    return status;
}

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
    char *path = iso_file_join(folder, ISO_ADAPTER_CONFIG);
    json_t *config = NULL;
    iso_status status =
        path ? iso_hf_read_json(path, ISO_ADAPTER_MOST_CONFIG, &config) : iso_no_memory("a name");
    if (status == ISO_OK)
        status = parse(path, config, adapter);
    json_decref(config);
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
    if (strncmp(theirs, ISO_ADAPTER_PREFIX, strlen(ISO_ADAPTER_PREFIX)) != 0)
        return false;
    if (iso_adapter_cut(theirs, ".lora_B.weight"))
        return true;
    const bool adapted = iso_adapter_cut(theirs, ".lora_A.weight");
    if (adapted)
        snprintf(theirs + strlen(theirs), sizeof theirs - strlen(theirs), ".weight");
    for (const iso_hf_tensor *row = a->tensors; row->ours; row++) {
        if (!iso_hf_name_fits(row, theirs + strlen(ISO_ADAPTER_PREFIX), ours) ||
            (adapted && !iso_adapter_cut(ours, "/kernel")))
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
    ISO_TRY(iso_adapter_open(ctx, folder, &files));
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
