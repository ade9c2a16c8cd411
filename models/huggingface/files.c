/* The files of a folder of Hugging Face. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"

enum { MOST_INDEX = 64 << 20, MOST_FILES = 4096 };

iso_status iso_hf_read_text(const char *path, size_t most, char **text, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return iso_file_cannot_open(path);
    iso_status status = ISO_OK;
    if (!iso_file_read_all(file, most, text, bytes))
        status = errno == EFBIG    ? iso_error(ISO_INVALID, "'%s' has %zu bytes or more", path, most)
                 : errno == ENOMEM ? iso_no_memory("the text of '%s'", path)
                                   : iso_file_failed(path, "it cannot be read");
    fclose(file);
    return status;
}

/* ---- which files a path means ---- */

static bool is_index(const char *path)
{
    return iso_file_name_ends(path, ".safetensors.index.json");
}

static bool is_file_name(const char *path)
{
    return iso_file_name_ends(path, ".safetensors") || is_index(path);
}

bool iso_hf_is_there(const char *folder, const char *name)
{
    struct stat about;
    char *path = iso_file_join(folder, name);
    bool there = path && stat(path, &about) == 0;
    iso_free(path);
    return there;
}

/* A file's name in an index has no folder: an index that names other places is refused. */
static bool is_plain(const char *name)
{
    return iso_file_name_ends(name, ".safetensors") && !strchr(name, '/') && !strchr(name, '\n');
}

/* The files that an index names, once each, and the map of which they are, unless it is NULL: {"weight_map":
 * {"tensor": "file", ...}}. */
static iso_status parse_index(const char *path, const char *text, size_t bytes, json_t **names,
                              json_t **whole)
{
    json_t *root = NULL, *map, *value;
    const char *tensor;
    iso_status status = iso_json_parse(path, text, bytes, &root);
    if (status != ISO_OK)
        return status;
    *names = json_object();
    map = json_object_get(root, "weight_map");
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !is_plain(name)) {
            status = iso_hf_refuse(path, tensor, value,
                                   "it must be the name of a .safetensors file beside the index");
            break;
        }
        json_object_set_new(*names, name, json_true());
    }
    size_t count = json_object_size(*names);
    if (status == ISO_OK && (count == 0 || count > MOST_FILES))
        status = iso_error(ISO_INVALID, "%s: its weight_map names %zu files; it must be 1 to %d", path, count,
                           MOST_FILES);
    if (status == ISO_OK && whole)
        *whole = json_incref(map);
    json_decref(root);
    return status;
}

/* Adds the paths of the files of an index, each with a newline. map: as parse_index. */
static iso_status add_indexed(const char *path, iso_text *paths, json_t **map)
{
    char *text = NULL, *folder = iso_file_folder(path);
    size_t bytes = 0;
    json_t *names = NULL, *value;
    const char *name;
    iso_status status = folder ? ISO_OK : iso_no_memory("the folder of '%s'", path);
    if (status == ISO_OK)
        status = iso_hf_read_text(path, MOST_INDEX, &text, &bytes);
    if (status == ISO_OK)
        status = parse_index(path, text, bytes, &names, map);
    if (status == ISO_OK)
        json_object_foreach(names, name, value) iso_text_add(paths, "%s/%s\n", folder, name);
    json_decref(names);
    iso_free(text);
    iso_free(folder);
    return status;
}

static iso_status add_folder(const char *folder, iso_text *paths, json_t **map)
{
    if (iso_hf_is_there(folder, ISO_HF_WEIGHTS)) {
        iso_text_add(paths, "%s/%s\n", folder, ISO_HF_WEIGHTS);
        return ISO_OK;
    }
    if (!iso_hf_is_there(folder, ISO_HF_INDEX))
        return iso_error(
            ISO_INVALID, "'%s' has neither " ISO_HF_WEIGHTS " nor " ISO_HF_INDEX "%s", folder,
            iso_hf_is_there(folder, "pytorch_model.bin")
                ? "; pytorch_model.bin is not read: save_pretrained() of transformers writes the others"
                : "");
    char *path = iso_file_join(folder, ISO_HF_INDEX);
    iso_status status = path ? add_indexed(path, paths, map) : iso_no_memory("the name of '%s'", folder);
    iso_free(path);
    return status;
}

iso_status iso_hf_remove_index(const char *folder, iso_text *paths)
{
    char *index = iso_file_join(folder, ISO_HF_INDEX);
    iso_status status = index ? ISO_OK : iso_no_memory("the names of files of '%s'", folder);
    if (status == ISO_OK && iso_hf_is_there(folder, ISO_HF_INDEX)) {
        status = add_indexed(index, paths, NULL);
        if (status == ISO_OK && unlink(index))
            status = iso_file_failed(index, "it cannot be removed");
    }
    iso_free(index);
    return status;
}

/* On the chief. */
static iso_status list_files(const char *path, iso_text *paths, json_t **map)
{
    iso_status status = ISO_OK;
    if (is_index(path))
        status = add_indexed(path, paths, map);
    else if (is_file_name(path))
        iso_text_add(paths, "%s\n", path);
    else
        status = add_folder(path, paths, map);
    return status == ISO_OK && paths->failed ? iso_no_memory("the names of the files of '%s'", path) : status;
}

iso_status iso_pretrained_has_weights(iso_context *ctx, const char *path, bool *has)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AGREED(ctx, path, has);
    bool found =
        is_file_name(path) || iso_hf_is_there(path, ISO_HF_WEIGHTS) || iso_hf_is_there(path, ISO_HF_INDEX);
    iso_status status = iso_agree(ctx, iso_broadcast(ctx, &found, sizeof found));
    if (status == ISO_OK)
        *has = found;
    return status;
}

/* ---- opened ---- */

static int count_lines(const char *text, size_t bytes)
{
    int lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* A tensor in two files would have two values. */
static iso_status check_once(const iso_hf_files *files)
{
    for (int i = 1; i < files->count; i++)
        for (int t = 0; t < iso_saved_file_tensors(files->files[i]); t++)
            for (int k = 0; k < i; k++) {
                const char *name = iso_saved_file_tensor(files->files[i], t)->h5_path;
                if (iso_saved_file_at(files->files[k], name) >= 0)
                    return iso_error(ISO_INVALID, "'%s' and '%s' both hold '%s'",
                                     iso_saved_file_path(files->files[k]),
                                     iso_saved_file_path(files->files[i]), name + 1);
            }
    return ISO_OK;
}

/* paths: changed */
static iso_status open_all(iso_context *ctx, char *paths, iso_hf_files *files)
{
    iso_status status = ISO_OK;
    for (char *path = paths, *end; (end = strchr(path, '\n')); path = end + 1) {
        *end = 0;
        ISO_TRY(iso_saved_file_open(ctx, path, &files->files[files->count]));
        files->count++;
    }
    ISO_TRY(iso_agree(ctx, check_once(files)));
done:
    return status;
}

/* Each tensor of an index must be in its file. map: NULL: there is no index. On the chief. */
static iso_status check_map(const char *path, const iso_hf_files *files, json_t *map)
{
    const char *tensor;
    json_t *name;
    json_object_foreach(map, tensor, name)
    {
        iso_text h5_path = {0};
        int i = 0;
        while (i < files->count &&
               strcmp(iso_file_name(iso_saved_file_path(files->files[i])), json_string_value(name)) != 0)
            i++;
        iso_text_add(&h5_path, "/%s", tensor);
        const bool found =
            i < files->count && iso_saved_file_at(files->files[i], iso_text_get(&h5_path)) >= 0;
        iso_text_free(&h5_path);
        if (!found)
            return iso_error(ISO_INVALID, "'%s': '%s' has no tensor '%s', which the index says it has", path,
                             json_string_value(name), tensor);
    }
    return ISO_OK;
}

iso_status iso_hf_files_open(iso_context *ctx, const char *path, iso_hf_files *files)
{
    iso_text paths = {0};
    char *text = NULL;
    size_t bytes = 0;
    json_t *map = NULL;
    iso_status status = iso_is_chief(ctx) ? list_files(path, &paths, &map) : ISO_OK;
    if (iso_is_chief(ctx) && status == ISO_OK) {
        text = paths.data;
        bytes = paths.length;
        paths = (iso_text){0};
    }
    *files = (iso_hf_files){0};
    ISO_TRY(iso_share_text(ctx, status, path, &text, &bytes));
    files->files = iso_new((size_t)count_lines(text, bytes) * sizeof(iso_saved_file *) + 1);
    ISO_TRY(iso_agree(ctx, files->files ? ISO_OK : iso_no_memory("the files of '%s'", path)));
    ISO_TRY(open_all(ctx, text, files));
    ISO_TRY(iso_agree(ctx, check_map(path, files, map)));
done:
    json_decref(map);
    iso_text_free(&paths);
    iso_free(text);
    return status;
}

void iso_hf_files_close(iso_hf_files *files)
{
    for (int i = 0; i < files->count; i++)
        iso_saved_file_close(files->files[i]);
    iso_free(files->files);
    *files = (iso_hf_files){0};
}

static int find_exactly(const iso_hf_files *files, const char *name, iso_saved_file **file)
{
    char path[ISO_HF_NAME + 1];
    snprintf(path, sizeof path, "/%s", name);
    for (int i = 0; i < files->count; i++) {
        int found = iso_saved_file_at(files->files[i], path);
        *file = files->files[i];
        if (found >= 0)
            return found;
    }
    return -1;
}

static const struct {
    const char *today, *before;
} endings[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
               {"LayerNorm.bias", "LayerNorm.beta"},
               {"cls.predictions.bias", "cls.predictions.decoder.bias"},
               {"lm_head.bias", "lm_head.decoder.bias"}};
enum { ENDINGS = sizeof endings / sizeof *endings };

/* The name with another ending; false: it has none of these. */
static bool rename_ending(const char *name, bool older, char text[ISO_HF_NAME])
{
    for (int i = 0; i < ENDINGS; i++) {
        const char *from = older ? endings[i].today : endings[i].before,
                   *to = older ? endings[i].before : endings[i].today;
        const size_t length = strlen(name), end = strlen(from);
        if (length < end || strcmp(name + length - end, from) != 0)
            continue;
        snprintf(text, ISO_HF_NAME, "%.*s%s", (int)(length - end), name, to);
        return true;
    }
    return false;
}

char *iso_hf_new_name(const char *name, char text[ISO_HF_NAME])
{
    if (!rename_ending(name, false, text))
        snprintf(text, ISO_HF_NAME, "%s", name);
    return text;
}

static int find_with_prefix(const iso_hf_files *files, const char *prefix, const char *name,
                            iso_saved_file **file)
{
    int found = find_exactly(files, name, file);
    size_t length = strlen(prefix);
    return found < 0 && strncmp(name, prefix, length) == 0 ? find_exactly(files, name + length, file) : found;
}

int iso_hf_files_find(const iso_hf_files *files, const char *prefix, const char *name, iso_saved_file **file)
{
    char older[ISO_HF_NAME];
    int found = find_with_prefix(files, prefix, name, file);
    return found < 0 && rename_ending(name, true, older) ? find_with_prefix(files, prefix, older, file)
                                                         : found;
}
