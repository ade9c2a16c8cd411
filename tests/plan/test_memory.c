/* The memory that a plan states for a host is what a run takes there: all that the host's processes hold,
 * accounted, from before the model is built until its first step could begin. Within 2%: for the built-in
 * models, of a few megabytes, in one process; for a large one on any number of processes and hosts. And the memory
 * of a GPU: tests/standin/test_plan runs this with ISOGRID_BACKEND=cuda on the stand-in for CUDA.
 * Ranks: 1, 3   More: 2 */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/backend/backend.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/session/session_impl.h"
#include "runtime/spmd/spmd_impl.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { MOST_RANKS = 16, MOST_GPUS = 8 };

static iso_context *ctx;

/* ---- what is held ---- */

/* Of the stand-in for CUDA; NULL: slots compute on the CPU. */
static size_t (*used_bytes)(int gpu), (*pinned_bytes)(void);

static bool is_on_gpus(void)
{
    return used_bytes != NULL;
}

static iso_status find_standin(void)
{
    if (strcmp(iso_context_backend(ctx)->name, "cuda") != 0)
        return ISO_OK;
    void *library = dlopen(getenv("ISOGRID_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    *(void **)&used_bytes = library ? dlsym(library, "standin_used_bytes") : NULL;
    *(void **)&pinned_bytes = library ? dlsym(library, "standin_pinned_bytes") : NULL;
    return used_bytes && pinned_bytes ? ISO_OK
                                      : iso_error(ISO_FAILED, "ISOGRID_CUDA_LIBRARY is no stand-in for CUDA");
}

/* Of this process: memory of the host, then of each GPU. */
typedef struct held {
    double host, gpu[MOST_GPUS];
} held;

static held now_held(void)
{
    held now = {.host = (double)iso_memory_held()};
    if (is_on_gpus())
        now.host += (double)pinned_bytes();
    for (int i = 0; is_on_gpus() && i < MOST_GPUS; i++)
        now.gpu[i] = (double)used_bytes(i);
    return now;
}

/* What the processes of a host hold more than before, on the host and on the GPU where that is most. */
static void taken_since(const held *before, double *on_host, double *on_gpu)
{
    held mine = now_held(), all[MOST_RANKS], host[MOST_RANKS] = {0};
    *on_host = *on_gpu = 0;
    check_ok(iso_gather_all(ctx, &mine, sizeof mine, all));
    check_ok(iso_gather_all(ctx, before, sizeof *before, host));
    for (int r = 0; r < iso_ranks(ctx); r++) {
        all[r].host -= host[r].host;
        for (int i = 0; i < MOST_GPUS; i++)
            all[r].gpu[i] -= host[r].gpu[i];
    }
    memset(host, 0, sizeof host);
    for (int r = 0; r < iso_ranks(ctx); r++) {
        held *sum = &host[iso_host_of_rank(ctx, r)];
        sum->host += all[r].host;
        *on_host = sum->host > *on_host ? sum->host : *on_host;
        for (int i = 0; i < MOST_GPUS; i++) {
            sum->gpu[i] += all[r].gpu[i];
            *on_gpu = sum->gpu[i] > *on_gpu ? sum->gpu[i] : *on_gpu;
        }
    }
}

/* ---- models and layouts ---- */

static const iso_builtin_model *builtin(const char *name)
{
    const iso_builtin_model *model;
    check_ok(iso_builtin_model_find(name, &model));
    return model;
}

/* 12 million parameters; on the stand-in for CUDA, which fills all of its memory, 2 million unless there is time. */
static iso_tensor *large(iso_tensor *x, int outputs, const void *settings)
{
    const int units = is_on_gpus() && !getenv("ISOGRID_TEST_LONG") ? 1000 : 3000;
    (void)settings;
    x = iso_flatten(x);
    x = iso_dense(x, units, .activation = ISO_RELU);
    x = iso_dense(x, units + 1, .activation = ISO_RELU);
    return iso_dense(x, outputs);
}

typedef struct layout {
    const char *key, *text;
} layout;

typedef struct place {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
} place;

/* A thread a slot, as plans assume. */
static int slots_here(const iso_mesh *mesh)
{
    int count = 0;
    for (int s = 0; s < mesh->n_slots; s++)
        count += mesh->rank_of_slot[s] == iso_rank(ctx);
    return count > 0 ? count : 1;
}

/* devices: the rank of each slot; NULL: in blocks. */
static place make_place(const char *mesh, const char *devices, const layout *layouts)
{
    place p;
    int *ranks = NULL, count = 0;
    if (devices)
        check_ok(iso_devices_parse(devices, &ranks, &count));
    check_ok(devices ? iso_mesh_create_on(ctx, mesh, ranks, count, &p.mesh)
                     : iso_mesh_create(ctx, mesh, &p.mesh));
    iso_free(ranks);
    ctx->n_threads = slots_here(p.mesh);
    check_ok(iso_layout_map_create(p.mesh, &p.map));
    for (const layout *l = layouts; l && l->key; l++)
        check_ok(iso_layout_map_set(p.map, l->key, l->text));
    check_ok(layouts ? iso_model_parallel_create(p.map, &p.distribution)
                     : iso_data_parallel_create(p.mesh, &p.distribution));
    return p;
}

/* ---- plans ---- */

typedef struct slack {
    double low, high; /* bytes by which a plan may be below and above what is taken, besides 2% */
} slack;

static void check_stated(const char *of, const iso_plan_report *report, const char *name, const char *mesh,
                         double stated, double taken, slack allowed)
{
    ck_assert_msg(taken - stated <= 0.02 * taken + allowed.low &&
                      stated - taken <= 0.02 * taken + allowed.high,
                  "%s on %s, %d hosts: the plan states %.0f bytes of a %s, %.0f were taken: %+.2f%%", name,
                  mesh, report->n_hosts, stated, of, taken, 100 * (stated / taken - 1));
}

/* A model keeps its compile options. With GPUs, memory of the host is for tables and pinned memory. A slot's own
 * tables are not planned in full. */
static slack host_slack(const iso_plan_report *report)
{
    double own = 3e5 + 1.3e5 * report->n_host_slots, kept = 2 * sizeof(iso_compile_options);
    return is_on_gpus() ? (slack){own, own} : (slack){kept, 0};
}

static void compare_on(const iso_builtin_model *kind, const char *mesh, const char *devices,
                       const layout *layouts, int64_t rows)
{
    iso_plan_report *report;
    place p = make_place(mesh, devices, layouts);
    held before = now_held();
    double on_host, on_gpu;
    iso_model *model = iso_builtin_model_create(ctx, kind, ISO_SHAPE(28, 28, 1), 10, ISO_F32, NULL);
    check_ok(iso_compile(model, .optimizer = kind->optimizer(), .loss = kind->loss,
                         .metrics = {kind->metrics[0]}, .distribution = p.distribution));
    check_ok(iso_function_prepare(iso_model_training_function(model), rows));
    taken_since(&before, &on_host, &on_gpu);
    check_ok(iso_function_report(iso_model_training_function(model), rows, &report));
    check_stated("host", report, kind->name, mesh, (double)report->host.total, on_host, host_slack(report));
    if (is_on_gpus())
        check_stated("GPU", report, kind->name, mesh, (double)report->gpu.total, on_gpu, (slack){0, 0});
    iso_plan_report_destroy(report);
    iso_model_destroy(model);
    iso_distribution_destroy(p.distribution);
    iso_layout_map_destroy(p.map);
    iso_mesh_destroy(p.mesh);
}

static void compare(const iso_builtin_model *kind, const char *mesh, const layout *layouts, int64_t rows)
{
    compare_on(kind, mesh, NULL, layouts, rows);
}

START_TEST(built_in_models)
{
    if (iso_ranks(ctx) > 1)
        return;
    compare(builtin("mlp"), "data=1", NULL, 32);
    compare(builtin("mlp"), "data=3", NULL, 32);
    compare(builtin("mlp"), "data=6", NULL, 500);
    compare(builtin("dtensor"), "data=2", NULL, 250);
    compare(builtin("convnet"), "data=1", NULL, 64);
    compare(builtin("convnet"), "data=2", NULL, 64);
    compare(builtin("convnet"), "data=5", NULL, 61);
}
END_TEST

START_TEST(data_parallel)
{
    iso_builtin_model model = *builtin("mlp");
    model.name = "large";
    model.build = large;
    compare(&model, "data=3", NULL, 64);
    compare(&model, "data=4", NULL, 64);
    compare(&model, "data=6", NULL, 61);
}
END_TEST

START_TEST(model_parallel)
{
    static const layout pair[] = {
        {"dense/kernel", "-, model"}, {"dense/bias", "model"}, {"dense_1/kernel", "model, -"}, {NULL, NULL}};
    static const layout sharded[] = {
        {"dense/kernel", "data, model"}, {"dense_1/kernel", "-, data"}, {NULL, NULL}};
    iso_builtin_model model = *builtin("mlp");
    model.name = "large";
    model.build = large;
    compare(&model, "data=3,model=2", pair, 64);
    compare(&model, "data=1,model=6", pair, 64);
    compare(&model, "data=3,model=2", sharded, 64);
    compare(&model, "data=2,model=2", pair, 64);
}
END_TEST

/* Halos lie beside what they are taken from. Slots in the middle take most, and so do their hosts. */
START_TEST(spatial)
{
    static const layout rows[] = {{"image/output", "data, h, -, -"}, {NULL, NULL}},
                        both[] = {{"image/output", "data, h, w, -"}, {NULL, NULL}};
    compare(builtin("convnet"), "data=1,h=3", rows, 200);
    compare(builtin("convnet"), "data=2,h=3", rows, 300);
    compare(builtin("convnet"), "data=1,h=2,w=3", both, 300);
}
END_TEST

/* Hosts with 1, 2 and 5 slots, and with 2, 3 and 5: 8 memory domains on GPUs, and 10. */
START_TEST(hosts_that_differ)
{
    static const layout pair[] = {
        {"dense/kernel", "-, model"}, {"dense/bias", "model"}, {"dense_1/kernel", "model, -"}, {NULL, NULL}};
    static const char *const few = "0x1,1x2,2x5", *const many = "0x2,1x3,2x5";
    if (iso_ranks(ctx) != 3)
        return;
    iso_builtin_model model = *builtin("mlp");
    model.name = "large";
    model.build = large;
    compare_on(&model, "data=8", few, NULL, 64);
    compare_on(&model, "data=4,model=2", few, pair, 64);
    compare_on(&model, "data=10", many, NULL, 64);
    compare_on(&model, "data=5,model=2", many, pair, 64);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    setenv("ISOGRID_THREADS", "6", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = find_standin();
    if (status == ISO_OK &&
        RUN_TESTS("memory", 0, built_in_models, data_parallel, model_parallel, spatial, hosts_that_differ))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
