/* With one mesh every placement of its slots on ranks gives the same bits: networks with dropout, batch
 * statistics, shuffling and a shorter last batch. Here placements are compared inside of one job;
 * tests/train/test_same_numbers, for which this program writes what it gets into the file
 * ISOGRID_TEST_NUMBERS when ISOGRID_TEST_STEPS is set, compares jobs. Ranks: 2, 5 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* Batches of which 8 slots get unequal parts; in two epochs. */
enum { ROWS = 13, LAST_ROWS = 5, EPOCHS = 2, MOST_STEPS = 64 };

/* ---- networks ---- */

static iso_tensor *convnet(iso_tensor *x)
{
    const iso_builtin_model *model;
    check_ok(iso_builtin_model_find("convnet", &model));
    return model->build(x, 10, NULL);
}

/* The mlp of isogrid, with dropout. */
static iso_tensor *mlp(iso_tensor *x)
{
    x = iso_flatten(iso_rescaling(x, 1.0 / 255));
    x = iso_dropout(iso_dense(x, 256, .activation = ISO_RELU), 0.3);
    x = iso_dropout(iso_dense(x, 256, .activation = ISO_RELU), 0.3);
    return iso_dense(x, 10);
}

static const char *const convnet_layouts[] = {"conv2d/kernel",
                                              "-, -, -, model",
                                              "conv2d_1/kernel",
                                              "-, -, model, -",
                                              "large_k/kernel",
                                              "-, -, -, model",
                                              "large_k/bias",
                                              "model",
                                              "large_k/output",
                                              "data, -, -, model",
                                              "dense/kernel",
                                              "-, model",
                                              "dense/bias",
                                              "model",
                                              "dense/output",
                                              "data, model",
                                              "dense_1/kernel",
                                              "model, -",
                                              NULL};
static const char *const mlp_layouts[] = {
    "dense/kernel",   "-, model",       "dense/bias", "model",          "dense/output",
    "data, model",    "dense_1/kernel", "model, -",   "dense_1/output", "data, -",
    "dense_2/kernel", "-, model",       NULL};

typedef struct network {
    const char *name;
    iso_tensor *(*build)(iso_tensor *x);
    const char *const *layouts; /* keys and layouts of the mesh of two axes */
} network;

static const network networks[] = {{"convnet", convnet, convnet_layouts}, {"mlp", mlp, mlp_layouts}};

/* A mesh and a level of ZeRO. */
typedef struct setting {
    const char *name, *mesh;
    int zero;
} setting;

static const setting settings[] = {
    {"data=8", "data=8", 1}, {"data=2,model=4", "data=2,model=4", 1}, {"ZeRO 3", "data=8", 3}};
enum { SETTINGS = 3 };

/* ---- a training ---- */

typedef struct result {
    int steps;
    double loss[MOST_STEPS], accuracy[MOST_STEPS];
    iso_fingerprint weights;
} result;

static iso_status note_batch(void *user, iso_fit_state *state)
{
    result *r = user;
    r->loss[r->steps] = iso_logs_get(&state->logs, "loss");
    r->accuracy[r->steps++] = iso_logs_get(&state->logs, "accuracy");
    return ISO_OK;
}

static void fit(iso_model *model, int steps, result *r)
{
    iso_dataset *data;
    int batches = steps / EPOCHS;
    iso_callback *callbacks[] = {iso_callback_create(.batch_end = note_batch, .user = r), NULL};
    check_ok(iso_dataset_random(ctx, (batches - 1) * ROWS + LAST_ROWS, &data, .shape = ISO_SHAPE(28, 28, 1),
                                .classes = 10));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .callbacks = callbacks, .verbose = ISO_ZERO));
    ck_assert_int_eq(r->steps, steps);
    iso_dataset_destroy(data);
}

/* rank_of_slot: NULL for blocks. */
static void train(const network *net, const setting *on, const int *rank_of_slot, int steps, result *r)
{
    const char *spec = on->mesh;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    bool two_axes = strchr(spec, ',') != NULL;
    memset(r, 0, sizeof *r);
    check_ok(rank_of_slot ? iso_mesh_create_on(ctx, spec, rank_of_slot, 8, &mesh)
                          : iso_mesh_create(ctx, spec, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    iso_layout_map_set_strict(map, true);
    for (int i = 0; two_axes && net->layouts[i]; i += 2)
        check_ok(iso_layout_map_set(map, net->layouts[i], net->layouts[i + 1]));
    check_ok(two_axes ? iso_model_parallel_create(map, &distribution)
                      : iso_data_parallel_create(mesh, &distribution));
    check_ok(iso_distribution_set_zero(distribution, on->zero));
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_model *model = iso_model_create(graph, x, net->build(x));
    check_ok(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .metrics = {ISO_METRIC_ACCURACY}, .distribution = distribution));
    fit(model, steps, r);
    check_ok(iso_graph_fingerprint(graph, &r->weights));
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

/* ---- placements in one job ---- */

static void compare(const char *name, const char *mesh, const char *placement, const result *a,
                    const result *b)
{
    for (int i = 0; i < a->steps; i++)
        ck_assert_msg(a->loss[i] == b->loss[i] && a->accuracy[i] == b->accuracy[i],
                      "%s on %s, slots %s: step %d has the loss %.17g, in blocks %.17g", name, mesh,
                      placement, i, b->loss[i], a->loss[i]);
    ck_assert_msg(memcmp(&a->weights, &b->weights, sizeof a->weights) == 0,
                  "%s on %s, slots %s: other weights", name, mesh, placement);
}

START_TEST(placements_give_the_same_bits)
{
    int ranks = iso_ranks(ctx), last[8], dealt[8], backwards[8];
    result blocks, other;
    for (int s = 0; s < 8; s++) {
        last[s] = ranks - 1; /* the others have none */
        dealt[s] = s % ranks;
        backwards[s] = ranks - 1 - s * ranks / 8;
    }
    for (int n = 0; n < 2; n++)
        for (int m = 0; m < SETTINGS; m++) {
            train(&networks[n], &settings[m], NULL, 4, &blocks);
            train(&networks[n], &settings[m], last, 4, &other);
            compare(networks[n].name, settings[m].name, "on the last rank", &blocks, &other);
            train(&networks[n], &settings[m], dealt, 4, &other);
            compare(networks[n].name, settings[m].name, "dealt", &blocks, &other);
            train(&networks[n], &settings[m], backwards, 4, &other);
            compare(networks[n].name, settings[m].name, "backwards", &blocks, &other);
        }
}
END_TEST

/* ---- for the script ---- */

static void write_numbers(FILE *out, const network *net, const setting *where, const result *r)
{
    char text[33];
    iso_fingerprint_text(&r->weights, text);
    for (int i = 0; i < r->steps; i++)
        fprintf(out, "%s %s step %d: %a %a\n", net->name, where->name, i, r->loss[i], r->accuracy[i]);
    fprintf(out, "%s %s weights: %s\n", net->name, where->name, text);
}

START_TEST(writes_numbers)
{
    result r;
    FILE *out = iso_is_chief(ctx) ? fopen(getenv("ISOGRID_TEST_NUMBERS"), "w") : NULL;
    ck_assert(out || !iso_is_chief(ctx));
    for (int n = 0; n < 2; n++)
        for (int m = 0; m < SETTINGS; m++) {
            train(&networks[n], &settings[m], NULL, atoi(getenv("ISOGRID_TEST_STEPS")), &r);
            if (out)
                write_numbers(out, &networks[n], &settings[m], &r);
        }
    if (out)
        fclose(out);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        (getenv("ISOGRID_TEST_STEPS") ? RUN_TESTS("same", 0, writes_numbers)
                                      : RUN_TESTS("same", 0, placements_give_the_same_bits)))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
