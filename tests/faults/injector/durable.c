/* What a power cut would have left: of each file the ranges that their writers synced, of each folder the
 * names that it had when it was synced. After every call that may change this, images of the folder are made
 * as a file system could bring it back, for the test to look at:
 *   a  what was not synced is lost, names and data
 *   b  names are there at once, data that was not synced is lost (a rename before the sync leaves an empty
 * file) c  names that were removed are gone at once, names that were given and not synced are lost
 * FAULTS_DURABLE holds data/INODE, names/FOLDER and images/NUMBER-a, -b, -c; the log has a line "image
 * NUMBER". A range is what one process wrote and then synced itself, as over NFS: nobody syncs for another.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/faults/injector/injector.h"

enum { MAX_RANGES = 4096, MAX_HELD = 1024, MAX_NAMES = 512 };

static const char *store, *root;
_Thread_local bool injector_inside; /* the library's own calls */

static struct range {
    ino_t inode;
    off_t at, bytes; /* bytes -1: the file was cut to `at` */
} ranges[MAX_RANGES];
static int range_count;
static ino_t held[MAX_HELD]; /* inodes that a descriptor keeps from being given out again */
static int held_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct listing {
    int count;
    struct {
        char name[256];
        ino_t inode;
    } entry[MAX_NAMES];
} listing;

static void broken(const char *what)
{
    fprintf(stderr, "injector: %s: %s\n", what, strerror(errno));
    _exit(99);
}

void durable_begin(void)
{
    char path[PATH_MAX];
    static const char *const parts[] = {"data", "names", "images"};
    store = getenv("FAULTS_DURABLE");
    root = getenv("FAULTS_BELOW");
    injector_inside = true;
    for (int i = 0; store && i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", store, parts[i]);
        if (mkdir(path, 0777) && errno != EEXIST)
            broken(path);
    }
    injector_inside = false;
}

/* ---- data ---- */

static void add_range(ino_t inode, off_t at, off_t bytes)
{
    if (range_count == MAX_RANGES) {
        errno = E2BIG;
        broken("ranges that are not synced");
    }
    ranges[range_count++] = (struct range){inode, at, bytes};
}

static void data_path(char *path, ino_t inode)
{
    snprintf(path, PATH_MAX, "%s/data/%llu", store, (unsigned long long)inode);
}

static void hold(ino_t inode, const char *link)
{
    for (int i = 0; i < held_count; i++)
        if (held[i] == inode)
            return;
    if (held_count == MAX_HELD || open(link, O_RDONLY | O_CLOEXEC) < 0)
        broken("a file to keep its inode");
    held[held_count++] = inode;
}

static void copy_range(int from, int to, off_t at, off_t bytes)
{
    char buffer[65536];
    while (bytes > 0) {
        size_t chunk = bytes < (off_t)sizeof buffer ? (size_t)bytes : sizeof buffer;
        ssize_t n = pread(from, buffer, chunk, at);
        if (n == 0)
            return; /* cut since */
        if (n < 0 || pwrite(to, buffer, (size_t)n, at) != n)
            broken("copy");
        at += n;
        bytes -= n;
    }
}

static void sync_file(int fd, ino_t inode)
{
    char path[PATH_MAX], link[32];
    int kept = 0, from, to;
    data_path(path, inode);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    hold(inode, link);
    from = open(link, O_RDONLY | O_CLOEXEC);
    to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    struct stat st;
    if (from < 0 || to < 0 || fstat(from, &st))
        broken(path);
    for (int i = 0; i < range_count; i++) {
        struct range r = ranges[i];
        if (r.inode != inode)
            ranges[kept++] = r;
        else if (r.bytes >= 0)
            copy_range(from, to, r.at, r.bytes);
        else if (ftruncate(to, r.at))
            broken(path);
    }
    range_count = kept;
    if (lseek(to, 0, SEEK_END) > st.st_size && ftruncate(to, st.st_size))
        broken(path);
    close(from);
    close(to);
}

/* ---- names ---- */

static void list_real(const char *folder, listing *l)
{
    DIR *directory = opendir(folder);
    struct dirent *d;
    l->count = 0;
    while (directory && (d = readdir(directory))) {
        if (d->d_type != DT_REG)
            continue;
        if (l->count == MAX_NAMES)
            broken("too many names");
        snprintf(l->entry[l->count].name, sizeof l->entry[0].name, "%s", d->d_name);
        l->entry[l->count++].inode = d->d_ino;
    }
    if (directory)
        closedir(directory);
}

/* Of one folder: the root itself, for whose sake alone this is. */
static void names_path(char *path)
{
    snprintf(path, PATH_MAX, "%s/names/root", store);
}

static void sync_folder(const char *folder)
{
    char path[PATH_MAX];
    listing l;
    if (strcmp(folder, root))
        return;
    names_path(path);
    list_real(folder, &l);
    FILE *out = fopen(path, "we");
    if (!out)
        broken(path);
    for (int i = 0; i < l.count; i++)
        fprintf(out, "%llu %s\n", (unsigned long long)l.entry[i].inode, l.entry[i].name);
    fclose(out);
}

static void list_durable(listing *l)
{
    char path[PATH_MAX];
    unsigned long long inode;
    names_path(path);
    l->count = 0;
    FILE *in = fopen(path, "re");
    while (in && l->count < MAX_NAMES && fscanf(in, "%llu %255[^\n]", &inode, l->entry[l->count].name) == 2)
        l->entry[l->count++].inode = (ino_t)inode;
    if (in)
        fclose(in);
}

/* ---- images ---- */

static void make_image(int number, char variant, const listing *l)
{
    char folder[PATH_MAX / 2], path[PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "%s/images/%05d-%c", store, number, variant);
    if (mkdir(folder, 0777))
        broken(folder);
    for (int i = 0; i < l->count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, l->entry[i].name);
        int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        data_path(path, l->entry[i].inode);
        int from = open(path, O_RDONLY | O_CLOEXEC);
        if (to < 0 || (from >= 0 && fstat(from, &st)))
            broken(path);
        if (from >= 0) {
            copy_range(from, to, 0, st.st_size);
            if (ftruncate(to, st.st_size))
                broken(path);
            close(from);
        }
        close(to);
    }
}

/* The entries of `l` whose names are in `in` too. */
static void keep_present(listing *l, const listing *in)
{
    int kept = 0;
    for (int i = 0; i < l->count; i++)
        for (int k = 0; k < in->count; k++)
            if (!strcmp(l->entry[i].name, in->entry[k].name)) {
                l->entry[kept++] = l->entry[i];
                break;
            }
    l->count = kept;
}

static int next_number(int lock_file)
{
    char text[16] = "";
    int number = pread(lock_file, text, sizeof text - 1, 0) > 0 ? atoi(text) + 1 : 0;
    int length = snprintf(text, sizeof text, "%d", number);
    if (pwrite(lock_file, text, (size_t)length, 0) != length)
        broken("number of images");
    return number;
}

static void make_images(int lock_file)
{
    static listing names, now; /* under the lock */
    int number = next_number(lock_file);
    list_durable(&names);
    list_real(root, &now);
    make_image(number, 'a', &names);
    make_image(number, 'b', &now);
    keep_present(&names, &now);
    make_image(number, 'c', &names);
    log_line("image %05d", number);
}

/* ---- following ---- */

static void follow_size(const call *c, const struct stat *st, long result)
{
    if (c->kind == WRITES) {
        off_t at = c->at >= 0 ? c->at : lseek(c->fd, 0, SEEK_CUR) - result;
        add_range(st->st_ino, at, result);
    } else if (!strcmp(c->name, "ftruncate"))
        add_range(st->st_ino, (off_t)c->bytes, -1);
    else if (strstr(c->name, "fallocate"))
        add_range(st->st_ino, c->at, (off_t)c->bytes);
}

/* A new or emptied file: what was written to its inode before is forgotten. */
static void follow_open(int fd)
{
    struct stat st;
    int kept = 0;
    if (fstat(fd, &st) || st.st_size)
        return;
    for (int i = 0; i < range_count; i++)
        if (ranges[i].inode != st.st_ino)
            ranges[kept++] = ranges[i];
    range_count = kept;
}

static bool gives_names(const call *c)
{
    static const char *const names[] = {"rename", "link", "unlink", "symlink"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(c->name, names[i]))
            return true;
    return false;
}

static void follow(const call *c, long result)
{
    struct stat st;
    char path[PATH_MAX];
    bool image = gives_names(c);
    if (!strcmp(c->name, "open"))
        follow_open((int)result);
    if (c->fd >= 0 && fstat(c->fd, &st))
        broken(c->path);
    if (c->fd >= 0 && S_ISREG(st.st_mode))
        follow_size(c, &st, result);
    snprintf(path, sizeof path, "%s/lock", store);
    int lock_file = image || c->kind == SYNCS ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (lock_file < 0)
        return;
    if (flock(lock_file, LOCK_EX))
        broken(path);
    if (!image && (!strcmp(c->name, "fsync") || !strcmp(c->name, "fdatasync"))) {
        image = true;
        if (S_ISDIR(st.st_mode))
            sync_folder(c->path);
        else
            sync_file(c->fd, st.st_ino);
    }
    if (image)
        make_images(lock_file);
    close(lock_file);
}

void durable_follow(const call *c, long result)
{
    if (!store || !strcmp(c->name, "close"))
        return;
    pthread_mutex_lock(&lock);
    injector_inside = true;
    follow(c, result);
    injector_inside = false;
    pthread_mutex_unlock(&lock);
}
