#include "runtime/base/arguments.h"
#include "runtime/checkpoint/write/saver_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/file_io_impl.h"

static const struct timespec nap = {0, 200000};

static bool is_chief(const iso_saver *saver)
{
    return saver->rank == 0;
}

static bool is_alone(const iso_saver *saver)
{
    return saver->communicator == MPI_COMM_NULL;
}

/* ---- creation ---- */

/* MPI_User_function: combines the report of `in` into that of `both`. */
static void join_reports(void *in, void *both, int *count, MPI_Datatype *type)
{
    int bytes = 0;
    if (ISO_MPI(MPI_Type_size(*type, &bytes)) != ISO_OK) {
        iso_save_outcome *outcome = &((iso_save_report *)both)->outcome;
        outcome->status = ISO_FAILED;
        snprintf(outcome->text, sizeof outcome->text, "%s", iso_error_message());
        return;
    }
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

static void leave_ranks(iso_saver *saver)
{
    if (saver->join != MPI_OP_NULL && !iso_mpi_ended())
        ISO_MPI_IGNORE(MPI_Op_free(&saver->join));
    iso_mpi_free(&saver->communicator);
}

static iso_status join_ranks(iso_saver *saver)
{
    void *communicator = iso_communicator(saver->ctx);
    if (!communicator)
        return ISO_OK;
    iso_status status =
        iso_mpi_dup_on(iso_context_watchdog(saver->ctx), *(MPI_Comm *)communicator, &saver->communicator);
    return status != ISO_OK ? status : ISO_MPI(MPI_Op_create(join_reports, 1, &saver->join));
}

iso_status iso_saver_create_with(iso_context *ctx, iso_saver **saver, const iso_saver_options *options,
                                 size_t size)
{
    ISO_NEED_AGREED(ctx, saver);
    iso_status status = ISO_OK;
    iso_saver *fresh = iso_new(sizeof *fresh);
    if (fresh) {
        iso_options_copy(&fresh->options, sizeof fresh->options, options, size);
        fresh->communicator = MPI_COMM_NULL;
        fresh->join = MPI_OP_NULL;
        if (!fresh->options.numbers)
            fresh->options.numbers = &fresh->numbers;
    }
    if (!fresh)
        status = iso_no_memory("a saver");
    else if (fresh->options.keep < 0)
        status = iso_error(ISO_INVALID, "keep: %d checkpoints cannot be kept", fresh->options.keep);
    ISO_TRY(iso_agree(ctx, status));
    fresh->options.waits |= fresh->options.mpio;
    fresh->ctx = ctx;
    fresh->rank = iso_rank(ctx);
    fresh->n_ranks = iso_ranks(ctx);
    fresh->file = -1;
    fresh->id = some_number();
    fresh->request = MPI_REQUEST_NULL;
    fresh->report = MPI_DATATYPE_NULL;
    ISO_TRY(iso_broadcast(ctx, &fresh->id, sizeof fresh->id));
    ISO_TRY(iso_agree(ctx, join_ranks(fresh)));
    *saver = fresh;
    return ISO_OK;
done:
    if (fresh)
        leave_ranks(fresh);
    iso_free(fresh);
    return status;
}

void iso_saver_destroy(iso_saver *saver)
{
    if (!saver)
        return;
    if (!saver->abandoned)
        iso_saver_wait(saver);
    if (saver->abandoned)
        return;
    leave_ranks(saver);
    iso_file_layout_free(&saver->layout);
    iso_save_parts_free(&saver->parts);
    iso_two_phase_free(&saver->two_phase);
    iso_kept_free(&saver->kept);
    iso_free(saver->copy);
    iso_free(saver);
}

/* ---- the thread ---- */

static void *run_work(void *data)
{
    iso_saver *saver = data;
    iso_default_modes_of_thread();
    saver->work(saver);
    atomic_store(&saver->worked, true);
    return NULL;
}

/* Blocks signals, which are for the caller's threads. If no thread can be started, the work is done here. */
static void begin_work(iso_saver *saver, void (*work)(iso_saver *))
{
    sigset_t all, before;
    saver->work = work;
    atomic_store(&saver->worked, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->has_thread = true; /* set before the thread starts, which reads it */
    int failed = pthread_create(&saver->thread, NULL, run_work, saver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        saver->has_thread = false;
        run_work(saver);
    }
}

/* Waits if the thread still works. */
static void end_work(iso_saver *saver)
{
    if (saver->has_thread)
        pthread_join(saver->thread, NULL);
    saver->has_thread = false;
}

/* ---- the phases ---- */

/* After an MPI error a save still goes through all its phases: other ranks wait for this one. */
static bool succeeds(iso_saver *saver, iso_status status)
{
    if (status != ISO_OK && saver->failed.status == ISO_OK)
        iso_save_outcome_set(saver, &saver->failed, status);
    return status == ISO_OK;
}

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
    const iso_two_phase *x = &saver->two_phase;
    if (x->failed.status != ISO_OK && saver->mine->outcome.status == ISO_OK)
        iso_save_outcome_set(saver, &saver->mine->outcome, iso_first_error_get(&x->failed));
    saver->request = MPI_REQUEST_NULL;
    succeeds(saver, ISO_MPI(MPI_Ireduce(saver->mine, saver->all, 1, saver->report, saver->join, 0,
                                        saver->communicator, &saver->request)));
    saver->phase = ISO_SAVE_JOINING;
}

static void begin_telling(iso_saver *saver)
{
    saver->request = MPI_REQUEST_NULL;
    succeeds(saver, ISO_MPI(MPI_Ibcast(&saver->outcome, sizeof saver->outcome, MPI_BYTE, 0,
                                       saver->communicator, &saver->request)));
    saver->phase = ISO_SAVE_TELLING;
}

/* Reports that MPI may still send are not freed. */
static void free_reports(iso_saver *saver)
{
    bool sent = saver->request == MPI_REQUEST_NULL;
    if (sent && saver->all != saver->mine)
        iso_free(saver->all);
    if (sent)
        iso_free(saver->mine);
    saver->mine = saver->all = NULL;
    if (saver->report != MPI_DATATYPE_NULL)
        ISO_MPI_IGNORE(MPI_Type_free(&saver->report));
}

static void finish(iso_saver *saver)
{
    const iso_save_outcome *o = saver->failed.status == ISO_OK ? &saver->outcome : &saver->failed;
    char who[32] = "";
    if (o->status != ISO_OK && saver->n_ranks > 1)
        snprintf(who, sizeof who, "rank %d: ", o->rank);
    saver->message[0] = 0;
    if (o->text[0])
        snprintf(saver->message, sizeof saver->message, "checkpoint %.400s: %s%s%s", saver->path.whole,
                 o->status == ISO_OK ? "it is written, but " : "", who, o->text);
    saver->result = (iso_status)o->status;
    saver->unreported = true;
    saver->phase = ISO_SAVE_NONE;
    free_reports(saver);
    iso_path_free(&saver->path);
}

/* Tests again after an error, unless MPI keeps failing. */
static bool has_arrived(iso_saver *saver)
{
    int done = 0;
    bool good = succeeds(saver, ISO_MPI(MPI_Test(&saver->request, &done, MPI_STATUS_IGNORE)));
    saver->n_failures = good ? 0 : saver->n_failures + 1;
    return good ? done : saver->n_failures >= ISO_MPI_TRIES;
}

/* Moves to the next phase; false if this one has not ended. */
static bool go_on(iso_saver *saver)
{
    if (saver->phase == ISO_SAVE_WRITING)
        iso_two_phase_progress(&saver->two_phase);
    bool works = saver->phase == ISO_SAVE_WRITING || saver->phase == ISO_SAVE_COMMITTING;
    if (works ? !atomic_load(&saver->worked) : !has_arrived(saver))
        return false;
    if (works)
        end_work(saver);
    if (saver->phase == ISO_SAVE_WRITING)
        begin_joining(saver);
    else if (saver->phase == ISO_SAVE_JOINING && is_chief(saver)) {
        if (saver->failed.status != ISO_OK)
            saver->all->outcome = saver->failed;
        begin_commit(saver);
    } else if (saver->phase == ISO_SAVE_TELLING || is_alone(saver))
        finish(saver);
    else
        begin_telling(saver);
    return true;
}

void iso_saver_poll(iso_saver *saver)
{
    if (ISO_ANY_NULL(saver))
        return;
    while (saver->phase != ISO_SAVE_NONE && go_on(saver))
        ;
}

bool iso_saver_has_failed(const iso_saver *saver)
{
    return saver->phase == ISO_SAVE_NONE && saver->unreported && saver->result != ISO_OK;
}

/* A rank is lost: what it was to send never comes. Work of this rank alone ends first. */
static void abandon(iso_saver *saver)
{
    iso_two_phase_skip(&saver->two_phase);
    end_work(saver);
    if (saver->file >= 0)
        close(saver->file);
    saver->file = -1;
    if (is_chief(saver) && saver->phase < ISO_SAVE_COMMITTING)
        unlink(saver->path.temporary);
    saver->abandoned = true;
    saver->phase = ISO_SAVE_NONE;
}

static void settle(iso_saver *saver)
{
    while (saver->phase != ISO_SAVE_NONE)
        if (!go_on(saver)) {
            if (iso_watchdog_check(iso_context_watchdog(saver->ctx)) != ISO_OK)
                abandon(saver);
            nanosleep(&nap, NULL);
        }
}

static iso_status wait_for_save(iso_saver *saver)
{
    settle(saver);
    if (saver->abandoned)
        return iso_watchdog_check(iso_context_watchdog(saver->ctx));
    iso_status status = saver->unreported ? saver->result : ISO_OK;
    saver->unreported = false;
    return status == ISO_OK ? ISO_OK : iso_error(status, "%s", saver->message);
}

iso_status iso_saver_wait(iso_saver *saver)
{
    ISO_NEED(saver);
    return wait_for_save(saver);
}

const char *iso_saver_message(const iso_saver *saver)
{
    if (ISO_ANY_NULL(saver))
        return NULL;
    return saver->message;
}

/* ---- beginning a save ---- */

static iso_status check_path(const char *path)
{
    static const char end[] = ".weights.h5";
    if (!path || !iso_file_name_ends(path, end))
        return iso_error(ISO_INVALID, "'%s': a checkpoint's name ends in \"%s\"", path ? path : "", end);
    if (*iso_file_name(path) == '.')
        return iso_error(ISO_INVALID, "'%s': a checkpoint's name does not begin with a dot", path);
    return ISO_OK;
}

static iso_status make_reports(iso_saver *saver, int tensors)
{
    size_t bytes = sizeof *saver->mine + (size_t)tensors * sizeof *saver->mine->crc;
    saver->mine = iso_new(bytes);
    saver->all = is_chief(saver) && !is_alone(saver) ? iso_new(bytes) : NULL;
    if (!saver->mine || (is_chief(saver) && !is_alone(saver) && !saver->all))
        return iso_no_memory("the checksums of %d tensors", tensors);
    iso_status status = ISO_OK;
    if (!is_alone(saver)) {
        ISO_TRY(ISO_MPI(MPI_Type_contiguous((int)bytes, MPI_BYTE, &saver->report)));
        ISO_TRY(ISO_MPI(MPI_Type_commit(&saver->report)));
    }
done:
    return status;
}

/* Reuses the last save's memory: getting fresh pages from the kernel takes several times as long as copying
 * into these. */
static iso_status take_copy(iso_saver *saver, const iso_state_shards *shards)
{
    size_t bytes = iso_save_parts_bytes(&saver->parts);
    bool in_place = saver->options.waits && iso_save_parts_may_stay(shards);
    if (!in_place && saver->copy && saver->copy_bytes >= bytes)
        return ISO_OK;
    iso_free(saver->copy);
    saver->copy = NULL;
    saver->copy_bytes = bytes;
    return in_place ? ISO_OK
                    : iso_alloc(bytes, "the copy of the state that is written to a checkpoint", &saver->copy);
}

/* Checks what one rank can check. */
static iso_status begin_here(iso_saver *saver, const char *path, const iso_file_spec *spec)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_path(path));
    ISO_TRY(iso_file_spec_check(spec));
    ISO_TRY(iso_path_split(path, saver->id, &saver->path));
    ISO_TRY(make_reports(saver, spec->n_tensors));
    if (is_chief(saver))
        ISO_TRY(iso_folder_make(saver->path.folder));
done:
    return status;
}

static void give_up(iso_saver *saver)
{
    if (saver->file >= 0) {
        unlink(saver->path.temporary);
        close(saver->file);
        saver->file = -1;
    }
    free_reports(saver);
    iso_path_free(&saver->path);
}

/* The error where names or numbers differ. Collective. */
static iso_status report_names(iso_saver *saver, const char *path, uint64_t number)
{
    char text[24];
    iso_status status = iso_agree_same_text(saver->ctx, "the name of the checkpoint", path);
    snprintf(text, sizeof text, "%" PRIu64, number);
    return status == ISO_OK ? iso_agree_same_text(saver->ctx, "the number of the checkpoint", text) : status;
}

/* The error where tensors or groups differ. Collective. */
static iso_status report_tensors(const iso_saver *saver, const char *path, const iso_file_spec *spec)
{
    iso_text lines = {0}, what = {0};
    char shape[160];
    for (int t = 0; t < spec->n_tensors; t++) {
        const iso_saved_tensor *tensor = &spec->tensors[t];
        iso_text_add(&lines, "%s, %s of %s, at %s\n", tensor->path ? tensor->path : "a tensor",
                     iso_shape_text(&tensor->shape, shape, sizeof shape), iso_dtype_name(tensor->dtype),
                     tensor->h5_path);
    }
    for (int g = 0; g < spec->n_groups; g++)
        iso_text_add(&lines, "the group %s, named '%s'\n", spec->groups[g].h5_path,
                     spec->groups[g].name ? spec->groups[g].name : "");
    iso_text_add(&what, "the tensors of checkpoint '%s'", path);
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(saver->ctx, lines.failed || what.failed
                                      ? iso_no_memory("a list of %d tensors", spec->n_tensors)
                                      : ISO_OK));
    ISO_TRY(iso_agree_same_lines(saver->ctx, iso_text_get(&what), iso_text_get(&lines)));
    status = iso_error(ISO_INVALID, "checkpoint '%s': the ranks give different tensors", path);
done:
    iso_text_free(&lines);
    iso_text_free(&what);
    return status;
}

/* Agrees that all ranks save the same, and whether one of them needs a new layout. One reduction for both. */
static iso_status agree_to_begin(iso_saver *saver, iso_status status, const char *path,
                                 const iso_file_spec *spec, bool *fresh)
{
    uint64_t structure = status == ISO_OK ? iso_file_spec_structure(spec) : 0;
    uint64_t name = status == ISO_OK ? iso_hash_text(spec->number, path) : 0;
    uint64_t word[6] = {status != ISO_OK, *fresh, structure, ~structure, name, ~name};
    iso_status met = ISO_OK;
    if (!is_alone(saver))
        met = iso_mpi_all_reduce(iso_context_watchdog(saver->ctx), MPI_IN_PLACE, word, 6, MPI_UINT64_T,
                                 MPI_MAX, saver->communicator);
    if (met != ISO_OK)
        return met;
    if (word[0])
        return iso_agree(saver->ctx, status);
    if (word[2] != ~word[3])
        return report_tensors(saver, path, spec);
    if (word[4] != ~word[5])
        return report_names(saver, path, spec->number);
    *fresh = word[1];
    return ISO_OK;
}

/* ---- layouts ---- */

static iso_status make_layout(iso_saver *saver, const iso_file_spec *spec)
{
    iso_file_layout *layout = &saver->layout;
    iso_file_layout_free(layout);
    if (is_chief(saver))
        return iso_file_layout_make(spec, layout);
    layout->record.n_tensors = spec->n_tensors;
    layout->record.tensors = iso_new(((size_t)spec->n_tensors + 1) * sizeof *layout->record.tensors);
    return layout->record.tensors ? ISO_OK : iso_no_memory("the offsets of %d tensors", spec->n_tensors);
}

static iso_status share_layout(iso_saver *saver, const iso_file_spec *spec)
{
    iso_file_layout *layout = &saver->layout;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(saver->ctx, make_layout(saver, spec)));
    ISO_TRY(iso_broadcast(saver->ctx, &layout->record.hdf5_bytes, sizeof layout->record.hdf5_bytes));
    ISO_TRY(iso_broadcast(saver->ctx, layout->record.tensors,
                          (size_t)spec->n_tensors * sizeof *layout->record.tensors));
    layout->structure = iso_file_spec_structure(spec);
done:
    return status;
}

/* covered: [tensors] elements that all ranks together write. */
static iso_status check_covered(const iso_file_spec *spec, const int64_t *covered)
{
    for (int t = 0; t < spec->n_tensors; t++) {
        const iso_saved_tensor *tensor = &spec->tensors[t];
        int64_t count = 0;
        iso_shape_count(&tensor->shape, &count);
        if (covered[t] != count)
            return iso_error(ISO_INVALID, "the ranks write %lld of the %lld elements of '%s'",
                             (long long)covered[t], (long long)count,
                             tensor->path ? tensor->path : tensor->h5_path);
    }
    return ISO_OK;
}

static iso_status share_out(iso_saver *saver, const iso_file_spec *spec, const iso_state_shards *shards)
{
    int64_t *covered = iso_new(((size_t)spec->n_tensors + 1) * sizeof *covered);
    iso_status status = covered ? ISO_OK : iso_no_memory("the elements of %d tensors", spec->n_tensors);
    iso_save_parts_free(&saver->parts);
    iso_two_phase_free(&saver->two_phase);
    if (status == ISO_OK)
        status = iso_save_parts_make(spec, shards, is_chief(saver), &saver->parts, covered);
    ISO_TRY(iso_agree(saver->ctx, status));
    if (!is_alone(saver))
        ISO_TRY(iso_mpi_all_reduce(iso_context_watchdog(saver->ctx), MPI_IN_PLACE, covered, spec->n_tensors,
                                   MPI_INT64_T, MPI_SUM, saver->communicator));
    ISO_TRY(check_covered(spec, covered));
    status = iso_two_phase_make(saver->ctx, saver->communicator, spec, &saver->parts, &saver->two_phase);
done:
    iso_free(covered);
    if (status != ISO_OK)
        iso_save_parts_free(&saver->parts);
    return status;
}

/* Makes the layout and parts that all saves of one structure share. Collective. */
static iso_status saver_prepare(iso_saver *saver, const iso_file_spec *spec, const iso_state_shards *shards)
{
    iso_status status = ISO_OK;
    ISO_TRY(share_layout(saver, spec));
    ISO_TRY(share_out(saver, spec, shards));
    ISO_TRY(iso_agree(saver->ctx, take_copy(saver, shards)));
done:
    if (status != ISO_OK)
        iso_file_layout_free(&saver->layout);
    return status;
}

/* Whether the last save's layout and parts can be used again. */
static bool is_prepared(const iso_saver *saver, const iso_file_spec *spec, const iso_state_shards *shards)
{
    return saver->layout.structure == iso_file_spec_structure(spec) &&
           saver->parts.made_for == iso_shards_structure(shards) &&
           (!is_chief(saver) || iso_file_layout_holds(&saver->layout, spec));
}

/* A training that starts again in a folder of old checkpoints must write newer numbers than theirs. Only the
 * chief, which writes the record, knows them. */
uint64_t iso_saver_number(const iso_saver *saver, uint64_t number)
{
    const iso_saver_numbers *numbers = saver->options.numbers;
    bool newer = number + numbers->added > numbers->newest;
    return number + (newer ? numbers->added : numbers->newest);
}

static uint64_t take_number(iso_saver *saver, const iso_file_spec *spec)
{
    uint64_t number = iso_saver_number(saver, spec->number);
    saver->options.numbers->added = number - spec->number;
    return number;
}

iso_status iso_saver_mark(iso_saver *saver, const char *folder, const char *name)
{
    iso_status status = iso_kept_set_best(&saver->kept, folder, name);
    return status == ISO_OK ? iso_kept_point_best(&saver->kept, saver->id) : status;
}

iso_status iso_saver_save(iso_saver *saver, const char *path, const iso_file_spec *spec,
                          const iso_state_shards *shards, bool best, iso_status *last)
{
    ISO_NEED(saver);
    ISO_NEED_AGREED(saver->ctx, path, spec, shards);
    iso_status status = wait_for_save(saver);
    if (last)
        *last = status;
    status = begin_here(saver, path, spec);
    bool fresh = status == ISO_OK && !is_prepared(saver, spec, shards);
    if (status == ISO_OK && !fresh)
        status = take_copy(saver, shards);
    ISO_TRY(agree_to_begin(saver, status, path, spec, &fresh));
    if (fresh)
        ISO_TRY(saver_prepare(saver, spec, shards));
    saver->best = best;
    saver->layout.record.number = take_number(saver, spec);
    if (is_chief(saver)) {
        iso_file_layout_set_state(&saver->layout, spec->state);
        iso_save_make_file(saver);
    }
    /* the ranks of a host share memory: no rank may change it before all have copied */
    ISO_TRY(iso_agree(saver->ctx, iso_save_parts_take(&saver->parts, spec, shards, saver->copy)));
    iso_two_phase_begin(&saver->two_phase, &saver->parts);
    saver->failed = (iso_save_outcome){0};
    saver->n_failures = 0;
    saver->phase = ISO_SAVE_WRITING;
    if (saver->options.mpio && !is_alone(saver)) {
        iso_save_by_mpio(saver, spec);
        atomic_store(&saver->worked, true);
    } else
        begin_work(saver, iso_save_write);
    return saver->options.waits ? iso_saver_wait(saver) : ISO_OK;
done:
    give_up(saver);
    return status;
}

/* ---- before the first save ---- */

/* A folder with {...} is known only up to the part before the brace. */
static void cut_at_values(iso_path *path)
{
    char *brace = strchr(path->folder, '{'), *slash;
    if (!brace)
        return;
    *brace = 0;
    slash = strrchr(path->folder, '/');
    if (slash)
        slash[slash == path->folder] = 0;
    else
        memcpy(path->folder, ".", 2); /* the text had a brace, so there is room */
}

iso_status iso_saver_try(iso_saver *saver, const char *name)
{
    ISO_NEED(saver);
    ISO_NEED_AGREED_AS(saver->ctx, "path", name);
    iso_path path = {0};
    iso_status status = iso_path_split(name, saver->id, &path);
    if (status == ISO_OK && is_chief(saver))
        status = iso_file_check_name(path.whole);
    if (status == ISO_OK)
        cut_at_values(&path);
    if (status == ISO_OK && is_chief(saver))
        status = iso_folder_make(path.folder);
    ISO_TRY(iso_agree(saver->ctx, status));
    ISO_TRY(iso_agree(saver->ctx, iso_folder_try(path.folder, saver->id)));
done:
    iso_path_free(&path);
    return status == ISO_IO ? ISO_INVALID : status; /* the user gave the name */
}

/* ---- existing checkpoints ---- */

static iso_status adopt(iso_saver *saver, const char *pattern)
{
    iso_path path = {0};
    iso_status status = iso_path_split(pattern, saver->id, &path);
    if (status == ISO_OK && !strchr(path.folder, '{')) {
        iso_folder_remove_stale(path.folder);
        status = iso_kept_adopt(&saver->kept, path.folder, path.name, &saver->options.numbers->newest);
    }
    iso_path_free(&path);
    return status;
}

iso_status iso_saver_adopt(iso_saver *saver, const char *pattern)
{
    ISO_NEED(saver);
    iso_status status = ISO_OK;
    settle(saver);
    if (ISO_ANY_NULL(pattern))
        status = ISO_INVALID;
    else if (is_chief(saver))
        status = adopt(saver, pattern);
    return iso_agree(saver->ctx, status);
}
