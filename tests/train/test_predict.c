/* iso_predict: arrays, parts and files hold the same outputs, each element once, on any mesh; models that are
 * not compiled; what fails. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/two_ends.h"

enum { ROWS = TWO_ENDS_ROWS, KINDS = TWO_ENDS_KINDS, PLACES = TWO_ENDS_PLACES };

static iso_context *ctx;
static oracle *file;

static void widen(const void *from, iso_dtype dtype, double *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = iso_element_get(from, dtype, i);
}

typedef struct gathered {
    double kind[ROWS * KINDS], h5_path[ROWS * PLACES];
    int seen[ROWS * KINDS + ROWS * PLACES]; /* times that an element came */
    int calls, fail_at;
} gathered;

static iso_status gather_part(void *user, const iso_output_part *part)
{
    gathered *g = user;
    int64_t width = part->output ? PLACES : KINDS;
    double *to = part->output ? g->h5_path : g->kind;
    iso_shape shape = ISO_SHAPE(ROWS, width);
    if (++g->calls == g->fail_at)
        return iso_error(ISO_IO, "part %d is not wanted", g->calls);
    ck_assert_int_eq(part->dtype, ISO_F32);
    for (int64_t i = 0; i < iso_box_count(&part->box); i++) {
        int64_t at = iso_box_global_index(&part->box, &shape, i);
        ck_assert(at >= 0 && at < ROWS * width);
        to[at] = iso_element_get(part->data, part->dtype, i);
        g->seen[at + (part->output ? ROWS * KINDS : 0)]++;
    }
    return ISO_OK;
}

/* A model that is laid out but not compiled. */
static iso_model *placed(const char *spec, iso_mesh **mesh, iso_layout_map **map,
                         iso_distribution **distribution)
{
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    *distribution = two_ends_distribute(ctx, spec, NULL, mesh, map);
    iso_graph_distribute(iso_model_graph(model), *distribution);
    return model;
}

static void release(iso_model *model, iso_mesh *mesh, iso_layout_map *map, iso_distribution *distribution)
{
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static const char *path_of(const char *name)
{
    static char path[256];
    char folder[64];
    check_ok(make_test_folder(ctx, folder));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_with_folder(const char *path)
{
    char folder[256];
    const char *name = strrchr(path, '/') + 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - 1 - path), path);
    check_ok(iso_agree(ctx, ISO_OK)); /* when all ranks are done with it */
    const char *names = names_in(folder);
    ck_assert_msg(!*names || !strcmp(names, name), "something is left beside %s: %s", path, names);
    check_ok(remove_test_folder(ctx, folder));
}

/* Rows of a component of a file, as doubles. */
static void read_file(const char *path, const char *name, double *values)
{
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    check_ok(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .x = name, .no_targets = true));
    ck_assert_int_eq(iso_dataset_dtype(data, 0), ISO_F32);
    ck_assert_int_eq(iso_dataset_rows(data), ROWS);
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(batch->read(batch, 0, 0, ROWS, ISO_F64, values));
    iso_dataset_destroy(data);
}

/* Arrays, parts and the file hold the same bits. */
static void predict_in_all_ways(const char *spec, int64_t batch)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution;
    iso_model *model = placed(spec, &mesh, &map, &distribution);
    iso_dataset *data =
        two_ends_data(ctx, file, "weights_one", batch); /* targets and weights are not looked at */
    static gathered g;
    static float kind[ROWS * KINDS];
    static double wide[ROWS * KINDS], read[ROWS * KINDS];
    const char *path = path_of("y.h5");
    memset(&g, 0, sizeof g);
    check_ok(iso_predict(model, data, .outputs = {kind}, .part = gather_part, .user = &g, .file = path,
                         .verbose = ISO_ZERO));
    widen(kind, ISO_F32, wide, ROWS * KINDS);
    read_file(path, "kind", read);
    ck_assert_msg(memcmp(wide, read, sizeof wide) == 0, "%s: file and array differ", spec);
    int *all = calloc((size_t)iso_ranks(ctx), sizeof g.seen);
    check_ok(iso_gather_all(ctx, g.seen, sizeof g.seen, all));
    for (int i = 0; i < ROWS * (KINDS + PLACES); i++) {
        int times = 0;
        for (int r = 0; r < iso_ranks(ctx); r++)
            times += all[r * ROWS * (KINDS + PLACES) + i];
        ck_assert_msg(times == 1, "%s: element %d came %d times", spec, i, times);
        if (i < ROWS * KINDS && g.seen[i])
            ck_assert(g.kind[i] == wide[i]);
    }
    free(all);
    remove_with_folder(path);
    iso_dataset_destroy(data);
    release(model, mesh, map, distribution);
}

START_TEST(predictions_come_in_parts_and_to_a_file)
{
    predict_in_all_ways("data=8", 10);
    predict_in_all_ways("data=8", 5); /* slots without rows */
    predict_in_all_ways("data=2,model=4", 7);
    predict_in_all_ways("data=2,model=4", ROWS);
}
END_TEST

/* ---- cut in space ---- */

enum { HEIGHT = 7, IMAGE = HEIGHT * 5 * 2, IMAGES = 9 };

/* [7, 5, 1] -> [7, 5, 2], with dropout, which predicting leaves out. */
static iso_model *filter(iso_mesh *mesh, iso_layout_map **map, iso_distribution **distribution)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(HEIGHT, 5, 1));
    iso_tensor *y = iso_conv2d(iso_dropout(x, 0.5), 3, 3, .padding = ISO_SAME, .name = "first");
    y = iso_dropout(iso_conv2d(iso_relu(y), 2, 3, .padding = ISO_SAME, .name = "last"), 0.5);
    check_ok(iso_layout_map_create(mesh, map));
    if (iso_mesh_slots(mesh) > 1) {
        check_ok(iso_layout_map_set(*map, "image/output", "data, rows, -, -"));
        check_ok(iso_layout_map_set(*map, "first/output", "data, rows, -, -"));
        check_ok(iso_layout_map_set(*map, "last/output", "data, rows, -, -"));
        check_ok(iso_model_parallel_create(*map, distribution));
    } else
        check_ok(iso_data_parallel_create(mesh, distribution));
    iso_graph_distribute(graph, *distribution);
    return iso_model_create(graph, x, y);
}

static void predict_images(iso_mesh *mesh, const char *path, float *y)
{
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_model *model = filter(mesh, &map, &distribution);
    check_ok(iso_dataset_random(ctx, IMAGES, &data, .shape = ISO_SHAPE(HEIGHT, 5, 1), .no_targets = true));
    check_ok(iso_dataset_batch(data, 4));
    check_ok(iso_predict(model, data, .outputs = {y}, .file = path, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    release(model, mesh, map, distribution);
}

START_TEST(images_cut_in_space)
{
    static float one[IMAGES * IMAGE], cut[IMAGES * IMAGE], read[IMAGES * IMAGE];
    static double a[IMAGES * IMAGE], b[IMAGES * IMAGE];
    const char *path = path_of("y.h5");
    iso_mesh *mesh;
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    check_ok(iso_mesh_create_on(ctx, "data=1", (const int[]){0}, 1, &mesh));
    predict_images(mesh, NULL, one);
    check_ok(iso_mesh_create(ctx, "data=2,rows=4", &mesh));
    predict_images(mesh, path, cut);
    widen(one, ISO_F32, a, IMAGES * IMAGE);
    widen(cut, ISO_F32, b, IMAGES * IMAGE);
    check_near("images cut in space", b, a, IMAGES * IMAGE, 1e-6);
    check_ok(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .x = "y", .no_targets = true));
    check_ok(iso_dataset_batch(data, IMAGES));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(batch->read(batch, 0, 0, IMAGES, ISO_F32, read));
    ck_assert(memcmp(read, cut, sizeof cut) == 0);
    iso_dataset_destroy(data);
    remove_with_folder(path);
}
END_TEST

/* ---- models that are not compiled ---- */

/* Before compile, and compiled afterwards: the same weights. */
START_TEST(predict_needs_no_compile)
{
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    iso_dataset *data = two_ends_data(ctx, file, "loss_weights", 4);
    static float before[ROWS * KINDS], after[ROWS * KINDS];
    iso_compile_options options = {
        .outputs = {{.loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS}, {.loss = ISO_LOSS_MSE}}};
    check_ok(iso_predict(model, data, .outputs = {before}, .verbose = ISO_ZERO));
    check_ok(iso_compile_with(model, &options, sizeof options));
    check_ok(iso_predict(model, data, .outputs = {after}, .verbose = ISO_ZERO));
    ck_assert(memcmp(before, after, sizeof before) == 0);
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    check_ok(iso_predict(model, data, .outputs = {after}, .verbose = ISO_ZERO));
    ck_assert(memcmp(before, after, sizeof before) != 0);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* Weights that one model saved, in another that is never compiled. */
START_TEST(weights_without_compile)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution;
    iso_model *trained = two_ends_network(ctx, 0, ISO_F32);
    iso_dataset *data = two_ends_data(ctx, file, "loss_weights", 10);
    static float theirs[ROWS * KINDS], ours[ROWS * KINDS];
    static double a[ROWS * KINDS], b[ROWS * KINDS];
    const char *path = path_of("net.weights.h5");
    char latest[300];
    check_ok(iso_compile(trained,
                         .outputs = {{.loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS}, {.loss = ISO_LOSS_MSE}}));
    check_ok(iso_fit(trained, data, .verbose = ISO_ZERO));
    check_ok(iso_predict(trained, data, .outputs = {theirs}, .verbose = ISO_ZERO));
    check_ok(iso_model_save_weights(trained, path));
    iso_model_destroy(trained);
    iso_model *model = placed("data=2,model=4", &mesh, &map, &distribution);
    check_ok(iso_model_load_weights(model, path));
    check_ok(iso_predict(model, data, .outputs = {ours}, .verbose = ISO_ZERO));
    widen(theirs, ISO_F32, a, ROWS * KINDS);
    widen(ours, ISO_F32, b, ROWS * KINDS);
    check_near("outputs with loaded weights", b, a, ROWS * KINDS, 1e-6);
    iso_dataset_destroy(data);
    release(model, mesh, map, distribution);
    if (iso_rank(ctx) == 0) { /* savers keep a mark of the newest */
        snprintf(latest, sizeof latest, "%.*s/latest", (int)(strrchr(path, '/') - path), path);
        unlink(latest);
    }
    remove_with_folder(path);
}
END_TEST

/* ---- what fails ---- */

/* A function or a file that fails on one rank ends it on all; nothing is left behind. */
START_TEST(predictions_that_fail)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution;
    iso_model *model = placed("data=8", &mesh, &map, &distribution);
    iso_dataset *data = two_ends_data(ctx, file, "loss_weights", 10);
    static gathered g;
    const char *path = path_of("y.h5");
    memset(&g, 0, sizeof g);
    g.fail_at = iso_rank(ctx) == (iso_ranks(ctx) > 1) ? 2 : 0; /* a rank that has rows */
    iso_status status =
        iso_predict(model, data, .part = gather_part, .user = &g, .file = path, .verbose = ISO_ZERO);
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "part 2 is not wanted"));
    ck_assert_int_ne(access(path, F_OK), 0);
    remove_with_folder(path);
    status = iso_predict(model, data, .file = "/nowhere/y.h5", .verbose = ISO_ZERO);
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "/nowhere/y.h5"));
    iso_dataset_destroy(data);
    release(model, mesh, map, distribution);
}
END_TEST

/* A map that fails on the rank that reads row 17. */
static iso_status failing_map(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    if (in->index == 17)
        return iso_error(ISO_IO, "row 17 cannot be read");
    memcpy(out[0], in->data[0], 5 * sizeof(double));
    memcpy(out[1], in->data[1], 3 * sizeof(double));
    return ISO_OK;
}

START_TEST(data_that_fails_on_one_rank)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution;
    iso_model *model = placed("data=8", &mesh, &map, &distribution);
    iso_dataset *data = NULL;
    const char *path = path_of("y.h5");
    iso_dataset_arrays_options arrays = {.dataset = &data};
    arrays.inputs[0] = two_ends_array(file, "loss_weights", "x0");
    arrays.inputs[1] = two_ends_array(file, "loss_weights", "x1");
    check_ok(iso_dataset_arrays_with(ctx, &arrays, sizeof arrays));
    ck_assert_int_eq(iso_dataset_inputs(data), 2);
    check_ok(iso_dataset_map(data, failing_map));
    check_ok(iso_dataset_batch(data, 10));
    ck_assert_int_ne(iso_predict(model, data, .file = path, .verbose = ISO_ZERO), ISO_OK);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "row 17 cannot be read"));
    ck_assert_int_ne(access(path, F_OK), 0);
    remove_with_folder(path);
    iso_dataset_destroy(data);
    release(model, mesh, map, distribution);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    file = oracle_open("several.h5");
    if (status == ISO_OK)
        failed = RUN_TESTS("predict", 0, predictions_come_in_parts_and_to_a_file, images_cut_in_space,
                           predict_needs_no_compile, weights_without_compile, predictions_that_fail,
                           data_that_fails_on_one_rank);
    oracle_close(file);
    return iso_finish(ctx, status) || failed;
}
