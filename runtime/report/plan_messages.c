/* A plan's report: the buffers of messages between memory domains. The bytes that one domain receives are counted as
 * exchanges find them: every pull of its slots, each partial sum of another domain once. If there are many
 * domains, each is assumed to send as much as it receives. */
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/table.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/report/plan_report_impl.h"

/* Number of slots of the domain that are examined, on meshes of up to MANY slots and on larger ones; the
 * others are assumed to be like the last of these. */
enum { LOOKED_AT = 16, MANY = 1024, LOOKED_AT_OF_MANY = 3, NO_BUCKETS = -1 };

typedef struct messages {
    const iso_reporter *r;
    int domain, from;        /* counts what `domain` receives from `from` (-1: from any) */
    int *source, *domain_of; /* [slots] room */
    iso_table known;         /* pulls of the exchange */
    iso_status status;
    size_t element;
    double bytes;          /* of this exchange, of the examined slots */
    int *met;              /* [slots] the number of the exchange in which the domain was last met */
    int exchange, senders; /* the number of this exchange, and the domains that it is pulled from */
} messages;

/* True if the domain has not requested this yet. */
static bool is_fresh(messages *m, uint64_t key)
{
    if (iso_table_find(&m->known, key, NULL, NULL) >= 0)
        return false;
    m->status = iso_table_add(&m->known, key, 0, "the messages of a plan");
    return m->status == ISO_OK;
}

/* The other domains among those of m->domain_of. */
static void meet(messages *m, int count)
{
    for (int i = 0; i < count; i++) {
        int domain = m->domain_of[i];
        m->senders += domain != m->domain && m->met[domain] != m->exchange;
        m->met[domain] = m->exchange;
    }
}

/* A slot of the domain pulls a region: the sum of `count` sources, in m->source. */
static void pull(messages *m, const iso_box *region, int count)
{
    for (int i = 0; i < count; i++)
        m->domain_of[i] = m->r->plan->site->domain_of_slot[m->source[i]];
    int operands = iso_exchange_inter_host(m->domain_of, count, m->from, m->domain);
    int64_t elements = iso_box_count(region);
    if (!operands || !elements)
        return;
    meet(m, count);
    uint64_t key = iso_hash_bytes(0, m->source, (size_t)count * sizeof *m->source);
    key = iso_hash_bytes(key, region->offset, (size_t)region->rank * sizeof *region->offset);
    key = iso_hash_bytes(key, region->extent, (size_t)region->rank * sizeof *region->extent);
    size_t bytes = (size_t)elements * m->element;
    if (is_fresh(m, key))
        m->bytes += (double)iso_exchange_operand_bytes(bytes) * operands;
}

static iso_status pull_region(void *arg, const iso_region *region)
{
    messages *m = arg;
    memcpy(m->source, region->slot, (size_t)region->sources * sizeof *m->source);
    pull(m, &region->box, region->sources);
    return m->status;
}

/* The chunk of an all-reduce that a slot adds, or those that it takes from the others. */
static void pull_chunks(messages *m, const iso_move *move, int slot)
{
    const iso_mesh *mesh = m->r->mesh;
    uint32_t axes = iso_move_summed_axes(m->r->program, move);
    iso_box box = iso_plan_box(m->r->plan, move->from, slot);
    int group = iso_group_slots(mesh, axes, slot, m->source);
    int64_t begin, count;
    for (int i = 0; i < group; i++) {
        int owner = iso_group_slot(mesh, axes, slot, i);
        iso_cut(iso_box_count(&box), group, i, &begin, &count);
        iso_box chunk = iso_box_range(begin, count);
        if (move->kind == ISO_MOVE_SCATTER && owner == slot) {
            pull(m, &chunk, group);
        } else if (move->kind == ISO_MOVE_GATHER) {
            m->source[0] = owner;
            pull(m, &chunk, 1);
        }
    }
}

static void pull_move(messages *m, const iso_move *move, int slot)
{
    const iso_program *program = m->r->program;
    iso_shape shape = iso_plan_shape(m->r->plan, move->from);
    m->element = iso_dtype_size(program->values[move->from].tensor->dtype);
    if (move->kind != ISO_MOVE_BOXES)
        pull_chunks(m, move, slot);
    else if (m->status == ISO_OK)
        m->status = iso_reshard_visit(m->r->mesh, &program->values[move->from].layout,
                                      &program->values[move->to].layout, &shape, slot, pull_region, m);
}

/* Pulls the slot's part of the gradients of a bucket. */
static void pull_bucket(messages *m, int number, int slot)
{
    const iso_bucket *bucket = &m->r->plan->buckets->buckets[number];
    int64_t begin, count;
    iso_bucket_part(bucket, m->r->mesh, slot, &begin, &count);
    iso_box part =
        iso_box_range(begin + ((int64_t)number << 40), count); /* to differ from the same part of another
                                                                  bucket */
    m->element = iso_dtype_size(bucket->dtype);
    pull(m, &part, iso_group_slots(m->r->mesh, bucket->axes, slot, m->source));
}

/* The bytes that the domain's slots pull in one exchange: of these moves, and of the gradients of the buckets that
 * begin with instruction `begins` (NO_BUCKETS: none). */
static double received(messages *m, int first, int count, int begins)
{
    const int *slot = m->r->by_domain + m->r->domain_begin[m->domain];
    int slots = m->r->domain_begin[m->domain + 1] - m->r->domain_begin[m->domain];
    int looked_at = m->r->mesh->n_slots > MANY ? LOOKED_AT_OF_MANY : LOOKED_AT;
    double before = 0;
    looked_at = slots < looked_at ? slots : looked_at;
    iso_table_clear(&m->known);
    m->bytes = 0;
    m->senders = 0;
    m->exchange++;
    for (int s = 0; s < looked_at && m->status == ISO_OK; s++) {
        before = m->bytes;
        for (int i = first; i < first + count; i++)
            pull_move(m, &m->r->plan->moves[i], slot[s]);
        for (int b = 0; begins != NO_BUCKETS && b < m->r->plan->buckets->count; b++)
            if (m->r->plan->bucket_begin[b] == begins)
                pull_bucket(m, b, slot[s]);
    }
    return m->bytes + (slots - looked_at) * (m->bytes - before);
}

/* What arrives from all others, at the domain that gets the most. */
static void note_arrivals(const messages *m, iso_report_op *op, const iso_block *block)
{
    if (m->from >= 0)
        return;
    op->arrives = (double)block->bytes > op->arrives ? (double)block->bytes : op->arrives;
    op->senders = m->senders > op->senders ? m->senders : op->senders;
}

/* Adds what `domain` receives from another (-1: from all others) to the blocks of the exchanges. */
static void in_all_exchanges(messages *m, int domain, int from, iso_block *block)
{
    const iso_plan *plan = m->r->plan;
    m->domain = domain;
    m->from = from;
    for (int i = 0; i < plan->n_instructions; i++) {
        const iso_instruction *instruction = &plan->instructions[i];
        if (instruction->kind == ISO_EXCHANGE && instruction->cargo == ISO_CARGO_MOVES)
            block[i].bytes += (size_t)received(m, instruction->first_move, instruction->n_moves, NO_BUCKETS);
        else if (instruction->kind == ISO_BEGIN && instruction->cargo == ISO_CARGO_GRADIENTS)
            block[i].bytes += (size_t)received(m, 0, 0, i);
        else
            continue;
        note_arrivals(m, &m->r->report->ops[i], &block[i]);
    }
    block[plan->n_instructions].bytes +=
        (size_t)received(m, plan->epilogue_first_move, plan->n_epilogue_moves, plan->n_instructions);
    note_arrivals(m, &m->r->report->ops[m->r->report->n_ops - 1], &block[plan->n_instructions]);
}

/* One block for each instruction, for the end of the step and for the new weights: the time during which
 * its messages are in progress. */
static void set_times(const iso_plan *plan, iso_block *block)
{
    for (int i = 0; i < plan->n_instructions + 2; i++) {
        block[i] = (iso_block){.begin = i, .end = i};
        if (i < plan->n_instructions && plan->instructions[i].kind == ISO_EXCHANGE)
            block[i].begin = plan->instructions[i].begin;
        else if (i < plan->n_instructions && plan->instructions[i].cargo == ISO_CARGO_GRADIENTS)
            block[i].end = plan->n_instructions;
    }
}

/* The new weights of a bucket that a domain receives, from those that share its update. */
static void note_weights(const iso_reporter *r, int number, iso_block *in, iso_block *out)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    const int *domain = r->plan->site->domain_of_slot;
    iso_report_op *op = &r->report->ops[r->plan->bucket_gather_end[number]];
    in->bytes = out->bytes = (size_t)(r->bucket_weights[number] / r->n_domains);
    op->arrives = (double)in->bytes;
    op->senders = 0;
    for (int i = 0, last = domain[0]; i < bucket->group; i++) {
        int of = domain[iso_group_slot(r->mesh, bucket->axes, 0, i)];
        op->senders += of != last && of != domain[0];
        last = of;
    }
}

static iso_status buffers(messages *m, int domain, iso_block *in, iso_block *out, double *bytes)
{
    const iso_reporter *r = m->r;
    int end = r->plan->n_instructions, blocks = end + 2;
    size_t landing = 0, outgoing = 0;
    set_times(r->plan, in);
    set_times(r->plan, out);
    in_all_exchanges(m, domain, -1, in);
    for (int d = 0; m->status == ISO_OK && r->n_domains <= ISO_REPORT_FEW_DOMAINS && d < r->n_domains; d++)
        if (d != domain)
            in_all_exchanges(m, d, domain, out);
    for (int b = 0; b < r->plan->buckets->count; b++)
        if (r->plan->bucket_gather_end[b] >= 0)
            note_weights(r, b, &in[r->plan->bucket_gather_end[b]], &out[r->plan->bucket_gather_end[b]]);
    in[end + 1].bytes = out[end + 1].bytes = (size_t)(r->new_weights / r->n_domains);
    iso_status status = ISO_OK;
    ISO_TRY(m->status);
    ISO_TRY(iso_memory_plan(in, blocks, &landing));
    ISO_TRY(iso_memory_plan(out, blocks, &outgoing));
    *bytes = (double)landing + (double)(r->n_domains > ISO_REPORT_FEW_DOMAINS ? landing : outgoing);
done:
    return status;
}

iso_status iso_report_messages(const iso_reporter *r, int domain, double *bytes)
{
    size_t slots = (size_t)r->mesh->n_slots, blocks = (size_t)r->plan->n_instructions + 2;
    messages m = {.r = r, .domain = domain};
    iso_status status = ISO_OK;
    *bytes = 0;
    if (r->plan->site->one_domain)
        return ISO_OK;
    iso_block *in = iso_new(blocks * sizeof *in), *out = iso_new(blocks * sizeof *out);
    m.source = iso_new(slots * sizeof *m.source);
    m.domain_of = iso_new(slots * sizeof *m.domain_of);
    m.met = iso_new(slots * sizeof *m.met);
    if (!in || !out || !m.source || !m.domain_of || !m.met)
        status = iso_error(ISO_NO_MEMORY, "no memory for the messages of %zu slots", slots);
    else
        status = buffers(&m, domain, in, out, bytes);
    iso_free(in);
    iso_free(out);
    iso_free(m.source);
    iso_free(m.domain_of);
    iso_free(m.met);
    iso_table_free(&m.known);
    return status;
}
