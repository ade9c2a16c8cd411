/* Each allocation of a step fails once, alone: the step's status is ISO_NO_MEMORY, and the step works as soon
 * as there is memory. Ranks: 1 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "tests/support/run_tests.h"

/* ---- the library's allocations: the one that is due fails ---- */

static long due; /* 1: the next one; 0: none */
static long failed;

void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = NULL;
    if (alignment == ISO_ALIGN && due > 0 && --due == 0) {
        failed++;
        errno = ENOMEM;
        return NULL;
    }
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

typedef struct objects {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_dataset *data;
    iso_model *model;
} objects;

static iso_status make_mesh(objects *o)
{
    return iso_mesh_create(o->ctx, "data=2,model=2", &o->mesh);
}

static iso_status make_distribution(objects *o)
{
    iso_status status;
    ISO_TRY(iso_layout_map_create(o->mesh, &o->map));
    ISO_TRY(iso_layout_map_set(o->map, ".*/kernel", "-, model"));
    ISO_TRY(iso_model_parallel_create(o->map, &o->distribution));
    return ISO_OK;
done:
    iso_layout_map_destroy(o->map);
    o->map = NULL;
    return status;
}

static iso_status make_data(objects *o)
{
    iso_status status;
    ISO_TRY(iso_dataset_random(o->ctx, 12, &o->data, .shape = ISO_SHAPE(4), .targets = ISO_SHAPE(1)));
    ISO_TRY(iso_dataset_batch(o->data, 6));
    return ISO_OK;
done:
    iso_dataset_destroy(o->data);
    o->data = NULL;
    return status;
}

static iso_tensor *layers(iso_tensor *x)
{
    x = iso_dense(x, 8, .activation = ISO_RELU, .name = "hidden");
    x = iso_batch_norm(x);
    x = iso_dropout(x, 0.5);
    return iso_dense(x, 1, .kernel_l2 = 0.1);
}

/* What memory was missing for is in the model, and compiling tells it, also when there is memory again. */
static iso_status make_model(objects *o)
{
    iso_graph *g = iso_graph_create(o->ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    o->model = iso_model_create(g, x, layers(x));
    bool whole = failed == 0;
    due = 0;
    iso_status status = iso_compile(o->model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_MSE,
                                    .distribution = o->distribution);
    if (whole)
        return status;
    iso_model_destroy(o->model);
    o->model = NULL;
    return status;
}

static iso_status compile(objects *o)
{
    return iso_compile(o->model, .optimizer = iso_sgd(1e-3), .loss = ISO_LOSS_MSE);
}

static iso_status fit(objects *o)
{
    return iso_fit(o->model, o->data, .steps_per_epoch = 1, .verbose = ISO_ZERO);
}

/* Fails the allocations of a step, one after the other, until none is left that could fail. */
static void fail_each(objects *o, const char *name, iso_status (*step)(objects *))
{
    for (long k = 1;; k++) {
        due = k;
        failed = 0;
        iso_status status = step(o);
        due = 0;
        ck_assert_msg(status == (failed ? ISO_NO_MEMORY : ISO_OK), "%s, allocation %ld: status %d, '%s'",
                      name, k, (int)status, iso_error_message());
        if (!failed)
            return;
    }
}

START_TEST(each_allocation_fails_once)
{
    objects o = {0};
    ck_assert_int_eq(iso_init(NULL, NULL, &o.ctx), ISO_OK);
    fail_each(&o, "a mesh", make_mesh);
    fail_each(&o, "a distribution", make_distribution);
    fail_each(&o, "a data set", make_data);
    fail_each(&o, "a model", make_model);
    fail_each(&o, "compile", compile);
    fail_each(&o, "fit", fit);
    iso_model_destroy(o.model);
    iso_dataset_destroy(o.data);
    iso_distribution_destroy(o.distribution);
    iso_layout_map_destroy(o.map);
    iso_mesh_destroy(o.mesh);
    iso_finish(o.ctx, ISO_OK);
}
END_TEST

int main(void)
{
    return RUN_TESTS("no_memory", 0, each_allocation_fails_once);
}
