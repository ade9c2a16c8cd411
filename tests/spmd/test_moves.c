/* What programs move between slots for embeddings, normalisation and cross-entropy in parts: tables, images
 * and logits stay where they are. Ranks: 1 */
#include <check.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/program.h"
#include "runtime/train/losses.h"
#include "tests/support/economy.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

typedef struct fixture {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_program *program;
    iso_tensor *input[2];
    int inputs;
} fixture;

static void begin(fixture *f, const char *mesh)
{
    memset(f, 0, sizeof *f);
    f->graph = iso_graph_create(ctx);
    check_ok(iso_mesh_create(ctx, mesh, &f->mesh));
    check_ok(iso_layout_map_create(f->mesh, &f->map));
}

static void end(fixture *f)
{
    iso_program_destroy(f->program);
    iso_graph_destroy(f->graph);
    iso_distribution_destroy(f->distribution);
    iso_layout_map_destroy(f->map);
    iso_mesh_destroy(f->mesh);
}

static iso_tensor *input(fixture *f, const char *name, iso_dtype dtype, iso_shape shape)
{
    return f->input[f->inputs++] = iso_input(f->graph, name, dtype, shape);
}

/* A step of training by plain descent. */
static void make(fixture *f, iso_tensor *loss)
{
    iso_update *update = iso_minimize(loss, iso_sgd(0.1));
    iso_program_request request = {.training = true,
                                   .n_inputs = f->inputs,
                                   .inputs = f->input,
                                   .n_outputs = 1,
                                   .outputs = &loss,
                                   .n_updates = 1,
                                   .updates = &update};
    check_ok(iso_model_parallel_create(f->map, &f->distribution, .batch_axis = "data"));
    check_ok(iso_graph_error(f->graph));
    check_ok(iso_program_create(f->graph, f->distribution, &request, &f->program));
    check_economy(f->program, f->mesh->text);
}

/* Elements of the largest tensor that is moved, of those that a slot does not make new parts of from its own.
 * The changes of variables come at the end and are not counted. */
static int64_t largest_moved(const fixture *f, int64_t rows)
{
    const iso_program *program = f->program;
    int64_t largest = 0;
    for (int i = 0; i < program->n_steps; i++) {
        const iso_program_step *step = &program->steps[i];
        const iso_program_value *from = &program->values[step->input[0]],
                                *to = &program->values[step->output[0]];
        if (step->op || iso_reshard_local(f->mesh, &from->layout, &to->layout))
            continue;
        int64_t count = count_elements(from->tensor, rows);
        largest = count > largest ? count : largest;
    }
    return largest;
}

static int count_steps(const fixture *f, const char *name)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++)
        count += f->program->steps[i].op && strcmp(f->program->steps[i].op->type->name, name) == 0;
    return count;
}

enum { ROWS = 3, LENGTH = 2, WORDS = 20000, WIDTH = 50 };

/* The mean of looked-up rows: of a table of a million elements 3 x 2 x 50 are looked up. */
static void make_embedding(fixture *f, const char *layout)
{
    begin(f, "data=2,model=3");
    check_ok(iso_layout_map_set(f->map, "table/embeddings", layout));
    iso_tensor *x = input(f, "words", ISO_I32, ISO_SHAPE(LENGTH));
    make(f, iso_mean(iso_square(iso_embedding(x, WORDS, WIDTH, .name = "table"))));
}

/* What the slots find of the rows is summed; the gradient stays with its rows. */
START_TEST(tables_in_rows_are_not_moved)
{
    fixture f;
    make_embedding(&f, "model, -");
    ck_assert_int_le(largest_moved(&f, ROWS), ROWS * LENGTH * WIDTH);
    ck_assert_int_gt(largest_moved(&f, ROWS), 1);
    end(&f);
}
END_TEST

START_TEST(tables_in_columns_move_nothing_but_the_loss)
{
    fixture f;
    make_embedding(&f, "-, model");
    ck_assert_int_eq(largest_moved(&f, ROWS), 1);
    end(&f);
}
END_TEST

/* Rows over the axis of the batch, too: indices are few and are gathered, the table is not. */
START_TEST(tables_in_rows_and_columns_are_not_gathered)
{
    fixture f;
    make_embedding(&f, "data, model");
    for (int i = 0; i < f.program->n_steps; i++) {
        const iso_program_step *step = &f.program->steps[i];
        const iso_op *producer = f.program->values[step->input[0]].tensor->producer;
        ck_assert(step->op || producer->type != &iso_op_variable);
    }
    end(&f);
}
END_TEST

enum { SIDE = 6, CHANNELS = 8 };

/* Channels and batch in parts, or the batch over two axes: only statistics of channels travel. */
START_TEST(statistics_are_all_that_normalisation_moves)
{
    static const char *const layouts[] = {"data, -, -, model", "data+model, -, -, -", "data, model, -, -",
                                          "-, data, model, -"};
    for (int i = 0; i < 4; i++) {
        fixture f;
        begin(&f, "data=2,model=3");
        check_ok(iso_layout_map_set(f.map, "x/output", layouts[i]));
        iso_tensor *x = input(&f, "x", ISO_F32, ISO_SHAPE(SIDE, SIDE, CHANNELS));
        make(&f, iso_mean(iso_square(iso_relu(iso_batch_norm(x, .name = "norm")))));
        ck_assert_msg(largest_moved(&f, ROWS) <= CHANNELS, "%s: %lld elements are moved", layouts[i],
                      (long long)largest_moved(&f, ROWS));
        ck_assert_int_eq(count_steps(&f, "batch_moments"), 1);
        end(&f);
    }
}
END_TEST

/* With its channels in parts: a row's sums. */
START_TEST(layer_normalisation_moves_sums_of_rows)
{
    fixture f;
    begin(&f, "data=2,model=3");
    check_ok(iso_layout_map_set(f.map, "x/output", "data, -, model"));
    check_ok(iso_layout_map_set(f.map, "norm/(gamma|beta)", "model"));
    iso_tensor *x = input(&f, "x", ISO_F32, ISO_SHAPE(LENGTH, WIDTH));
    make(&f, iso_mean(iso_square(iso_relu(iso_layer_norm(iso_affine(x, 2, 1), .name = "norm")))));
    ck_assert_int_le(largest_moved(&f, ROWS), ROWS * LENGTH);
    ck_assert_int_eq(count_steps(&f, "layer_moments"), 1);
    end(&f);
}
END_TEST

/* The logits of a large vocabulary: what travels has no dimension of words, but for the gradients' sums. */
START_TEST(logits_are_not_moved)
{
    fixture f;
    begin(&f, "data=2,model=3");
    check_ok(iso_layout_map_set(f.map, "words/kernel", "-, model"));
    check_ok(iso_layout_map_set(f.map, "words/bias", "model"));
    iso_tensor *x = input(&f, "x", ISO_F32, ISO_SHAPE(WIDTH)),
               *label = input(&f, "label", ISO_I32, (iso_shape){0});
    iso_tensor *logits = iso_dense(x, WORDS, .name = "words");
    make(&f, iso_mean(iso_sparse_crossentropy(label, logits, .from_logits = true)));
    ck_assert_int_le(largest_moved(&f, ROWS), ROWS * 1);
    ck_assert_int_eq(count_steps(&f, "class_max"), 1);
    end(&f);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("moves", 30, tables_in_rows_are_not_moved, tables_in_columns_move_nothing_but_the_loss,
                  tables_in_rows_and_columns_are_not_gathered, statistics_are_all_that_normalisation_moves,
                  layer_normalisation_moves_sums_of_rows, logits_are_not_moved))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
