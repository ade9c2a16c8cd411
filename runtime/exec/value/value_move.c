/* Exchanges of values: from layout to layout, or gathered on every rank.
 *
 * Slots pull from each other's areas in the host's window, so a value's parts are copied there first. */
#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/collective.h"

/* The pulls of one slot, or its copies of its own part. */
typedef struct mover {
    const iso_value *from;
    iso_exchange *exchange; /* NULL: copies within `local` */
    iso_source *source;     /* [slots] room */
    int slot, local;
    iso_box target_box;
    void *target;
} mover;

static iso_status value_move_add_region(void *arg, const iso_region *region)
{
    mover *m = arg;
    for (int i = 0; i < region->sources; i++)
        m->source[i] = (iso_source){
            .slot = region->slot[i], .space = ISO_SPACE_SLOT, .offset = 0, .box = region->source_box[i]};
    return iso_exchange_add(m->exchange, m->slot, 0, &m->target_box, m->from->dtype,
                            m->from->layout.partial_max ? ISO_MAX : ISO_SUM, &region->box, m->source,
                            region->sources, NULL);
}

static iso_status copy_region(void *arg, const iso_region *region)
{
    const mover *m = arg;
    iso_box_copy copy = {.region = region->box,
                         .from_box = region->source_box[0],
                         .to_box = m->target_box,
                         .from = m->from->part[m->local],
                         .to = m->target,
                         .element = iso_dtype_size(m->from->dtype)};
    iso_box_copy_run(&copy);
    return ISO_OK;
}

/* ---- exchanges ---- */

/* Makes each slot's area large enough for the largest part, and copies the parts there. Collective. */
static iso_status share_parts(const iso_value *value)
{
    const iso_value_site *site = value->site;
    size_t element = iso_dtype_size(value->dtype), bytes = 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_size_mul((size_t)iso_layout_largest(site->mesh, &value->layout, &value->shape), element,
                         "the parts of a value", &bytes));
    ISO_TRY(iso_fabric_reserve(site->fabric, bytes, NULL));
    for (int l = 0; l < site->n_locals; l++) {
        iso_box box = iso_value_local_box(value, l);
        memcpy(iso_fabric_slot_area(site->fabric, site->slot[l]), value->part[l],
               (size_t)iso_box_count(&box) * element);
    }
done:
    return status;
}

static iso_status value_move_add_slots(mover *m, const iso_layout *layout, bool one_a_rank)
{
    const iso_value_site *site = m->from->site;
    iso_status status = ISO_OK;
    m->source = iso_new((size_t)site->mesh->n_slots * sizeof *m->source);
    if (!m->source)
        return iso_no_memory("an exchange of %d slots", site->mesh->n_slots);
    for (int s = 0; s < site->mesh->n_slots; s++) {
        if (one_a_rank && !site->first_of_rank[s])
            continue;
        m->slot = s;
        m->target_box = iso_layout_box(site->mesh, layout, &m->from->shape, s);
        ISO_TRY(iso_reshard_visit(site->mesh, &m->from->layout, layout, &m->from->shape, s,
                                  value_move_add_region, m));
    }
done:
    iso_free(m->source);
    return status;
}

/* targets: one for each of the first `count` local slots. Returns the bytes that they pulled. */
static uint64_t value_move_run(const iso_value_site *site, iso_exchange *exchange, void *const *targets,
                               int count)
{
    uint64_t before = 0, after = 0;
    if (site->n_locals == 0)
        return 0;
    for (int l = 0; l < count; l++) {
        iso_exchange_bind(exchange, site->slot[l], 0, targets[l]);
        before += iso_fabric_traffic(site->fabric, site->slot[l]).pulled;
    }
    iso_exchange_begin(exchange, 0);
    for (int l = 0; l < count; l++)
        iso_exchange_pull(exchange, site->slot[l]);
    iso_exchange_end(exchange, 0);
    for (int l = 0; l < count; l++)
        after += iso_fabric_traffic(site->fabric, site->slot[l]).pulled;
    return after - before;
}

/* Sends parts of `from` to the targets of all slots, or of the first slot of each rank. Collective. */
static iso_status value_move_exchange(const iso_value *from, const iso_layout *layout, bool one_a_rank,
                                      void *const *targets, uint64_t *taken)
{
    const iso_value_site *site = from->site;
    mover m = {.from = from};
    iso_status status = ISO_OK;
    ISO_TRY(share_parts(from));
    status = iso_exchange_create(site->fabric, "a value", &m.exchange);
    if (status == ISO_OK)
        status = value_move_add_slots(&m, layout, one_a_rank);
    ISO_TRY(iso_agree(site->ctx, status));
    ISO_TRY(iso_exchange_commit(m.exchange));
    *taken +=
        value_move_run(site, m.exchange, targets, one_a_rank && site->n_locals > 0 ? 1 : site->n_locals);
    ISO_TRY(iso_agree(site->ctx, iso_fabric_failure(site->fabric))); /* messages and areas are free again */
done:
    iso_exchange_destroy(m.exchange);
    return status;
}

/* ---- from layout to layout ---- */

/* Fills with the identity of the maximum. */
static void fill_with_least(void *data, iso_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ISO_F32)
            ((float *)data)[i] = -INFINITY;
        else if (dtype == ISO_F64)
            ((double *)data)[i] = -INFINITY;
        else if (dtype == ISO_I32)
            ((int32_t *)data)[i] = INT32_MIN;
        else if (dtype == ISO_I64)
            ((int64_t *)data)[i] = INT64_MIN;
        else
            ((uint8_t *)data)[i] = 0;
    }
}

/* Each slot copies its new part from its own old one. */
static iso_status copy_parts(const iso_value *from, iso_value *to)
{
    const iso_value_site *site = from->site;
    iso_status status = ISO_OK;
    for (int l = 0; l < site->n_locals; l++) {
        mover m = {.from = from, .slot = site->slot[l], .local = l, .target = to->part[l]};
        m.target_box = iso_value_local_box(to, l);
        ISO_TRY(
            iso_reshard_visit(site->mesh, &from->layout, &to->layout, &from->shape, m.slot, copy_region, &m));
    }
done:
    return status;
}

iso_status iso_value_move(const iso_value *from, iso_value *to)
{
    const iso_value_site *site = from->site;
    to->taken += from->taken;
    if (to->layout.partial_max && to->layout.partial & ~from->layout.partial)
        for (int l = 0; l < site->n_locals; l++) {
            iso_box box = iso_value_local_box(to, l);
            fill_with_least(to->part[l], to->dtype, iso_box_count(&box));
        }
    if (iso_reshard_local(site->mesh, &from->layout, &to->layout))
        return iso_agree(site->ctx, copy_parts(from, to));
    return value_move_exchange(from, &to->layout, false, to->part, &to->taken);
}

/* ---- gathering on every rank ---- */

iso_status iso_value_gather(const iso_value *from, void *array)
{
    const iso_value_site *site = from->site;
    iso_layout whole = iso_layout_whole(from->shape.rank);
    iso_box box = iso_box_whole(&from->shape);
    uint64_t taken = 0;
    iso_status status = ISO_OK;
    ISO_TRY(value_move_exchange(from, &whole, true, &array, &taken));
    if (site->idle_ranks)
        ISO_TRY(iso_broadcast_from(site->ctx, site->mesh->rank_of_slot[0], array,
                                   (size_t)iso_box_count(&box) * iso_dtype_size(from->dtype)));
done:
    return status;
}
