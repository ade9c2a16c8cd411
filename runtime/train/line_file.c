#include "runtime/train/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "runtime/train/model.h"

bool iso_line_file_init(iso_line_file *file, const char *what, const char *path)
{
    *file = (iso_line_file){.what = what};
    file->path = iso_strdup(path ? path : "");
    return file->path != NULL;
}

void iso_line_file_free(iso_line_file *file)
{
    if (file->file)
        fclose(file->file);
    iso_free(file->path);
    *file = (iso_line_file){0};
}

static iso_status failed(const iso_line_file *file)
{
    return iso_error(ISO_IO, "%s %s: %s", file->what, file->path, strerror(errno));
}

iso_status iso_line_file_open(iso_line_file *file, const iso_fit_state *state)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(state->model));
    if (!file->path[0])
        return iso_error(ISO_INVALID, "a %s has no name", file->what);
    if ((ctx && !iso_is_chief(ctx)) || file->file)
        return ISO_OK;
    file->file = fopen(file->path, "a");
    return file->file ? ISO_OK : failed(file);
}

/* 0 where it is no file: a pipe or a terminal has no size. */
static off_t size_of(const iso_line_file *file)
{
    struct stat facts;
    return fstat(fileno(file->file), &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_size : 0;
}

bool iso_line_file_empty(const iso_line_file *file)
{
    return !file->written && (!file->keep || !file->file || size_of(file) == 0);
}

static bool cut(const iso_line_file *file, off_t bytes)
{
    return ftruncate(fileno(file->file), bytes) == 0 || errno == EINVAL; /* EINVAL: a pipe or a terminal */
}

iso_status iso_line_file_write(iso_line_file *file, const char *text)
{
    if (!file->file)
        return ISO_OK;
    if (!file->keep && !cut(file, 0))
        return failed(file);
    file->keep = file->written = true;
    if (fputs(text, file->file) < 0 || fflush(file->file) != 0)
        return failed(file);
    return ISO_OK;
}

iso_status iso_line_file_save(iso_line_file *file, iso_text *json)
{
    iso_text_add(json, "{\"bytes\": %lld}", file->file ? (long long)size_of(file) : 0LL);
    return ISO_OK;
}

/* Whether a line ends there: else it is another file that has got the name. */
static bool line_ends_at(const iso_line_file *file, off_t bytes)
{
    char last = '\n';
    int reader = bytes > 0 ? open(file->path, O_RDONLY) : -1;
    bool read = bytes == 0 || (reader >= 0 && pread(reader, &last, 1, bytes - 1) == 1);
    if (reader >= 0)
        close(reader);
    return read && last == '\n';
}

iso_status iso_line_file_restore(iso_line_file *file, const char *json)
{
    json_t *state = NULL;
    iso_status status = iso_json_parse("its state", json, strlen(json), &state);
    const json_t *bytes = json_object_get(state, "bytes");
    if (status == ISO_OK && (!json_is_integer(bytes) || json_integer_value(bytes) < 0))
        status = iso_error(ISO_INVALID, "'bytes' should be a whole number from 0 on");
    if (status == ISO_OK && file->file) {
        file->keep = true;
        off_t kept = (off_t)json_integer_value(bytes);
        if (size_of(file) > kept && line_ends_at(file, kept) && !cut(file, kept))
            status = failed(file);
    }
    json_decref(state);
    return status;
}
