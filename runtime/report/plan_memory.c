/* A plan's report: memory by use, its peak, and the largest tensors. */
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/division.h"
#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"

/* Estimates of sizes that are not known before a run. */
enum {
    SAVEPOINTS = 2,       /* of a graph: before compiling, and the state that an error goes back to */
    SMALL_THINGS = 24576, /* bytes of a process: its model, functions, results of steps, threads, flags */
    OP_BLOCKS = 3,        /* small blocks of an op: its inputs and outputs, its attributes, names */
    PULL = 1152,          /* bytes of an exchange's description of what a slot takes from a few sources */
    LAYOUTS = 8,          /* layouts kept for each variable, by the program, the plan and the executor */
    TEXTS = 6,            /* small blocks of a variable: its names and paths */
    BUCKETS = 2,          /* with room for a variable in their lists */
    PROGRAMS = 2,         /* of a model that is trained: training and evaluation */
    MANY = 256,           /* copies of a variable in a domain; of more the loss to alignment is estimated */
    FEW = 16              /* slots of a domain, of each of which scratch memory is counted */
};

/* What NCCL (2.18 to 2.28) takes of a GPU's memory for each channel to another GPU of the host: a buffer to receive,
 * of 4 MiB and those of two other protocols, and one to send, both in whole 2 MiB. Between two GPUs it uses 2
 * channels over PCIe, and over NVLink up to 32. */
enum { NCCL_CHANNEL = 12 << 20, NCCL_LEAST = 2, NCCL_MOST = 32 };

/* ---- sums that end at INT64_MAX, where the sum of a host's slots is larger ---- */

static void add_bytes(int64_t *sum, int64_t each, int64_t count)
{
    int64_t bytes;
    if (__builtin_mul_overflow(each, count, &bytes) || __builtin_add_overflow(*sum, bytes, sum))
        *sum = INT64_MAX;
}

static int64_t whole_bytes(double bytes)
{
    return bytes < 0x1p63 ? (int64_t)bytes : INT64_MAX;
}

/* ---- weights ---- */

static int64_t weights_of_slot(const iso_reporter *r)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->program->n_variables; i++) {
        const iso_variable *variable = r->program->graph->variables[i];
        int64_t largest = iso_layout_largest(r->mesh, &r->program->variable_layout[i], &variable->shape);
        bytes += (int64_t)iso_plan_copy_bytes(variable, largest);
    }
    return bytes;
}

/* All copies in a domain, from the boxes themselves. */
static int64_t weights_of_domain(const iso_reporter *r, int domain)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->program->n_variables; i++) {
        const iso_variable *variable = r->program->graph->variables[i];
        const iso_layout *layout = &r->program->variable_layout[i];
        const iso_copies *copies = &r->copies[iso_layout_sharded_axes(layout)];
        int64_t elements;
        int holders = copies->first[domain + 1] - copies->first[domain];
        if (r->n_domains == 1 && holders > MANY && iso_shape_count(&variable->shape, &elements) == ISO_OK) {
            add_bytes(&bytes, elements, (int64_t)iso_dtype_size(variable->dtype));
            add_bytes(&bytes, holders, (int64_t)ISO_ALIGN * 3 / 2);
            continue;
        }
        for (int k = copies->first[domain]; k < copies->first[domain + 1]; k++) {
            iso_box box = iso_layout_box(r->mesh, layout, &variable->shape, copies->holders[k]);
            add_bytes(&bytes, (int64_t)iso_plan_copy_bytes(variable, iso_box_count(&box)), 1);
        }
    }
    return bytes;
}

/* ---- optimizer state ---- */

static int64_t state_of_slot(const iso_reporter *r, int slot)
{
    int64_t bytes = 0;
    for (int b = 0; b < r->plan->buckets->count; b++) {
        const iso_bucket *bucket = &r->plan->buckets->buckets[b];
        int64_t begin, part;
        iso_bucket_part(bucket, r->mesh, slot, &begin, &part);
        bytes += part * (int64_t)iso_dtype_size(bucket->dtype) * iso_report_state_slots(bucket);
    }
    return bytes;
}

/* ---- activations, gradients, buffers ---- */

static int64_t gradient_bytes(const iso_reporter *r)
{
    int64_t bytes = 0;
    for (int b = 0; b < r->plan->buckets->count; b++)
        bytes += (int64_t)iso_plan_stored_bytes(r->plan, b);
    return bytes;
}

static int threads_of_slot(const iso_reporter *r)
{
    const int threads = r->plan->site->intra_op_threads;
    return threads > 0 ? threads : 1;
}

static size_t scratch_of(const iso_reporter *r, const iso_instruction *instruction, int slot)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    if (instruction->kind != ISO_KERNEL)
        return 0;
    iso_plan_call(r->plan, instruction->step, slot, in, out, &call);
    const iso_op *op = r->program->steps[instruction->step].op;
    const iso_kernel *kernel = r->plan->site->backend->find(op->type->name, &call);
    iso_division division;
    if (kernel && iso_division_choose(op, kernel, &call, threads_of_slot(r), &division))
        return iso_division_scratch(&division);
    return kernel && kernel->scratch ? kernel->scratch(&call) : 0;
}

static int64_t count_scratch(const iso_reporter *r, int slot)
{
    size_t most = 0;
    for (int i = 0; i < r->plan->n_instructions; i++) {
        size_t bytes = scratch_of(r, &r->plan->instructions[i], slot);
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < r->plan->n_fused_updates; i++) {
        const iso_fused_update_room room =
            iso_plan_fused_update_room(r->plan, &r->plan->fused_updates[i], slot);
        size_t bytes = iso_fused_update_bytes(&room, threads_of_slot(r));
        most = bytes > most ? bytes : most;
    }
    return (int64_t)most;
}

/* Scratch memory of the slot's kernels. Slots differ: one at the edge of a mesh has other halos than one in the
 * middle. */
static int64_t scratch_of_slot(const iso_reporter *r, int slot)
{
    if (r->scratch[slot] < 0)
        r->scratch[slot] = count_scratch(r, slot);
    return r->scratch[slot];
}

static int slots_of(const iso_reporter *r, int domain)
{
    return r->domain_begin[domain + 1] - r->domain_begin[domain];
}

/* The most of a slot of the domain. If its slots are many, those at its ends and in the middle are examined. */
static int64_t largest_scratch(const iso_reporter *r, int domain)
{
    const int *slots = r->by_domain + r->domain_begin[domain];
    const int n = slots_of(r, domain), few[] = {0, 1, n / 2, n - 2, n - 1};
    int64_t most = 0;
    for (int i = 0; i < (n > FEW ? (int)(sizeof few / sizeof *few) : n); i++) {
        int64_t bytes = scratch_of_slot(r, slots[n > FEW ? few[i] : i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t scratch_of_domain(const iso_reporter *r, int domain)
{
    int64_t bytes = 0;
    if (slots_of(r, domain) > FEW)
        return slots_of(r, domain) * largest_scratch(r, domain);
    for (int i = r->domain_begin[domain]; i < r->domain_begin[domain + 1]; i++)
        bytes += scratch_of_slot(r, r->by_domain[i]);
    return bytes;
}

static const iso_device *device_of(const iso_reporter *r)
{
    return r->plan->site->backend->device(0);
}

bool iso_report_is_on_gpus(const iso_reporter *r)
{
    return device_of(r)->gather != NULL;
}

/* The bytes of the slot's summed gradients, which a device whose memory the host cannot use needs. */
static int64_t sums_of_slot(const iso_reporter *r)
{
    int64_t bytes = 0, begin, part;
    for (int b = 0; b < r->plan->buckets->count && !device_of(r)->host_access; b++) {
        const iso_bucket *bucket = &r->plan->buckets->buckets[b];
        iso_bucket_part(bucket, r->mesh, 0, &begin, &part);
        bytes += part * (int64_t)iso_dtype_size(bucket->dtype);
    }
    return bytes;
}

/* The bytes of two copies of the rows of a batch that the slot reads, where the host cannot use the device's memory:
 * those in pinned memory of the host, or those in the device's. */
static int64_t inputs_of_slot(const iso_reporter *r, bool on_device)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->plan->n_instructions && !device_of(r)->host_access; i++) {
        int input = r->plan->instructions[i].input;
        if (r->plan->instructions[i].kind != ISO_READ)
            continue;
        iso_array array = iso_plan_array(r->plan, r->program->input_value[input], 0);
        if (!on_device || iso_plan_buffers_input(iso_array_bytes(&array)))
            bytes += 2 * (int64_t)iso_array_bytes(&array);
    }
    return bytes;
}

/* The bytes in pinned memory of the host: the summed gradients, unless the device gathers, and inputs. */
static int64_t pinned_of_slot(const iso_reporter *r)
{
    return (device_of(r)->gather ? 0 : sums_of_slot(r)) + inputs_of_slot(r, false);
}

/* What each slot has besides scratch memory: constants, sums, and inputs. */
static int64_t workspace_of_slot(const iso_reporter *r)
{
    return (int64_t)r->plan->constant_bytes + sums_of_slot(r) + inputs_of_slot(r, true);
}

/* The bytes in memory of the host: tables of the plan and of exchanges, and pinned memory. */
static int64_t tables_of_slot(const iso_reporter *r)
{
    size_t tables = r->plan->site->slot_tables ? r->plan->site->slot_tables(r->plan) : 0;
    size_t pulls = r->mesh->n_slots > 1 ? (size_t)(r->plan->n_moves + r->plan->buckets->count + 1) * PULL : 0;
    return (int64_t)(tables + pulls) + pinned_of_slot(r);
}

/* Bytes of a process's tables: the graph, the program of this function and one for evaluation, the plan,
 * and layouts and names in several tables. */
static int64_t tables_of_process(const iso_plan *plan)
{
    const iso_program *program = plan->program;
    const iso_graph *graph = program->graph;
    size_t ops =
        (size_t)graph->n_ops * (iso_memory_taken(sizeof(iso_op)) + OP_BLOCKS * iso_memory_taken(ISO_ALIGN)) +
        (size_t)graph->n_tensors * iso_memory_taken(sizeof(iso_tensor));
    size_t steps = iso_memory_room(program->values) + iso_memory_room(program->steps);
    size_t locations =
        (size_t)program->n_values * (sizeof(iso_location) + sizeof(iso_live_range) + sizeof(int)) +
        iso_memory_room(plan->instructions);
    size_t variables =
        (size_t)graph->n_variables * (LAYOUTS * sizeof(iso_layout) + TEXTS * iso_memory_taken(ISO_ALIGN) +
                                      BUCKETS * sizeof(iso_bucket_member));
    /* A savepoint's note of a tensor has three words, of a variable four; and there are the tables of names. */
    size_t notes =
        SAVEPOINTS * ((size_t)graph->n_tensors * 3 * sizeof(void *) +
                      (size_t)graph->n_variables * (4 * sizeof(void *) + iso_memory_taken(ISO_ALIGN)));
    return (int64_t)(ops + PROGRAMS * steps + locations + variables + notes + SMALL_THINGS);
}

/* ---- sums ---- */

static void add_up(iso_report_memory *memory)
{
    const int64_t parts[] = {memory->weights, memory->gradients, memory->optimizer, memory->activations,
                             memory->buffers};
    memory->total = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_bytes(&memory->total, parts[i], 1);
}

/* A slot's share of the messages is among its buffers already, if they are in the same memory; scratch memory, of
 * which slots need more and less, is not. */
static void add_domain(const iso_reporter *r, int domain, iso_report_memory *memory)
{
    const iso_report_memory *slot = &r->report->slot;
    int64_t slots = slots_of(r, domain);
    add_bytes(&memory->weights, weights_of_domain(r, domain), 1);
    add_bytes(&memory->gradients, slot->gradients, slots);
    add_bytes(&memory->activations, slot->activations, slots);
    add_bytes(&memory->buffers, slot->buffers, slots);
    add_bytes(&memory->buffers, scratch_of_domain(r, domain), 1);
    for (int i = r->domain_begin[domain]; i < r->domain_begin[domain + 1]; i++)
        add_bytes(&memory->optimizer, state_of_slot(r, r->by_domain[i]), 1);
}

static void sum_host(const iso_reporter *r, int host, iso_report_memory *memory)
{
    *memory = (iso_report_memory){0};
    for (int d = 0; d < r->n_domains; d++)
        if (r->domain_host[d] == host)
            add_domain(r, d, memory);
    add_bytes(&memory->buffers, tables_of_process(r->plan), 1);
    add_up(memory);
}

static void count_nccl(const iso_reporter *r, int domain)
{
    iso_plan_report *report = r->report;
    if (r->plan->site->device_exchange != ISO_DEVICE_EXCHANGE_LINKS)
        return;
    for (int d = 0; d < r->n_domains; d++)
        report->nccl_peers += d != domain && r->domain_host[d] == r->domain_host[domain];
    report->nccl_least = (int64_t)report->nccl_peers * NCCL_LEAST * NCCL_CHANNEL;
    report->nccl_most = (int64_t)report->nccl_peers * NCCL_MOST * NCCL_CHANNEL;
}

/* What completes the window of a domain on a GPU. */
static iso_status find_padding(const iso_reporter *r, int64_t weights, int slots, int64_t *padding)
{
    size_t room, used = (size_t)weights + (size_t)slots * r->plan->shared_bytes;
    iso_status status = iso_fabric_window_bytes(slots, r->plan->shared_bytes, (size_t)weights, &room);
    if (status == ISO_OK)
        *padding = (int64_t)(iso_fabric_allocated_bytes(room) - used);
    return status;
}

/* To a GPU, and to a slot alone on one. */
static iso_status add_padding(const iso_reporter *r, int slots)
{
    iso_report_memory *slot = &r->report->slot, *gpu = &r->report->gpu;
    int64_t of_slot, of_gpu;
    iso_status status = ISO_OK;
    ISO_TRY(find_padding(r, slot->weights, 1, &of_slot));
    ISO_TRY(find_padding(r, gpu->weights, slots, &of_gpu));
    add_bytes(&slot->buffers, of_slot, 1);
    add_bytes(&gpu->buffers, of_gpu, 1);
    add_up(gpu);
done:
    return status;
}

/* Where slots compute on GPUs. */
static iso_status sum_gpus(const iso_reporter *r, int domain, const iso_report_buffers *messages)
{
    iso_plan_report *report = r->report;
    report->n_gpu_slots = slots_of(r, domain);
    report->nccl_sums = (int64_t)messages->sums;
    report->nccl_sets = messages->sets;
    count_nccl(r, domain);
    add_domain(r, domain, &report->gpu);
    report->host.buffers = tables_of_process(r->plan);
    add_bytes(&report->host.buffers, tables_of_slot(r), report->n_host_slots);
    add_bytes(&report->host.buffers, whole_bytes(messages->host), 1);
    add_up(&report->host);
    return add_padding(r, report->n_gpu_slots);
}

/* The domain that has the most slots, and its host; among these, the one that holds the most copies. */
static int fullest_domain(const iso_reporter *r)
{
    int best = 0;
    int64_t most = -1;
    for (int d = 0; d < r->n_domains; d++) {
        int64_t copies = 0;
        for (int c = 0; c < 1 << ISO_MAX_AXES; c++)
            copies += r->copies[c].holders ? r->copies[c].first[d + 1] - r->copies[c].first[d] : 0;
        int64_t weight = ((int64_t)r->host_slots[d] + slots_of(r, d)) * INT32_MAX + copies;
        if (weight > most) {
            most = weight;
            best = d;
        }
    }
    return best;
}

static bool has_halos(const iso_reporter *r)
{
    for (int v = 0; v < r->program->n_values; v++) {
        const iso_layout *layout = &r->program->values[v].layout;
        for (int d = 0; d < layout->rank; d++)
            if (iso_sharding_has_window(&layout->dim[d]))
                return true;
    }
    return false;
}

/* The first domain of a host. */
static int domain_of_host(const iso_reporter *r, int host)
{
    int d = 0;
    while (d < r->n_domains && r->domain_host[d] != host)
        d++;
    return d < r->n_domains ? d : 0;
}

/* Domain number i to examine, -1 after the last: every domain if there are few, else one of each host if these are
 * few, one near the edge and one in the middle. */
static int domain_to_look_at(const iso_reporter *r, int i)
{
    int hosts = r->report->n_hosts <= ISO_REPORT_FEW_DOMAINS ? r->report->n_hosts : 0;
    if (r->n_domains <= ISO_REPORT_FEW_DOMAINS)
        return i < r->n_domains ? i : -1;
    if (i < hosts)
        return domain_of_host(r, i);
    return i == hosts ? 1 : i == hosts + 1 ? r->n_domains / 2 : -1;
}

/* What domains have more and less of, besides messages. */
static double own_of_domain(const iso_reporter *r, int domain)
{
    return (double)(weights_of_domain(r, domain) + scratch_of_domain(r, domain));
}

/* The domain that needs the most memory. With halos and on GPUs, it is the domain with the largest messages among
 * those with the most slots: in the middle of the mesh halos are taken from both sides, and GPUs of a host divide
 * what comes from others. Of memory of the host, where a host may need most that has few slots, the most is taken. */
static iso_status domain_with_most(const iso_reporter *r, int *domain, iso_report_buffers *messages)
{
    int first = *domain = fullest_domain(r), other;
    bool gpus = iso_report_is_on_gpus(r), differ = gpus || has_halos(r);
    iso_report_buffers theirs;
    iso_status status = ISO_OK;
    ISO_TRY(iso_report_messages(r, first, messages));
    double weight, most = (gpus ? messages->gpu : messages->host) + own_of_domain(r, first),
                   on_host = messages->host;
    for (int i = 0; differ && (other = domain_to_look_at(r, i)) >= 0; i++) {
        bool as_full = slots_of(r, other) == slots_of(r, first);
        if (other == first || (!gpus && !as_full))
            continue;
        ISO_TRY(iso_report_messages(r, other, &theirs));
        on_host = theirs.host > on_host ? theirs.host : on_host;
        if (!as_full)
            continue;
        weight = (gpus ? theirs.gpu : theirs.host) + own_of_domain(r, other);
        if (weight > most) {
            most = weight;
            *domain = other;
            *messages = theirs;
        }
    }
    if (gpus)
        messages->host = on_host;
done:
    return status;
}

/* ---- the peak ---- */

/* A gradient counts from the instruction that computes it to the end of the step. */
static void find_live_gradients(const iso_plan *plan, int b, iso_report_op *op)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    for (int m = 0; m < bucket->n_members; m++)
        if (iso_plan_fused_of(plan, b, m) < 0)
            op[plan->member_live[b][m]].live +=
                bucket->members[m].capacity * (int64_t)iso_dtype_size(bucket->dtype);
}

/* The bytes that each instruction needs: a block counts from the first to the last instruction at which
 * its contents are needed. */
static void find_live(const iso_reporter *r)
{
    const iso_plan *plan = r->plan;
    iso_report_op *op = r->report->ops;
    int end = r->report->n_ops - 1, instructions = plan->n_instructions;
    for (int v = 0; v < r->program->n_values; v++) {
        if (plan->live_range[v].end < 0)
            continue;
        int64_t bytes = iso_report_value_bytes(r, v);
        op[plan->live_range[v].begin].live += bytes;
        if (plan->live_range[v].end < instructions)
            op[plan->live_range[v].end + 1].live -= bytes;
    }
    for (int b = 0; b < plan->buckets->count; b++)
        find_live_gradients(plan, b, op);
    for (int i = 1; i <= end; i++)
        op[i].live += op[i - 1].live;
}

static void find_peak(iso_reporter *r)
{
    iso_plan_report *report = r->report;
    for (int i = 1; i < report->n_ops; i++)
        if (report->ops[i].live > report->ops[report->peak].live)
            report->peak = i;
    report->peak_bytes =
        report->ops[report->peak].live + report->slot.weights + report->slot.optimizer + report->slot.buffers;
}

/* ---- the largest tensors ---- */

static void weigh(iso_plan_report *report, iso_report_weight weight)
{
    int at = report->heaviest;
    while (at > 0 && report->heavy[at - 1].bytes < weight.bytes)
        at--;
    if (at == ISO_REPORT_HEAVIEST)
        return;
    int kept = report->heaviest < ISO_REPORT_HEAVIEST ? report->heaviest : ISO_REPORT_HEAVIEST - 1;
    memmove(&report->heavy[at + 1], &report->heavy[at], (size_t)(kept - at) * sizeof report->heavy[0]);
    report->heavy[at] = weight;
    report->heaviest = kept + 1;
}

static void weigh_value(const iso_reporter *r, int value)
{
    int step = r->program->values[value].step;
    iso_report_weight weight = {.name = iso_tensor_name(r->program->values[value].tensor),
                                .bytes = iso_report_value_bytes(r, value)};
    weight.from = iso_report_origin_of(r, step >= 0 ? r->program->steps[step].op : NULL);
    weigh(r->report, weight);
}

static void weigh_all(const iso_reporter *r)
{
    iso_plan_report *report = r->report;
    const iso_plan *plan = r->plan;
    for (int i = 0; i < report->n_variables; i++) {
        const iso_report_variable *variable = &report->variables[i];
        weigh(report, (iso_report_weight){.name = variable->path,
                                          .variable = true,
                                          .from.layer = "",
                                          .bytes = variable->bytes + variable->gradient_bytes +
                                                   variable->state_bytes});
    }
    for (int v = 0; v < r->program->n_values; v++)
        if (plan->live_range[v].begin <= report->peak && plan->live_range[v].end >= report->peak)
            weigh_value(r, v);
}

static iso_status check_sum(const iso_report_memory *memory, const char *where)
{
    return memory->total < INT64_MAX
               ? ISO_OK
               : iso_error(ISO_INVALID, "the plan needs more than 9.2 EB (%lld bytes) on %s",
                           (long long)INT64_MAX, where);
}

iso_status iso_report_memory_of(iso_reporter *r)
{
    iso_report_memory *slot = &r->report->slot;
    int domain;
    iso_report_buffers messages;
    iso_status status;
    ISO_TRY(domain_with_most(r, &domain, &messages));
    slot->weights = weights_of_slot(r);
    slot->gradients = gradient_bytes(r);
    slot->optimizer = state_of_slot(r, 0);
    slot->activations = (int64_t)(r->plan->arena_bytes + r->plan->shared_bytes) - slot->gradients;
    slot->buffers = workspace_of_slot(r);
    if (iso_report_is_on_gpus(r))
        slot->buffers += whole_bytes(messages.gpu) / slots_of(r, domain);
    else
        slot->buffers += tables_of_slot(r) + whole_bytes(messages.host) / r->host_slots[domain];
    if (iso_report_is_on_gpus(r))
        status = sum_gpus(r, domain, &messages);
    else
        sum_host(r, r->domain_host[domain], &r->report->host);
    ISO_TRY(status);
    add_bytes(&slot->buffers, largest_scratch(r, domain), 1);
    add_up(slot);
    ISO_TRY(check_sum(slot, "a slot"));
    ISO_TRY(check_sum(&r->report->gpu, "a GPU"));
    ISO_TRY(check_sum(&r->report->host, "a host"));
    find_live(r);
    find_peak(r);
    weigh_all(r);
done:
    return status;
}
