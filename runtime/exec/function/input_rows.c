/* The rows of a batch that this rank's slots read, and the call of the batch's `prepare` for them. */
#include <stdlib.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/session/session.h"

static int compare_ranges(const void *a, const void *b)
{
    int64_t x = ((const iso_row_range *)a)->begin, y = ((const iso_row_range *)b)->begin;
    return (x > y) - (x < y);
}

/* Joins ranges that overlap or touch; returns how many are left. */
static int reads_merge(iso_row_range *range, int count)
{
    int kept = 0;
    qsort(range, (size_t)count, sizeof *range, compare_ranges);
    for (int i = 1; i < count; i++) {
        int64_t end = range[kept].begin + range[kept].count, own_end = range[i].begin + range[i].count;
        if (range[i].begin > end)
            range[++kept] = range[i];
        else if (own_end > end)
            range[kept].count = own_end - range[kept].begin;
    }
    return count > 0 ? kept + 1 : 0;
}

/* Lists the rows of each read of each slot in `range`, unless it is NULL. Returns the number of ranges. */
static int list_reads(const iso_runtime *runtime, const iso_executable *executable, iso_row_range *range)
{
    int count = 0;
    for (int l = 0; l < runtime->n_locals; l++)
        for (int i = 0; i < executable->plan->n_instructions; i++) {
            const iso_slot_instruction *bound = &executable->slot[l].instruction[i];
            if (bound->kind != ISO_READ ||
                !iso_input_has_batch(executable->plan->program->inputs[bound->input]) ||
                bound->array->dim[0] == 0)
                continue;
            if (range)
                range[count] = (iso_row_range){bound->array->offset[0], bound->array->dim[0]};
            count++;
        }
    return count;
}

static iso_status make_reads(const iso_runtime *runtime, iso_executable *executable)
{
    int count = list_reads(runtime, executable, NULL);
    if (executable->reads || count == 0)
        return ISO_OK;
    executable->reads = iso_new((size_t)count * sizeof *executable->reads);
    if (!executable->reads)
        return iso_no_memory("the rows that slots read");
    list_reads(runtime, executable, executable->reads);
    executable->n_reads = reads_merge(executable->reads, count);
    return ISO_OK;
}

iso_status iso_reads_prepare(const iso_runtime *runtime, iso_executable *executable, const iso_batch *batch,
                             bool refused)
{
    iso_status status = refused ? ISO_OK : make_reads(runtime, executable);
    static const iso_row_range none;
    bool reads = !refused && executable->reads;
    iso_status prepared =
        batch->prepare(batch, reads ? executable->reads : &none, reads ? executable->n_reads : 0);
    return status == ISO_OK ? prepared : status;
}

static iso_status find_kept(const iso_runtime *runtime, iso_executable *executable, const iso_batch *batch,
                            iso_kept_bytes **kept, size_t *more)
{
    iso_status status = make_reads(runtime, executable);
    size_t bytes = 0;
    if (status != ISO_OK || !executable->reads)
        return status;
    *kept = batch->kept(batch, executable->reads, executable->n_reads, &bytes);
    *more = bytes > (*kept)->bytes ? bytes - (*kept)->bytes : 0;
    return ISO_OK;
}

/* Checks that the hosts have so many bytes more. Otherwise they do not count. Collective. */
static iso_status add_kept(iso_runtime *runtime, iso_kept_bytes *kept, size_t more)
{
    const size_t bytes = kept->bytes, total = *kept->total;
    kept->bytes += more;
    *kept->total += more;
    iso_status status = iso_runtime_check_memory(runtime, 0, 0, NULL);
    if (status != ISO_OK) {
        kept->bytes = bytes;
        *kept->total = total;
    }
    return status;
}

/* A data set that several functions read counts once, with the most that one of them needs. */
iso_status iso_reads_count_kept(const iso_function *function, iso_executable *executable,
                                const iso_batch *batch)
{
    iso_runtime *runtime = function->runtime;
    size_t nothing = 0, more = 0;
    iso_kept_bytes none = {.total = &nothing}, *kept = &none;
    int64_t any = 0;
    iso_status status = ISO_OK;
    if (!executable->kept_counted && batch && batch->kept)
        status = find_kept(runtime, executable, batch, &kept, &more);
    ISO_TRY(iso_agree(runtime->ctx, status));
    any = more > 0;
    ISO_TRY(iso_all_reduce(runtime->ctx, ISO_REDUCE_OR, ISO_I64, &any, 1));
    if (any)
        ISO_TRY(add_kept(runtime, kept, more));
    executable->kept_counted = true;
    runtime->uncounted--;
    return ISO_OK;
done:
    return iso_function_explain_memory(function, executable->plan, status);
}
