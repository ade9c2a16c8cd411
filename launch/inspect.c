/* isogrid inspect: shows what a checkpoint, a file of weights or a .keras file holds, and checks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/command_line.h"
#include "launch/inspect_impl.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "models/huggingface/weight_files.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"

typedef struct inspect_options {
    bool json;
} inspect_options;

static const iso_argument table[] = {
    {"json", ISO_ARGUMENT_FLAG, offsetof(inspect_options, json), NULL, "prints a JSON object instead", 0, 0,
     NULL},
};
enum { ROWS = sizeof table / sizeof table[0] };

static void inspect_help(iso_text *text)
{
    iso_arguments_help(table, ROWS, text);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-';
}

/* The file may come before or after the options. */
static iso_status inspect_read_options(int argc, char *const *argv, inspect_options *options,
                                       const char **path)
{
    char *rest[3] = {argv[0]};
    int words = 1;
    *path = NULL;
    for (int i = 1; i < argc; i++)
        if (!is_option(argv[i]) && !*path)
            *path = argv[i];
        else if (words < 3)
            rest[words++] = argv[i];
    iso_status status = iso_arguments_parse(table, ROWS, words, rest, options);
    if (status == ISO_OK && !*path)
        status = iso_error(ISO_INVALID, "no file given: isogrid inspect FILE");
    return status;
}

const char *iso_inspect_layout(const iso_inspection *inspection, const iso_saved_tensor *tensor)
{
    const json_t *layouts = json_object_get(inspection->state, "layouts");
    const char *layout = tensor->path ? json_string_value(json_object_get(layouts, tensor->path)) : NULL;
    return layout ? layout : "";
}

uint64_t iso_inspect_bytes(const iso_saved_file *file, int tensor)
{
    const iso_shape *shape = &iso_saved_file_tensor(file, tensor)->shape;
    uint64_t bytes;
    iso_saved_file_stored(file, tensor, &bytes);
    for (int i = 0; i < shape->rank; i++)
        bytes *= (uint64_t)shape->dim[i];
    return bytes;
}

/* Files have the seed in hexadecimal; --seed takes decimal digits. */
static void make_seed_decimal(json_t *state)
{
    const char *seed = json_string_value(json_object_get(state, "seed"));
    char decimal[24], *end;
    if (!seed || !*seed)
        return;
    unsigned long long value = strtoull(seed, &end, 16);
    if (*end)
        return;
    snprintf(decimal, sizeof decimal, "%llu", value);
    json_object_set_new(state, "seed", json_string(decimal));
}

static iso_status parse_state(iso_inspection *inspection)
{
    const char *state = iso_saved_file_state(inspection->file);
    if (!state || inspection->state)
        return ISO_OK;
    iso_status status = iso_json_parse("/isogrid/state", state, strlen(state), &inspection->state);
    if (status == ISO_OK)
        make_seed_decimal(inspection->state);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "'%s': ", inspection->path);
}

static uint64_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) ? 0 : (uint64_t)about.st_size;
}

/* Prints on the chief. */
static iso_status print(iso_inspection *inspection, bool json)
{
    iso_text text = {0};
    iso_status status = ISO_OK;
    if (!inspection->files) {
        inspection->files = &inspection->file;
        inspection->n_files = 1;
    }
    inspection->bytes = 0;
    for (int i = 0; i < inspection->n_files; i++)
        inspection->bytes +=
            size_of(inspection->pretrained ? iso_saved_file_path(inspection->files[i]) : inspection->path);
    ISO_TRY(parse_state(inspection));
    ISO_TRY(json ? iso_inspect_json(inspection, &text) : iso_inspect_text(inspection, &text));
    if (text.failed)
        ISO_TRY(iso_no_memory("what '%s' holds", inspection->path));
    if (text.data) /* texts of an untrusted file must not control a terminal */
        iso_text_disarm(text.data);
    fputs(iso_text_get(&text), stdout);
done:
    iso_text_free(&text);
    return status;
}

static iso_status inspect_keras(iso_inspection *inspection, bool json)
{
    inspection->keras = true;
    iso_status status = iso_inspect_open_keras(inspection);
    return status == ISO_OK ? print(inspection, json) : status;
}

/* A file with wrong checksums is shown too. */
static iso_status inspect(iso_context *ctx, iso_inspection *inspection, bool json)
{
    char *problem = NULL;
    iso_status status, verified;
    ISO_TRY(iso_saved_file_open(ctx, inspection->path, &inspection->file));
    verified = iso_saved_file_verify(inspection->file);
    if (verified != ISO_OK)
        problem = iso_strdup(iso_error_message());
    inspection->problem = problem;
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? print(inspection, json) : ISO_OK));
    if (verified != ISO_OK)
        status = iso_error(ISO_FAILED, "%s", problem ? problem : "the checksums are not right");
done:
    iso_free(problem);
    return status;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(iso_saved_file_path(*(iso_saved_file *const *)a),
                  iso_saved_file_path(*(iso_saved_file *const *)b));
}

/* All files of weights. */
static iso_status inspect_pretrained(iso_context *ctx, iso_inspection *inspection, bool json)
{
    iso_hf_files files = {0};
    iso_status status = iso_hf_files_open(ctx, inspection->path, &files);
    if (status == ISO_OK) {
        inspection->pretrained = true;
        qsort(files.files, (size_t)files.count, sizeof(iso_saved_file *), compare_paths);
        inspection->files = files.files;
        inspection->n_files = files.count;
        inspection->file = files.files[0];
        status = iso_agree(ctx, iso_is_chief(ctx) ? print(inspection, json) : ISO_OK);
    }
    iso_hf_files_close(&files);
    return status;
}

/* A checkpoint, the newest of a folder of them, or a file of weights. */
static iso_status inspect_saved(iso_context *ctx, iso_inspection *inspection, bool json)
{
    char *found = NULL;
    iso_status status;
    if (!iso_file_name_ends(inspection->path, ".safetensors"))
        ISO_TRY(iso_checkpoint_resolve(ctx, "inspect", inspection->path, &found));
    inspection->path = found ? found : inspection->path;
    if (iso_inspect_is_keras(inspection->path))
        status = iso_agree(ctx, iso_is_chief(ctx) ? inspect_keras(inspection, json) : ISO_OK);
    else
        status = inspect(ctx, inspection, json);
    iso_saved_file_close(inspection->file);
done:
    iso_free(found);
    return status;
}

static iso_status inspect_run(iso_context *ctx, int argc, char *const *argv)
{
    inspect_options options = {0};
    iso_inspection inspection = {0};
    bool pretrained = false;
    iso_status status;
    ISO_TRY(inspect_read_options(argc, argv, &options, &inspection.path));
    ISO_TRY(iso_pretrained_has_weights(ctx, inspection.path, &pretrained));
    if (pretrained && !iso_file_name_ends(inspection.path, ".safetensors"))
        status = inspect_pretrained(ctx, &inspection, options.json);
    else
        status = inspect_saved(ctx, &inspection, options.json);
done:
    json_decref(inspection.state);
    return status;
}

const iso_command iso_command_inspect = {"inspect", "FILE or DIR [--json]",
                                         "shows what a checkpoint, a file of weights, a .keras file or a "
                                         "folder of Hugging Face holds, and checks it",
                                         .run = inspect_run, .help = inspect_help};
