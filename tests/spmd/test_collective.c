/* What a reshard is called and what it moves, against the regions that its slots visit; routes against
 * theory. Ranks: 1 */
#include <check.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "runtime/spmd/collective.h"
#include "runtime/spmd/program.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static dice luck = {.key = 11};

static iso_shape random_shape(int rank, int most)
{
    iso_shape shape = {.rank = rank};
    for (int d = 0; d < rank; d++)
        shape.dim[d] = throw_dice(&luck, most);
    return shape;
}

/* ---- exact counts ---- */

typedef struct counter {
    int slot;
    int64_t taken;
} counter;

static iso_status count(void *arg, const iso_region *region)
{
    counter *c = arg;
    for (int i = 0; i < region->sources; i++)
        c->taken += region->slot[i] == c->slot ? 0 : iso_box_count(&region->box);
    return ISO_OK;
}

static void check_counts(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                         const iso_shape *shape)
{
    char a[128], b[128];
    int64_t most = 0, total = 0;
    iso_layout_text(mesh, from, a, sizeof a);
    iso_layout_text(mesh, to, b, sizeof b);
    for (int slot = 0; slot < iso_mesh_slots(mesh); slot++) {
        counter c = {.slot = slot};
        check_ok(iso_reshard_visit(mesh, from, to, shape, slot, count, &c));
        int64_t taken = iso_collective_taken(mesh, from, to, shape, false, slot);
        ck_assert_msg(taken == c.taken, "%s, (%s) to (%s): slot %d takes %lld elements, %lld were said",
                      iso_mesh_text(mesh), a, b, slot, (long long)c.taken, (long long)taken);
        most = taken > most ? taken : most;
        total += taken;
    }
    iso_collective found = iso_collective_of(mesh, from, to, shape, false);
    ck_assert_msg(found.most == most && found.total == (double)total,
                  "%s, (%s) to (%s): %lld elements at most and %lld in all, %lld and %g were said",
                  iso_mesh_text(mesh), a, b, (long long)most, (long long)total, (long long)found.most,
                  found.total);
    bool local = found.kind <= ISO_COLLECTIVE_SLICE;
    ck_assert_msg(local || !iso_reshard_local(mesh, from, to), "%s, (%s) to (%s): called %s",
                  iso_mesh_text(mesh), a, b, iso_collective_name(found.kind));
    ck_assert_msg(!local || total == 0, "%s, (%s) to (%s): called %s, moves %lld elements",
                  iso_mesh_text(mesh), a, b, iso_collective_name(found.kind), (long long)total);
}

static const char *const meshes[] = {"a=1",         "a=5",         "a=2,b=4",         "a=3,b=2",
                                     "a=2,b=2,c=3", "a=1,b=3,c=2", "a=2,b=1,c=2,d=3", "a=7,b=3"};
enum { MESHES = sizeof meshes / sizeof meshes[0], CASES = 1000 };

START_TEST(counts_are_those_of_the_regions)
{
    for (int m = 0; m < MESHES; m++) {
        iso_mesh *mesh;
        check_ok(iso_mesh_create(ctx, meshes[m], &mesh));
        for (int i = 0; i < CASES; i++) {
            int rank = throw_dice(&luck, 4);
            iso_layout from = throw_layout(&luck, mesh, rank), to = throw_layout(&luck, mesh, rank);
            iso_shape shape = random_shape(rank, 14);
            if (i % 2)
                throw_windows(&luck, &from, &shape, true, 2);
            if (i % 4 > 1)
                throw_windows(&luck, &to, &shape, false, 2);
            check_counts(mesh, &from, &to, &shape);
        }
        iso_mesh_destroy(mesh);
    }
}
END_TEST

/* Each slot of a group of k adds its chunk, then takes the others'. */
static void check_halves(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                         const iso_shape *shape)
{
    int64_t most = 0, total = 0;
    for (int slot = 0; slot < iso_mesh_slots(mesh); slot++) {
        int group = 1, number = 0;
        for (int a = 0; a < iso_mesh_axes(mesh); a++)
            if (from->partial & 1u << a) {
                group *= iso_mesh_axis_size(mesh, a);
                number = number * iso_mesh_axis_size(mesh, a) + iso_mesh_coordinate(mesh, slot, a);
            }
        iso_box box = iso_layout_box(mesh, to, shape, slot);
        int64_t begin, chunk;
        iso_part_range(iso_box_count(&box), group, number, &begin, &chunk);
        int64_t taken = chunk * (group - 1) + iso_box_count(&box) - chunk;
        ck_assert_int_eq(iso_collective_taken(mesh, from, to, shape, true, slot), taken);
        most = taken > most ? taken : most;
        total += taken;
    }
    iso_collective found = iso_collective_of(mesh, from, to, shape, true);
    ck_assert_int_eq(found.most, most);
    ck_assert_int_eq((int64_t)found.total, total);
}

START_TEST(halves_are_counted)
{
    for (int m = 0; m < MESHES; m++) {
        iso_mesh *mesh;
        check_ok(iso_mesh_create(ctx, meshes[m], &mesh));
        for (int i = 0; i < CASES; i++) {
            int rank = throw_dice(&luck, 4);
            iso_layout from = throw_layout(&luck, mesh, rank), to = from;
            iso_shape shape = random_shape(rank, 14);
            to.partial = 0;
            if (from.partial)
                check_halves(mesh, &from, &to, &shape);
        }
        iso_mesh_destroy(mesh);
    }
}
END_TEST

/* ---- names ---- */

static iso_layout layout_of(const iso_mesh *mesh, const char *text, uint32_t partial)
{
    iso_layout layout;
    check_ok(iso_layout_parse(mesh, text, &layout));
    layout.partial = partial;
    return layout;
}

static const struct {
    const char *from;
    uint32_t from_partial;
    const char *to;
    uint32_t to_partial;
    const char *is;
    double most, total; /* of [24, 8] on data=2,model=4 */
} known[] = {
    {"data, -", 0, "data, -", 0, "local", 0, 0},
    {"-, -", 0, "data, model", 0, "slice(data, model)", 0, 0},
    {"data, -", 0, "data, model", 0, "slice(model)", 0, 0},
    {"-, -", 0, "-, -", 1, "local(data)", 0, 0},
    {"data, model", 0, "-, -", 0, "all-gather(data, model)", 192 - 24, 8 * (192 - 24)},
    {"data+model, -", 0, "data, -", 0, "all-gather(model)", 72, 8 * 72},
    {"data, -", 0, "-, data", 0, "all-to-all(data)", 48, 8 * 48},
    {"-, model", 0, "model, -", 0, "all-to-all(model)", 36, 8 * 36},
    {"data, -", 0, "-, model", 0, "all-gather(data)", 24, 8 * 24},
    {"data, -", 0, "model, -", 0, "all-to-all(data)", 48, 4 * 48},
    {"-, -", 2, "-, -", 0, "all-reduce(model)", 3 * 192, 8 * 3 * 192},
    {"data, -", 2, "data, model", 0, "reduce-scatter(model)", 3 * 24, 8 * 3 * 24},
    {"data, -", 2, "-, model", 0, "all-gather(data) + reduce-scatter(model)", 7 * 24, 8 * 7 * 24},
    {"data, -", 2, "-, -", 2, "all-gather(data)", 96, 8 * 96},
};

START_TEST(kinds_are_recognised)
{
    iso_mesh *mesh;
    iso_shape shape = ISO_SHAPE(24, 8);
    char text[256];
    check_ok(iso_mesh_create(ctx, "data=2,model=4", &mesh));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        iso_layout from = layout_of(mesh, known[i].from, known[i].from_partial);
        iso_layout to = layout_of(mesh, known[i].to, known[i].to_partial);
        iso_collective found = iso_collective_of(mesh, &from, &to, &shape, false);
        ck_assert_str_eq(iso_collective_text(mesh, &found, text, sizeof text), known[i].is);
        ck_assert_msg((double)found.most == known[i].most && found.total == known[i].total,
                      "case %zu: %lld and %g", i, (long long)found.most, found.total);
    }
    iso_mesh_destroy(mesh);
}
END_TEST

/* A convolution of 3 rows over 24 on four slots: each takes a row of either neighbour, and gives the sums
 * back. */
START_TEST(halos_are_recognised)
{
    iso_mesh *mesh;
    iso_shape shape = ISO_SHAPE(24, 8);
    char text[256];
    check_ok(iso_mesh_create(ctx, "data=2,h=4", &mesh));
    iso_layout plain = layout_of(mesh, "h, data", 0), whole = layout_of(mesh, "-, data", 0), halo = plain;
    halo.dim[0].window = (iso_sliding_window){24, 3, 1, 1, 1};
    iso_layout sum = halo;
    sum.dim[0].addends = true;
    iso_collective found = iso_collective_of(mesh, &plain, &halo, &shape, false);
    ck_assert_str_eq(iso_collective_text(mesh, &found, text, sizeof text), "halo(h)");
    ck_assert(found.most == 2 * 4 && found.total == 8 * 2 * 4 - 4 * 4);
    found = iso_collective_of(mesh, &sum, &plain, &shape, false);
    ck_assert_str_eq(iso_collective_text(mesh, &found, text, sizeof text), "halo sum(h)");
    ck_assert(found.most == 2 * 4 && found.total == 8 * 2 * 4 - 4 * 4);
    found = iso_collective_of(mesh, &whole, &halo, &shape, false);
    ck_assert_str_eq(iso_collective_text(mesh, &found, text, sizeof text), "slice(h)");
    found = iso_collective_of(mesh, &halo, &halo, &shape, false);
    ck_assert_str_eq(iso_collective_text(mesh, &found, text, sizeof text), "local");
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- routes ---- */

static double length(const iso_mesh *mesh, const iso_layout *from, const iso_shape *shape, int count,
                     const iso_layout *stop)
{
    double total = 0;
    for (int i = 0; i < count; i++) {
        total += iso_collective_of(mesh, i ? &stop[i - 1] : from, &stop[i], shape, false).total;
    }
    return total;
}

START_TEST(routes_are_never_longer)
{
    for (int m = 0; m < MESHES; m++) {
        iso_mesh *mesh;
        check_ok(iso_mesh_create(ctx, meshes[m], &mesh));
        for (int i = 0; i < CASES; i++) {
            iso_layout stop[ISO_MAX_RESHARD_PATH];
            int rank = throw_dice(&luck, 4);
            iso_layout from = throw_layout(&luck, mesh, rank), to = throw_layout(&luck, mesh, rank);
            iso_shape shape = random_shape(rank, 40);
            from.partial_max = throw_dice(&luck, 2);
            to.partial_max = throw_dice(&luck, 2);
            int stops = iso_reshard_path(mesh, &from, &to, &shape, stop);
            ck_assert_int_eq(stops == 0, iso_layout_equal(&from, &to));
            ck_assert(stops <= ISO_MAX_RESHARD_PATH);
            ck_assert(stops == 0 || iso_layout_equal(&stop[stops - 1], &to));
            bool other_addends = from.partial && to.partial && from.partial_max != to.partial_max;
            if (!other_addends)
                ck_assert(length(mesh, &from, &shape, stops, stop) <=
                          iso_collective_of(mesh, &from, &to, &shape, false).total);
        }
        iso_mesh_destroy(mesh);
    }
}
END_TEST

static const struct {
    const char *from;
    uint32_t from_partial;
    const char *to;
    int stops;
    double total; /* of [24, 16] on data=2,model=4 */
} routes[] = {
    /* an all-reduce by four: 2 (n - 1) / n of 384 on each of 8 slots, whose two groups share the addends */
    {"-, -", 2, "-, -", 2, 8 * (48.0 * 3 + 384 - 48)},
    {"-, -", 3, "-, -", 2, 8 * 384 * 2 * 7 / 8.0},
    /* each of the group gathers what was scattered; by two, nothing is won */
    {"-, model", 1, "-, model", 1, 8 * 96},
    {"data, -", 2, "data, -", 2, 8 * 192 * 2 * 3 / 4.0},
    /* scatter along the axis of the addends, then gather the other */
    {"data, -", 2, "-, model", 2, 8 * (48 * 3 + 48)},
    {"data, -", 2, "model, -", 2, 8 * (48 * 3) + 4 * 48 + 4 * 96},
    {"data, -", 2, "data, model", 1, 8 * 48 * 3},
};

START_TEST(routes_are_those_of_theory)
{
    iso_mesh *mesh;
    iso_shape shape = ISO_SHAPE(24, 16);
    check_ok(iso_mesh_create(ctx, "data=2,model=4", &mesh));
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        iso_layout stop[ISO_MAX_RESHARD_PATH];
        iso_layout from = layout_of(mesh, routes[i].from, routes[i].from_partial);
        iso_layout to = layout_of(mesh, routes[i].to, 0);
        int stops = iso_reshard_path(mesh, &from, &to, &shape, stop);
        double total = length(mesh, &from, &shape, stops, stop);
        ck_assert_msg(stops == routes[i].stops && total == routes[i].total, "case %zu: %d stops, %g", i,
                      stops, total);
    }
    iso_mesh_destroy(mesh);
}
END_TEST

/* 100,000 slots: to gather a tensor whole, each slot takes all but the part that it has; the parts are the
 * tensor once for each coordinate along the axes that do not cut it. */
START_TEST(large_meshes)
{
    static const struct {
        const char *from;
        double copies;
    } cases[] = {
        {"data, -", 8}, {"-, data", 8}, {"model, data", 1}, {"data+model, -", 1}, {"model, -", 12500}};
    iso_mesh *mesh;
    iso_shape shape = ISO_SHAPE(1000003, 4099);
    iso_layout whole = iso_layout_whole(2);
    check_ok(iso_mesh_create(ctx, "data=12500,model=8", &mesh));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iso_layout from = layout_of(mesh, cases[i].from, 0);
        iso_collective found = iso_collective_of(mesh, &from, &whole, &shape, false);
        ck_assert_double_eq(found.total, (100000 - cases[i].copies) * 1000003.0 * 4099);
    }
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("collective", 60, counts_are_those_of_the_regions, halves_are_counted, kinds_are_recognised,
                  halos_are_recognised, routes_are_never_longer, routes_are_those_of_theory, large_meshes))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
