#include "runtime/train/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"
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

static iso_status line_file_failed(const iso_line_file *file)
{
    return iso_error(ISO_IO, "%s %s: %s", file->what, file->path, strerror(errno));
}

/* A file that cannot be opened is an invalid argument: ISO_INVALID. */
static iso_status cannot_open(const iso_line_file *file)
{
    return iso_error(ISO_INVALID, "%s %s: it cannot be written: %s", file->what, file->path, strerror(errno));
}

/* A full file system is noticed only when a page is written. Truncates an empty file again afterwards. */
static bool takes_a_page(int file)
{
    char page[4096] = {0};
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > 0)
        return true;
    ssize_t written = write(file, page, sizeof page);
    int error = written < 0 ? errno : ENOSPC;
    if (ftruncate(file, 0) != 0)
        return false;
    errno = error;
    return written == (ssize_t)sizeof page;
}

iso_status iso_line_file_open(iso_line_file *file, const iso_fit_state *state)
{
    iso_context *ctx = iso_graph_context(iso_model_graph(state->model));
    if (!file->path[0])
        return iso_error(ISO_INVALID, "a %s has no name", file->what);
    if (!iso_is_chief(ctx) || file->file)
        return ISO_OK;
    char *path;
    iso_status status = iso_role_path(ctx, iso_role(ctx), file->path, &path);
    if (status != ISO_OK)
        return status;
    iso_free(file->path);
    file->path = path;
    file->created = access(path, F_OK) != 0;
    file->file = fopen(path, "a");
    return file->file && takes_a_page(fileno(file->file)) ? ISO_OK : cannot_open(file);
}

/* The size in bytes; 0 if the file is not open or has no size (a pipe or a terminal). ISO_IO. */
static iso_status measure(const iso_line_file *file, off_t *bytes)
{
    struct stat facts;
    *bytes = 0;
    if (!file->file)
        return ISO_OK;
    if (fstat(fileno(file->file), &facts))
        return line_file_failed(file);
    if (S_ISREG(facts.st_mode))
        *bytes = facts.st_size;
    return ISO_OK;
}

void iso_line_file_remove_empty(const iso_line_file *file)
{
    off_t bytes = 0;
    if (file->file && file->created && measure(file, &bytes) == ISO_OK && bytes == 0)
        unlink(file->path);
}

bool iso_line_file_empty(const iso_line_file *file)
{
    off_t bytes = 0;
    return !file->written && (!file->keep || (measure(file, &bytes) == ISO_OK && bytes == 0));
}

static bool line_file_cut(const iso_line_file *file, off_t bytes)
{
    return ftruncate(fileno(file->file), bytes) == 0 || errno == EINVAL; /* EINVAL: a pipe or a terminal */
}

iso_status iso_line_file_write(iso_line_file *file, const char *text)
{
    if (!file->file)
        return ISO_OK;
    if (!file->keep && !line_file_cut(file, 0))
        return line_file_failed(file);
    file->keep = file->written = true;
    if (fputs(text, file->file) < 0 || fflush(file->file) != 0)
        return line_file_failed(file);
    return ISO_OK;
}

/* Lines of another training do not count: the first new line removes them. */
iso_status iso_line_file_save(iso_line_file *file, iso_text *json)
{
    off_t bytes = 0;
    iso_status status = file->keep ? measure(file, &bytes) : ISO_OK;
    iso_json_add(json, json_pack("{s:I}", "bytes", (json_int_t)bytes), 0);
    return status;
}

/* Whether a line ends at `bytes`. If not, another file has this name now. ISO_IO. */
static iso_status find_end_of_line(const iso_line_file *file, off_t bytes, bool *ends)
{
    char last = '\n';
    if (bytes > 0) {
        int reader = open(file->path, O_RDONLY | O_CLOEXEC);
        ssize_t got = reader < 0 ? -1 : pread(reader, &last, 1, bytes - 1);
        iso_status status = got < 0 ? line_file_failed(file) : ISO_OK;
        if (reader >= 0)
            close(reader);
        if (status != ISO_OK)
            return status;
    }
    *ends = last == '\n';
    return ISO_OK;
}

/* Truncates the file to `kept` bytes, if a line ends there. */
static iso_status cut_back(const iso_line_file *file, off_t kept)
{
    bool ends = false;
    off_t there;
    iso_status status = measure(file, &there);
    if (status == ISO_OK && there > kept)
        status = find_end_of_line(file, kept, &ends);
    return status == ISO_OK && ends && !line_file_cut(file, kept) ? line_file_failed(file) : status;
}

iso_status iso_line_file_restore(iso_line_file *file, const char *json)
{
    json_t *state = NULL;
    iso_status status = iso_json_parse("its state", json, strlen(json), &state);
    const json_t *bytes = json_object_get(state, "bytes");
    if (status == ISO_OK && (!json_is_integer(bytes) || json_integer_value(bytes) < 0))
        status = iso_error(ISO_INVALID, "'bytes' must be an integer of at least 0");
    if (status == ISO_OK && file->file) {
        file->keep = true;
        status = cut_back(file, (off_t)json_integer_value(bytes));
    }
    json_decref(state);
    return status;
}
