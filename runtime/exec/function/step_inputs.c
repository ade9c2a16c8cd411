/* How a step gets its rows, and what its kernels know of it. */
#include <string.h>

#include "runtime/backend/fault.h"
#include "runtime/exec/function/step_impl.h"

static iso_status step_clear(iso_stream *stream, const iso_array *array)
{
    const char zero = 0;
    stream->device->fill(stream, array->data, &zero, 1, iso_array_bytes(array));
    return stream->device->wait(stream);
}

/* The host reads rows of the batch into the slot's memory. */
static void run_read(const iso_step *s, int local, int number)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    const iso_slot_instruction *bound = &sp->instruction[number];
    const bool any = iso_array_count(bound->array) > 0, refused = iso_fault_raised(&sp->local->fault);
    iso_status status = ISO_OK;
    iso_step_event_begin(s, local, ISO_EVENT_OP, number);
    if (any && refused) /* a refused batch is not read */
        status = step_clear(sp->local->stream, bound->array);
    else if (any)
        status = iso_read_rows(s->runtime, sp->local->thread, s->batch, bound, bound->array->data);
    iso_step_event_end(s, local);
    iso_step_raise(sp->local, status);
}

/* ---- reads on a device whose memory the host cannot access ---- */

/* Reads rows of the batch into pinned memory, from where a kernel takes them; zeros, if the batch is refused or
 * cannot be read. If they are many, they go to the device before, on a stream of their own, beside the step before;
 * `copied` is then recorded. What the buffers held was of the last step but one, which is concluded. */
static void fetch(const iso_step *s, int local, int number)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    const iso_slot_instruction *bound = &sp->instruction[number];
    iso_local_slot *slot = sp->local;
    const size_t bytes = iso_array_bytes(bound->array);
    void *staging = bound->staging[s->buffer], *buffer = bound->device_buffer[s->buffer];
    bool refused = iso_fault_raised(&slot->fault);
    if (bytes == 0)
        return;
    if (!refused) {
        iso_step_raise(slot, iso_read_rows(s->runtime, slot->thread, s->batch, bound, staging));
        refused = iso_fault_raised(&slot->fault);
    }
    if (refused)
        memset(staging, 0, bytes);
    if (!buffer)
        return;
    slot->device->copy(slot->input, buffer, staging, bytes);
    slot->device->record(slot->copied, slot->input);
}

enum { MOST_BEGINNING = 2 };

/* Lists the copies of what a slot's kernels know of the step. Returns their number. */
static int list_beginning(const iso_step *s, int local, iso_bytes_copy *list)
{
    const iso_slot_plan *sp = &s->executable->slot[local];
    int count = 0, kinds = s->executable->plan->buckets->kinds;
    list[count++] = (iso_bytes_copy){s->info, sp->local->info, sizeof *s->info};
    if (s->knows_rates && kinds > 0)
        list[count++] =
            (iso_bytes_copy){s->results->rates, sp->rates, (size_t)kinds * sizeof *s->results->rates};
    return count;
}

/* Whether the slot's first instruction reads the batch by a kernel, which then does these copies too. */
static bool begins_with_reads(const iso_step *s, int local)
{
    const iso_plan *plan = s->executable->plan;
    return !s->runtime->device->host_access && !s->recorder && plan->n_instructions > 0 &&
           s->executable->slot[local].instruction[0].kind == ISO_READ;
}

void iso_step_begin_inputs(const iso_step *s, int local)
{
    iso_bytes_copy list[MOST_BEGINNING];
    if (!begins_with_reads(s, local))
        s->runtime->backend->copy_bytes(list, list_beginning(s, local, list), NULL,
                                        s->runtime->locals[local].stream);
}

/* Of reads [from, end). */
static bool are_buffered(const iso_step *s, int local, int from, int end)
{
    const iso_slot_instruction *instruction = s->executable->slot[local].instruction;
    for (int i = from; i < end; i++)
        if (instruction[i].kind == ISO_READ && instruction[i].device_buffer[s->buffer])
            return true;
    return false;
}

/* Queues the copies of what reads [from, end) have fetched. */
static void take(const iso_step *s, int local, int from, int end)
{
    const iso_slot_instruction *instruction = s->executable->slot[local].instruction;
    iso_bytes_copy list[MOST_BEGINNING + ISO_MAX_FUNCTION_INPUTS];
    int count = from == 0 && begins_with_reads(s, local) ? list_beginning(s, local, list) : 0;
    for (int i = from; i < end; i++) {
        const iso_slot_instruction *bound = &instruction[i];
        const size_t bytes = iso_array_bytes(bound->array);
        const void *buffer = bound->device_buffer[s->buffer];
        if (bytes > 0)
            list[count++] =
                (iso_bytes_copy){buffer ? buffer : bound->staging[s->buffer], bound->array->data, bytes};
    }
    s->runtime->backend->copy_bytes(list, count, NULL, s->runtime->locals[local].stream);
}

/* Makes the slot's stream wait for what reads [from, end) have copied to the device. */
static void await_copied(const iso_step *s, int local, int from, int end)
{
    iso_local_slot *slot = &s->runtime->locals[local];
    if (are_buffered(s, local, from, end))
        slot->device->await(slot->stream, slot->copied);
}

void iso_step_fetch(const iso_step *s, int local)
{
    const int n_instructions = s->executable->plan->n_instructions;
    for (int i = 0; i < n_instructions; i++)
        if (s->executable->slot[local].instruction[i].kind == ISO_READ)
            fetch(s, local, i);
    await_copied(s, local, 0, n_instructions);
}

/* Reads [from, end). The recorded event, of one read, is what the slot's stream does. */
static void read_all(const iso_step *s, int local, int from, int end)
{
    for (int i = from; i < end && !s->refusal; i++)
        fetch(s, local, i);
    iso_step_event_begin(s, local, ISO_EVENT_OP, from);
    if (!s->refusal)
        await_copied(s, local, from, end);
    take(s, local, from, end);
    iso_step_event_end(s, local);
}

/* The end of the reads from `from` on that one kernel completes. */
static int end_of_reads(const iso_step *s, int local, int from, int stop)
{
    const iso_slot_instruction *instruction = s->executable->slot[local].instruction;
    int most = s->recorder ? 1 : ISO_MAX_FUNCTION_INPUTS, end = from + 1;
    while (end < stop && end < from + most && instruction[end].kind == ISO_READ)
        end++;
    return end;
}

int iso_step_read(const iso_step *s, int local, int from, int stop)
{
    if (s->runtime->device->host_access) {
        run_read(s, local, from);
        return 1;
    }
    int end = end_of_reads(s, local, from, stop);
    read_all(s, local, from, end);
    return end - from;
}
