/* ZeRO by layout: any level gives the numbers of one slot, on meshes whose axes do not divide anything, and
 * is nothing but the layouts that it stands for. Ranks: 1, 3 Timeout: 600 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function_impl.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { STEPS = 4, ROWS = 13 };
static const double tolerance = 1e-10;

static double *train(const net_kind *kind, const char *mesh, const char *batch_axis, int level,
                     const iso_optimizer *optimizer, int64_t *count)
{
    trial t;
    trial_begin(&t, ctx, kind, ISO_F64, ROWS);
    trial_mesh(&t, mesh, NULL);
    t.zero = level;
    trial_make(&t, batch_axis, optimizer);
    for (int i = 0; i < STEPS; i++)
        trial_step(&t, i);
    double *weights = trial_weights(&t, count);
    trial_end(&t);
    return weights;
}

static void compare(const net_kind *kind, const char *mesh, int level, const iso_optimizer *optimizer)
{
    int64_t count, same;
    double *one = train(kind, iso_ranks(ctx) == 1 ? "data=1" : "data=3", NULL, 0, optimizer, &count);
    double *many = train(kind, mesh, strchr(mesh, ',') ? "data" : NULL, level, optimizer, &same);
    ck_assert(same == count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(one[i] - many[i]) <= tolerance * fmax(1, fabs(one[i])),
                      "%s, mesh %s, ZeRO %d: weight %lld is %.17g instead of %.17g", kind->name, mesh, level,
                      (long long)i, many[i], one[i]);
    free(one);
    free(many);
}

static const char *const meshes[] = {"data=2", "data=3",         "data=5",
                                     "data=8", "data=2,model=2", "data=3,model=1"};
enum { MESHES = 6 };

static int slots_of(const char *mesh)
{
    int slots = 1;
    for (const char *at = mesh; (at = strchr(at, '=')) != NULL; at++)
        slots *= atoi(at + 1);
    return slots;
}

START_TEST(any_level_gives_the_numbers_of_one_slot)
{
    iso_optimizer adam = iso_adam(0.01);
    for (const net_kind *kind = net_kinds; kind->name; kind++)
        for (int m = 0; m < MESHES; m++)
            for (int level = 1; level <= 3; level++)
                if (slots_of(meshes[m]) >= iso_ranks(ctx))
                    compare(kind, meshes[m], level, &adam);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    int failed = status == ISO_OK && RUN_TESTS("zero", 0, any_level_gives_the_numbers_of_one_slot);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
