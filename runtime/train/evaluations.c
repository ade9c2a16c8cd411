#include "runtime/train/evaluations.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/json.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

typedef struct known_line {
    uint64_t key; /* a hash of name and identity */
    int epoch;
} known_line;

struct iso_evaluations {
    char *path;
    FILE *file;
    int count;
    known_line *lines;
};

static uint64_t key_of(const char *checkpoint, uint64_t identity)
{
    return iso_hash_bytes(iso_hash_text(0, checkpoint), &identity, sizeof identity);
}

static iso_status know_line(iso_evaluations *e, const char *checkpoint, uint64_t identity, int epoch)
{
    iso_status status = iso_list_reserve(e->lines, e->count, 1, "evaluations");
    if (status == ISO_OK)
        e->lines[e->count++] = (known_line){key_of(checkpoint, identity), epoch};
    return status;
}

/* ---- reading ---- */

static iso_status not_a_line(const iso_evaluations *e, int line)
{
    return iso_error(ISO_INVALID,
                     "'%s', line %d: this is not a line of an evaluator, which would append to the file. "
                     "Give the evaluator "
                     "a file of its own",
                     e->path, line);
}

static iso_status take_line(iso_evaluations *e, const char *text, size_t length, int line)
{
    json_t *root = NULL;
    if (iso_json_parse(e->path, text, length, &root) != ISO_OK)
        return not_a_line(e, line);
    const char *name = json_string_value(json_object_get(root, "checkpoint"));
    const char *identity = json_string_value(json_object_get(root, "commit"));
    const json_t *epoch = json_object_get(root, "epoch");
    iso_status status = name && identity
                            ? know_line(e, name, strtoull(identity, NULL, 16),
                                        json_is_integer(epoch) ? (int)json_integer_value(epoch) : -1)
                            : not_a_line(e, line);
    json_decref(root);
    return status;
}

static iso_status read_lines(iso_evaluations *e)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    off_t whole = 0;
    iso_status status = ISO_OK;
    for (int n = 1; status == ISO_OK && (length = getline(&line, &room, e->file)) > 0; n++) {
        if (line[length - 1] != '\n')
            break; /* its writer was killed */
        status = take_line(e, line, (size_t)length, n);
        whole += length;
    }
    free(line);
    if (status == ISO_OK && (ferror(e->file) || ftruncate(fileno(e->file), whole) != 0))
        status = iso_error(ISO_IO, "'%s' cannot be read: %s", e->path, strerror(errno));
    return status;
}

iso_status iso_evaluations_open(const char *path, iso_evaluations **out)
{
    iso_evaluations *e = iso_new(sizeof *e);
    iso_status status = ISO_OK;
    if (e)
        e->path = iso_strdup(path);
    if (!e || !e->path)
        ISO_TRY(iso_no_memory("the evaluations in '%s'", path));
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    e->file = file >= 0 ? fdopen(file, "a+") : NULL;
    if (!e->file) {
        int why = errno;
        if (file >= 0)
            close(file);
        ISO_TRY(iso_error(ISO_INVALID, "the file of evaluations '%s' cannot be written: %s", path,
                          strerror(why)));
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        ISO_TRY(iso_error(ISO_INVALID,
                          "another evaluator writes '%s'. Give this one a file of its own: --history FILE",
                          path));
    rewind(e->file);
    ISO_TRY(read_lines(e));
    *out = e;
    return ISO_OK;
done:
    iso_evaluations_close(e);
    return status;
}

void iso_evaluations_close(iso_evaluations *e)
{
    if (!e)
        return;
    if (e->file)
        fclose(e->file);
    iso_free(e->lines);
    iso_free(e->path);
    iso_free(e);
}

static bool is_in_place(const iso_evaluations *e)
{
    struct stat opened, named;
    if (fstat(fileno(e->file), &opened) != 0)
        return true; /* writing will tell what is wrong */
    return stat(e->path, &named) == 0 ? iso_file_is_same(&opened, &named) : errno != ENOENT;
}

iso_status iso_evaluations_reopen(iso_evaluations *e)
{
    iso_evaluations *fresh = NULL;
    if (is_in_place(e))
        return ISO_OK;
    iso_status status = iso_evaluations_open(e->path, &fresh);
    if (status != ISO_OK)
        return status;
    iso_warn("the file of evaluations '%s' was removed or renamed; lines go to %s of that name", e->path,
             fresh->count > 0 ? "another file" : "a new file");
    iso_evaluations old = *e;
    *e = *fresh;
    *fresh = old;
    iso_evaluations_close(fresh);
    return ISO_OK;
}

bool iso_evaluations_has(const iso_evaluations *e, const char *checkpoint, uint64_t identity, int *epoch)
{
    uint64_t key = key_of(checkpoint, identity);
    for (int i = 0; i < e->count; i++)
        if (e->lines[i].key == key) {
            *epoch = e->lines[i].epoch;
            return true;
        }
    return false;
}

int iso_evaluations_count(const iso_evaluations *e)
{
    return e->count;
}

/* ---- writing ---- */

static void add_line(iso_text *line, const iso_evaluation *one)
{
    iso_text_add(line, "{");
    iso_json_put_text(line, "checkpoint", one->checkpoint);
    iso_json_put(line, "commit", "\"%016" PRIx64 "\"", one->identity);
    iso_json_put(line, "step", "%" PRId64, one->step);
    if (one->epoch >= 0) {
        iso_json_put(line, "epoch", "%d", one->epoch);
        iso_json_put(line, "batch", "%" PRId64, one->batch);
    }
    for (int i = 0; i < one->logs.count; i++)
        iso_json_put_number(line, one->logs.name[i], one->logs.value[i]);
    iso_text_add(line, "}\n");
}

iso_status iso_evaluations_add(iso_evaluations *e, const iso_evaluation *one)
{
    iso_text line = {0};
    add_line(&line, one);
    iso_status status = line.failed ? iso_no_memory("a line of '%s'", e->path)
                                    : know_line(e, one->checkpoint, one->identity, one->epoch);
    if (status == ISO_OK && (fputs(iso_text_get(&line), e->file) < 0 || fflush(e->file) != 0))
        status = iso_error(ISO_IO, "'%s' cannot be written: %s", e->path, strerror(errno));
    iso_text_free(&line);
    return status;
}
