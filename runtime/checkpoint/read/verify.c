/* Verifies a committed file's checksums: each rank reads a share of all bytes, and the ranks combine their
 * sums. */
#include <inttypes.h>
#include <mpi.h>

#include "collectives/control/control.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/read/saved_file_impl.h"
#include "runtime/session/session.h"

enum { WINDOW = 1 << 20 };

/* Stores in `share` the contribution of bytes [begin, end) of an extent, such as a tensor, to its checksum. */
static iso_status sum_part(const iso_saved_file *f, const iso_commit_tensor *t, uint64_t begin, uint64_t end,
                           void *window, uint32_t *share)
{
    iso_crc_sum sum = {0};
    while (begin < end) {
        size_t bytes = end - begin < WINDOW ? (size_t)(end - begin) : WINDOW;
        iso_status status = iso_file_read_at(f->file, f->path, window, bytes, t->offset + begin);
        if (status != ISO_OK)
            return status;
        iso_crc_sum_add(&sum, begin, window, bytes);
        begin += bytes;
    }
    *share = iso_crc_sum_get(&sum, t->bytes);
    return ISO_OK;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- the whole file, shared among the ranks of each host ---- */

static iso_status sum_file(const iso_saved_file *f, uint32_t *share)
{
    void *window = NULL;
    int rank = iso_rank(f->ctx), host = iso_host_of_rank(f->ctx, rank), index = 0;
    for (int r = 0; r < rank; r++)
        index += iso_host_of_rank(f->ctx, r) == host;
    iso_commit_tensor whole = {.bytes = f->bytes};
    uint64_t each = f->bytes / (uint64_t)iso_host_ranks(f->ctx) + 1;
    uint64_t begin = least(f->bytes, each * (uint64_t)index), end = least(f->bytes, begin + each);
    iso_status status = iso_alloc(WINDOW, "a part of a file of weights", &window);
    if (status == ISO_OK)
        status = sum_part(f, &whole, begin, end, window, share);
    iso_free(window);
    return status;
}

iso_status iso_saved_file_sum_on_host(const iso_saved_file *f, uint32_t *sum)
{
    int ranks = iso_ranks(f->ctx), host = iso_host_of_rank(f->ctx, iso_rank(f->ctx));
    uint32_t share = 0, *shares = iso_new((size_t)ranks * sizeof *shares);
    iso_status status = ISO_OK;
    ISO_TRY(
        iso_agree(f->ctx, shares ? sum_file(f, &share) : iso_no_memory("the checksums of '%s'", f->path)));
    ISO_TRY(iso_gather_all(f->ctx, &share, sizeof share, shares));
    *sum = 0;
    for (int r = 0; r < ranks; r++)
        *sum ^= iso_host_of_rank(f->ctx, r) == host ? shares[r] : 0;
done:
    iso_free(shares);
    return status;
}

/* ---- the tensors, shared among all ranks ---- */

/* Sums this rank's share: part `rank` of `ranks` of all tensors' bytes, in the order of the record. */
static iso_status sum_share(const iso_saved_file *f, int rank, int ranks, uint32_t *share)
{
    uint64_t all = 0, before = 0;
    void *window = NULL;
    for (int i = 0; i < f->record.n_tensors; i++)
        all += f->record.tensors[i].bytes;
    uint64_t each = all / (uint64_t)ranks + 1, begin = least(all, each * (uint64_t)rank);
    uint64_t end = least(all, begin + each);
    iso_status status = iso_alloc(WINDOW, "a part of a checkpoint", &window);
    for (int i = 0; i < f->record.n_tensors && status == ISO_OK; i++) {
        const iso_commit_tensor *t = &f->record.tensors[i];
        uint64_t from = begin > before ? least(begin - before, t->bytes) : 0;
        uint64_t to = end > before ? least(end - before, t->bytes) : 0;
        if (from < to)
            status = sum_part(f, t, from, to, window, &share[i]);
        before += t->bytes;
    }
    iso_free(window);
    return status;
}

static iso_status verify_compare(const iso_saved_file *f, const uint32_t *sums)
{
    for (int i = 0; i < f->record.n_tensors; i++) {
        const iso_saved_tensor *t = &f->manifest.tensors[f->manifest.order[i]].tensor;
        if (sums[i] != f->record.tensors[i].crc)
            return iso_error(ISO_INVALID,
                             "'%s': tensor '%s'%s%s%s is not what was written: its checksum is %08" PRIx32
                             ", not %08" PRIx32,
                             f->path, t->h5_path, t->path ? " (" : "", t->path ? t->path : "",
                             t->path ? ")" : "", sums[i], f->record.tensors[i].crc);
    }
    return ISO_OK;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Whether the file was verified before and has not been written since. */
static bool is_verified(const iso_saved_file *f)
{
    struct stat now;
    return f->verified && fstat(f->file, &now) == 0 && now.st_size == f->facts.st_size &&
           is_same_time(now.st_mtim, f->facts.st_mtim) && is_same_time(now.st_ctim, f->facts.st_ctim);
}

/* Whether this holds on all ranks. Collective. */
static iso_status is_verified_everywhere(const iso_saved_file *f, bool *verified)
{
    *verified = is_verified(f);
    if (iso_ranks(f->ctx) == 1)
        return ISO_OK;
    return iso_mpi_all_reduce(iso_context_watchdog(f->ctx), MPI_IN_PLACE, verified, 1, MPI_C_BOOL, MPI_LAND,
                              *(MPI_Comm *)iso_communicator(f->ctx));
}

iso_status iso_saved_file_verify(iso_saved_file *f)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("file", f);
    int ranks = iso_ranks(f->ctx);
    uint32_t *sums = NULL;
    bool verified;
    if (!iso_saved_file_has_checksums(f))
        return ISO_OK;
    iso_status status = is_verified_everywhere(f, &verified);
    if (status != ISO_OK || verified)
        return status;
    f->verified = false;
    if (fstat(f->file, &f->facts))
        status = iso_file_failed(f->path, "its size and times cannot be read");
    sums = iso_new(((size_t)f->record.n_tensors + 1) * sizeof *sums);
    if (status == ISO_OK && !sums)
        status = iso_no_memory("the checksums of '%s'", f->path);
    if (status == ISO_OK)
        status = sum_share(f, iso_rank(f->ctx), ranks, sums);
    ISO_TRY(iso_agree(f->ctx, status));
    if (ranks > 1)
        ISO_TRY(iso_mpi_all_reduce(iso_context_watchdog(f->ctx), MPI_IN_PLACE, sums, f->record.n_tensors,
                                   MPI_UINT32_T, MPI_BXOR, *(MPI_Comm *)iso_communicator(f->ctx)));
    status = verify_compare(f, sums);
    f->verified = status == ISO_OK;
done:
    iso_free(sums);
    return status;
}
