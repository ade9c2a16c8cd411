#include "runtime/base/file.h"
#include "runtime/data/open_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/session/session.h"

/* The header of the shared memory. */
typedef struct head {
    uint64_t magic;
    size_t bytes; /* of all */
    iso_spec spec;
    int64_t rows;
    uint64_t identity;
    size_t offset[ISO_MAX_COMPONENTS];
} head;

static const uint64_t head_magic = 0x6973682d64617461u + sizeof(head);

/* The path under which the other ranks of the host open the memory; empty: there is none. The memory has no
 * name in any file system, so that a killed job leaves nothing behind. */
typedef struct offer {
    char path[48];
} offer;

/* Memory that is copied as a whole: the rows of a component, or of several whose rows overlap, as tokens and their
 * targets do. */
typedef struct segment {
    const char *begin;
    size_t bytes, at; /* at: its place in the shared memory */
} segment;

/* Lists the components in the order of their addresses. */
static void sort_components(const iso_node *node, int order[ISO_MAX_COMPONENTS])
{
    for (int i = 0; i < node->spec.n_components; i++) {
        const uintptr_t rows = (uintptr_t)node->ops->peek(node, i, 0);
        int at = i;
        for (; at > 0 && (uintptr_t)node->ops->peek(node, order[at - 1], 0) > rows; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Fills in the header and the segments, of which the last one has no bytes. */
static void find_segments(const iso_node *node, head *h, segment segments[ISO_MAX_COMPONENTS + 1])
{
    int order[ISO_MAX_COMPONENTS];
    segment *last = segments;
    *h =
        (head){.magic = head_magic, .spec = node->spec, .rows = node->spans.rows, .identity = node->identity};
    *last = (segment){.at = sizeof *h};
    sort_components(node, order);
    for (int k = 0; k < node->spec.n_components; k++) {
        const int i = order[k];
        const char *rows = node->ops->peek(node, i, 0);
        const size_t bytes = (size_t)h->rows * node->spec.bytes[i];
        size_t within = (size_t)((uintptr_t)rows - (uintptr_t)last->begin);
        if (within >= last->bytes) {
            const size_t end = last->at + last->bytes;
            last += last->bytes > 0;
            *last = (segment){.begin = rows, .at = (end + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN};
            within = 0;
        }
        h->offset[i] = last->at + within;
        last->bytes = within + bytes > last->bytes ? within + bytes : last->bytes;
    }
    h->bytes = last->at + last->bytes;
    last[1].bytes = 0;
}

static bool write_at(int fd, const void *from, size_t bytes, size_t at)
{
    return lseek(fd, (off_t)at, SEEK_SET) >= 0 && iso_file_write(fd, from, bytes);
}

enum { BLOCK = 4 << 20 }; /* bytes that the host holds twice for a moment */

/* Copies a segment, and gives its memory back as it goes. */
static bool copy_segment(int fd, const segment *p, const iso_memory_rows *memory)
{
    bool good = true;
    for (size_t at = 0; at < p->bytes && good; at += BLOCK) {
        const size_t bytes = p->bytes - at < BLOCK ? p->bytes - at : BLOCK;
        good = write_at(fd, p->begin + at, bytes, p->at + at);
        iso_memory_rows_give_back(memory, p->begin + at, bytes);
    }
    return good;
}

/* Moves the rows of a source in memory into an unnamed file in memory (memfd); -1 if there is not enough memory or
 * memfd is not supported. It is written, not mapped, so that a lack of memory is an error and not a signal. In any
 * case the node has no rows any more. */
static int copy_out(const iso_node *node)
{
    head h;
    segment segments[ISO_MAX_COMPONENTS + 1];
    int fd = memfd_create("isogrid-data", MFD_CLOEXEC);
    find_segments(node, &h, segments);
    bool good = fd >= 0 && write_at(fd, &h, sizeof h, 0);
    for (const segment *p = segments; p->bytes > 0 && good; p++)
        good = copy_segment(fd, p, iso_memory_node_rows(node));
    if (!good && fd >= 0)
        close(fd);
    return good ? fd : -1;
}

/* A node over shared memory; *node is NULL if the memory cannot be mapped. */
static iso_status map_in(int fd, const char *name, iso_node **node)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || (size_t)about.st_size < sizeof(head))
        return ISO_OK;
    const head *h = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (h == MAP_FAILED)
        return ISO_OK;
    iso_memory_rows memory = {.mapping = (void *)(uintptr_t)h, .mapping_bytes = (size_t)about.st_size};
    iso_spans spans = iso_spans_of_rows(h->rows);
    for (int i = 0; i < ISO_MAX_COMPONENTS; i++)
        memory.data[i] = (const char *)h + h->offset[i];
    iso_status status = ISO_OK;
    if (h->magic == head_magic && h->bytes == (size_t)about.st_size)
        status = iso_memory_node(name, &h->spec, &spans, &memory, node);
    if (*node)
        (*node)->identity = h->identity;
    else
        munmap(memory.mapping, memory.mapping_bytes);
    return status;
}

static iso_status take_offer(const offer *from, const char *name, iso_node **node)
{
    int fd = from->path[0] ? open(from->path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return ISO_OK;
    iso_status status = map_in(fd, name, node);
    close(fd);
    return status;
}

/* Offers the rows of the node to the other ranks; the node becomes one over the shared memory, or NULL if there is
 * not enough of it. */
static iso_status make_offer(iso_node **node, int *fd, offer *mine)
{
    iso_node *shared = NULL;
    *fd = copy_out(*node);
    iso_status status = *fd >= 0 ? map_in(*fd, (*node)->name, &shared) : ISO_OK;
    iso_node_release(*node);
    *node = shared;
    if (shared)
        snprintf(mine->path, sizeof mine->path, "/proc/%ld/fd/%d", (long)getpid(), *fd);
    return status;
}

static iso_status share(iso_context *ctx, const char *name, iso_node **node)
{
    bool leads = iso_is_host_leader(ctx);
    offer shared = {""};
    int fd = -1;
    iso_status status = ISO_OK;
    if (leads && iso_host_ranks(ctx) > 1 && iso_memory_node_rows(*node))
        status = make_offer(node, &fd, &shared);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_broadcast_in_hosts(ctx, &shared, sizeof shared));
    if (!leads)
        status = take_offer(&shared, name, node);
    status = iso_agree(ctx, status); /* no rank needs the descriptor any more */
done:
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- the same rows on every host ---- */

enum { ROWS_COMPARED = 16 }; /* of a source that is not in memory */

/* Continues a hash with some rows of a source that is not in memory, the first and the last among them. */
static iso_status hash_some_rows(iso_node *node, int component, uint64_t *hash)
{
    size_t bytes = node->spec.bytes[component];
    void *row = NULL;
    iso_status status = iso_alloc(bytes, "a row of a data set", &row);
    for (int64_t i = 0; i < ROWS_COMPARED && status == ISO_OK; i++) {
        iso_rows one = {.begin = i * (node->spans.rows - 1) / (ROWS_COMPARED - 1), .count = 1};
        status = node->ops->gather(node, component, &one, node->spec.dtype[component], row);
        if (status == ISO_OK)
            *hash = iso_hash_bytes(*hash, row, bytes);
    }
    iso_free(row);
    return status;
}

static iso_status hash_rows(iso_node *node, iso_text *shapes, uint64_t *hash)
{
    char shape[160];
    iso_status status = ISO_OK;
    iso_text_add(shapes, "%" PRId64 " rows of", node->spans.rows);
    for (int i = 0; i < node->spec.n_components && status == ISO_OK; i++) {
        iso_text_add(shapes, "%s %s%s", i ? "," : "", iso_dtype_name(node->spec.dtype[i]),
                     iso_shape_text(&node->spec.shape[i], shape, sizeof shape));
        if (!node->ops->peek)
            status = hash_some_rows(node, i, hash);
        else
            *hash ^= iso_hash_mix(iso_hash_content(node->ops->peek(node, i, 0),
                                                   (size_t)node->spans.rows * node->spec.bytes[i]) +
                                  (uint64_t)i);
    }
    return status;
}

/* node: of the first rank of each host, which is also the rank that a difference names. Collective. */
static iso_status agree_contents(iso_context *ctx, const char *name, iso_node *node)
{
    iso_text shapes = {0}, what = {0};
    uint64_t hash = 0;
    iso_status status = node ? hash_rows(node, &shapes, &hash) : ISO_OK;
    hash = iso_hash_text(hash, iso_text_get(&shapes));
    iso_text_add(&shapes, ", hash %016" PRIx64, hash);
    iso_text_add(&what, "the rows of data set '%s'", name);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_broadcast_in_hosts(ctx, &hash, sizeof hash));
    status = iso_agree_same(ctx, iso_text_get(&what), hash, iso_text_get(&shapes));
done:
    iso_text_free(&shapes);
    iso_text_free(&what);
    return status;
}

iso_status iso_host_shared_open(iso_context *ctx, const char *name, const iso_opener *opener, iso_node **node)
{
    iso_node *fresh = NULL;
    iso_status status = ISO_OK;
    if (iso_is_host_leader(ctx))
        status = opener->open(opener->arguments, false, &fresh);
    ISO_TRY(iso_agree(ctx, status));
    if (iso_hosts(ctx) > 1)
        ISO_TRY(agree_contents(ctx, name, fresh));
    if (iso_ranks(ctx) > iso_hosts(ctx))
        ISO_TRY(share(ctx, name, &fresh));
    if (!fresh)
        status = opener->open(opener->arguments, true, &fresh);
    ISO_TRY(iso_agree(ctx, status));
    *node = fresh;
    return ISO_OK;
done:
    iso_node_release(fresh);
    return status;
}
