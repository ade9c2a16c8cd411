/* Writes a model as a folder of Hugging Face. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

enum {
    MOST_SMALL = 64 << 20, /* bytes of a file of a tokenizer, and of a config.json */
    MOST_FILES = 512,      /* of weights; all are open at once */
    LONGEST_NAME = 64,     /* of a file of weights */
};

static const uint64_t MOST_BYTES = 50000000000; /* of a file of weights, as in transformers */

typedef struct saving {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    iso_dtype dtype;         /* of the variables */
    iso_storage_type stored; /* of the weights in the files */
    const char *path;
    bool alone; /* a file of weights alone */
    iso_hf_list list;
    int file_count;
    int *first;             /* [file_count + 1] the first tensor of each file */
    iso_safetensors **file; /* [file_count] NULL: not begun */
    iso_text old;           /* on the chief: paths of files of weights that were there, each with a newline */
} saving;

/* ---- the list of tensors ---- */

static iso_status add_variable(saving *s, const iso_variable *variable)
{
    char name[ISO_HF_NAME];
    int64_t block;
    iso_status status = ISO_OK;
    const char *path = iso_variable_path(variable);
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, path, &block);
    if (!row)
        return iso_error(ISO_INVALID, "a %s of Hugging Face has no '%s'", s->architecture->type, path);
    const int64_t count = iso_hf_tensor_count(row, iso_variable_shape(variable));
    s->dtype = iso_variable_dtype(variable);
    for (int64_t i = 0; i < count && status == ISO_OK; i++)
        status = iso_hf_list_tensor(&s->list, row, &s->settings, variable, iso_hf_name(row, block, i, name));
    return status;
}

static iso_status list_tensors(iso_model *model, saving *s)
{
    iso_graph *graph = iso_model_graph(model);
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        if (iso_hf_is_theirs(iso_graph_variable(graph, i)))
            ISO_TRY(add_variable(s, iso_graph_variable(graph, i)));
done:
    return status;
}

/* What needs no file. */
static iso_status save_prepare(iso_model *model, const char *path, saving *s)
{
    s->path = path;
    s->alone = iso_file_name_ends(path, ".safetensors");
    iso_status status = iso_hf_architecture_of(model, path, &s->architecture, &s->settings);
    return status == ISO_OK && !s->alone && s->architecture->check
               ? s->architecture->check(path, &s->settings)
               : status;
}

static void save_free(saving *s)
{
    iso_hf_list_free(&s->list);
    iso_free(s->first);
    iso_free(s->file);
    iso_text_free(&s->old);
}

iso_status iso_pretrained_save_check(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, path);
    saving s = {0};
    iso_status status = save_prepare(model, path, &s);
    if (status == ISO_OK)
        status = list_tensors(model, &s);
    save_free(&s);
    return status;
}

/* ---- the files of weights ---- */

static uint64_t bytes_of(const saving *s, int tensor)
{
    const iso_box whole = iso_box_whole(&s->list.tensors[tensor].shape);
    return (uint64_t)iso_box_count(&whole) * iso_storage_type_size(s->stored);
}

/* A tensor that does not fit into a file with those before it begins another. */
static iso_status split(saving *s, uint64_t most)
{
    uint64_t bytes = 0;
    s->first = iso_new(((size_t)s->list.count + 1) * sizeof *s->first);
    if (!s->first)
        return iso_no_memory("the files of '%s'", s->path);
    for (int i = 0; i < s->list.count; i++) {
        if (i == 0 || (!s->alone && bytes + bytes_of(s, i) > most)) {
            s->first[s->file_count++] = i;
            bytes = 0;
        }
        bytes += bytes_of(s, i);
    }
    s->first[s->file_count] = s->list.count;
    s->file = iso_new((size_t)s->file_count * sizeof(iso_safetensors *));
    if (!s->file)
        return iso_no_memory("the files of '%s'", s->path);
    return s->file_count <= MOST_FILES
               ? ISO_OK
               : iso_error(ISO_INVALID, "'%s': weights in files of %llu bytes would be %d files; at most %d",
                           s->path, (unsigned long long)most, s->file_count, MOST_FILES);
}

static const char *name_of_file(const saving *s, int file, char name[LONGEST_NAME])
{
    if (s->file_count == 1)
        return ISO_HF_WEIGHTS;
    snprintf(name, LONGEST_NAME, "model-%05d-of-%05d.safetensors", file + 1, s->file_count);
    return name;
}

static iso_status create_file(iso_context *ctx, saving *s, int file)
{
    char name[LONGEST_NAME];
    const int first = s->first[file];
    char *path = s->alone ? iso_strdup(s->path) : iso_file_join(s->path, name_of_file(s, file, name));
    iso_status status = iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", s->path));
    if (status == ISO_OK)
        status = iso_safetensors_create(ctx, path, s->list.tensors + first, s->first[file + 1] - first,
                                        s->stored, &s->file[file]);
    iso_free(path);
    return status;
}

/* ---- weights ---- */

static iso_status write_part(void *user, const iso_state_shard *shard)
{
    const saving *s = user;
    char name[ISO_HF_NAME];
    int64_t block;
    iso_status status = ISO_OK;
    if (!shard->writer)
        return ISO_OK;
    const iso_hf_tensor *row = iso_hf_tensor_of(s->architecture, shard->path, &block);
    if (!row) /* of an adapter, which has been merged */
        return ISO_OK;
    const int64_t count = iso_hf_tensor_count(row, &shard->shape);
    for (int64_t i = 0; i < count && status == ISO_OK; i++) {
        const iso_state_shard part = iso_hf_part(row, shard, i);
        int file = 0;
        if (part.count == 0)
            continue;
        const int tensor = iso_hf_list_find(&s->list, iso_hf_name(row, block, i, name));
        while (tensor >= s->first[file + 1])
            file++;
        status = iso_hf_write_shard(row, &s->settings, &part, s->file[file], tensor - s->first[file]);
    }
    return status;
}

static iso_status sync_files(const saving *s)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->file_count && status == ISO_OK; i++)
        status = iso_safetensors_sync(s->file[i]);
    return status;
}

/* Several files cannot get their names at once. The old index is removed before, because it may name files of the
 * same names: a save that is killed here leaves a folder without an index, not a mixture of weights. */
static iso_status prepare_names(iso_context *ctx, saving *s)
{
    iso_status status = iso_agree(ctx, sync_files(s));
    return status == ISO_OK
               ? iso_agree(ctx, iso_is_chief(ctx) ? iso_hf_remove_index(s->path, &s->old) : ISO_OK)
               : status;
}

static iso_status save_weights(iso_model *model, saving *s)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    iso_status status = ISO_OK;
    for (int i = 0; i < s->file_count && status == ISO_OK; i++)
        status = create_file(ctx, s, i);
    if (status == ISO_OK)
        status = iso_model_visit_weights(model, "save_weights", ISO_WEIGHTS_READ, write_part, s);
    if (status == ISO_OK && s->file_count > 1)
        status = prepare_names(ctx, s);
    for (int i = 0; i < s->file_count && s->file[i]; i++)
        status = iso_safetensors_finish(s->file[i], status);
    return status;
}

/* ---- the other files ---- */

/* The object of the source's config.json; a new one if there is no source. */
static iso_status begin_config(const char *source, json_t **config)
{
    char *path = source ? iso_file_join(source, ISO_HF_CONFIG) : NULL;
    iso_status status = source && !path ? iso_no_memory("the name of '%s'", source) : ISO_OK;
    *config = NULL;
    if (path)
        status = iso_hf_read_json(path, MOST_SMALL, config);
    if (status == ISO_OK && !json_is_object(*config)) {
        json_decref(*config); /* else transformers takes special tokens of its own */
        *config = json_pack("{s:n, s:n, s:n}", "bos_token_id", "eos_token_id", "pad_token_id");
    }
    iso_free(path);
    return status;
}

static iso_status write_config(iso_model *model, const saving *s, const char *source)
{
    json_t *config = NULL;
    iso_status status = begin_config(source, &config);
    if (status != ISO_OK)
        return status;
    const iso_shape *logits = iso_tensor_shape(iso_model_output(model));
    iso_hf_config_write(s->architecture, &s->settings, iso_storage_type_name(s->stored), config);
    const int64_t outputs = logits->dim[logits->rank - 1];
    const iso_output_options *compiled = iso_model_compiled_output(model, 0);
    if (s->architecture->labels)
        iso_hf_write_labels(outputs, config);
    if (s->architecture->labels && logits->rank == 2 && compiled)
        iso_hf_write_problem(compiled->loss, outputs, config);
    if (!s->architecture->labels)
        json_object_set_new(config, "vocab_size", json_integer((json_int_t)outputs));
    return iso_hf_write_json(s->path, ISO_HF_CONFIG, config);
}

static iso_status write_index(const saving *s)
{
    char name[LONGEST_NAME];
    uint64_t elements = 0;
    json_t *map = json_object();
    for (int f = 0; f < s->file_count; f++)
        for (int i = s->first[f]; i < s->first[f + 1]; i++) {
            json_object_set_new(map, s->list.tensors[i].h5_path + 1, json_string(name_of_file(s, f, name)));
            elements += bytes_of(s, i) / iso_storage_type_size(s->stored);
        }
    const uint64_t bytes = elements * iso_storage_type_size(s->stored);
    return iso_hf_write_json(s->path, ISO_HF_INDEX,
                             json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_parameters",
                                       (json_int_t)elements, "total_size", (json_int_t)bytes, "weight_map",
                                       map));
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

static bool is_new(const saving *s, const char *name)
{
    char of_file[LONGEST_NAME];
    bool found = false;
    for (int i = 0; i < s->file_count; i++)
        found = found || strcmp(name_of_file(s, i, of_file), name) == 0;
    return found;
}

/* The files besides the weights and config.json, which a source may have. */
static const char *const copied[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "generation_config.json",
    "vocab.txt",      "added_tokens.json",     "sentencepiece.bpe.model", "preprocessor_config.json"};
enum { COPIED = sizeof copied / sizeof *copied };

/* Whether a name is that of iso_file_replace for a file of this name while it is written: "config.json.123.new". */
static bool is_unfinished(const char *name, const char *of)
{
    const size_t length = strlen(of);
    if (strncmp(name, of, length) != 0 || name[length] != '.')
        return false;
    const size_t digits = strspn(name + length + 1, "0123456789");
    return digits > 0 && strcmp(name + length + 1 + digits, ".new") == 0;
}

static bool is_left(const char *name)
{
    bool left = is_unfinished(name, ISO_HF_CONFIG) || is_unfinished(name, ISO_HF_INDEX);
    for (int i = 0; i < COPIED && !left; i++)
        left = is_unfinished(name, copied[i]);
    return left;
}

/* Adds the paths of files that only one of several files of weights would be, and of files that were not complete: a
 * save that was killed may have left them. */
static void add_parts(const char *folder, iso_text *paths)
{
    static const char pattern[] = "model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors";
    const struct dirent *entry;
    DIR *all = opendir(folder);
    while (all && (entry = readdir(all)))
        if (fnmatch(pattern, entry->d_name, 0) == 0 || is_left(entry->d_name))
            iso_text_add(paths, "%s/%s\n", folder, entry->d_name);
    if (all)
        closedir(all);
}

/* Removes the weights that the folder had under other names. */
static iso_status remove_old(saving *s)
{
    iso_status status = s->file_count == 1 ? iso_hf_remove_index(s->path, &s->old) : ISO_OK;
    if (s->file_count > 1)
        iso_text_add(&s->old, "%s/" ISO_HF_WEIGHTS "\n", s->path);
    add_parts(s->path, &s->old);
    for (char *path = s->old.data, *end; status == ISO_OK && path && (end = strchr(path, '\n'));
         path = end + 1) {
        *end = 0;
        if (!is_new(s, iso_file_name(path)) && unlink(path) && errno != ENOENT)
            status = iso_file_failed(path, "it cannot be removed");
    }
    return status;
}

/* config.json is the last new file: a folder without it is no model. Until then a model.safetensors that was there
 * counts instead of the index. */
static iso_status write_others(iso_model *model, saving *s, const char *source)
{
    iso_status status = ISO_OK;
    for (int i = 0; source && i < COPIED; i++)
        ISO_TRY(copy(source, s->path, copied[i]));
    if (s->file_count > 1)
        ISO_TRY(write_index(s));
    ISO_TRY(write_config(model, s, source));
    ISO_TRY(remove_old(s));
done:
    return status;
}

/* ---- what the source says ---- */

/* The architecture of the source, if it has the network too, and its type, as transformers has it; ISO_STORAGE_TYPES:
 * it names none. On the chief. */
static iso_status read_source(const char *source, saving *s)
{
    json_t *config = NULL;
    iso_status status = begin_config(source, &config);
    const json_t *named = json_object_get(config, "dtype");
    named = json_is_string(named) ? named : json_object_get(config, "torch_dtype");
    s->stored = iso_storage_type_float(json_string_value(named));
    const iso_hf_architecture *a = iso_hf_architecture_like(config, s->architecture, &s->settings);
    if (a)
        s->architecture = a;
    json_decref(config);
    return status;
}

/* The number of an architecture in the list. */
static int number_of(const iso_hf_architecture *architecture)
{
    int number = 0;
    while (iso_hf_architectures[number] != architecture)
        number++;
    return number;
}

/* Sets the architecture and the type of the weights. */
static iso_status choose(iso_context *ctx, const iso_pretrained_save_options *options, saving *s)
{
    const iso_storage_type wanted = iso_storage_type_float(options->dtype);
    iso_status status = ISO_OK;
    s->stored = ISO_STORAGE_TYPES;
    if (options->dtype && wanted == ISO_STORAGE_TYPES)
        status = iso_error(ISO_INVALID, "'%s': the type '%s' is none of float32, float16, bfloat16, float64",
                           options->path, options->dtype);
    if (status == ISO_OK && options->source && iso_is_chief(ctx))
        status = read_source(options->source, s);
    struct {
        int architecture;
        iso_storage_type stored;
    } chosen = {number_of(s->architecture), s->stored};
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &chosen, sizeof chosen)));
    s->architecture = iso_hf_architectures[chosen.architecture];
    s->stored = options->dtype ? wanted : chosen.stored;
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
    if (status == ISO_OK && iso_model_adapter_count(model) > 0)
        status = iso_error(ISO_INVALID,
                           "'%s': the model has adapters: call iso_model_merge_adapters before, or "
                           "iso_pretrained_save_adapter",
                           options.path);
    ISO_TRY(iso_agree(ctx, status == ISO_OK ? save_prepare(model, options.path, &s) : status));
    ISO_TRY(choose(ctx, &options, &s));
    ISO_TRY(iso_agree(ctx, list_tensors(model, &s)));
    if (s.stored == ISO_STORAGE_TYPES)
        s.stored = iso_storage_type_of(s.dtype);
    ISO_TRY(iso_agree(ctx, split(&s, options.max_shard_size ? options.max_shard_size : MOST_BYTES)));
    ISO_TRY(iso_agree(ctx, chief && !s.alone ? iso_folder_make(s.path) : ISO_OK));
    ISO_TRY(save_weights(model, &s));
    ISO_TRY(iso_agree(ctx, chief && !s.alone ? write_others(model, &s, options.source) : ISO_OK));
done:
    save_free(&s);
    return status;
}
