/* Makes a model from a .keras file or a config.json. The chief reads the file, and all ranks build from its text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/keras/archive.h"
#include "models/keras/keras_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"

/* ---- the text of config.json ---- */

static iso_status read_stream(FILE *file, const char *path, char **text, size_t *bytes)
{
    if (iso_file_read_all(file, ISO_KERAS_MOST_CONFIG, text, bytes))
        return ISO_OK;
    if (errno == EFBIG)
        return iso_error(ISO_INVALID, "%s: has %d bytes or more, which is too large for a config.json", path,
                         ISO_KERAS_MOST_CONFIG);
    return errno == ENOMEM ? iso_error(ISO_NO_MEMORY, "no memory to read '%s'", path)
                           : iso_error(ISO_IO, "cannot read '%s': %s", path, strerror(errno));
}

static iso_status read_config_file(const char *path, char **text, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return iso_file_cannot_open(path);
    iso_status status = read_stream(file, path, text, bytes);
    fclose(file);
    return status;
}

static iso_status read_config(const char *path, char **text, size_t *bytes)
{
    iso_keras_archive *archive;
    if (iso_file_name_ends(path, ".json"))
        return read_config_file(path, text, bytes);
    iso_status status = iso_keras_archive_open(path, &archive);
    if (status != ISO_OK)
        return status;
    status = iso_keras_archive_read(archive, ISO_KERAS_CONFIG, text, bytes);
    iso_keras_archive_close(archive);
    return status;
}

/* ---- the model ---- */

static iso_status make_model(iso_graph *graph, const iso_keras_list *inputs, const iso_keras_list *outputs,
                             iso_model **model)
{
    iso_model *made =
        iso_model_create_several(graph, inputs->tensor, inputs->count, outputs->tensor, outputs->count);
    for (int i = 0; i < inputs->count; i++)
        if (inputs->name[i]) /* the key of a dictionary */
            iso_model_set_input_key(made, i, inputs->name[i]);
    for (int i = 0; i < outputs->count; i++)
        if (outputs->name[i])
            iso_model_set_output_name(made, i, outputs->name[i]);
    *model = made;
    return ISO_OK;
}

/* Python writes Infinity, which JSON does not have: the largest number stands for it, which becomes infinity as
 * float32. Copies the text so, which grows to less than three times its size; texts in it stay. */
static size_t copy_without_infinity(const char *text, size_t bytes, char *to)
{
    static const char word[] = "Infinity", number[] = "1.7976931348623157e308";
    const size_t length = sizeof word - 1;
    size_t size = 0;
    bool quoted = false, escaped = false;
    for (size_t i = 0; i < bytes; i++) {
        if (!quoted && bytes - i >= length && memcmp(text + i, word, length) == 0) {
            memcpy(to + size, number, sizeof number - 1);
            size += sizeof number - 1;
            i += length - 1;
            continue;
        }
        quoted = text[i] == '"' && !escaped ? !quoted : quoted;
        escaped = quoted && text[i] == '\\' && !escaped;
        to[size++] = text[i];
    }
    return size;
}

static iso_status parse_text(const char *name, const char *text, size_t bytes, json_t **root)
{
    if (!memmem(text, bytes, "Infinity", 8))
        return iso_json_parse(name, text, bytes, root);
    char *copy = iso_new(3 * bytes);
    iso_status status = copy ? iso_json_parse(name, copy, copy_without_infinity(text, bytes, copy), root)
                             : iso_no_memory("the text of '%s'", name);
    iso_free(copy);
    return status;
}

/* Makes the model from the text. */
iso_status iso_keras_parse(iso_context *ctx, const char *name, const char *text, size_t bytes,
                           const iso_keras_load_options *options)
{
    iso_keras_reader reader = {
        .ctx = ctx, .file = name, .quiet = options->quiet, .no_policies = options->no_policies};
    iso_keras_list inputs = {0}, outputs = {0};
    json_t *root = NULL;
    iso_graph *graph = iso_graph_create(ctx);
    iso_status status;
    iso_graph_set_precision(graph, options->precision ? options->precision : ISO_F32);
    ISO_TRY(parse_text(name, text, bytes, &root));
    if (options->lora)
        iso_lora_begin_with(graph, options->lora, sizeof *options->lora);
    ISO_TRY(iso_keras_network_build(&reader, graph, root, &inputs, &outputs));
    if (options->lora)
        iso_lora_end(graph);
    ISO_TRY(make_model(graph, &inputs, &outputs, options->model));
    graph = NULL;
    if (options->compile)
        iso_keras_compile_read(&reader, json_object_get(root, "compile_config"), *options->model,
                               options->compile);
done:
    iso_graph_destroy(graph);
    iso_keras_list_free(&inputs);
    iso_keras_list_free(&outputs);
    json_decref(root);
    return status;
}

/* The name of the text in messages. */
static void name_config(const char *path, iso_text *name)
{
    iso_text_add(name, iso_file_name_ends(path, ".json") ? "%s" : "%s: " ISO_KERAS_CONFIG, path);
}

iso_status iso_keras_load_with(iso_context *ctx, const char *path, const iso_keras_load_options *given,
                               size_t size)
{
    ISO_DEFAULT_MODES();
    iso_keras_load_options options = {0};
    iso_text name = {0};
    char *text = NULL;
    size_t bytes = 0;
    iso_model *model = NULL;
    iso_options_copy(&options, sizeof options, given, size);
    ISO_NEED_AGREED_AS(ctx, "path, model", path, options.model);
    iso_model **result = options.model;
    options.model = &model;
    bool reads = iso_rank(ctx) == 0;
    iso_status status =
        iso_share_text(ctx, reads ? read_config(path, &text, &bytes) : ISO_OK, path, &text, &bytes);
    if (status == ISO_OK) {
        name_config(path, &name);
        status = iso_agree(ctx, iso_keras_parse(ctx, iso_text_get(&name), text, bytes, &options));
    }
    if (status == ISO_OK)
        *result = model;
    else
        iso_model_destroy(model);
    iso_text_free(&name);
    iso_free(text);
    return status;
}
