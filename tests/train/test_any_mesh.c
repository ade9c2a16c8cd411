/* Checkpoints pass between meshes and numbers of ranks. By itself: weights and optimizer state go through all
 * meshes that the ranks have room for, from each to the next, and stay what they are to the last bit; in the
 * hands of tests/train/test_any_mesh_of_ranks, which says what to do in the environment, through jobs of
 * different sizes. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/checkpoints.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* Sizes that neither 2, 3 nor 4 divide; layouts along both axes, and by none. */
static iso_model *build(void)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(7, 7, 1));
    iso_tensor *h = iso_conv2d(x, 5, 3, .padding = ISO_SAME, .no_bias = true, .name = "conv");
    h = iso_relu(iso_batch_norm(h));
    h = iso_dense(iso_flatten(h), 13, .activation = ISO_RELU, .name = "d1");
    return iso_model_create(g, x, iso_dense(h, 3, .name = "d2"));
}

typedef struct stop {
    const char *mesh;
    int zero;
    bool layouts; /* the mesh has an axis "model" */
} stop;

typedef struct made {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_model *model;
} made;

static void make(made *m, const stop *where)
{
    *m = (made){.model = build()};
    check_ok(iso_mesh_create(ctx, where->mesh, &m->mesh));
    if (where->layouts) {
        check_ok(iso_layout_map_create(m->mesh, &m->map));
        check_ok(iso_layout_map_set(m->map, "conv/kernel", "-, -, -, model"));
        check_ok(iso_layout_map_set(m->map, "d1/kernel", "-, model"));
        check_ok(iso_layout_map_set(m->map, "d1/bias", "model"));
        check_ok(iso_layout_map_set(m->map, "d2/kernel", "model, -"));
        check_ok(iso_model_parallel_create(m->map, &m->distribution, .batch_axis = "data"));
    } else {
        check_ok(iso_data_parallel_create(m->mesh, &m->distribution));
    }
    check_ok(iso_distribution_set_zero(m->distribution, where->zero));
    check_ok(iso_compile(m->model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .distribution = m->distribution));
}

static void unmake(made *m)
{
    iso_model_destroy(m->model);
    iso_distribution_destroy(m->distribution);
    iso_layout_map_destroy(m->map);
    iso_mesh_destroy(m->mesh);
}

/* Some steps, so that all state is something. */
static void train(iso_model *model)
{
    iso_dataset *data;
    check_ok(iso_dataset_random(ctx, 26, &data, .shape = ISO_SHAPE(7, 7, 1), .classes = 3));
    check_ok(iso_dataset_batch(data, 6));
    check_ok(iso_fit(model, data, .epochs = 1, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

/* From a file (NULL: trained here) to a file, on a mesh. */
static void pass_on(const stop *where, const char *from, const char *to)
{
    made m;
    make(&m, where);
    if (from)
        check_ok(iso_model_load_weights(m.model, from));
    else
        train(m.model);
    check_ok(iso_model_save_weights(m.model, to));
    unmake(&m);
}

static void *read_tensor(iso_saved_file *file, int tensor, size_t *bytes)
{
    const iso_saved_tensor *t = iso_saved_file_tensor(file, tensor);
    iso_box box = iso_box_whole(&t->shape);
    *bytes = (size_t)iso_box_count(&box) * iso_dtype_size(t->dtype);
    void *values = malloc(*bytes + 1);
    check_ok(iso_saved_file_read(file, tensor, &box, t->dtype, values));
    return values;
}

/* Whether any element is not zero. */
static bool is_something(const char *values, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (values[i])
            return true;
    return false;
}

/* Every tensor of one file in the other, bit by bit, and no more; nearly all of them hold something. */
static void check_equal(const char *first, const char *second)
{
    iso_saved_file *a, *b;
    int something = 0;
    check_ok(iso_saved_file_open(ctx, first, &a));
    check_ok(iso_saved_file_open(ctx, second, &b));
    check_ok(iso_saved_file_verify(a));
    check_ok(iso_saved_file_verify(b));
    int count = iso_saved_file_tensors(a);
    ck_assert_int_eq(iso_saved_file_tensors(b), count);
    for (int t = 0; t < count; t++) {
        size_t bytes, others;
        const char *h5_path = iso_saved_file_tensor(a, t)->h5_path;
        int other = iso_saved_file_at(b, h5_path);
        ck_assert_msg(other >= 0, "%s: no '%s'", second, h5_path);
        void *x = read_tensor(a, t, &bytes), *y = read_tensor(b, other, &others);
        ck_assert_msg(bytes == others && !memcmp(x, y, bytes), "%s: '%s' has other bits", second, h5_path);
        something += is_something(x, bytes);
        free(x);
        free(y);
    }
    ck_assert_int_ge(something, 20); /* 9 weights, 14 slots of Adam, its counter and rate */
    iso_saved_file_close(a);
    iso_saved_file_close(b);
}

/* ---- in one job ---- */

static const stop stops[] = {
    {"data=2,model=4", 3, true}, {"data=1", 1, false},        {"data=3", 3, false},
    {"data=4,model=2", 1, true}, {"data=5", 2, false},        {"data=1,model=3", 3, true},
    {"data=8", 3, false},        {"data=2,model=4", 3, true},
};
enum { STOPS = sizeof stops / sizeof stops[0] };

START_TEST(through_all_meshes)
{
    char folder[64], first[256], last[256], next[256];
    if (getenv("ISOGRID_TEST_PASS"))
        return;
    check_ok(make_test_folder(ctx, folder));
    snprintf(first, sizeof first, "%s/0.weights.h5", folder);
    snprintf(last, sizeof last, "%s", first);
    pass_on(&stops[0], NULL, first);
    for (int i = 1; i < STOPS; i++) {
        if (slots_of_mesh(stops[i].mesh) < iso_ranks(ctx))
            continue; /* every rank hosts a slot */
        snprintf(next, sizeof next, "%s/%d.weights.h5", folder, i);
        pass_on(&stops[i], last, next);
        check_equal(first, next);
        memcpy(last, next, sizeof last);
    }
    check_ok(remove_test_folder(ctx, folder));
}
END_TEST

/* ---- what the script says: "MESH ZERO LAYOUTS FROM TO FIRST", a dash for nothing ---- */

START_TEST(passed_on)
{
    char mesh[64], from[400], to[400], first[400];
    int zero, layouts;
    const char *text = getenv("ISOGRID_TEST_PASS");
    if (!text)
        return;
    ck_assert_int_eq(sscanf(text, "%63s %d %d %399s %399s %399s", mesh, &zero, &layouts, from, to, first), 6);
    pass_on(&(stop){mesh, zero, layouts}, strcmp(from, "-") != 0 ? from : NULL, to);
    check_equal(first, to);
    if (iso_is_chief(ctx))
        printf("passed on\n");
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("any mesh", 120, through_all_meshes, passed_on))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
