/* Values laid out by hand, against plain arithmetic: random layouts, partial ones too, from and to; any
 * placement of slots on ranks and (pretended) hosts; wrong input on one rank alone. Ranks: 1, 3, 5   More: 2 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/collective.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;   /* real hosts */
static iso_context *apart; /* every rank a host of its own */

enum { MOST_SLOTS = 12, MOST_ELEMENTS = 600, CASES = 40 };

static dice luck = {.key = 23}; /* the same on every rank */

/* ---- meshes, layouts, shapes ---- */

static const char *const meshes[] = {"a=1", "a=3",     "a=5",         "a=2,b=4",
                                     "a=8", "b=3,a=2", "a=2,b=2,c=3", "a=1,b=3,c=2"};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

/* On ranks at random, some of which may stay without a slot. */
static iso_mesh *mesh_on_random_ranks(iso_context *on, const char *text)
{
    int rank_of_slot[MOST_SLOTS], slots = slots_of_mesh(text);
    iso_mesh *mesh;
    for (int s = 0; s < slots; s++)
        rank_of_slot[s] = throw_dice(&luck, iso_ranks(on));
    check_ok(iso_mesh_create_on(on, text, rank_of_slot, slots, &mesh));
    return mesh;
}

static iso_shape random_shape(void)
{
    iso_shape shape = {.rank = throw_dice(&luck, 4)};
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = throw_dice(&luck, 9);
    return shape;
}

/* ---- a value and what it should be ---- */

typedef struct model {
    iso_value *value;
    iso_shape shape;
    int64_t count;
    double expected[MOST_ELEMENTS];
} model;

/* What a slot holds at a place of the tensor: the same for slots that differ along replicated axes only. */
static double held(const iso_mesh *mesh, const iso_layout *layout, iso_dtype dtype, int slot, int64_t index,
                   uint64_t seed)
{
    uint64_t addend = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if (layout->partial & 1u << a)
            addend = addend * 16 + (uint64_t)iso_mesh_coordinate(mesh, slot, a);
    uint32_t word = iso_random_word(seed, addend, (uint64_t)index);
    if (dtype == ISO_BOOL)
        return word % 2;
    return dtype == ISO_U8 ? word % 20 : (double)(word % 200) - 120;
}

static double combine(iso_dtype dtype, bool maximum, double a, double b)
{
    if (dtype == ISO_BOOL)
        return a != 0 || b != 0;
    return maximum ? fmax(a, b) : a + b;
}

/* Adds up, by its places in the tensor, what one slot of each set of addends holds. */
static void expect(model *m, const iso_mesh *mesh, const iso_layout *layout, iso_dtype dtype, uint64_t seed)
{
    bool seen[MOST_ELEMENTS] = {false};
    for (int slot = 0; slot < mesh->n_slots; slot++) {
        bool counts = true; /* the first of its replicas */
        for (int a = 0; a < mesh->n_axes; a++)
            if (!((layout->partial | iso_layout_sharded_axes(layout)) & 1u << a))
                counts &= iso_mesh_coordinate(mesh, slot, a) == 0;
        iso_box box = iso_layout_box(mesh, layout, &m->shape, slot);
        for (int64_t i = 0; counts && i < iso_box_count(&box); i++) {
            int64_t at = iso_box_global_index(&box, &m->shape, i);
            double x = held(mesh, layout, dtype, slot, at, seed);
            m->expected[at] = seen[at] ? combine(dtype, layout->partial_max, m->expected[at], x) : x;
            seen[at] = true;
        }
    }
}

static void pack(model *m, const iso_mesh *mesh, const iso_layout *layout, iso_dtype dtype, uint64_t seed)
{
    for (int slot = 0; slot < mesh->n_slots; slot++) {
        double part[MOST_ELEMENTS + 1];
        iso_box box;
        check_ok(iso_value_box(m->value, slot, &box));
        for (int64_t i = 0; i < iso_box_count(&box); i++)
            iso_element_set(part, dtype, i,
                            held(mesh, layout, dtype, slot, iso_box_global_index(&box, &m->shape, i), seed));
        check_ok(iso_value_pack(m->value, slot, part));
    }
}

/* False where the shape is too large. */
static bool begin(model *m, const iso_layout *layout, iso_dtype dtype, iso_shape shape)
{
    uint64_t seed = luck.thrown++;
    m->shape = shape;
    check_ok(iso_shape_count(&shape, &m->count));
    if (m->count > MOST_ELEMENTS)
        return false;
    check_ok(iso_value_create(layout, dtype, shape, &m->value));
    expect(m, layout->mesh, layout, dtype, seed);
    pack(m, layout->mesh, layout, dtype, seed);
    return true;
}

static void describe(char *text, size_t size, const iso_value *value, const iso_layout *from)
{
    char shape[128], old[128], new[128];
    const iso_layout *to = iso_value_layout(value);
    iso_shape s = iso_value_shape(value);
    snprintf(text, size, "%s %s on %s, (%s) to (%s)", iso_dtype_name(iso_value_dtype(value)),
             iso_shape_text(&s, shape, sizeof shape), iso_mesh_text(to->mesh),
             iso_layout_text(to->mesh, from, old, sizeof old),
             iso_layout_text(to->mesh, to, new, sizeof new));
}

/* Fetches; where the layout is not partial, looks at the parts too. */
static void check_value(const model *m, iso_value *value, const iso_layout *from)
{
    double array[MOST_ELEMENTS + 1];
    char what[512];
    describe(what, sizeof what, value, from);
    memset(array, 0x5a, sizeof array);
    check_ok(iso_value_fetch(value, array));
    for (int64_t i = 0; i < m->count; i++) {
        double x = iso_element_get(array, value->dtype, i);
        ck_assert_msg(x == m->expected[i], "%s: element %lld is %g, not %g", what, (long long)i, x,
                      m->expected[i]);
    }
    for (int slot = 0; slot < value->site->mesh->n_slots && !value->layout.partial; slot++) {
        const void *part = iso_value_part(value, slot);
        iso_box box;
        check_ok(iso_value_box(value, slot, &box));
        for (int64_t i = 0; part && i < iso_box_count(&box); i++) {
            int64_t at = iso_box_global_index(&box, &m->shape, i);
            double x = iso_element_get(part, value->dtype, i);
            ck_assert_msg(x == m->expected[at], "%s: slot %d has %g, not %g, at %lld", what, slot, x,
                          m->expected[at], (long long)at);
        }
    }
}

/* Counted while it ran, over all ranks, against what the route states. */
static void check_bytes(const iso_value *from, const iso_value *to)
{
    iso_layout stop[ISO_MAX_RESHARD_PATH];
    const iso_mesh *mesh = from->site->mesh;
    double stated = 0, counted = 0, all[64], mine = (double)to->taken;
    int stops = iso_reshard_path(mesh, &from->layout, &to->layout, &from->shape, stop);
    for (int i = 0; i < stops; i++)
        stated +=
            iso_collective_of(mesh, i ? &stop[i - 1] : &from->layout, &stop[i], &from->shape, false).total;
    check_ok(iso_gather_all(from->site->ctx, &mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(from->site->ctx); r++)
        counted += all[r];
    ck_assert_msg(counted == stated * (double)iso_dtype_size(from->dtype),
                  "%g bytes were taken, the route states %g elements", counted, stated);
}

static void run_case(iso_mesh *mesh)
{
    static const iso_dtype dtypes[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL};
    model m = {0};
    iso_shape shape = random_shape();
    iso_dtype dtype = dtypes[throw_dice(&luck, 6)];
    iso_layout *from = throw_handle(&luck, mesh, shape.rank), *to = throw_handle(&luck, mesh, shape.rank);
    iso_value *moved;
    if (begin(&m, from, dtype, shape)) {
        check_value(&m, m.value, from);
        check_ok(iso_value_reshard(m.value, to, &moved));
        ck_assert(iso_layout_equal(iso_value_layout(moved), to));
        check_bytes(m.value, moved);
        check_value(&m, moved, from);
        iso_value_destroy(moved);
        iso_value_destroy(m.value);
    }
    iso_layout_destroy(from);
    iso_layout_destroy(to);
}

static void run_cases(iso_context *on)
{
    for (int i = 0; i < MESHES; i++)
        for (int k = 0; k < CASES; k += 20) {
            iso_mesh *mesh = mesh_on_random_ranks(on, meshes[i]);
            for (int c = 0; c < 20; c++)
                run_case(mesh);
            iso_mesh_destroy(mesh);
        }
}

START_TEST(values_keep_their_elements)
{
    run_cases(ctx);
}
END_TEST

START_TEST(values_cross_hosts)
{
    run_cases(apart);
}
END_TEST

/* ---- parts read ---- */

/* A box within another, at random. */
static iso_box box_within(const iso_box *box)
{
    iso_box some = *box;
    for (int d = 0; d < box->rank; d++) {
        some.extent[d] = throw_dice(&luck, (int)box->extent[d] + 1);
        some.offset[d] += throw_dice(&luck, (int)(box->extent[d] - some.extent[d]) + 1);
    }
    return some;
}

/* What an element becomes, by C's own conversions. */
static bool is_read(const void *read, iso_dtype as, int64_t i, double x)
{
    if (as == ISO_F32)
        return ((const float *)read)[i] == (float)x;
    return iso_element_get(read, as, i) == x;
}

/* box NULL: the whole part. */
static void check_read(const iso_value *value, int slot, const iso_box *box, iso_dtype as, uint64_t seed)
{
    const iso_layout *layout = iso_value_layout(value);
    const iso_mesh *mesh = layout->mesh;
    iso_shape shape = iso_value_shape(value);
    iso_box part;
    unsigned char out[MOST_ELEMENTS * 8 + 8];
    check_ok(iso_value_box(value, slot, &part));
    box = box ? box : &part;
    memset(out, 0x5a, sizeof out);
    check_ok(iso_value_read(value, slot, box == &part ? NULL : box, as, out));
    int64_t wrong = -1;
    bool clean = true; /* nothing behind is written */
    for (int64_t i = 0; i < iso_box_count(box) && wrong < 0; i++)
        if (!is_read(out, as, i,
                     held(mesh, layout, value->dtype, slot, iso_box_global_index(box, &shape, i), seed)))
            wrong = i;
    for (size_t i = (size_t)iso_box_count(box) * iso_dtype_size(as); i < sizeof out; i++)
        clean &= out[i] == 0x5a;
    ck_assert_msg(wrong < 0 && clean, "slot %d as %s: element %d of the box", slot, iso_dtype_name(as),
                  (int)wrong); /* once: each assertion writes to a file */
}

static bool hold_the_same(const iso_value *value, int a, int b)
{
    for (int axis = 0; axis < value->site->mesh->n_axes; axis++)
        if ((value->layout.partial | iso_layout_sharded_axes(&value->layout)) & 1u << axis &&
            iso_mesh_coordinate(value->site->mesh, a, axis) !=
                iso_mesh_coordinate(value->site->mesh, b, axis))
            return false;
    return true;
}

static void check_shards(const iso_value *value, uint64_t seed)
{
    int count = 0, slots = value->site->mesh->n_slots;
    iso_box box;
    for (int slot = 0; slot < slots; slot++) {
        if (iso_mesh_rank_of_slot(value->site->mesh, slot) != iso_rank(value->site->ctx)) {
            float none[1];
            check_refused(iso_value_read(value, slot, NULL, ISO_F32, none), "cannot read its part");
            continue;
        }
        iso_shard shard = iso_value_shard(value, count++);
        int replica = 0;
        for (int s = 0; s < slot; s++)
            replica += hold_the_same(value, s, slot);
        check_ok(iso_value_box(value, slot, &box));
        ck_assert_int_eq(shard.slot, slot);
        ck_assert_int_eq(shard.replica, replica);
        ck_assert(shard.dtype == value->dtype && iso_box_equal(&shard.box, &box));
        ck_assert_ptr_eq(shard.data, iso_box_count(&box) ? iso_value_part(value, slot) : NULL);
        for (int i = 0; i < 9; i++) {
            iso_box some = box_within(&box);
            check_read(value, slot, i < 3 ? NULL : &some,
                       (iso_dtype[]){value->dtype, ISO_F32, ISO_F64}[i % 3], seed);
        }
    }
    ck_assert_int_eq(iso_value_shard_count(value), count);
    ck_assert_int_eq(iso_value_shard(value, count).slot, -1);
    ck_assert_int_eq(iso_value_shard(value, -1).slot, -1);
}

START_TEST(parts_are_read)
{
    static const iso_dtype dtypes[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL};
    for (int i = 0; i < 6 * MESHES; i++) {
        dice before = luck;
        iso_mesh *mesh = mesh_on_random_ranks(ctx, meshes[i % MESHES]);
        model m = {0};
        iso_shape shape = random_shape();
        iso_layout *layout = throw_handle(&luck, mesh, shape.rank);
        uint64_t seed = luck.thrown;
        if (begin(&m, layout, dtypes[i / MESHES], shape))
            check_shards(m.value, seed);
        iso_value_destroy(m.value);
        iso_layout_destroy(layout);
        iso_mesh_destroy(mesh);
        luck.thrown = before.thrown + 1000; /* ranks threw for their own slots only */
    }
}
END_TEST

/* Floats at the edges of their types. */
START_TEST(elements_are_rounded_once)
{
    static const int64_t integers[] = {(1LL << 24) + 1, (1LL << 53) + 1, INT64_MAX, -3, 0x4000004000000001LL};
    static const double doubles[] = {1e300, 1 + 1e-9, -1e-50, INFINITY, 0.1};
    iso_mesh *mesh = mesh_on_random_ranks(ctx, "a=1");
    iso_layout *layout;
    iso_value *value[2];
    float narrow[5];
    double wide[5];
    check_ok(iso_layout_create(mesh, "a", &layout));
    check_ok(iso_value_create(layout, ISO_I64, ISO_SHAPE(5), &value[0]));
    check_ok(iso_value_create(layout, ISO_F64, ISO_SHAPE(5), &value[1]));
    check_ok(iso_value_pack(value[0], 0, integers));
    check_ok(iso_value_pack(value[1], 0, doubles));
    if (iso_mesh_rank_of_slot(mesh, 0) == iso_rank(ctx)) {
        check_ok(iso_value_read(value[0], 0, NULL, ISO_F32, narrow));
        check_ok(iso_value_read(value[0], 0, NULL, ISO_F64, wide));
        for (int i = 0; i < 5; i++)
            ck_assert(narrow[i] == (float)integers[i] && wide[i] == (double)integers[i]);
        check_ok(iso_value_read(value[1], 0, NULL, ISO_F32, narrow));
        for (int i = 0; i < 5; i++)
            ck_assert(narrow[i] == (float)doubles[i]);
        ck_assert(isinf(narrow[0]));
    }
    iso_value_destroy(value[0]);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
    iso_value_destroy(value[1]); /* behind its mesh */
}
END_TEST

START_TEST(bools_are_0_or_1)
{
    const double from[] = {5, 0.25, -1, -0.0, 256};
    const uint8_t expected[] = {1, 1, 1, 0, 1};
    uint8_t bools[5] = {0};
    for (int i = 0; i < 5; i++)
        iso_element_set(bools, ISO_BOOL, i, from[i]);
    ck_assert_mem_eq(bools, expected, sizeof bools);
}
END_TEST

START_TEST(wrong_reads_are_named)
{
    int here[8], last;
    iso_mesh *mesh;
    iso_layout *layout;
    iso_value *value;
    float out[12];
    for (int s = 0; s < 8; s++)
        here[s] = s % iso_ranks(ctx);
    check_ok(iso_mesh_create_on(ctx, "a=2,b=4", here, 8, &mesh));
    check_ok(iso_layout_create(mesh, "a, -", &layout));
    check_ok(iso_value_create(layout, ISO_F64, ISO_SHAPE(3, 4), &value));
    for (last = 7; here[last] != iso_rank(ctx); last--)
        ;
    const iso_box wrong[] = {{.rank = 1, .extent = {1}},
                             {.rank = 2, .offset = {1, 0}, .extent = {2, 4}},
                             {.rank = 2, .offset = {2, 0}, .extent = {-1, 4}},
                             {.rank = 2, .offset = {2, INT64_MAX}, .extent = {1, 4}},
                             {.rank = 2, .offset = {2, 1}, .extent = {1, INT64_MAX}}};
    if (last > 3) { /* its part is row 2 */
        check_refused(iso_value_read(value, last, &wrong[0], ISO_F32, out),
                      "a box of 1 dimensions of a tensor of 2");
        check_refused_naming(iso_value_read(value, last, &wrong[1], ISO_F32, out),
                             "the box [1:3, 0:4] is not", "part [2:3, 0:4]");
        for (int i = 2; i < 5; i++)
            check_refused(iso_value_read(value, last, &wrong[i], ISO_F32, out), "is not within slot");
        check_refused(
            iso_value_read(value, last, NULL, ISO_I32, out),
            "elements of type float64 cannot be read as int32; they can be read as float32 or float64");
        check_refused(iso_value_read(value, last, NULL, 99, out), "unknown");
        check_refused(iso_value_read(value, last, NULL, ISO_F32, NULL), "out is NULL");
    }
    check_refused(iso_value_read(value, 8, NULL, ISO_F32, out), "slot 8 on mesh a=2,b=4");
    check_refused(iso_value_read(value, -1, NULL, ISO_F32, out), "slot -1");
    check_refused(iso_value_read(NULL, 0, NULL, ISO_F32, out), "value is NULL");
    ck_assert_int_eq(iso_value_shard_count(NULL), 0);
    iso_value_destroy(value);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- copied to the mesh ---- */

START_TEST(arrays_reach_the_mesh)
{
    static const char *const layouts[] = {"a, -", "-, b+a",           "b, a",
                                          "-, -", "-, b; partial(a)", "a, -; partial max(b)"};
    iso_mesh *mesh = mesh_on_random_ranks(apart, "a=2,b=4");
    model m = {.shape = ISO_SHAPE(7, 5), .count = 35};
    int32_t array[35];
    for (int i = 0; i < 35; i++)
        m.expected[i] = array[i] = -i * i;
    for (int k = 0; k < 6; k++) {
        iso_layout *layout;
        check_ok(iso_layout_create(mesh, layouts[k], &layout));
        check_ok(iso_value_create(layout, ISO_I32, m.shape, &m.value));
        for (int twice = 0; twice < 2; twice++) {
            check_ok(iso_value_copy_to_mesh(m.value, array));
            check_value(&m, m.value, layout);
        }
        iso_value_destroy(m.value);
        iso_layout_destroy(layout);
    }
    iso_mesh_destroy(mesh);
}
END_TEST

/* Sums of numbers that round: the same bits fetched, reshaped, in one exchange and in two. */
START_TEST(sums_keep_their_order)
{
    iso_mesh *mesh = mesh_on_random_ranks(apart, "a=5");
    iso_layout *sum, *whole;
    iso_value *value, *reduced;
    float part[30], fetched[30], pair[2];
    check_ok(iso_layout_create(mesh, "-; partial(a)", &sum));
    check_ok(iso_layout_replicated(mesh, 1, &whole));
    check_ok(iso_value_create(sum, ISO_F32, ISO_SHAPE(30), &value));
    for (int slot = 0; slot < 5; slot++) {
        for (int i = 0; i < 30; i++)
            part[i] = (float)iso_uniform_f32(iso_random_word(3, (uint64_t)slot, (uint64_t)i));
        check_ok(iso_value_pack(value, slot, part));
    }
    check_ok(iso_value_fetch(value, fetched));
    for (int i = 0; i < 30; i++) {
        float x[5];
        for (int slot = 0; slot < 5; slot++)
            x[slot] = (float)iso_uniform_f32(iso_random_word(3, (uint64_t)slot, (uint64_t)i));
        pair[0] = x[0] + x[1];
        pair[1] = x[2] + x[3];
        ck_assert(fetched[i] == (pair[0] + pair[1]) + x[4]);
    }
    check_ok(iso_value_reshard(value, whole, &reduced));
    for (int slot = 0; slot < 5; slot++)
        if (iso_value_part(reduced, slot))
            ck_assert_mem_eq(iso_value_part(reduced, slot), fetched, sizeof fetched);
    iso_value_destroy(reduced);
    iso_value_destroy(value);
    iso_layout_destroy(sum);
    iso_layout_destroy(whole);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- wrong input ---- */

/* Every rank gets the same refusal, whose message has this part. */
static void check_all_refused(iso_status status, const char *part)
{
    int mine = (int)status, all[64];
    check_refused(status, part);
    check_ok(iso_gather_all(ctx, &mine, sizeof mine, all));
}

static bool is_last(void)
{
    return iso_rank(ctx) == iso_ranks(ctx) - 1;
}

START_TEST(values_are_refused_together)
{
    iso_mesh *mesh = mesh_on_random_ranks(ctx, "a=2,b=4");
    iso_layout *layout;
    iso_value *value = NULL;
    check_ok(iso_layout_create(mesh, "a, -", &layout));
    check_all_refused(iso_value_create(layout, ISO_F32, is_last() ? ISO_SHAPE(3) : ISO_SHAPE(3, 4), &value),
                      "a value of shape [3] in a layout of 2 dimensions");
    check_all_refused(iso_value_create(layout, is_last() ? 99 : ISO_F32, ISO_SHAPE(3, 4), &value),
                      "element type 99");
    check_all_refused(
        iso_value_create(layout, ISO_F32, is_last() ? ISO_SHAPE(3, -4) : ISO_SHAPE(3, 4), &value), "-4");
    check_all_refused(iso_value_create(layout, ISO_F64,
                                       is_last() ? ISO_SHAPE(1LL << 31, 1LL << 31) : ISO_SHAPE(3, 4), &value),
                      "a value");
    if (iso_ranks(ctx) > 1)
        check_all_refused(
            iso_value_create(layout, ISO_F32, is_last() ? ISO_SHAPE(4, 3) : ISO_SHAPE(3, 4), &value),
            "has 'float32 [3, 4] in layout 'a, -' on mesh a=2,b=4'");
    ck_assert_ptr_null(value);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

static void check_bad_packs(iso_value *value, double *array)
{
    char hosted = 0;
    iso_status status = is_last() ? iso_value_pack(value, 8, array) : ISO_OK;
    ck_assert(status == (is_last() ? ISO_INVALID : ISO_OK));
    check_all_refused(iso_value_fetch(value, array),
                      "slot 8 of a value on mesh a=2,b=4, whose slots are 0 to 7");
    check_ok(iso_value_fetch(value, array)); /* told once */
    iso_value_pack(value, -1, array);
    check_all_refused(iso_value_copy_to_mesh(value, array), "slot -1 of a value");
    for (int slot = 0; slot < 8; slot++)
        if (iso_value_part(value, slot)) {
            hosted = 1;
            ck_assert(iso_value_pack(value, slot, NULL) == ISO_INVALID);
        } else {
            check_ok(iso_value_pack(value, slot, NULL)); /* another rank's */
        }
    ck_assert(iso_ranks(ctx) > 1 || hosted);
    check_all_refused(iso_value_fetch(value, array), "iso_value_pack: local is NULL");
}

static void check_bad_layouts(iso_mesh *mesh, iso_value *value)
{
    iso_mesh *other = mesh_on_random_ranks(ctx, "a=2,b=4");
    iso_layout *foreign, *rank_one, *fine, *also;
    iso_value *moved = NULL;
    check_ok(iso_layout_create(other, "-, -", &foreign));
    check_ok(iso_layout_create(mesh, "a", &rank_one));
    check_ok(iso_layout_create(mesh, "a, b", &fine));
    check_ok(iso_layout_create(mesh, "b, a", &also));
    check_all_refused(iso_value_reshard(value, is_last() ? foreign : fine, &moved),
                      "resharded to a layout of another mesh a=2,b=4");
    check_all_refused(iso_value_reshard(value, is_last() ? rank_one : fine, &moved),
                      "a layout of 1 dimensions");
    check_all_refused(iso_value_reshard(value, is_last() ? NULL : fine, &moved), "layout is NULL");
    if (iso_ranks(ctx) > 1)
        check_all_refused(iso_value_reshard(value, is_last() ? also : fine, &moved),
                          "the value's new layout");
    ck_assert_ptr_null(moved);
    iso_layout_destroy(foreign);
    iso_layout_destroy(rank_one);
    iso_layout_destroy(fine);
    iso_layout_destroy(also);
    iso_mesh_destroy(other);
}

START_TEST(wrong_calls_leave_nobody_waiting)
{
    iso_mesh *mesh = mesh_on_random_ranks(ctx, "a=2,b=4");
    iso_layout *layout;
    iso_value *value;
    iso_box box;
    double array[12] = {0};
    check_ok(iso_layout_create(mesh, "a, -", &layout));
    check_ok(iso_value_create(layout, ISO_F64, ISO_SHAPE(3, 4), &value));
    check_all_refused(iso_value_copy_to_mesh(value, is_last() ? NULL : array), "array is NULL");
    check_all_refused(iso_value_fetch(value, is_last() ? NULL : array), "array is NULL");
    ck_assert(iso_value_box(value, 8, &box) == ISO_INVALID);
    check_bad_packs(value, array);
    check_bad_layouts(mesh, value);
    check_ok(iso_value_copy_to_mesh(value, array));
    iso_value_destroy(value);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    setenv("ISOGRID_RANKS_PER_HOST", "1", 1);
    if (status == ISO_OK)
        status = iso_init(NULL, NULL, &apart);
    if (status == ISO_OK &&
        RUN_TESTS("values", 0, values_keep_their_elements, values_cross_hosts, parts_are_read,
                  elements_are_rounded_once, bools_are_0_or_1, wrong_reads_are_named, arrays_reach_the_mesh,
                  sums_keep_their_order, values_are_refused_together, wrong_calls_leave_nobody_waiting))
        status = iso_error(ISO_FAILED, "a test failed");
    iso_finish(apart, ISO_OK);
    return iso_finish(ctx, status);
}
