/* What plans tell exchanges about their pulls: the collective, and the groups of slots. A component of this test
 * stands in the place of MPI's sums: it is asked about each pull, and executes the sums of groups that are in one
 * memory domain. Training then gives the bits that it gives without it. Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { SLOTS = 4, MOST_SEEN = 64, MOST_RESULTS = 4096, ROWS = 11, STEPS = 3 };

static iso_context *ctx;

/* ---- the component ---- */

/* A kind and its groups. */
typedef struct sight {
    iso_exchange_kind kind;
    int group[SLOTS];
} sight;

static sight seen[MOST_SEEN];
static int n_seen, n_taken;
static bool takes_sums;

static iso_status component_open(iso_fabric *fabric, void **module)
{
    *module = fabric;
    return ISO_OK;
}

static void component_close(void *module)
{
    (void)module;
}

static void note(const iso_request *request)
{
    sight now;
    memset(&now, 0, sizeof now);
    now.kind = request->kind;
    ck_assert((request->kind == ISO_EXCHANGE_PULLS) == !request->group);
    for (int i = 0; request->group && i < SLOTS; i++)
        now.group[i] = request->group[i];
    for (int i = 0; i < n_seen; i++)
        if (!memcmp(&seen[i], &now, sizeof now))
            return;
    ck_assert(n_seen < MOST_SEEN);
    seen[n_seen++] = now;
}

static bool component_supports(const void *module, const iso_request *request)
{
    (void)module;
    note(request);
    for (int i = 0; request->group && i < request->count; i++) /* a pull reads from its group alone */
        ck_assert_int_eq(request->group[request->sources[i].slot], request->group[request->slot]);
    bool sum = request->kind == ISO_EXCHANGE_ALL_REDUCE || request->kind == ISO_EXCHANGE_REDUCE_SCATTER;
    for (int i = 0; i < request->count; i++)
        sum = sum && request->location[i].domain == request->location[0].domain;
    return takes_sums && sum && request->count > 1;
}

/* The sums of one exchange. */
typedef struct schedule {
    iso_pack_list packs;
    char *memory[MOST_RESULTS];
    int n_results;
} schedule;

static iso_status component_add(const void *module, const iso_request *request, void **of, int *result,
                                bool *fresh)
{
    (void)module;
    schedule *s = *of ? *of : (*of = iso_new(sizeof *s));
    *result = s->n_results++;
    *fresh = true;
    n_taken++;
    ck_assert(s->n_results <= MOST_RESULTS);
    s->memory[*result] = iso_new((size_t)iso_box_count(request->region) * iso_dtype_size(request->dtype));
    return iso_request_pack(request, request->slot, request->sources, request->count,
                            (iso_pack){.message = *result}, &s->packs);
}

static iso_status component_allocate(const iso_fabric *fabric, const void *module, void *of)
{
    (void)fabric, (void)module, (void)of;
    return ISO_OK;
}

static void component_resolve(const iso_exchange *exchange, void *of)
{
    schedule *s = of;
    for (int i = 0; i < s->packs.count; i++) {
        iso_exchange_resolve_gather(exchange, &s->packs.packs[i].gather);
        s->packs.packs[i].gather.out = s->memory[s->packs.packs[i].message];
    }
}

static char *component_result(const void *of, int number)
{
    return ((const schedule *)of)->memory[number];
}

static bool component_communicates(const void *module, const void *of)
{
    (void)module;
    return ((const schedule *)of)->packs.count > 0;
}

static iso_status component_start(const iso_exchange *exchange, const void *module, void *of)
{
    (void)module;
    iso_packs_run(exchange, &((schedule *)of)->packs);
    return ISO_OK;
}

static iso_status component_test(void *of, int *done)
{
    (void)of;
    *done = 1;
    return ISO_OK;
}

static void component_destroy(void *of)
{
    schedule *s = of;
    for (int i = 0; i < s->n_results; i++)
        iso_free(s->memory[i]);
    iso_packs_free(&s->packs);
    iso_free(s);
}

/* These stand in the place of collectives/components.c. */
const iso_coll_component *const *iso_coll_components(int *count)
{
    static const iso_coll_component component = {.name = "mpi",
                                                 .open = component_open,
                                                 .close = component_close,
                                                 .supports = component_supports,
                                                 .add = component_add,
                                                 .allocate = component_allocate,
                                                 .resolve = component_resolve,
                                                 .result = component_result,
                                                 .communicates = component_communicates,
                                                 .start = component_start,
                                                 .test = component_test,
                                                 .destroy = component_destroy};
    static const iso_coll_component *const list[] = {&component};
    *count = 1;
    return list;
}

iso_status iso_fabric_use(iso_fabric *fabric, const char *name)
{
    ck_assert_str_eq(name, "mpi");
    return component_open(fabric, &fabric->modules[0]);
}

/* ---- training ---- */

typedef struct layout {
    const char *key, *text;
} layout;

static double *train(const char *kind, const char *mesh, const layout *layouts, int zero, double *loss,
                     int64_t *count)
{
    trial t;
    iso_optimizer adam = iso_adam(0.01);
    n_seen = n_taken = 0;
    trial_begin(&t, ctx, net_kind_find(kind), ISO_F32, ROWS);
    trial_mesh(&t, mesh, NULL);
    t.zero = zero;
    for (const layout *l = layouts; l && l->key; l++)
        trial_layout(&t, l->key, l->text);
    trial_make(&t, layouts ? "data" : NULL, &adam);
    for (int i = 0; i < STEPS; i++)
        loss[i] = trial_step(&t, i);
    double *weights = trial_weights(&t, count);
    trial_end(&t);
    return weights;
}

/* On any rank: each is asked about the pulls of its own slots. */
static bool was_seen(iso_exchange_kind kind, const int group[SLOTS])
{
    int64_t found = 0;
    for (int i = 0; i < n_seen; i++)
        found |= seen[i].kind == kind && !memcmp(seen[i].group, group, sizeof seen[i].group);
    ck_assert(iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_I64, &found, 1) == ISO_OK);
    return found;
}

/* On a mesh of four slots; data first. */
static const int along_data[] = {0, 1, 0, 1}, along_model[] = {0, 0, 2, 2}, all[] = {0, 0, 0, 0};

START_TEST(a_component_takes_sums)
{
    for (int k = 0; net_kinds[k].name; k++) {
        double loss[2][STEPS], *weights[2];
        int64_t count[2];
        for (int taken = 0; taken < 2; taken++) {
            takes_sums = taken;
            weights[taken] = train(net_kinds[k].name, "data=4", NULL, 0, loss[taken], &count[taken]);
            ck_assert((n_taken > 0) == taken);
            ck_assert(was_seen(ISO_EXCHANGE_REDUCE_SCATTER, all));
            ck_assert(was_seen(ISO_EXCHANGE_ALL_REDUCE, all));
        }
        ck_assert_msg(!memcmp(loss[0], loss[1], sizeof loss[0]), "%s: other losses", net_kinds[k].name);
        ck_assert_msg(!memcmp(weights[0], weights[1], (size_t)count[0] * sizeof *weights[0]),
                      "%s: other weights", net_kinds[k].name);
        free(weights[0]);
        free(weights[1]);
    }
    takes_sums = false;
}
END_TEST

START_TEST(plans_tell_kinds_and_groups)
{
    static const layout pair[] = {{"dense/kernel", "-, model"},
                                  {"dense/bias", "model"},
                                  {"dense_1/kernel", "model, -"},
                                  {NULL, NULL}},
                        other[] = {{"dense/output", "-, data"}, {NULL, NULL}},
                        rows[] = {{"image/output", "data, h, -, -"}, {NULL, NULL}};
    double loss[STEPS];
    int64_t count;
    free(train("built-in mlp", "data=2,model=2", pair, 0, loss, &count));
    ck_assert(was_seen(ISO_EXCHANGE_REDUCE_SCATTER, along_data)); /* gradients */
    ck_assert(was_seen(ISO_EXCHANGE_ALL_REDUCE, along_model));    /* activations */
    ck_assert(was_seen(ISO_EXCHANGE_ALL_REDUCE, all));            /* faults */
    free(train("built-in mlp", "data=4", NULL, 3, loss, &count));
    ck_assert(was_seen(ISO_EXCHANGE_ALL_GATHER, all)); /* weights */
    free(train("built-in mlp", "data=4", other, 0, loss, &count));
    ck_assert(was_seen(ISO_EXCHANGE_ALL_TO_ALL, all));
    free(train("built-in convnet", "data=2,h=2", rows, 0, loss, &count));
    ck_assert(was_seen(ISO_EXCHANGE_SHIFT, along_model)); /* halos */
}
END_TEST

int main(int argc, char **argv)
{
    char *with_method[64];
    for (int i = 0; i < argc; i++)
        with_method[i] = argv[i];
    with_method[argc++] = "--collectives";
    with_method[argc++] = "mpi";
    with_method[argc] = NULL;
    char **arguments = with_method;
    iso_status status = iso_init(&argc, &arguments, &ctx);
    if (status == ISO_OK && RUN_TESTS("components", 0, a_component_takes_sums, plans_tell_kinds_and_groups))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
