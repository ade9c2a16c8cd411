/* Reshards against a plain model: every slot's buffer is filled, resharded by the visited regions, and must
 * stand for the same tensor. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "runtime/spmd/program.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { CASES = 3000, MOST_ELEMENTS = 400, MOST_SLOTS = 12 };

static dice luck = {.key = 7};

/* The axes along which the slots hold addends. */
static uint32_t addend_axes(const iso_layout *layout)
{
    uint32_t axes = layout->partial;
    for (int d = 0; d < layout->rank; d++)
        for (int i = 0; i < layout->dim[d].count; i++)
            if (iso_sharding_has_window(&layout->dim[d]) && layout->dim[d].addends)
                axes |= 1u << layout->dim[d].axis[i];
    return axes;
}

/* The coordinates of a slot along some axes as one number. */
static int code_of(const iso_mesh *mesh, uint32_t axes, int slot)
{
    int code = 0;
    for (int a = 0; a < iso_mesh_axes(mesh); a++)
        if (axes & 1u << a)
            code = code * 16 + iso_mesh_coordinate(mesh, slot, a) + 1;
    return code;
}

/* Slots that hold addends of what `slot` holds: those that differ along partial axes only. */
static bool is_first_of_its_kind(const iso_mesh *mesh, const iso_layout *layout, int slot)
{
    for (int a = 0; a < iso_mesh_axes(mesh); a++)
        if (layout->partial & 1u << a && iso_mesh_coordinate(mesh, slot, a) != 0)
            return false;
    return true;
}

typedef struct state {
    const iso_mesh *mesh;
    iso_shape shape;
    double tensor[MOST_ELEMENTS]; /* what the layout stands for */
    double buffer[MOST_SLOTS][MOST_ELEMENTS], next[MOST_SLOTS][MOST_ELEMENTS];
    int slot;
    iso_box target;
    int visits[MOST_ELEMENTS];
    bool local;
} state;

/* Small whole numbers, so that sums are exact in any order: random addends. Slots that hold the same addend
 * of an element, replicas and halos, hold the same number. */
static void fill(state *s, const iso_layout *layout)
{
    uint64_t key = (uint64_t)throw_dice(&luck, 1 << 30);
    for (int slot = 0; slot < iso_mesh_slots(s->mesh); slot++) {
        iso_box box = iso_layout_box(s->mesh, layout, &s->shape, slot);
        uint64_t code = (uint64_t)code_of(s->mesh, addend_axes(layout), slot);
        for (int64_t i = 0; i < iso_box_count(&box); i++) {
            uint64_t index = (uint64_t)iso_box_global_index(&box, &s->shape, i);
            s->buffer[slot][i] = iso_random_word(key, code, index) % 100;
        }
    }
}

/* The element of the tensor that these buffers stand for. Slots that hold the same addend of it agree. */
static double element(const state *s, const iso_layout *layout, double (*buffer)[MOST_ELEMENTS],
                      int64_t index)
{
    double sum = 0, addend[MOST_SLOTS];
    int code[MOST_SLOTS], codes = 0, k;
    for (int slot = 0; slot < iso_mesh_slots(s->mesh); slot++) {
        iso_box box = iso_layout_box(s->mesh, layout, &s->shape, slot);
        for (int64_t i = 0; i < iso_box_count(&box); i++) {
            if (iso_box_global_index(&box, &s->shape, i) != index)
                continue;
            int mine = code_of(s->mesh, addend_axes(layout), slot);
            for (k = 0; k < codes && code[k] != mine; k++)
                ;
            if (k < codes) {
                ck_assert_msg(addend[k] == buffer[slot][i], "slot %d holds %g, another %g", slot,
                              buffer[slot][i], addend[k]);
                break;
            }
            code[codes] = mine;
            sum += addend[codes++] = buffer[slot][i];
            break;
        }
    }
    return sum;
}

static int64_t place_in(const iso_box *box, const iso_shape *shape, int64_t global)
{
    for (int64_t i = 0; i < iso_box_count(box); i++)
        if (iso_box_global_index(box, shape, i) == global)
            return i;
    ck_abort_msg("element %lld is not in the box", (long long)global);
}

static iso_status take(void *arg, const iso_region *region)
{
    state *s = arg;
    ck_assert_int_gt(region->sources, 0);
    for (int64_t i = 0; i < iso_box_count(&region->box); i++) {
        int64_t global = iso_box_global_index(&region->box, &s->shape, i),
                to = place_in(&s->target, &s->shape, global);
        s->visits[to]++;
        for (int k = 0; k < region->sources; k++) {
            ck_assert(k == 0 || region->slot[k] > region->slot[k - 1]);
            s->local &= region->slot[k] == s->slot;
            s->next[s->slot][to] +=
                s->buffer[region->slot[k]][place_in(&region->source_box[k], &s->shape, global)];
        }
    }
    return ISO_OK;
}

static void reshard(state *s, const iso_layout *from, const iso_layout *to)
{
    s->local = true;
    for (s->slot = 0; s->slot < iso_mesh_slots(s->mesh); s->slot++) {
        s->target = iso_layout_box(s->mesh, to, &s->shape, s->slot);
        memset(s->next[s->slot], 0, sizeof s->next[s->slot]);
        memset(s->visits, 0, sizeof s->visits);
        check_ok(iso_reshard_visit(s->mesh, from, to, &s->shape, s->slot, take, s));
        bool every = is_first_of_its_kind(s->mesh, to, s->slot) && !to->partial;
        for (int64_t i = 0; i < iso_box_count(&s->target); i++)
            ck_assert_msg(s->visits[i] == 1 || (s->visits[i] == 0 && !every), "an element is taken %d times",
                          s->visits[i]);
    }
}

/* The largest box is that of some slot. */
static void check_largest(const state *s, const iso_layout *layout)
{
    int64_t most = 0;
    for (int slot = 0; slot < iso_mesh_slots(s->mesh); slot++) {
        iso_box box = iso_layout_box(s->mesh, layout, &s->shape, slot);
        most = iso_box_count(&box) > most ? iso_box_count(&box) : most;
    }
    ck_assert_int_eq(iso_layout_largest(s->mesh, layout, &s->shape), most);
}

static void run_case(state *s, const iso_mesh *mesh)
{
    char a[128], b[128];
    int rank = throw_dice(&luck, 4);
    s->mesh = mesh;
    s->shape = (iso_shape){.rank = rank};
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= s->shape.dim[d] = throw_dice(&luck, 8);
    if (count > MOST_ELEMENTS)
        return;
    iso_layout from = throw_layout(&luck, mesh, rank), to = throw_layout(&luck, mesh, rank);
    if (throw_dice(&luck, 3) == 0) /* such a value is read as it is, or its addends are added */
        throw_windows(&luck, &from, &s->shape, true, 3);
    if (throw_dice(&luck, 3) == 0)
        throw_windows(&luck, &to, &s->shape, false, 3);
    if (throw_dice(&luck, 9) == 0) { /* a halo of addends, added as it is */
        from = to;
        from.partial = 0;
        for (int axis = 0; axis < iso_mesh_axes(mesh); axis++)
            if (!(iso_layout_sharded_axes(&from) & 1u << axis) && throw_dice(&luck, 2))
                from.partial |= 1u << axis;
    }
    check_largest(s, &from);
    check_largest(s, &to);
    fill(s, &from);
    reshard(s, &from, &to);
    iso_layout_text(mesh, &from, a, sizeof a);
    iso_layout_text(mesh, &to, b, sizeof b);
    for (int64_t i = 0; i < count; i++) {
        double before = element(s, &from, s->buffer, i), after = element(s, &to, s->next, i);
        ck_assert_msg(before == after, "mesh %s, (%s) to (%s): element %lld is %g, was %g",
                      iso_mesh_text(mesh), a, b, (long long)i, after, before);
    }
    if (iso_reshard_local(mesh, &from, &to))
        ck_assert_msg(s->local, "mesh %s, (%s) to (%s) is called local but takes from others",
                      iso_mesh_text(mesh), a, b);
}

START_TEST(reshards_keep_the_tensor)
{
    static const char *const meshes[] = {"a=1", "a=5", "a=2,b=4", "a=3,b=2", "a=2,b=2,c=3", "a=1,b=3,c=2"};
    static state s;
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        iso_mesh *mesh;
        check_ok(iso_mesh_create(ctx, meshes[m], &mesh));
        for (int i = 0; i < CASES / 6; i++)
            run_case(&s, mesh);
        iso_mesh_destroy(mesh);
    }
}
END_TEST

/* Costs guide the partitioner: nothing for what is there, less for a part than for the whole. */
START_TEST(costs_are_in_order)
{
    iso_mesh *mesh;
    iso_layout whole, rows, columns, sum;
    iso_shape shape = ISO_SHAPE(64, 64);
    check_ok(iso_mesh_create(ctx, "a=4", &mesh));
    check_ok(iso_layout_parse(mesh, "-, -", &whole));
    check_ok(iso_layout_parse(mesh, "a, -", &rows));
    check_ok(iso_layout_parse(mesh, "-, a", &columns));
    sum = whole;
    sum.partial = 1;
    double gather = iso_reshard_cost(mesh, &rows, &whole, &shape),
           turn = iso_reshard_cost(mesh, &rows, &columns, &shape),
           scatter = iso_reshard_cost(mesh, &sum, &rows, &shape),
           reduce = iso_reshard_cost(mesh, &sum, &whole, &shape);
    ck_assert(iso_reshard_cost(mesh, &whole, &rows, &shape) == 0);
    ck_assert(iso_reshard_cost(mesh, &rows, &rows, &shape) == 0);
    ck_assert(gather == 64 * 64 * 3 / 4.0);
    ck_assert(turn == 64 * 64 / 4.0 * 3 / 4);
    ck_assert(scatter == 64 * 64 * 3 / 4.0);
    ck_assert(reduce == scatter + gather);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("reshard", 60, reshards_keep_the_tensor, costs_are_in_order))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
