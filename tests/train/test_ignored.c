/* Sparse labels of an ignored class: losses, metrics and weights are those of the other positions alone, on any mesh.
 * Ranks: 1, 3, 8 */
#include <check.h>
#include <math.h>
#include <stdio.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 11, WORDS = 5, FEATURES = 3, CLASSES = 4, POSITIONS = ROWS * WORDS };
enum { IGNORED = -100, VALUES = 4 };

static iso_context *ctx;

/* x: [ROWS, WORDS, FEATURES]; labels: [ROWS, WORDS], of which whole rows are ignored too */
static float x[POSITIONS * FEATURES];
static int32_t labels[POSITIONS];

static void make_rows(bool all_ignored)
{
    for (int i = 0; i < POSITIONS * FEATURES; i++)
        x[i] = (float)sin(1.7 * i);
    for (int i = 0; i < POSITIONS; i++)
        labels[i] = all_ignored || i / WORDS % 4 == 1 || i % 3 == 0 ? IGNORED : i * 7 % CLASSES;
}

/* The positions that count, one in a row; returns their number. */
static int64_t keep_counted(float *kept_x, int32_t *kept_labels)
{
    int64_t count = 0;
    for (int i = 0; i < POSITIONS; i++) {
        if (labels[i] == IGNORED)
            continue;
        for (int k = 0; k < FEATURES; k++)
            kept_x[count * FEATURES + k] = x[i * FEATURES + k];
        kept_labels[count++] = labels[i];
    }
    return count;
}

static iso_model *build(int64_t words, const char *mesh_text, iso_mesh **mesh,
                        iso_distribution **distribution)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *input = iso_input(g, "x", ISO_F32, ISO_SHAPE(words, FEATURES));
    iso_model *model = iso_model_create(g, input, iso_dense(input, CLASSES, .name = "d"));
    check_ok(iso_mesh_create(ctx, mesh_text, mesh));
    check_ok(iso_data_parallel_create(*mesh, distribution));
    check_ok(iso_compile(
        model, .optimizer = iso_sgd(0.1), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
        .ignore_class = IGNORED,
        .metrics = {ISO_METRIC_SPARSE_ACCURACY, ISO_METRIC_SPARSE_CROSSENTROPY, ISO_METRIC_SPARSE_TOP_K},
        .metric_settings = {{.ignore_class = IGNORED},
                            {.ignore_class = IGNORED, .from_logits = true},
                            {.ignore_class = IGNORED, .top_k = 2}},
        .distribution = *distribution));
    return model;
}

typedef struct result {
    double value[VALUES];
    double kernel[FEATURES * CLASSES];
} result;

/* Three steps on all rows, and an evaluation; 0 words: the positions that count, as rows. */
static result run(const char *mesh_text, int64_t words)
{
    static float kept_x[POSITIONS * FEATURES];
    static int32_t kept_labels[POSITIONS];
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_dataset *data;
    result r;
    const int64_t kept = keep_counted(kept_x, kept_labels), rows = words ? ROWS : kept;
    iso_model *model = build(words ? words : 1, mesh_text, &mesh, &distribution);
    check_ok(iso_dataset_arrays(
        ctx, &data, .x = {words ? x : kept_x, ISO_F32, ISO_SHAPE(rows, words ? words : 1, FEATURES)},
        .y = {words ? labels : kept_labels, ISO_I32, ISO_SHAPE(rows, words ? words : 1)}));
    check_ok(iso_dataset_batch(data, rows));
    check_ok(iso_fit(model, data, .epochs = 3, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, data, .loss = &r.value[0], .metrics = &r.value[1], .verbose = ISO_ZERO));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), r.kernel, FEATURES * CLASSES));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return r;
}

START_TEST(as_the_other_positions_alone)
{
    static const char *const meshes[] = {"data=1", "data=3", "data=8"};
    make_rows(false);
    const result kept = run("data=8", 0);
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        if (m < 2 && iso_ranks(ctx) > (m == 0 ? 1 : 3))
            continue; /* every rank hosts a slot */
        const result r = run(meshes[m], WORDS);
        check_near(meshes[m], r.value, kept.value, VALUES, 1e-6);
        check_near(meshes[m], r.kernel, kept.kernel, FEATURES * CLASSES, 1e-6);
    }
}
END_TEST

START_TEST(nothing_counts)
{
    make_rows(true);
    const result r = run("data=8", WORDS);
    for (int i = 0; i < VALUES; i++)
        ck_assert(r.value[i] == 0);
    for (int i = 0; i < FEATURES * CLASSES; i++)
        ck_assert(isfinite(r.kernel[i]));
}
END_TEST

START_TEST(other_losses_refuse_it)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *t = iso_input(g, "t", ISO_F32, ISO_SHAPE(CLASSES)),
               *p = iso_input(g, "p", ISO_F32, ISO_SHAPE(CLASSES));
    iso_categorical_crossentropy(t, p, .ignore_class = IGNORED);
    check_refused(iso_graph_error(g), "ignore_class is -100");
    iso_graph_destroy(g);
}
END_TEST

/* Only the ignored number may be outside the classes. */
START_TEST(other_labels_are_errors)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_dataset *data;
    make_rows(false);
    labels[7 * WORDS + 2] = -7;
    iso_model *model = build(WORDS, "data=8", &mesh, &distribution);
    check_ok(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, WORDS, FEATURES)},
                                .y = {labels, ISO_I32, ISO_SHAPE(ROWS, WORDS)}));
    check_ok(iso_dataset_batch(data, ROWS));
    check_refused(iso_fit(model, data, .verbose = ISO_ZERO), "label -7 of row 7");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("ignored labels", 0, as_the_other_positions_alone, nothing_counts,
                                      other_losses_refuse_it, other_labels_are_errors))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
