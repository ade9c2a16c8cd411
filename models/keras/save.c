/* .keras: a zip, stored without compression, of metadata.json, config.json and model.weights.h5.
 *
 * The parts are written to a folder ".NAME.saving" beside the final file. The writer holds a lock on the folder; if
 * a killed job left one, the next save of that name empties it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zip.h>

#include "collectives/control/control.h"
#include "models/keras/keras.h"
#include "models/keras/writer_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"

#define VERSION "3.15.1" /* of Keras, whose format this is */

typedef struct saving {
    const char *path;
    iso_text folder;                /* of `path` */
    iso_text parts, weights, whole; /* the folder of the parts; in it the weights, and the zip */
    iso_text config, metadata;
    int lock; /* the open folder of the parts; -1: none */
} saving;

/* ---- names and config ---- */

static iso_status name_parts(saving *s)
{
    const char *name = iso_file_name(s->path);
    if (!iso_file_name_ends(s->path, ".keras"))
        return iso_error(ISO_INVALID, "'%s': the name must end in .keras", s->path);
    iso_text_add(&s->folder, "%.*s", name > s->path ? (int)(name - s->path) : 2,
                 name > s->path ? s->path : "./");
    iso_text_add(&s->parts, "%s.%s.saving", iso_text_get(&s->folder), name);
    iso_text_add(&s->weights, "%s/model.weights.h5", iso_text_get(&s->parts));
    iso_text_add(&s->whole, "%s/whole.zip", iso_text_get(&s->parts));
    return s->folder.failed || s->parts.failed || s->weights.failed || s->whole.failed
               ? iso_no_memory("the name of '%s'", s->path)
               : ISO_OK;
}

static iso_status make_texts(iso_model *model, saving *s)
{
    json_t *config;
    char date[64] = "";
    time_t now = time(NULL);
    struct tm local;
    iso_status status = iso_keras_describe(model, &config);
    if (status != ISO_OK)
        return iso_error_prefix(status, "'%s': ", s->path);
    iso_json_add(&s->config, config, 0);
    if (localtime_r(&now, &local))
        strftime(date, sizeof date, "%Y-%m-%d@%H:%M:%S", &local);
    iso_json_add(&s->metadata, json_pack("{s:s, s:s}", "keras_version", VERSION, "date_saved", date), 0);
    return s->config.failed || s->metadata.failed ? iso_no_memory("the config of '%s'", s->path) : ISO_OK;
}

/* ---- the folder of the parts ---- */

static void empty(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
}

static iso_status save_begin(saving *s)
{
    const char *parts = iso_text_get(&s->parts);
    iso_status status = iso_folder_make(iso_text_get(&s->folder));
    if (status != ISO_OK)
        return status;
    if (mkdir(parts, 0777) && errno != EEXIST)
        return iso_file_failed(s->path, "its temporary folder cannot be made");
    s->lock = open(parts, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return iso_file_failed(parts, "it cannot be opened");
    if (flock(s->lock, LOCK_EX | LOCK_NB)) {
        close(s->lock);
        s->lock = -1;
        return iso_file_failed(s->path, "another job saves it now");
    }
    empty(parts);
    return ISO_OK;
}

static void end(saving *s)
{
    if (s->lock < 0)
        return;
    empty(iso_text_get(&s->parts));
    rmdir(iso_text_get(&s->parts));
    close(s->lock);
    s->lock = -1;
}

/* ---- the zip ---- */

static iso_status zip_failed(const saving *s, zip_t *zip, zip_source_t *source)
{
    iso_status status = iso_error(ISO_IO, "'%s': %s", s->path, zip_strerror(zip));
    zip_source_free(source);
    return status;
}

/* Takes over the source. */
static iso_status save_add(const saving *s, zip_t *zip, const char *name, zip_source_t *source)
{
    zip_int64_t index = source ? zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0)
        return zip_failed(s, zip, source);
    return zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) ? zip_failed(s, zip, NULL)
                                                                               : ISO_OK;
}

static iso_status save_fill(const saving *s, zip_t *zip)
{
    iso_status status = ISO_OK;
    const iso_text *text[] = {&s->metadata, &s->config};
    const char *name[] = {"metadata.json", "config.json"};
    for (int i = 0; i < 2; i++)
        ISO_TRY(save_add(s, zip, name[i], zip_source_buffer(zip, text[i]->data, text[i]->length, 0)));
    ISO_TRY(save_add(s, zip, "model.weights.h5", zip_source_file(zip, iso_text_get(&s->weights), 0, -1)));
done:
    return status;
}

static iso_status write_zip(const saving *s)
{
    int code = 0;
    zip_t *zip = zip_open(iso_text_get(&s->whole), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!zip) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        iso_status status = iso_error(ISO_IO, "'%s': %s", s->path, zip_error_strerror(&error));
        zip_error_fini(&error);
        return status;
    }
    iso_status status = save_fill(s, zip);
    if (status == ISO_OK && zip_close(zip)) /* writes everything */
        status = zip_failed(s, zip, NULL);
    else if (status == ISO_OK)
        return ISO_OK;
    zip_discard(zip);
    return status;
}

static iso_status sync_file(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    iso_status status =
        file < 0 || fsync(file) ? iso_file_failed(path, "it could not be written to the disk") : ISO_OK;
    if (file >= 0)
        close(file);
    return status;
}

static iso_status save_commit(const saving *s)
{
    iso_status status = ISO_OK;
    ISO_TRY(write_zip(s));
    ISO_TRY(sync_file(iso_text_get(&s->whole)));
    ISO_TRY(iso_file_take_name(iso_text_get(&s->whole), s->path, true));
    ISO_TRY(iso_folder_sync(iso_text_get(&s->folder)));
done:
    return status;
}

static iso_status save_prepare(iso_model *model, saving *s)
{
    iso_status status = s->path ? name_parts(s) : iso_error(ISO_INVALID, "a model's file needs a name");
    return status == ISO_OK ? make_texts(model, s) : status;
}

static void free_texts(saving *s)
{
    iso_text *text[] = {&s->folder, &s->parts, &s->weights, &s->whole, &s->config, &s->metadata};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        iso_text_free(text[i]);
}

iso_status iso_keras_save_check(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model, path);
    saving s = {.path = path, .lock = -1};
    iso_status status = save_prepare(model, &s);
    free_texts(&s);
    return status;
}

/* Keras merges adapters as it saves. Here the weights change only if the program says so. */
static iso_status check_adapters(iso_model *model, const char *path)
{
    return iso_model_adapter_count(model) == 0
               ? ISO_OK
               : iso_error(ISO_INVALID, "'%s': the model has adapters: call iso_model_merge_adapters before",
                           path);
}

iso_status iso_keras_save(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    saving s = {.path = path, .lock = -1};
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    ISO_NEED_AGREED(ctx, path);
    bool chief = iso_is_chief(ctx);
    iso_status status = iso_model_graph(model) ? iso_graph_take_error(iso_model_graph(model)) : ISO_OK;
    status = status == ISO_OK ? check_adapters(model, path) : status;
    ISO_TRY(iso_agree(ctx, status == ISO_OK ? save_prepare(model, &s) : status));
    iso_keras_warn_of_functions(model);
    iso_keras_warn_of_settings(model);
    ISO_TRY(iso_agree(ctx, chief ? save_begin(&s) : ISO_OK));
    ISO_TRY(iso_model_save_weights(model, iso_text_get(&s.weights)));
    status = chief ? save_commit(&s) : ISO_OK;
    end(&s); /* when a rank returns, the temporary folder is gone */
    ISO_TRY(iso_agree(ctx, status));
done:
    end(&s);
    free_texts(&s);
    return status;
}
