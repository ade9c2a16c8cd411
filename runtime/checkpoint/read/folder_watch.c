/* Watching a folder. Notification by the kernel is no use here: it does not report what another host writes on
 * a network file system. So the folder's time of modification is asked for, and the folder is listed when that
 * has changed. Only files that are new or changed are opened. */
#include "runtime/checkpoint/folder_watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/file_names.h"
#include "runtime/checkpoint/folder_impl.h"
#include "runtime/checkpoint/read/saved_file_impl.h"

/* The properties by which two files of the same name are told apart. */
typedef struct stamp {
    uint64_t device, file, bytes;
    int64_t seconds, nanoseconds;
} stamp;

typedef struct watched_file {
    char *path;
    stamp stamp;
    uint64_t number, identity;
    bool counts; /* a checkpoint that is not done */
    bool seen;   /* by the current look */
    bool known;  /* a checkpoint that the look before saw, as it is now */
    bool best;   /* named by `best`, at the look before */
    bool bad;  /* it could not be read; it may become whole in place, which the folder's time does not show */
    bool torn; /* it has no commit record; to be told */
    bool reported; /* that it could not be read */
    double since;  /* when it was found so */
} watched_file;

/* Seconds. A change soon after another one may not show in the folder's time, whose clock is coarse. */
enum { COARSEST = 3, COPIED = 5 /* within which a file that is being copied has changed */ };

struct iso_folder_watch {
    char *folder, *pattern;
    int count;
    watched_file *files;
    stamp listed;   /* the folder, when it was listed last */
    double changed; /* when a change was noticed last */
    bool looked;    /* at least once */
    bool missed;    /* some checkpoints may have been */
    int first;      /* checkpoints of the first look that found any, if an earlier one found none; else 0 */
    int most;       /* of the looks after it that found new ones */
    int lost;       /* files that were reported and then removed */
};

static stamp stamp_of(const struct stat *about)
{
    return (stamp){(uint64_t)about->st_dev, (uint64_t)about->st_ino, (uint64_t)about->st_size,
                   about->st_mtim.tv_sec, about->st_mtim.tv_nsec};
}

static bool same_stamp(const stamp *a, const stamp *b)
{
    return a->device == b->device && a->file == b->file && a->bytes == b->bytes && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds;
}

iso_status iso_folder_watch_create(const char *folder, const char *pattern, iso_folder_watch **out)
{
    iso_folder_watch *watch = iso_new(sizeof *watch);
    if (watch) {
        watch->folder = iso_strdup(folder);
        watch->pattern = pattern ? iso_strdup(pattern) : NULL;
    }
    if (!watch || !watch->folder || (pattern && !watch->pattern)) {
        iso_folder_watch_destroy(watch);
        return iso_no_memory("the names of the checkpoints in '%s'", folder);
    }
    *out = watch;
    return ISO_OK;
}

void iso_folder_watch_destroy(iso_folder_watch *watch)
{
    if (!watch)
        return;
    for (int i = 0; i < watch->count; i++)
        iso_free(watch->files[i].path);
    iso_free(watch->files);
    iso_free(watch->folder);
    iso_free(watch->pattern);
    iso_free(watch);
}

/* ---- one file ---- */

static uint64_t identity_of(const iso_commit_record *record)
{
    uint64_t words[] = {record->number, record->hdf5_bytes, record->others};
    uint64_t hash = iso_hash_bytes(0, words, sizeof words);
    for (int i = 0; i < record->n_tensors; i++) {
        uint64_t tensor[] = {record->tensors[i].offset, record->tensors[i].bytes, record->tensors[i].crc};
        hash = iso_hash_bytes(hash, tensor, sizeof tensor);
    }
    return hash;
}

/* Reads the commit record of a new or changed file. Leaves `counts` false if it has none. */
static iso_status read_record(watched_file *one)
{
    int file = -1;
    uint64_t bytes;
    bool found = false;
    iso_commit_record record = {0};
    struct stat about;
    iso_status status;
    ISO_TRY(iso_file_open_to_read(one->path, &file, &bytes));
    if (fstat(file, &about) == 0)
        one->stamp = stamp_of(&about);
    ISO_TRY(iso_commit_record_read(file, one->path, &found, &record));
    one->number = record.number;
    one->identity = found ? identity_of(&record) : 0;
    one->counts = found && record.number > 0;
    one->bad = one->torn = !found;
    one->since = iso_clock();
done:
    iso_commit_record_free(&record);
    if (file >= 0)
        close(file);
    return status;
}

static watched_file *find(iso_folder_watch *watch, const char *path)
{
    for (int i = 0; i < watch->count; i++)
        if (!strcmp(watch->files[i].path, path))
            return &watch->files[i];
    return NULL;
}

typedef struct reporter {
    void (*gone)(void *user, const char *path);
    void *user;
} reporter;

/* A file that cannot be read now is read again by the next look, a damaged one when it has changed. */
static iso_status take_record(iso_folder_watch *watch, watched_file *one)
{
    one->bad = one->torn = one->reported = false;
    iso_status status = read_record(one);
    one->bad |= status == ISO_INVALID;
    if (status == ISO_INVALID && access(one->path, F_OK) == 0) {
        iso_warn("%s; it is skipped", iso_error_message());
        one->reported = true;
    }
    if (status == ISO_IO) {
        one->stamp = (stamp){0};
        watch->changed = iso_clock();
    }
    return status == ISO_NO_MEMORY ? status : ISO_OK;
}

static iso_status take_file(iso_folder_watch *watch, char *path, const reporter *to)
{
    struct stat about;
    watched_file *known = find(watch, path);
    iso_status status = ISO_OK;
    if (!known) {
        ISO_TRY(iso_list_reserve(watch->files, watch->count, 1, "the names of checkpoints"));
        known = &watch->files[watch->count++];
        *known = (watched_file){.path = path};
        path = NULL;
    }
    if (stat(known->path, &about) != 0)
        goto done; /* it has gone already: not seen */
    known->seen = true;
    stamp now = stamp_of(&about);
    if (same_stamp(&now, &known->stamp))
        goto done;
    if (known->counts)
        to->gone(to->user, known->path);
    known->counts = known->known = false;
    known->stamp = now;
    status = take_record(watch, known);
done:
    iso_free(path);
    return status;
}

/* ---- the folder ---- */

static iso_status list_folder(iso_folder_watch *watch, const reporter *to)
{
    DIR *all = opendir(watch->folder);
    iso_status status = ISO_OK;
    if (!all)
        return errno == ENOENT
                   ? ISO_OK
                   : iso_error(ISO_INVALID, "'%s' cannot be listed: %s", watch->folder, strerror(errno));
    errno = 0;
    for (struct dirent *entry; status == ISO_OK && (entry = readdir(all)); errno = 0) {
        if (!iso_file_name_fits(entry->d_name, watch->pattern))
            continue;
        char *path = iso_file_join(watch->folder, entry->d_name);
        status = path ? take_file(watch, path, to) : iso_no_memory("the name '%s'", entry->d_name);
    }
    if (status == ISO_OK && errno)
        status = iso_error(ISO_IO, "'%s' cannot be listed: %s", watch->folder, strerror(errno));
    closedir(all);
    return status;
}

/* Before those that are missing are forgotten. */
static void note_missed(iso_folder_watch *watch)
{
    int before = 0, left = 0, new = 0, count = 0;
    char *best = NULL;
    if (iso_checkpoint_pointed(watch->folder, "best", &best) != ISO_OK)
        best = NULL;
    for (int i = 0; i < watch->count; i++) {
        watched_file *one = &watch->files[i];
        bool was_best = one->best, checkpoint = one->seen && one->number > 0;
        one->best = best && strcmp(iso_file_name(one->path), best) == 0;
        before += one->known;
        left += one->known && one->seen && !one->best && !was_best;
        new += checkpoint && !one->known;
        count += checkpoint;
        one->known = checkpoint;
    }
    iso_free(best);
    watch->missed = watch->missed || (before > 0 && left == 0);
    if (new == 0)
        return;
    if (watch->looked && watch->first == 0 && watch->most == 0)
        watch->first = count;
    else if (count > watch->most)
        watch->most = count;
}

static void forget_missing(iso_folder_watch *watch, const reporter *to)
{
    int left = 0;
    for (int i = 0; i < watch->count; i++) {
        watched_file *one = &watch->files[i];
        if (one->seen) {
            watch->files[left++] = *one;
            continue;
        }
        if (one->counts)
            to->gone(to->user, one->path);
        watch->lost += one->reported;
        iso_free(one->path);
    }
    watch->count = left;
}

void iso_folder_watch_warn_torn(iso_folder_watch *watch, bool all)
{
    for (int i = 0; i < watch->count; i++) {
        watched_file *one = &watch->files[i];
        if (!one->torn || (!all && iso_clock() - one->since < COPIED))
            continue;
        one->torn = false;
        one->reported = true;
        iso_warn(
            "'%s' has no commit record at its end: it is cut off, still being copied, or no checkpoint of a "
            "training; it is skipped until it changes",
            one->path);
    }
}

int iso_folder_watch_unread(const iso_folder_watch *watch)
{
    int count = watch->lost;
    for (int i = 0; i < watch->count; i++)
        count += watch->files[i].reported;
    return count;
}

static bool any_bad_has_changed(const iso_folder_watch *watch)
{
    struct stat about;
    for (int i = 0; i < watch->count; i++) {
        const watched_file *one = &watch->files[i];
        if (!one->bad || stat(one->path, &about) != 0)
            continue;
        stamp now = stamp_of(&about);
        if (!same_stamp(&now, &one->stamp))
            return true;
    }
    return false;
}

/* Whether to list the folder. A missing one is listed, which finds nothing. */
static bool has_changed(iso_folder_watch *watch)
{
    struct stat about;
    stamp now = {0};
    if (stat(watch->folder, &about) == 0)
        now = stamp_of(&about);
    if (!same_stamp(&now, &watch->listed) || any_bad_has_changed(watch))
        watch->changed = iso_clock();
    watch->listed = now;
    return iso_clock() - watch->changed < COARSEST;
}

iso_status iso_folder_watch_look(iso_folder_watch *watch, void (*gone)(void *user, const char *path),
                                 void *user)
{
    reporter to = {gone, user};
    iso_folder_watch_warn_torn(watch, false);
    if (!has_changed(watch)) {
        watch->looked = true;
        return ISO_OK;
    }
    for (int i = 0; i < watch->count; i++)
        watch->files[i].seen = false;
    iso_status status = list_folder(watch, &to);
    if (status == ISO_OK) {
        note_missed(watch);
        forget_missing(watch, &to);
    } else
        watch->changed = iso_clock();
    watch->looked = true;
    return status;
}

/* Orders by number, then by time, then by name, as checkpoints are ordered everywhere. */
static bool is_older(const watched_file *a, const watched_file *b)
{
    if (a->number != b->number)
        return a->number < b->number;
    if (a->stamp.seconds != b->stamp.seconds)
        return a->stamp.seconds < b->stamp.seconds;
    if (a->stamp.nanoseconds != b->stamp.nanoseconds)
        return a->stamp.nanoseconds < b->stamp.nanoseconds;
    return strcmp(a->path, b->path) < 0;
}

bool iso_folder_watch_next(const iso_folder_watch *watch, bool newest, iso_folder_entry *found)
{
    const watched_file *best = NULL;
    for (int i = 0; i < watch->count; i++) {
        const watched_file *one = &watch->files[i];
        if (one->counts && (!best || is_older(one, best) != newest))
            best = one;
    }
    if (best)
        *found = (iso_folder_entry){best->path, strrchr(best->path, '/') + 1, best->number, best->identity};
    return best != NULL;
}

int iso_folder_watch_done(iso_folder_watch *watch, const iso_folder_entry *one, bool older)
{
    const watched_file *done = find(watch, one->path);
    int marked = 0;
    for (int i = 0; done && i < watch->count; i++) {
        watched_file *file = &watch->files[i];
        bool this = file == done || (older && is_older(file, done));
        marked += this && file->counts;
        file->counts = file->counts && !this;
    }
    return marked;
}

static bool is_as_seen(const watched_file *one)
{
    struct stat about;
    if (stat(one->path, &about) != 0)
        return false;
    stamp now = stamp_of(&about);
    return same_stamp(&now, &one->stamp);
}

bool iso_folder_watch_failed(iso_folder_watch *watch, const iso_folder_entry *one)
{
    watched_file *failed = find(watch, one->path);
    iso_folder_watch_done(watch, one, false);
    if (!failed)
        return false;
    failed->bad = true;
    failed->reported = is_as_seen(failed);
    return failed->reported;
}

bool iso_folder_watch_may_have_missed(const iso_folder_watch *watch)
{
    return watch->missed || (watch->first > 0 && watch->first >= watch->most);
}

/* ---- the end ---- */

static const char finished[] = "finished";

iso_status iso_finished_write(const char *folder, int epoch, int epochs, int64_t step)
{
    char text[100];
    snprintf(text, sizeof text, "epoch %d of %d, step %lld", epoch, epochs, (long long)step);
    return iso_folder_point(folder, finished, (uint32_t)getpid(), text);
}

iso_status iso_finished_remove(const char *folder)
{
    char *path = iso_file_join(folder, finished);
    if (!path)
        return iso_no_memory("the name '%s'", finished);
    bool removed = unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR;
    iso_status status = removed ? ISO_OK : iso_file_failed(path, "it cannot be removed");
    iso_free(path);
    return status;
}

bool iso_finished_read(const char *folder, int *epochs)
{
    char *text = NULL;
    *epochs = 0;
    bool there = iso_checkpoint_pointed(folder, finished, &text) == ISO_OK && text;
    if (there)
        sscanf(text, "epoch %*d of %d", epochs);
    iso_free(text);
    return there;
}
