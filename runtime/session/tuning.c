#include "runtime/session/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/tuning_choices_impl.h"
#include "runtime/session/union_of_lines.h"

enum { MOST_BYTES = 1 << 28, VALUE = 200 };
static const char *const format = "isogrid tuning 1";

const char *iso_tuning_file(const iso_context *ctx)
{
    return iso_option(ctx, "tune", NULL);
}

bool iso_tuning_is_on(const iso_context *ctx, const iso_backend *backend)
{
    return backend->tuning && (iso_tuning_file(ctx) || ctx->tuning_resumed);
}

/* ---- the file's text, on each rank ---- */

/* The file is of another kind: iso_error() has recorded why. */
static iso_status not_of_tune(const char *path, iso_status status)
{
    return iso_error_prefix(
        status,
        "--tune '%s' was not written by --tune, and is left as it is. Name a file of --tune, or a new one: ",
        path);
}

static iso_status parse(const char *path, const char *text, size_t size, json_t **root)
{
    iso_status status = iso_json_parse("its text", text, size, root);
    return status == ISO_INVALID ? not_of_tune(path, status) : status;
}

static iso_status check_format(const char *path, const json_t *root)
{
    const char *found = json_string_value(json_object_get(root, "format"));
    if (!json_is_object(root))
        return not_of_tune(path, iso_error(ISO_INVALID, "it is no JSON object"));
    if (!found)
        return not_of_tune(path, iso_error(ISO_INVALID, "it has no string 'format'"));
    if (strcmp(found, format) != 0)
        return not_of_tune(path, iso_error(ISO_INVALID, "it is of the format '%s', not '%s'", found, format));
    return ISO_OK;
}

/* Whether the file is for this machine. */
static iso_status check_machine(const char *path, const iso_backend_tuning *tuning, const json_t *root)
{
    const char *name;
    char value[VALUE];
    iso_status status = check_format(path, root);
    if (status != ISO_OK)
        return status;
    for (int i = 0; tuning->machine(i, &name, value, sizeof value); i++) {
        const char *of_file = json_string_value(json_object_get(root, name));
        if (!of_file)
            return not_of_tune(path, iso_error(ISO_INVALID, "it has no string '%s'", name));
        if (strcmp(of_file, value) != 0)
            return iso_error(
                ISO_INVALID,
                "--tune '%s' has choices for %s '%s', but this is '%s': name another file, which "
                "is then written",
                path, name, of_file, value);
    }
    return ISO_OK;
}

static iso_status use_choices(const char *path, const iso_backend_tuning *tuning, const json_t *ops)
{
    const char *op;
    json_t *entry;
    if (!json_is_object(ops))
        return not_of_tune(path, iso_error(ISO_INVALID, "it has no object 'ops'"));
    json_object_foreach((json_t *)ops, op, entry)
    {
        const char *choice = json_string_value(json_object_get(entry, "choice"));
        if (!choice)
            return not_of_tune(path, iso_error(ISO_INVALID, "'%s' in its 'ops' has no string 'choice'", op));
        iso_status status = tuning->choose(op, choice);
        if (status != ISO_OK)
            return status;
    }
    return ISO_OK;
}

static iso_status use_text(const char *path, const iso_backend_tuning *tuning, const char *text, size_t size)
{
    json_t *root = NULL;
    if (size == 0)
        return ISO_OK; /* there is no file yet */
    iso_status status = parse(path, text, size, &root);
    if (status == ISO_OK)
        status = check_machine(path, tuning, root);
    if (status == ISO_OK)
        status = use_choices(path, tuning, iso_tuning_ops(root));
    json_decref(root);
    return status;
}

/* ---- the file ---- */

/* Whether a new file can be made in the folder of `path`. */
static iso_status check_folder(const char *path)
{
    char *folder = iso_file_folder(path);
    if (!folder)
        return iso_no_memory("the folder of --tune");
    iso_status status = ISO_OK;
    if (!iso_folder_is_writable(folder))
        status = iso_error(ISO_INVALID, "--tune '%s': nothing can be written into the folder '%s': %s", path,
                           folder, strerror(errno));
    iso_free(folder);
    return status;
}

/* A file that is not there is empty. */
static iso_status read_file(const char *path, char **text, size_t *size)
{
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return iso_error(ISO_INVALID, "--tune '%s' is no regular file", path);
    FILE *file = fopen(path, "rbe");
    if (!file && errno == ENOENT)
        return (*text = iso_new(1)) ? ISO_OK : iso_no_memory("the file of --tune");
    if (!file)
        return iso_error(ISO_INVALID, "--tune '%s' cannot be opened: %s", path, strerror(errno));
    bool read = iso_file_read_all(file, MOST_BYTES, text, size);
    iso_status status =
        read ? ISO_OK : iso_error(ISO_INVALID, "--tune '%s' cannot be read: %s", path, strerror(errno));
    fclose(file);
    return status;
}

/* A file that is not there will be written. */
static iso_status read_at_start(const char *path, char **text, size_t *size)
{
    iso_status status = read_file(path, text, size);
    return status == ISO_OK && *size == 0 ? check_folder(path) : status;
}

/* A file has the choices of one kind of device and libraries. Collective. */
static iso_status check_alike(iso_context *ctx, const char *path, const iso_backend_tuning *tuning)
{
    const char *name;
    char value[VALUE], what[64];
    iso_status status = ISO_OK;
    for (int i = 0; status == ISO_OK && tuning->machine(i, &name, value, sizeof value); i++) {
        snprintf(what, sizeof what, "the %s, and a file is for one", name);
        status = iso_agree_same_text(ctx, what, value);
    }
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "--tune '%s': ", path);
}

iso_status iso_tuning_read(iso_context *ctx, const iso_backend *backend)
{
    const char *path = iso_tuning_file(ctx);
    char *text = NULL;
    size_t size = 0;
    iso_status status = ISO_OK;
    if (!path)
        return ISO_OK;
    if (!backend->tuning) {
        if (iso_rank(ctx) == 0)
            iso_warn("--tune '%s' is not used: the backend %s has no choices that are measured", path,
                     backend->name);
        return ISO_OK;
    }
    ISO_TRY(check_alike(ctx, path, backend->tuning));
    ISO_TRY(iso_share_text(ctx, iso_rank(ctx) == 0 ? read_at_start(path, &text, &size) : ISO_OK, path, &text,
                           &size));
    ISO_TRY(iso_agree(ctx, use_text(path, backend->tuning, text, size)));
done:
    iso_free(text);
    return status;
}

/* ---- ops without a choice, of all ranks ---- */

static void list_open(const iso_backend_tuning *tuning, iso_text *list)
{
    const char *op;
    bool found;
    for (int i = 0; (op = tuning->op(i)); i++)
        if (!tuning->choice(op, &found))
            iso_text_add(list, "%s\n", op);
}

/* Joins the ops without a choice of all ranks, as lines after an empty one; the same on all ranks. */
static iso_status join_open(iso_context *ctx, const iso_backend_tuning *tuning, iso_text *all)
{
    iso_text own = {0};
    list_open(tuning, &own);
    iso_status status = iso_union_of_lines(ctx, "the ops of --tune", &own, all);
    iso_text_free(&own);
    return status;
}

/* ---- measuring, on rank 0 ---- */

static json_t *fresh_root(const iso_backend_tuning *tuning)
{
    const char *name;
    char value[VALUE];
    json_t *root = json_object();
    json_object_set_new(root, "format", json_string(format));
    for (int i = 0; tuning->machine(i, &name, value, sizeof value); i++)
        json_object_set_new(root, name, json_string(value));
    json_object_set_new(root, "ops", json_object());
    return root;
}

/* A file of an earlier version gets the present name of its choices. */
static void rename_ops(json_t *root)
{
    json_object_set(root, "ops", iso_tuning_ops(root));
    json_object_del(root, "works");
}

/* Reads the file as it is now: another run may have added to it. */
static iso_status open_root(const char *path, const iso_backend_tuning *tuning, json_t **root)
{
    char *text = NULL;
    size_t size = 0;
    iso_status status = read_file(path, &text, &size);
    if (status == ISO_OK && size > 0)
        status = parse(path, text, size, root);
    else if (status == ISO_OK)
        *root = fresh_root(tuning);
    iso_free(text);
    if (status == ISO_OK)
        status = check_machine(path, tuning, *root);
    if (status == ISO_OK && !json_is_object(iso_tuning_ops(*root)))
        status = not_of_tune(path, iso_error(ISO_INVALID, "it has no object 'ops'"));
    if (status == ISO_OK)
        rename_ops(*root);
    return status;
}

static iso_status measure_one(const iso_backend_tuning *tuning, const char *op, const iso_device *device,
                              json_t *ops)
{
    iso_tuning_result tuned;
    iso_stream *stream = NULL;
    iso_status status = device->create_stream(device, &stream);
    if (status == ISO_OK)
        status = tuning->measure(op, stream, &tuned);
    device->destroy_stream(stream);
    if (status != ISO_OK)
        return status;
    json_t *entry = json_object();
    json_object_set_new(entry, "choice", json_string(tuned.choice));
    json_object_set_new(entry, "seconds", json_real(tuned.seconds));
    json_object_set_new(entry, "seconds_by_rule", json_real(tuned.by_rule));
    json_object_set_new(entry, "candidates", json_integer(tuned.candidates));
    return json_object_set_new(ops, op, entry) == 0 ? ISO_OK : iso_no_memory("the choices of --tune");
}

/* The file's choices on rank 0, to which those that are measured are added; NULL on the others. */
static iso_status open_file(iso_context *ctx, const iso_backend_tuning *tuning, json_t **root)
{
    const char *path = iso_tuning_file(ctx);
    iso_status status = ISO_OK;
    if (iso_rank(ctx) == 0)
        status = check_folder(path);
    if (iso_rank(ctx) == 0 && status == ISO_OK)
        status = open_root(path, tuning, root);
    return iso_agree(ctx, status);
}

/* Rank 0 measures op after op. After each of them the ranks agree, also on whether a request to stop has come to any
 * of them: then `rest` ops are left. Collective. */
static iso_status measure_all(iso_context *ctx, const iso_backend_tuning *tuning, char *lines,
                              const iso_device *device, json_t *ops, int *count, int *rest)
{
    char *after = NULL;
    *count = *rest = 0;
    for (char *line = strtok_r(lines, "\n", &after); line; line = strtok_r(NULL, "\n", &after)) {
        if (*count > 0 && iso_stop_requested(ctx)) {
            ++*rest;
            continue;
        }
        iso_status status =
            iso_agree(ctx, iso_rank(ctx) == 0 ? measure_one(tuning, line, device, ops) : ISO_OK);
        if (status == ISO_OK)
            status = iso_stop_agree(ctx);
        if (status != ISO_OK)
            return status;
        ++*count;
    }
    return ISO_OK;
}

/* Writes the file, and gives its text. */
static iso_status write_file(const char *path, json_t *root, int count, int rest, iso_text *text)
{
    size_t all = json_object_size(json_object_get(root, "ops"));
    iso_json_add(text, json_incref(root), JSON_INDENT(2) | JSON_SORT_KEYS);
    iso_text_add(text, "\n");
    iso_status status = text->failed ? iso_no_memory("the choices of --tune")
                                     : iso_file_replace(path, text->data, text->length);
    if (status != ISO_OK)
        return status;
    if (rest)
        fprintf(stderr,
                "tune: stopped after %d of %d products and convolutions; '%s' has the choices for %zu\n",
                count, count + rest, path, all);
    else
        fprintf(stderr, "tune: %d products and convolutions were measured; '%s' has the choices for %zu\n",
                count, path, all);
    return ISO_OK;
}

/* Gives the ops of these lines a choice, and the file. */
static iso_status choose_all(iso_context *ctx, const iso_backend_tuning *tuning, char *lines,
                             const iso_device *device)
{
    const char *path = iso_tuning_file(ctx);
    json_t *root = NULL;
    iso_text written = {0};
    char *text = NULL;
    size_t size = 0;
    int count, rest;
    iso_status status = ISO_OK;
    ISO_TRY(open_file(ctx, tuning, &root));
    ISO_TRY(measure_all(ctx, tuning, lines, device, json_object_get(root, "ops"), &count, &rest));
    if (iso_rank(ctx) == 0) {
        status = write_file(path, root, count, rest, &written);
        text = status == ISO_OK ? iso_strdup(written.data) : NULL;
        size = written.length;
    }
    ISO_TRY(iso_share_text(ctx, status, path, &text, &size));
    ISO_TRY(iso_agree(ctx, use_text(path, tuning, text, size)));
    if (rest)
        status = iso_stopped(ctx, NULL);
done:
    json_decref(root);
    iso_text_free(&written);
    iso_free(text);
    return status;
}

/* Gives the ops that are open on any rank a choice. */
static iso_status choose_open(iso_context *ctx, const iso_backend_tuning *tuning, const iso_device *device)
{
    iso_text open = {0};
    char *lines = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(join_open(ctx, tuning, &open));
    if (open.length == 1)
        goto done;
    lines = iso_strdup(iso_text_get(&open));
    ISO_TRY(iso_agree(ctx, lines ? ISO_OK : iso_no_memory("the ops of --tune")));
    ISO_TRY(choose_all(ctx, tuning, lines, device));
done:
    iso_text_free(&open);
    iso_free(lines);
    return status;
}

iso_status iso_tuning_complete(iso_context *ctx, const iso_backend *backend, const iso_device *device)
{
    iso_status status = ISO_OK;
    if (iso_tuning_file(ctx))
        status = choose_open(ctx, backend->tuning, device);
    return status == ISO_OK ? iso_tuning_choices_agree(ctx, backend->tuning) : status;
}
