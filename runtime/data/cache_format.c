/* The file of a cache: a header, then each component's rows as in memory. It has this machine's byte order:
 * it is not meant for other machines. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/cache_file_impl.h"

enum { HEADER = 4096, BLOCK_BYTES = 1 << 20, ROUND_BLOCKS = 16 };
static const char magic[8] = "isocache";

typedef struct header {
    char magic[8];
    uint64_t version, identity, bytes, checksum;
    int64_t rows, batch, short_at, short_rows;
    uint64_t self; /* checksum of the words before */
} header;

iso_status iso_cache_layout_of(const iso_node *top, const iso_order *order, iso_cache_layout *layout)
{
    size_t at = HEADER;
    *layout = (iso_cache_layout){
        .identity = iso_order_hash(order, iso_node_hash(top, 0)), .spec = top->spec, .spans = order->spans};
    for (int i = 0; i < top->spec.n_components; i++) {
        size_t bytes = 0;
        iso_status status = iso_size_mul((size_t)order->spans.rows, top->spec.bytes[i], "the cache", &bytes);
        if (status != ISO_OK)
            return status;
        layout->offset[i] = at;
        if (__builtin_add_overflow(at, bytes, &at) || at > PTRDIFF_MAX - HEADER)
            return iso_error(ISO_INVALID, "the cache of '%s' overflows", top->name);
        at = (at + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    }
    layout->bytes = at;
    return ISO_OK;
}

static header make_header(const iso_cache_layout *layout, const void *mapping)
{
    header h = {.version = 1, .identity = layout->identity, .bytes = layout->bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = iso_hash_bytes(0, (const char *)mapping + HEADER, layout->bytes - HEADER);
    h.rows = layout->spans.rows;
    h.batch = layout->spans.batch;
    h.short_at = layout->spans.short_at;
    h.short_rows = layout->spans.short_rows;
    h.self = iso_hash_bytes(0, &h, offsetof(header, self));
    return h;
}

/* Why the file is not the wanted one; NULL if it is. */
static const char *find_fault(const iso_cache_layout *layout, const void *mapping, size_t bytes, bool verify)
{
    header h;
    if (bytes < HEADER)
        return "it is truncated";
    memcpy(&h, mapping, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != 1)
        return "it is not a cache of this version";
    if (h.self != iso_hash_bytes(0, &h, offsetof(header, self)))
        return "its header is damaged";
    if (h.identity != layout->identity)
        return "it was made from other data, shapes or stages";
    if (h.bytes != layout->bytes || h.rows != layout->spans.rows || h.batch != layout->spans.batch ||
        h.short_rows != layout->spans.short_rows)
        return "it has other rows";
    if (bytes != layout->bytes)
        return "it is truncated";
    if (verify && h.checksum != iso_hash_bytes(0, (const char *)mapping + HEADER, bytes - HEADER))
        return "its checksum is wrong";
    return NULL;
}

static iso_status make_node(const iso_cache_layout *layout, const char *name, void *mapping, size_t bytes,
                            iso_node **node)
{
    iso_memory_rows memory = {.mapping = mapping, .mapping_bytes = bytes};
    iso_spans spans = layout->spans;
    header h;
    memcpy(&h, mapping, sizeof h);
    spans.short_at = h.short_at;
    for (int i = 0; i < layout->spec.n_components; i++)
        memory.data[i] = (const char *)mapping + layout->offset[i];
    iso_status status = iso_memory_node(name, &layout->spec, &spans, &memory, node);
    if (status == ISO_OK)
        (*node)->identity = layout->identity;
    return status;
}

iso_status iso_cache_file_open(const char *path, const iso_cache_layout *layout, bool verify,
                               const char *name, iso_node **node, char *why, size_t why_size)
{
    struct stat about;
    void *mapping = MAP_FAILED;
    iso_status status = ISO_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for the writer of a pipe */
    if (fd < 0 && errno == ENOENT)
        return ISO_OK;
    if (fd < 0 || fstat(fd, &about) != 0)
        status = iso_error(ISO_IO, "cannot open cache '%s': %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode))
        status = iso_error(ISO_INVALID, "cache '%s' is not a file", path);
    else if (about.st_size == 0)
        snprintf(why, why_size, "it is empty");
    else
        mapping = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (mapping == MAP_FAILED)
        return status;
    const char *fault = find_fault(layout, mapping, (size_t)about.st_size, verify);
    if (!fault)
        status = make_node(layout, name, mapping, (size_t)about.st_size, node);
    else
        snprintf(why, why_size, "%s", fault);
    if (!*node)
        munmap(mapping, (size_t)about.st_size);
    return status;
}

/* Work of several threads: blocks of elements, each taken by one. */
typedef struct writer {
    const iso_cache_layout *layout;
    iso_node *top;
    const iso_order *order;
    char *mapping;
    int64_t block; /* elements */
    int64_t end;   /* one after the last element to write */
    _Atomic int64_t next;
    pthread_mutex_t lock;
    iso_status status; /* the first error */
    char message[512];
} writer;

static iso_status write_block(const writer *w, int64_t first)
{
    const iso_spans *spans = &w->order->spans;
    int64_t last = first + w->block < w->end ? first + w->block : w->end;
    int64_t begin = iso_span_begin(spans, first),
            end = iso_span_begin(spans, last - 1) + iso_span_rows(spans, last - 1);
    iso_rows rows = iso_order_rows(w->order, begin, end - begin, 0);
    void *out[ISO_MAX_COMPONENTS];
    for (int i = 0; i < w->layout->spec.n_components; i++)
        out[i] = w->mapping + w->layout->offset[i] + (size_t)begin * w->layout->spec.bytes[i];
    return iso_node_fetch(w->top, &rows, out);
}

static void keep_error(writer *w, iso_status status)
{
    pthread_mutex_lock(&w->lock);
    if (w->status == ISO_OK) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", iso_error_message());
    }
    pthread_mutex_unlock(&w->lock);
}

static void *write_blocks(void *argument)
{
    writer *w = argument;
    iso_default_modes_of_thread();
    for (;;) {
        int64_t first = atomic_fetch_add(&w->next, w->block);
        if (first >= w->end)
            return NULL;
        iso_status status = write_block(w, first);
        if (status != ISO_OK) {
            keep_error(w, status);
            atomic_store(&w->next, w->end);
        }
    }
}

static int64_t block_elements(const iso_cache_layout *layout)
{
    size_t bytes = 1;
    for (int i = 0; i < layout->spec.n_components; i++)
        bytes += layout->spec.bytes[i] * (layout->spans.batch ? (size_t)layout->spans.batch : 1);
    return bytes < BLOCK_BYTES ? (int64_t)(BLOCK_BYTES / bytes) : 1;
}

enum { MOST_THREADS = 64 };

/* Writes elements [w->next, w->end) in this thread and in as many more as the maps may use. */
static void cache_format_write_part(writer *w)
{
    pthread_t thread[MOST_THREADS];
    int threads = 0, wanted = w->top->n_threads < MOST_THREADS ? w->top->n_threads : MOST_THREADS;
    while (threads < wanted - 1 && pthread_create(&thread[threads], NULL, write_blocks, w) == 0)
        threads++;
    write_blocks(w);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

/* The number of rounds must be the same on all ranks; the number of threads need not be. */
iso_cache_rounds iso_cache_rounds_of(const iso_cache_layout *layout, iso_row_window *window)
{
    iso_cache_rounds rounds = {.window = window, .elements = ROUND_BLOCKS * block_elements(layout)};
    rounds.left = (layout->spans.elements + rounds.elements - 1) / rounds.elements;
    return rounds;
}

/* Collective. */
static void write_rounds(writer *w, iso_cache_rounds *rounds)
{
    const iso_spans *spans = &w->order->spans;
    for (int64_t first = 0; rounds->left > 0; rounds->left--, first = w->end) {
        w->end = first + rounds->elements < spans->elements ? first + rounds->elements : spans->elements;
        int64_t begin = iso_span_begin(spans, first),
                end = iso_span_begin(spans, w->end - 1) + iso_span_rows(spans, w->end - 1);
        iso_rows rows = iso_order_rows(w->order, begin, end - begin, 0);
        if (w->status == ISO_OK)
            iso_row_window_want(rounds->window, w->top, &rows);
        iso_status status = iso_row_window_fetch(rounds->window, 1, 0);
        if (status != ISO_OK && w->status == ISO_OK)
            keep_error(w, status);
        atomic_store(&w->next, first);
        if (w->status == ISO_OK)
            cache_format_write_part(w);
    }
}

static iso_status write_rows(const iso_cache_layout *layout, iso_node *top, const iso_order *order,
                             void *mapping, iso_cache_rounds *rounds)
{
    writer w = {.layout = layout,
                .top = top,
                .order = order,
                .mapping = mapping,
                .block = block_elements(layout),
                .end = order->spans.elements};
    pthread_mutex_init(&w.lock, NULL);
    if (rounds->window)
        write_rounds(&w, rounds);
    else
        cache_format_write_part(&w);
    pthread_mutex_destroy(&w.lock);
    return w.status == ISO_OK ? ISO_OK : iso_error(w.status, "%s", w.message);
}

/* Space is allocated before a page is written: a full disk is then an error here, not a SIGBUS later. */
static iso_status fill_file(int fd, const char *path, const iso_cache_layout *layout, iso_node *top,
                            const iso_order *order, iso_cache_rounds *rounds)
{
    int error = posix_fallocate(fd, 0, (off_t)layout->bytes);
    if (error)
        return iso_error(ISO_IO, "cannot write cache '%s' of %zu bytes: %s", path, layout->bytes,
                         strerror(error));
    void *mapping = mmap(NULL, layout->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return iso_error(ISO_IO, "cannot map cache '%s' of %zu bytes: %s", path, layout->bytes,
                         strerror(errno));
    iso_status status = write_rows(layout, top, order, mapping, rounds);
    if (status == ISO_OK) {
        header h = make_header(layout, mapping);
        h.short_at = order->spans.short_at;
        h.self = iso_hash_bytes(0, &h, offsetof(header, self));
        memcpy(mapping, &h, sizeof h);
    }
    munmap(mapping, layout->bytes);
    if (status == ISO_OK && fsync(fd) != 0)
        status = iso_error(ISO_IO, "cannot write cache '%s': %s", path, strerror(errno));
    return status;
}

enum { SELF = 32 };

static void sync_folder(const char *path)
{
    char *folder = iso_file_folder(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd); /* makes the name durable; the rows already are */
        close(fd);
    }
    iso_free(folder);
}

/* Opens a new file in the folder of the cache that has no name, so that nothing is left behind if the job is killed.
 * self: its name for linkat. -1: this needs /proc and a file system that can do it. */
static int open_unnamed(const char *path, char self[SELF])
{
    char *folder = iso_file_folder(path);
    int fd = folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0644) : -1;
    iso_free(folder);
    snprintf(self, SELF, "/proc/self/fd/%d", fd);
    if (fd < 0 || access(self, F_OK) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Gives it its name. An older file of this name, which was found to be no cache of these rows, is removed first; a
 * device, pipe or link is refused. */
static iso_status give_name(const char *self, const char *path)
{
    iso_status status = ISO_OK;
    while (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0) {
        const bool taken = errno == EEXIST;
        if (taken)
            ISO_TRY(iso_file_check_name(path));
        if (!taken || (unlink(path) != 0 && errno != ENOENT))
            return iso_file_failed(path, "the new file cannot be given this name");
    }
done:
    return status;
}

iso_status iso_cache_file_write(const char *path, const iso_cache_layout *layout, iso_node *top,
                                const iso_order *order, iso_cache_rounds *rounds)
{
    char self[SELF];
    iso_text name = {0};
    iso_status status = iso_file_check_name(path);
    if (status != ISO_OK)
        return iso_error_prefix(status, "cache ");
    iso_text_add(&name, "%s.XXXXXX", path);
    if (name.failed)
        return iso_no_memory("the name of cache '%s'", path);
    int fd = open_unnamed(path, self);
    bool unnamed = fd >= 0;
    if (!unnamed)
        fd = mkostemp(name.data, O_CLOEXEC);
    if (fd < 0) {
        status = iso_error(ISO_IO, "cannot make cache '%s': %s", path, strerror(errno));
        iso_text_free(&name);
        return status;
    }
    status = fill_file(fd, path, layout, top, order, rounds);
    fchmod(fd, 0644);
    if (status == ISO_OK) {
        status = unnamed ? give_name(self, path) : iso_file_take_name(name.data, path, false);
        if (status != ISO_OK)
            iso_error_prefix(status, "cache ");
    }
    close(fd);
    if (status == ISO_OK)
        sync_folder(path);
    else if (!unnamed)
        unlink(name.data);
    iso_text_free(&name);
    return status;
}
