/* What the message of too little memory on a GPU (the stand-in for CUDA) counts: all that training needs, whichever
 * function is made first; of a later function what it needs, and what others hold. Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/isogrid.h"
#include "tests/support/cuda_library.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

static iso_model *make_model(void)
{
    iso_tensor *x = NULL;
    iso_graph *g = iso_graph_create(ctx);
    x = iso_input(g, "x", ISO_F32, ISO_SHAPE(100));
    return iso_model_create(g, x, iso_dense(iso_dense(x, 1000), 10));
}

static iso_status compile(iso_model *model)
{
    iso_mesh *mesh;
    iso_distribution *one;
    check_ok(iso_mesh_create(ctx, "data=1", &mesh));
    check_ok(iso_data_parallel_create(mesh, &one));
    iso_status status = iso_compile(model, .optimizer = iso_adam(1e-3),
                                    .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, .distribution = one);
    iso_distribution_destroy(one);
    iso_mesh_destroy(mesh);
    return status;
}

static void check_says(const char *text)
{
    ck_assert_msg(strstr(iso_error_message(), text) != NULL, "'%s' is not said: %s", text,
                  iso_error_message());
}

/* 111,010 weights of 4 bytes, and as many gradients; twice as many moments. */
START_TEST(weights_do_not_fit)
{
    iso_model *model = make_model();
    setenv("STANDIN_MEGABYTES", "1", 1);
    ck_assert_int_eq(compile(model), ISO_NO_MEMORY);
    check_says("'training' of a batch of 1 row needs ");
    check_says(" on a GPU of 1 slot (weights 445 kB, gradients 444 kB, optimizer 888 kB, activations ");
    ck_assert_ptr_null(strstr(iso_error_message(), "besides"));
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_later_batch_does_not_fit)
{
    iso_model *model = make_model();
    setenv("STANDIN_MEGABYTES", "20", 1);
    check_ok(compile(model));
    ck_assert_int_eq(iso_function_prepare(iso_model_training_function(model), 10001), ISO_NO_MEMORY);
    check_says("'training' of a batch of 10001 rows needs ");
    check_says("optimizer 888 kB");
    ck_assert_ptr_null(strstr(iso_error_message(), "besides"));
    check_ok(iso_function_prepare(iso_model_training_function(model), 100));
    ck_assert_int_eq(iso_function_prepare(iso_model_evaluation_function(model), 20001), ISO_NO_MEMORY);
    check_says("'inference' of a batch of 20001 rows needs ");
    check_says("(weights 445 kB, gradients 0 B, optimizer 0 B, activations ");
    check_says(
        " of the host's memory, besides 888 kB of the optimizer of 'training': GPU 0 (Stand-in): no memory ");
    iso_model_destroy(model);
}
END_TEST

static double loss_of(iso_model *model, iso_dataset *data)
{
    double loss = 0;
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    return loss;
}

/* A batch that does not fit leaves no memory for activations; smaller batches get some again, and train as if nothing
 * had been. */
START_TEST(smaller_batches_go_on)
{
    double loss[2];
    for (int fails = 0; fails < 2; fails++) {
        iso_dataset *data;
        iso_model *model = make_model();
        setenv("STANDIN_MEGABYTES", "20", 1);
        check_ok(compile(model));
        check_ok(iso_dataset_random(ctx, 300, &data, .shape = ISO_SHAPE(100), .classes = 10));
        check_ok(iso_dataset_batch(data, 100));
        check_ok(iso_fit(model, data, .epochs = 1, .verbose = ISO_ZERO));
        loss[fails] = loss_of(model, data);
        if (fails) {
            ck_assert_int_eq(iso_function_prepare(iso_model_training_function(model), 10001), ISO_NO_MEMORY);
            check_ok(iso_function_prepare(iso_model_evaluation_function(model), 1));
            ck_assert(loss_of(model, data) == loss[1]);
        }
        check_ok(iso_fit(model, data, .epochs = 2, .initial_epoch = 1, .verbose = ISO_ZERO));
        loss[fails] = loss_of(model, data);
        iso_dataset_destroy(data);
        iso_model_destroy(model);
    }
    ck_assert(loss[0] == loss[1]);
}
END_TEST

int main(int argc, char **argv)
{
    if (!test_cuda_library()) {
        report_skipped("the backend cuda", "this build has no CUDA");
        return 77;
    }
    setenv("ISOGRID_BACKEND", "cuda", 1);
    setenv("ISOGRID_CUBLASLT_LIBRARY", "none", 1);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("memory", 60, weights_do_not_fit, a_later_batch_does_not_fit, smaller_batches_go_on))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
