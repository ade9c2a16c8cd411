#include "runtime/checkpoint/saver_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_impl.h"

static const struct timespec nap = {0, 200000};

static bool is_chief(const iso_saver *saver)
{
    return saver->rank == 0;
}

static bool is_alone(const iso_saver *saver)
{
    return saver->communicator == MPI_COMM_NULL;
}

/* ---- making ---- */

/* MPI's form. The report of `in` joins that of `both`. */
static void join_reports(void *in, void *both, int *count, MPI_Datatype *type)
{
    int bytes = 0;
    MPI_Type_size(*type, &bytes);
    for (int r = 0; r < *count; r++) {
        iso_save_report *a = (iso_save_report *)((char *)in + (size_t)r * (size_t)bytes),
                        *b = (iso_save_report *)((char *)both + (size_t)r * (size_t)bytes);
        if (a->outcome.status != ISO_OK && (b->outcome.status == ISO_OK || a->outcome.rank < b->outcome.rank))
            b->outcome = a->outcome;
        for (size_t t = 0; t < ((size_t)bytes - sizeof *a) / sizeof *a->crc; t++)
            b->crc[t] ^= a->crc[t];
    }
}

static uint32_t some_number(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t number[3] = {(uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid()};
    return (uint32_t)iso_hash_bytes(0, number, sizeof number);
}

iso_status iso_saver_create_with(iso_context *ctx, iso_saver **saver, const iso_saver_options *options,
                                 size_t size)
{
    iso_status status = ISO_OK;
    iso_saver *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        status = iso_error(ISO_NO_MEMORY, "no memory for a saver");
    else if (size > sizeof fresh->options)
        status = iso_error(ISO_INVALID, "the options of a saver are of another version");
    else if (options->keep < 0)
        status = iso_error(ISO_INVALID, "keep: %d checkpoints cannot be kept", options->keep);
    ISO_TRY(iso_agree(ctx, status));
    memcpy(&fresh->options, options, size);
    fresh->options.waits |= fresh->options.mpio;
    fresh->ctx = ctx;
    fresh->rank = iso_rank(ctx);
    fresh->ranks = iso_ranks(ctx);
    fresh->file = -1;
    fresh->id = some_number();
    fresh->communicator = MPI_COMM_NULL;
    fresh->report = MPI_DATATYPE_NULL;
    ISO_TRY(iso_broadcast(ctx, &fresh->id, sizeof fresh->id));
    if (iso_communicator(ctx)) {
        MPI_Comm_dup(*(MPI_Comm *)iso_communicator(ctx), &fresh->communicator);
        MPI_Op_create(join_reports, 1, &fresh->join);
    }
    *saver = fresh;
    return ISO_OK;
done:
    iso_free(fresh);
    return status;
}

void iso_saver_destroy(iso_saver *saver)
{
    if (!saver)
        return;
    iso_saver_wait(saver);
    if (!is_alone(saver)) {
        MPI_Op_free(&saver->join);
        MPI_Comm_free(&saver->communicator);
    }
    iso_file_layout_free(&saver->layout);
    iso_save_parts_free(&saver->parts);
    iso_save_exchange_free(&saver->exchange);
    iso_kept_free(&saver->kept);
    iso_free(saver->copy);
    iso_free(saver);
}

/* ---- the thread ---- */

static void *run_work(void *data)
{
    iso_saver *saver = data;
    saver->work(saver);
    atomic_store(&saver->worked, true);
    return NULL;
}

/* Signals are for the caller's threads. Where no thread can be had, the work is done here. */
static void begin_work(iso_saver *saver, void (*work)(iso_saver *))
{
    sigset_t all, before;
    saver->work = work;
    atomic_store(&saver->worked, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->has_thread = true; /* the thread sees it */
    int failed = pthread_create(&saver->thread, NULL, run_work, saver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        saver->has_thread = false;
        run_work(saver);
    }
}

/* Waits where it still works. */
static void end_work(iso_saver *saver)
{
    if (saver->has_thread)
        pthread_join(saver->thread, NULL);
    saver->has_thread = false;
}

/* ---- the phases ---- */

static void begin_commit(iso_saver *saver)
{
    saver->phase = ISO_SAVE_COMMITTING;
    begin_work(saver, iso_save_commit);
}

static void begin_joining(iso_saver *saver)
{
    if (is_alone(saver)) {
        saver->all = saver->mine;
        begin_commit(saver);
        return;
    }
    MPI_Ireduce(saver->mine, saver->all, 1, saver->report, saver->join, 0, saver->communicator,
                &saver->request);
    saver->phase = ISO_SAVE_JOINING;
}

static void begin_telling(iso_saver *saver)
{
    MPI_Ibcast(&saver->outcome, sizeof saver->outcome, MPI_BYTE, 0, saver->communicator, &saver->request);
    saver->phase = ISO_SAVE_TELLING;
}

static void free_reports(iso_saver *saver)
{
    if (saver->all != saver->mine)
        iso_free(saver->all);
    iso_free(saver->mine);
    saver->mine = saver->all = NULL;
    if (saver->report != MPI_DATATYPE_NULL)
        MPI_Type_free(&saver->report);
}

static void finish(iso_saver *saver)
{
    const iso_save_outcome *o = &saver->outcome;
    char who[32] = "";
    if (o->status != ISO_OK && saver->ranks > 1)
        snprintf(who, sizeof who, "rank %d: ", o->rank);
    saver->message[0] = 0;
    if (o->text[0])
        snprintf(saver->message, sizeof saver->message, "checkpoint %.400s: %s%s%s", saver->path.whole,
                 o->status == ISO_OK ? "it is written, but " : "", who, o->text);
    saver->result = (iso_status)o->status;
    saver->untold = true;
    saver->phase = ISO_SAVE_NONE;
    free_reports(saver);
    iso_path_free(&saver->path);
}

static bool has_arrived(iso_saver *saver)
{
    int done = 0;
    MPI_Test(&saver->request, &done, MPI_STATUS_IGNORE);
    return done;
}

/* Goes on to the next phase; false where this one has not ended. */
static bool go_on(iso_saver *saver)
{
    if (saver->phase == ISO_SAVE_WRITING)
        iso_save_exchange_go_on(&saver->exchange);
    bool works = saver->phase == ISO_SAVE_WRITING || saver->phase == ISO_SAVE_COMMITTING;
    if (works ? !atomic_load(&saver->worked) : !has_arrived(saver))
        return false;
    if (works)
        end_work(saver);
    if (saver->phase == ISO_SAVE_WRITING)
        begin_joining(saver);
    else if (saver->phase == ISO_SAVE_JOINING && is_chief(saver))
        begin_commit(saver);
    else if (saver->phase == ISO_SAVE_TELLING || is_alone(saver))
        finish(saver);
    else
        begin_telling(saver);
    return true;
}

void iso_saver_poll(iso_saver *saver)
{
    while (saver->phase != ISO_SAVE_NONE && go_on(saver))
        ;
}

static void settle(iso_saver *saver)
{
    while (saver->phase != ISO_SAVE_NONE)
        if (!go_on(saver))
            nanosleep(&nap, NULL);
}

static iso_status wait_for_save(iso_saver *saver)
{
    settle(saver);
    iso_status status = saver->untold ? saver->result : ISO_OK;
    saver->untold = false;
    return status == ISO_OK ? ISO_OK : iso_error(status, "%s", saver->message);
}

iso_status iso_saver_wait(iso_saver *saver)
{
    return wait_for_save(saver);
}

const char *iso_saver_message(const iso_saver *saver)
{
    return saver->message;
}

/* ---- beginning a save ---- */

static iso_status check_path(const char *path)
{
    static const char end[] = ".weights.h5";
    if (!path || !iso_file_name_ends(path, end))
        return iso_error(ISO_INVALID, "'%s': a checkpoint's name ends in \"%s\"", path ? path : "", end);
    const char *slash = strrchr(path, '/');
    if (*(slash ? slash + 1 : path) == '.')
        return iso_error(ISO_INVALID, "'%s': a checkpoint's name does not begin with a dot", path);
    return ISO_OK;
}

static iso_status make_reports(iso_saver *saver, int tensors)
{
    size_t bytes = sizeof *saver->mine + (size_t)tensors * sizeof *saver->mine->crc;
    saver->mine = iso_new(bytes);
    saver->all = is_chief(saver) && !is_alone(saver) ? iso_new(bytes) : NULL;
    if (!saver->mine || (is_chief(saver) && !is_alone(saver) && !saver->all))
        return iso_error(ISO_NO_MEMORY, "no memory for the checksums of %d tensors", tensors);
    if (!is_alone(saver)) {
        MPI_Type_contiguous((int)bytes, MPI_BYTE, &saver->report);
        MPI_Type_commit(&saver->report);
    }
    return ISO_OK;
}

/* Memory that was there at the last save is used again: the kernel takes several times as long to find fresh
 * pages as it takes to copy into these. */
static iso_status take_copy(iso_saver *saver)
{
    size_t bytes = iso_save_parts_bytes(&saver->parts);
    if (saver->options.waits || (saver->copy && saver->copy_bytes >= bytes))
        return ISO_OK;
    iso_free(saver->copy);
    saver->copy = NULL;
    saver->copy_bytes = bytes;
    return iso_alloc(bytes, "the copy of the state that is written to a checkpoint", &saver->copy);
}

/* What can be checked on one rank. */
static iso_status begin_here(iso_saver *saver, const char *path, const iso_saved_contents *contents)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_path(path));
    ISO_TRY(iso_contents_check(contents));
    ISO_TRY(iso_path_split(path, saver->id, &saver->path));
    ISO_TRY(make_reports(saver, contents->tensors));
    if (is_chief(saver))
        ISO_TRY(iso_folder_make(saver->path.folder));
done:
    return status;
}

static void give_up(iso_saver *saver)
{
    free_reports(saver);
    iso_path_free(&saver->path);
}

/* Whether the ranks save the same; whether one of them needs a new layout. One reduction for all of it. */
static iso_status agree_to_begin(iso_saver *saver, iso_status status, const char *path,
                                 const iso_saved_contents *contents, bool *fresh)
{
    uint64_t structure = status == ISO_OK ? iso_contents_structure(contents) : 0;
    uint64_t name = status == ISO_OK ? iso_hash_text(contents->number, path) : 0;
    uint64_t word[6] = {status != ISO_OK, *fresh, structure, ~structure, name, ~name};
    if (!is_alone(saver))
        MPI_Allreduce(MPI_IN_PLACE, word, 6, MPI_UINT64_T, MPI_MAX, saver->communicator);
    if (word[0])
        return iso_agree(saver->ctx, status);
    if (word[2] != ~word[3])
        return iso_error(ISO_INVALID, "checkpoint '%s': the ranks give different tensors", path);
    if (word[4] != ~word[5])
        return iso_error(ISO_INVALID, "checkpoint '%s': the ranks give different names or numbers", path);
    *fresh = word[1];
    return ISO_OK;
}

/* ---- layouts ---- */

static iso_status make_layout(iso_saver *saver, const iso_saved_contents *contents)
{
    iso_file_layout *layout = &saver->layout;
    iso_file_layout_free(layout);
    if (is_chief(saver))
        return iso_file_layout_make(contents, layout);
    layout->mark.tensors = contents->tensors;
    layout->mark.tensor = iso_new(((size_t)contents->tensors + 1) * sizeof *layout->mark.tensor);
    return layout->mark.tensor
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY, "no memory for the places of %d tensors", contents->tensors);
}

static iso_status share_layout(iso_saver *saver, const iso_saved_contents *contents)
{
    iso_file_layout *layout = &saver->layout;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(saver->ctx, make_layout(saver, contents)));
    ISO_TRY(iso_broadcast(saver->ctx, &layout->mark.hdf5_bytes, sizeof layout->mark.hdf5_bytes));
    ISO_TRY(iso_broadcast(saver->ctx, layout->mark.tensor,
                          (size_t)contents->tensors * sizeof *layout->mark.tensor));
    layout->structure = iso_contents_structure(contents);
done:
    return status;
}

/* covered: [tensors] elements that all ranks write. */
static iso_status check_covered(const iso_saved_contents *contents, const int64_t *covered)
{
    for (int t = 0; t < contents->tensors; t++) {
        const iso_saved_tensor *tensor = &contents->tensor[t];
        int64_t count = 0;
        iso_shape_count(&tensor->shape, &count);
        if (covered[t] != count)
            return iso_error(ISO_INVALID, "the ranks write %lld of the %lld elements of '%s'",
                             (long long)covered[t], (long long)count,
                             tensor->path ? tensor->path : tensor->place);
    }
    return ISO_OK;
}

static iso_status share_out(iso_saver *saver, const iso_saved_contents *contents, const iso_pieces *pieces)
{
    int64_t *covered = iso_new(((size_t)contents->tensors + 1) * sizeof *covered);
    iso_status status =
        covered ? ISO_OK
                : iso_error(ISO_NO_MEMORY, "no memory for the elements of %d tensors", contents->tensors);
    iso_save_parts_free(&saver->parts);
    iso_save_exchange_free(&saver->exchange);
    if (status == ISO_OK)
        status = iso_save_parts_make(contents, pieces, is_chief(saver), &saver->parts, covered);
    ISO_TRY(iso_agree(saver->ctx, status));
    if (!is_alone(saver))
        MPI_Allreduce(MPI_IN_PLACE, covered, contents->tensors, MPI_INT64_T, MPI_SUM, saver->communicator);
    ISO_TRY(check_covered(contents, covered));
    status =
        iso_save_exchange_make(saver->ctx, saver->communicator, contents, &saver->parts, &saver->exchange);
done:
    iso_free(covered);
    if (status != ISO_OK)
        iso_save_parts_free(&saver->parts);
    return status;
}

/* What saves of one structure have in common. Collective. */
static iso_status prepare(iso_saver *saver, const iso_saved_contents *contents, const iso_pieces *pieces)
{
    iso_status status = ISO_OK;
    ISO_TRY(share_layout(saver, contents));
    ISO_TRY(share_out(saver, contents, pieces));
    ISO_TRY(iso_agree(saver->ctx, take_copy(saver)));
done:
    if (status != ISO_OK)
        iso_file_layout_free(&saver->layout);
    return status;
}

/* Whether the last save's layout and parts serve this one too. */
static bool is_prepared(const iso_saver *saver, const iso_saved_contents *contents, const iso_pieces *pieces)
{
    return saver->layout.structure == iso_contents_structure(contents) &&
           saver->parts.made_for == iso_pieces_structure(pieces) &&
           (!is_chief(saver) || iso_file_layout_holds(&saver->layout, contents));
}

/* A training that begins anew in a folder of old checkpoints writes newer ones all the same. The chief, who
 * writes the mark, knows them. */
static uint64_t number_of(iso_saver *saver, const iso_saved_contents *contents)
{
    if (contents->number + saver->numbered <= saver->kept.newest)
        saver->numbered = saver->kept.newest;
    return contents->number + saver->numbered;
}

iso_status iso_saver_save(iso_saver *saver, const char *path, const iso_saved_contents *contents,
                          const iso_pieces *pieces, bool best, iso_status *last)
{
    iso_status status = wait_for_save(saver);
    if (last)
        *last = status;
    status = begin_here(saver, path, contents);
    bool fresh = status == ISO_OK && !is_prepared(saver, contents, pieces);
    if (status == ISO_OK && !fresh)
        status = take_copy(saver);
    ISO_TRY(agree_to_begin(saver, status, path, contents, &fresh));
    if (fresh)
        ISO_TRY(prepare(saver, contents, pieces));
    saver->best = best;
    saver->layout.mark.number = number_of(saver, contents);
    if (is_chief(saver))
        iso_file_layout_set_state(&saver->layout, contents->state);
    iso_save_parts_take(&saver->parts, contents, pieces, saver->copy);
    iso_save_exchange_begin(&saver->exchange, &saver->parts);
    if (!is_alone(saver)) /* ranks of a host share memory: nobody changes it before all have copied */
        MPI_Barrier(saver->communicator);
    saver->phase = ISO_SAVE_WRITING;
    if (saver->options.mpio && !is_alone(saver)) {
        iso_save_by_mpio(saver, contents);
        atomic_store(&saver->worked, true);
    } else
        begin_work(saver, iso_save_write);
    return saver->options.waits ? iso_saver_wait(saver) : ISO_OK;
done:
    give_up(saver);
    return status;
}

/* ---- what was there before ---- */

static iso_status adopt(iso_saver *saver, const char *pattern)
{
    iso_path path = {0};
    iso_status status = iso_path_split(pattern, saver->id, &path);
    if (status == ISO_OK && !strchr(path.folder, '{')) {
        iso_folder_sweep(path.folder);
        status = iso_kept_adopt(&saver->kept, path.folder, path.name);
    }
    iso_path_free(&path);
    return status;
}

iso_status iso_saver_adopt(iso_saver *saver, const char *pattern)
{
    iso_status status = ISO_OK;
    settle(saver);
    if (!pattern)
        status = iso_error(ISO_INVALID, "a pattern of checkpoints is a path, not NULL");
    else if (is_chief(saver))
        status = adopt(saver, pattern);
    return iso_agree(saver->ctx, status);
}
