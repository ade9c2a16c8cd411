/* Convolutions and pools over parts of depth, height and width compute what one slot computes, exchange halos and
 * gather nothing. Ranks: 1, 3   More: 2, 5 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/data/data.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/value/value.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { ROWS = 5, STEPS = 5, MOST_SLOTS = 8, LAYOUTS = 10 };

/* ---- networks ---- */

static iso_tensor *image_of(net *n, iso_shape shape)
{
    n->inputs = 1;
    return n->input[0] = iso_input(n->graph, "image", ISO_F32, shape);
}

static void classify(net *n, iso_tensor *logits)
{
    int classes = (int)iso_tensor_shape(logits)->dim[1];
    n->classes[n->inputs] = classes;
    iso_tensor *label = n->input[n->inputs++] = iso_input(n->graph, "label", ISO_I32, (iso_shape){0});
    n->loss = iso_reduce_loss(iso_sparse_crossentropy(label, logits, .from_logits = true), NULL);
}

/* The network of the multi-GPU guide. */
static void guide(net *n)
{
    const iso_builtin_model *model;
    check_ok(iso_builtin_model_find("convnet", &model));
    classify(n, model->build(iso_affine(image_of(n, ISO_SHAPE(28, 28, 1)), 255, 0), 10, NULL));
}

/* Windows larger than a part, strides, dilation, groups, kernels of one element that step over others, and
 * pools that overlap, on 7 rows and 6 columns. */
static void odd(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(7, 6, 4));
    x = iso_conv2d(x, 6, .kernel_size_hw = {5, 3}, .padding = ISO_SAME, .activation = ISO_TANH,
                   .name = "large");
    x = iso_relu(iso_batch_norm(x, .name = "norm"));
    iso_tensor *fine = iso_max_pooling2d(x, 3, .strides = 1, .padding = ISO_SAME, .name = "max");
    fine = iso_conv2d(fine, 8, 3, .groups = 2, .padding = ISO_SAME, .name = "groups");
    fine =
        iso_conv2d(fine, 6, 2, .dilation = 3, .padding = ISO_SAME, .activation = ISO_SILU, .name = "apart");
    x = iso_average_pooling2d(iso_add(x, fine), 2, .strides = 1, .padding = ISO_SAME, .name = "mean");
    iso_tensor *coarse = iso_conv2d(x, 5, 1, .strides = 2, .name = "skip");
    x = iso_conv2d(x, 5, 3, .strides = 2, .padding = ISO_SAME, .name = "halve");
    x = iso_merge_add(((iso_tensor *const[]){x, coarse}), 2, .name = "sum");
    x = iso_conv2d(x, 7, 2, .strides = 2, .name = "valid"); /* [batch, 2, 1, 7] */
    classify(n, iso_dense(iso_global_average_pooling2d(x, .name = "all"), 3, .name = "d"));
}

/* Pools side by side, a flattened end. */
static void flat(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(9, 8, 2));
    x = iso_conv2d(x, 4, 3, .padding = ISO_SAME, .activation = ISO_ELU, .name = "c");
    x = iso_max_pooling2d(x, 2, .name = "half");     /* [batch, 4, 4, 4] */
    x = iso_average_pooling2d(x, 2, .name = "rest"); /* [batch, 2, 2, 4] */
    classify(n, iso_dense(iso_flatten(x, .name = "flat"), 3, .name = "d"));
}

/* Volumes: windows larger than a part, strides, dilation and groups along the depth, transposed convolutions, pools
 * that overlap. */
static void volume(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(7, 6, 5, 2));
    x = iso_conv3d(x, 4, .kernel_size_dhw = {5, 3, 2}, .padding = ISO_SAME, .activation = ISO_TANH,
                   .name = "large");
    iso_tensor *fine = iso_max_pooling3d(x, 3, .strides = 1, .padding = ISO_SAME, .name = "max");
    fine = iso_conv3d(fine, 4, 2, .groups = 2, .dilation = 2, .padding = ISO_SAME, .name = "groups");
    x = iso_average_pooling3d(iso_add(x, fine), 2, .strides = 1, .padding = ISO_SAME, .name = "mean");
    iso_tensor *half =
        iso_conv3d(x, 6, 3, .strides = 2, .padding = ISO_SAME, .activation = ISO_TANH, .name = "halve");
    half = iso_conv3d_transpose(half, 4, 2, .strides = 2, .name = "up"); /* [batch, 8, 6, 6, 4] */
    half = iso_cropping3d(half, .sides = {{1, 0}, {0, 0}, {0, 1}}, .name = "cut");
    x = iso_merge_add(((iso_tensor *const[]){x, half}), 2, .name = "sum");
    x = iso_conv3d(x, 5, .kernel_size_dhw = {2, 2, 1}, .strides = 2, .name = "valid");
    classify(n, iso_dense(iso_global_average_pooling3d(x, .name = "all"), 3, .name = "d"));
}

/* Convolutions of many channels, by Winograd: tiles of 2 x 2 outputs that begin at a slot's part. */
static void deep(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(8, 7, 3));
    x = iso_conv2d(x, 32, 3, .padding = ISO_SAME, .activation = ISO_TANH, .name = "first");
    x = iso_conv2d(x, 64, 3, .padding = ISO_SAME, .activation = ISO_TANH, .name = "second");
    x = iso_conv2d(x, 32, 3, .activation = ISO_TANH, .name = "third");
    classify(n, iso_dense(iso_global_average_pooling2d(x, .name = "all"), 3, .name = "d"));
}

/* The tutorial's "spatial parallel training": rows of the images over the axis of features. */
static void features(net *n)
{
    iso_tensor *x = iso_flatten(image_of(n, ISO_SHAPE(12, 5)));
    classify(n, iso_dense(x, 7, .no_bias = true, .name = "d"));
}

/* A class of every position. */
static void segment(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(7, 6, 2));
    x = iso_conv2d(x, 5, 3, .padding = ISO_SAME, .activation = ISO_TANH, .name = "c");
    x = iso_conv2d(x, 3, 3, .padding = ISO_SAME, .name = "logits");
    n->classes[n->inputs] = 3;
    iso_tensor *label = n->input[n->inputs++] = iso_input(n->graph, "label", ISO_I32, ISO_SHAPE(7, 6));
    n->loss = iso_mean(iso_sparse_crossentropy(label, x, .from_logits = true));
}

/* ---- where they are trained ---- */
typedef struct setting {
    const net_kind kind;
    const char *mesh, *batch;
    const char *layout[LAYOUTS]; /* keys and layouts */
} setting;

static const setting settings[] = {
    {{"guide", guide}, "data=1,h=2,w=2", "data", {"image/output", "data, h, w, -"}},
    {{"guide", guide}, "data=2,h=3", "data", {"conv2d/output", "data, h, -, -"}},
    {{"guide", guide},
     "data=1,model=2,w=3",
     "data",
     {"image/output", "data, -, w, -", "conv2d/kernel", "-, -, -, model", "conv2d_1/kernel", "-, -, model, -",
      "large_k/kernel", "-, -, -, model"}},
    {{"odd", odd}, "data=1,h=2,w=2", "data", {"image/output", "data, h, w, -"}},
    {{"odd", odd}, "data=2,h=3", "data", {"image/output", "data, h, -, -"}},
    {{"odd", odd}, "data=1,h=5", "data", {"image/output", "data, h, -, -"}},
    {{"odd", odd}, "data=1,w=8", "data", {"image/output", "data, -, w, -"}},
    {{"odd", odd}, "data=2,h=2,w=2", "data", {"image/output", "data, w, h, -"}},
    {{"odd", odd}, "data=1,h=2,w=3", "data", {"image/output", "data, w+h, -, -"}},
    {{"odd", odd},
     "data=2,h=2,model=2",
     "data",
     {"image/output", "data, h, -, -", "large/kernel", "-, -, -, model", "apart/kernel", "-, -, model, -",
      "halve/kernel", "-, -, -, model", "groups/output", "data, h, -, model"}},
    {{"odd", odd},
     "data=1,h=2,model=4",
     "data",
     {"image/output", "data, h, -, -", "large/kernel", "-, -, -, model", "apart/kernel", "-, -, -, model",
      "halve/kernel", "-, -, -, model", "skip/kernel", "-, -, model, -"}},
    {{"flat", flat}, "data=2,h=4", "data", {"image/output", "data, h, -, -"}},
    {{"flat", flat}, "data=3,h=2", "data", {"c/output", "data, h, -, -"}},
    {{"features", features}, "data=2,h=3", "data", {"image/output", "data, h, -"}},
    {{"features", features}, "data=1,h=5", "data", {"image/output", "data, h, -"}},
    {{"flat", flat}, "data=1,h=2,w=3", "data", {"image/output", "data, h, w, -"}},
    {{"segment", segment}, "data=2,h=3", "data", {"image/output", "data, h, -, -"}},
    {{"segment", segment}, "data=2,h=2,w=2", "data", {"c/output", "data, h, w, -"}},
    {{"volume", volume}, "data=1,depth=3", "data", {"image/output", "data, depth, -, -, -"}},
    {{"volume", volume}, "data=2,depth=2", "data", {"image/output", "data, depth, -, -, -"}},
    {{"volume", volume}, "data=1,h=2,w=2", "data", {"image/output", "data, -, h, w, -"}},
    {{"volume", volume}, "data=1,depth=2,h=2,w=2", "data", {"image/output", "data, depth, h, w, -"}},
    {{"volume", volume}, "data=1,depth=5", "data", {"image/output", "data, depth, -, -, -"}},
    {{"volume", volume},
     "data=1,depth=2,model=3",
     "data",
     {"image/output", "data, depth, -, -, -", "large/kernel", "-, -, -, -, model", "halve/kernel",
      "-, -, -, model, -", "up/kernel", "-, -, -, model, -", "valid/kernel", "-, -, -, model, -"}},
    {{"deep", deep}, "data=2,h=2", "data", {"image/output", "data, h, -, -"}},
    {{"deep", deep},
     "data=3,model=2",
     "data",
     {"second/kernel", "-, -, -, model", "third/kernel", "-, -, model, -"}},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* How slots are dealt out to ranks. */
typedef enum dealing { ON_FIRST, BLOCKS, IN_TURN } dealing;

static void begin(trial *t, const setting *from, dealing how, iso_dtype precision)
{
    int ranks[MOST_SLOTS], slots = slots_of_mesh(from->mesh),
                           taking = iso_ranks(ctx) < slots ? iso_ranks(ctx) : slots;
    iso_optimizer adam = iso_adam(1e-2);
    for (int s = 0; s < slots; s++)
        ranks[s] = how == ON_FIRST ? 0 : how == BLOCKS ? s * taking / slots : s % taking;
    trial_begin(t, ctx, &from->kind, precision, ROWS);
    trial_mesh(t, from->mesh, ranks);
    for (int i = 0; i < LAYOUTS && from->layout[i]; i += 2)
        trial_layout(t, from->layout[i], from->layout[i + 1]);
    trial_make(t, from->batch, &adam);
}

static void begin_alone(trial *t, const setting *from, iso_dtype precision)
{
    const int first[1] = {0};
    iso_optimizer adam = iso_adam(1e-2);
    trial_begin(t, ctx, &from->kind, precision, ROWS);
    trial_mesh(t, "data=1", first);
    trial_make(t, NULL, &adam);
}

/* ---- numbers ---- */
typedef struct numbers {
    double loss[STEPS];
    int64_t count;
    double *weights;
} numbers;

static numbers train(trial *t)
{
    numbers n;
    for (int i = 0; i < STEPS; i++)
        n.loss[i] = trial_step(t, i);
    trial_check_counts(t, STEPS, 1);
    n.weights = trial_weights(t, &n.count);
    return n;
}

static void compare(const trial *t, const numbers *a, const numbers *b, double tolerance)
{
    check_near(t->what, a->loss, b->loss, STEPS, tolerance);
    ck_assert_int_eq(a->count, b->count);
    check_near(t->what, a->weights, b->weights, a->count, tolerance);
}

START_TEST(as_on_one_slot)
{
    for (int i = 0; i < SETTINGS; i++) {
        trial one, many;
        if (!takes_case(iso_ranks(ctx), i))
            continue;
        begin_alone(&one, &settings[i], ISO_F64);
        begin(&many, &settings[i], BLOCKS, ISO_F64);
        numbers a = train(&one), b = train(&many);
        compare(&many, &b, &a, 1e-10);
        trial_end(&one);
        trial_end(&many);
        free(a.weights);
        free(b.weights);
    }
}
END_TEST

/* The kernels for float32 are others. Losses only: Adam makes steps of full length of roundings. */
START_TEST(as_on_one_slot_in_float32)
{
    for (int i = 0; i < SETTINGS; i++) {
        trial one, many;
        if (!takes_case(iso_ranks(ctx), i))
            continue;
        begin_alone(&one, &settings[i], ISO_F32);
        begin(&many, &settings[i], BLOCKS, ISO_F32);
        for (int step = 0; step < 2; step++) {
            double a = trial_step(&one, step), b = trial_step(&many, step);
            check_near(many.what, &b, &a, 1, step ? 1e-4 : 2e-6);
        }
        trial_end(&one);
        trial_end(&many);
    }
}
END_TEST

/* To the last bit the same, whichever rank hosts which slot. */
START_TEST(ranks_do_not_matter)
{
    for (int i = 0; i < SETTINGS && iso_ranks(ctx) > 1; i++) {
        numbers all[3];
        if (!takes_case(iso_ranks(ctx), i))
            continue;
        for (dealing how = ON_FIRST; how <= IN_TURN; how++) {
            trial t;
            begin(&t, &settings[i], how, ISO_F32);
            all[how] = train(&t);
            compare(&t, &all[how], &all[0], 0);
            trial_end(&t);
        }
        for (int k = 0; k < 3; k++)
            free(all[k].weights);
    }
}
END_TEST

/* ---- plans ---- */

/* The convolutions and pools, and behind a flattened image the matrix products. */
static bool is_shared(const setting *from, const iso_op *op)
{
    if (from->kind.build == flat || from->kind.build == features)
        return strcmp(op->type->name, "matmul") == 0;
    return !strstr(from->mesh, "model") &&
           (strstr(op->type->name, "conv2d") || strstr(op->type->name, "pool2d") ||
            strstr(op->type->name, "fold"));
}

static bool is_image(const iso_program *program, int value)
{
    const iso_shape *shape = &program->values[value].tensor->shape;
    return shape->rank >= 3 && shape->dim[0] == ISO_BATCH;
}

/* The last of the dimensions between the batch and the channels of images, or of volumes. */
static int last_side(const iso_program *program, int value)
{
    return program->values[value].tensor->shape.rank > 4 ? 3 : 2;
}

/* Reshards of images leave depth, height and width cut as they are. */
static void check_reshard(const trial *t, const iso_program *program, const iso_program_step *step)
{
    const iso_layout *from = &program->values[step->input[0]].layout,
                     *to = &program->values[step->output[0]].layout;
    for (int d = 1; d <= last_side(program, step->input[0]) && is_image(program, step->input[0]); d++)
        ck_assert_msg(from->dim[d].count == 0 || (from->dim[d].count == to->dim[d].count &&
                                                  from->dim[d].axis[0] == to->dim[d].axis[0]),
                      "%s: %s is gathered along dimension %d", t->what,
                      iso_tensor_name(program->values[step->input[0]].tensor), d);
}

/* The dimensions of an image of which slots have overlapping parts. */
static int halos_of(const iso_program *program, int value)
{
    int halos = 0;
    for (int d = 1; d <= last_side(program, value) && is_image(program, value); d++)
        halos += iso_sharding_has_window(&program->values[value].layout.dim[d]);
    return halos;
}

/* All of the mesh shares the work where the input is laid out over all of it, and nothing is gathered. */
START_TEST(work_is_shared)
{
    for (int i = 0; i < SETTINGS; i++) {
        trial t;
        int halos = 0;
        if (settings[i].kind.build == flat &&
            strstr(settings[i].mesh, "w=")) /* a row that is cut has no flat part */
            continue;
        begin(&t, &settings[i], BLOCKS, ISO_F32);
        const iso_program *program = t.train->program;
        for (int k = 0; k < program->n_steps; k++) {
            const iso_program_step *step = &program->steps[k];
            if (!step->op)
                check_reshard(&t, program, step);
            else if (is_shared(&settings[i], step->op))
                ck_assert_msg(step->replicas == 1, "%s: %g slots do the same %s", t.what, step->replicas,
                              step->op->type->name);
            halos += step->op ? 0 : halos_of(program, step->output[0]);
        }
        halos += halos_of(program, program->input_value[0]);
        ck_assert_msg(halos > 1 || settings[i].kind.build == flat || settings[i].kind.build == features ||
                          !strpbrk(settings[i].mesh, "hw"),
                      "%s: %d halos", t.what, halos);
        trial_end(&t);
    }
}
END_TEST

/* ---- inputs ---- */

/* Slots read the part of the image that their positions need, and the labels of these positions; nothing of an input
 * is exchanged. */
START_TEST(inputs_are_read_in_parts)
{
    for (int i = 0; i < SETTINGS; i++) {
        trial t;
        if (settings[i].kind.build != segment)
            continue;
        begin(&t, &settings[i], BLOCKS, ISO_F32);
        const iso_program *program = t.train->program;
        const iso_layout *image = &program->values[program->input_value[0]].layout,
                         *label = &program->values[program->input_value[1]].layout;
        for (int d = 1; d <= 2; d++) {
            bool cut = d == 1 || strstr(settings[i].mesh, "w=");
            ck_assert_int_eq(image->dim[d].count, cut);
            ck_assert_int_eq(iso_sharding_has_window(&image->dim[d]), cut);
            ck_assert_int_eq(label->dim[d].count, cut);
        }
        for (int k = 0; k < program->n_steps; k++) {
            const iso_program_step *step = &program->steps[k];
            ck_assert_msg(step->op || (step->input[0] != program->input_value[0] &&
                                       step->input[0] != program->input_value[1]),
                          "%s: an input is exchanged", t.what);
        }
        trial_end(&t);
    }
}
END_TEST

/* The sum of the largest numbers in 3 x 3 windows. */
static double sum_of_windows(const float *image, int height, int width)
{
    double sum = 0;
    for (int i = 0; i < ROWS * height * width; i++) {
        int row = i / width % height, column = i % width;
        float most = image[i];
        for (int k = 0; k < 9; k++) {
            int y = row + k / 3 - 1, x = column + k % 3 - 1;
            if (y >= 0 && y < height && x >= 0 && x < width)
                most = fmaxf(most, image[i + (y - row) * width + x - column]);
        }
        sum += most;
    }
    return sum;
}

/* A value in another layout is brought to the parts that the slots need. */
START_TEST(values_are_brought_to_these_parts)
{
    enum { HEIGHT = 7, WIDTH = 6 };
    float image[ROWS * HEIGHT * WIDTH];
    double sum = 0;
    iso_distribution *distribution;
    iso_function *function;
    iso_layout_map *map;
    iso_layout *layout;
    iso_value *value, *result = NULL;
    iso_mesh *mesh;
    iso_graph *graph = iso_graph_create(ctx);
    for (int i = 0; i < ROWS * HEIGHT * WIDTH; i++)
        image[i] = (float)(i * 37 % 101);
    check_ok(iso_mesh_create(ctx, "data=2,h=4", &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "near/output", "data, h, -, -"));
    check_ok(iso_model_parallel_create(map, &distribution));
    iso_graph_distribute(graph, distribution);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(HEIGHT, WIDTH, 1));
    iso_tensor *near = iso_max_pooling2d(x, 3, .strides = 1, .padding = ISO_SAME, .name = "near");
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_sum(near)}));
    const iso_program *program = function->program;
    ck_assert(iso_sharding_has_window(&program->values[program->input_value[0]].layout.dim[1]));
    check_ok(iso_layout_create(mesh, "-, -, h, -", &layout));
    check_ok(iso_value_create(layout, ISO_F32, ISO_SHAPE(ROWS, HEIGHT, WIDTH, 1), &value));
    check_ok(iso_value_copy_to_mesh(value, image));
    check_ok(iso_function_call(function, .inputs = {value}, .outputs = {&result}));
    check_ok(iso_value_fetch(result, &sum));
    ck_assert_double_eq(sum, sum_of_windows(image, HEIGHT, WIDTH));
    iso_value_destroy(result);
    iso_value_destroy(value);
    iso_layout_destroy(layout);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- bytes ---- */

/* Two convolutions of 3x3 over 8 rows in 4 parts. */
static void pair(net *n)
{
    iso_tensor *x = image_of(n, ISO_SHAPE(8, 5, 2));
    x = iso_conv2d(x, 3, 3, .padding = ISO_SAME, .no_bias = true, .name = "a");
    x = iso_conv2d(x, 3, 3, .padding = ISO_SAME, .no_bias = true, .name = "b");
    n->loss = iso_mean(iso_square(x));
}

typedef struct taker {
    int slot;
    int64_t elements;
} taker;

static iso_status count_taken(void *arg, const iso_region *region)
{
    taker *t = arg;
    for (int i = 0; i < region->sources; i++)
        t->elements += region->slot[i] == t->slot ? 0 : iso_box_count(&region->box);
    return ISO_OK;
}

/* Elements of images that the slots take from each other in one step. */
static int64_t taken(const iso_program *program)
{
    taker t = {0};
    for (int k = 0; k < program->n_steps; k++) {
        const iso_program_step *step = &program->steps[k];
        if (step->op || !is_image(program, step->input[0]))
            continue;
        const iso_program_value *from = &program->values[step->input[0]],
                                *to = &program->values[step->output[0]];
        iso_shape shape = iso_shape_with_rows(&from->tensor->shape, ROWS);
        for (t.slot = 0; t.slot < program->mesh->n_slots; t.slot++)
            check_ok(iso_reshard_visit(program->mesh, &from->layout, &to->layout, &shape, t.slot, count_taken,
                                       &t));
    }
    return t.elements;
}

/* Three borders between four parts: a row on each side of each, of what is between the convolutions, and of its
 * gradient. The image's are read. */
START_TEST(bytes_of_halos)
{
    const setting four = {{"pair", pair}, "data=1,h=4", "data", {"image/output", "data, h, -, -"}};
    trial t;
    begin(&t, &four, BLOCKS, ISO_F32);
    ck_assert_int_eq(taken(t.train->program), 3 * 2 * ROWS * 5 * (3 + 3));
    trial_end(&t);
}
END_TEST

/* ---- what lies outside of a slot's part ---- */

enum { IMAGES = 3, SIDE = 8 };

/* Outputs of an upsampling by two along one dimension, of images that are sharded along the other, and its gradient
 * for the input: image 1 (of the gradient: image 0) has an infinity in its first (last) row. */
static void enlarge(const char *spec, bool by_height, double *y, double *dx)
{
    float image[IMAGES * SIDE * SIDE], weight[2 * IMAGES * SIDE * SIDE];
    iso_distribution *distribution;
    iso_layout_map *map;
    iso_dataset *data;
    iso_function *function;
    iso_mesh *mesh;
    const iso_batch *batch;
    iso_graph *graph = iso_graph_create(ctx);
    int64_t tall = by_height ? 1 : 2, wide = by_height ? 2 : 1;
    const char *layout = by_height ? "-, space, -, -" : "-, -, space, -";
    iso_shape small = ISO_SHAPE(SIDE, SIDE, 1), large = ISO_SHAPE(tall * SIDE, wide * SIDE, 1);
    for (int i = 0; i < IMAGES * SIDE * SIDE; i++)
        image[i] = (float)(i % 13);
    for (int i = 0; i < 2 * IMAGES * SIDE * SIDE; i++)
        weight[i] = (float)(i % 11);
    image[SIDE * SIDE] = INFINITY;
    weight[2 * SIDE * SIDE - 1] = INFINITY;
    check_ok(iso_mesh_create(ctx, spec, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "(image|weight)/output", layout));
    check_ok(iso_model_parallel_create(map, &distribution));
    iso_tensor *x = iso_input(graph, "image", ISO_F32, small),
               *w = iso_input(graph, "weight", ISO_F32, large);
    iso_tensor *twice = iso_affine(x, 2, 0), *gradient;
    iso_tensor *between = iso_up_sampling2d(twice, .size_hw = {(int)tall, (int)wide}, .bilinear = true);
    iso_gradients(iso_sum(iso_multiply(between, w)), &twice, 1, &gradient);
    iso_graph_distribute(graph, distribution);
    check_ok(iso_function_create(graph, &function, .inputs = {x, w}, .outputs = {between, gradient}));
    check_ok(
        iso_dataset_arrays(ctx, &data,
                           .inputs = {{image, ISO_F32, ISO_SHAPE(IMAGES, SIDE, SIDE, 1)},
                                      {weight, ISO_F32, ISO_SHAPE(IMAGES, tall * SIDE, wide * SIDE, 1)}}));
    check_ok(iso_dataset_batch(data, IMAGES));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(iso_function_evaluate(function, batch, (double *[]){y, dx}));
    iso_dataset_destroy(data);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static void compare_images(const double *one, const double *other, int each, int infinite)
{
    for (int i = 0; i < IMAGES * each; i++) {
        bool same = one[i] == other[i] || (isnan(one[i]) && isnan(other[i]));
        ck_assert_msg(same, "element %d: %g, of whole images %g", i, other[i], one[i]);
        ck_assert_msg(i / each == infinite || isfinite(one[i]), "image %d has %g of another one", i / each,
                      one[i]);
    }
}

START_TEST(images_do_not_see_each_other)
{
    static double y[2][2 * IMAGES * SIDE * SIDE], dx[2][IMAGES * SIDE * SIDE];
    int ranks = iso_ranks(ctx);
    char spec[40];
    for (int by_height = 0; by_height < 2; by_height++) {
        snprintf(spec, sizeof spec, "data=%d,space=1", ranks);
        enlarge(spec, by_height, y[0], dx[0]);
        for (int slots = ranks > 2 ? ranks : 2; slots <= 5; slots++) {
            snprintf(spec, sizeof spec, "data=1,space=%d", slots);
            enlarge(spec, by_height, y[1], dx[1]);
            compare_images(y[0], y[1], 2 * SIDE * SIDE, 1);
            compare_images(dx[0], dx[1], SIDE * SIDE, 0);
        }
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0); /* messages between ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("spatial", 0, as_on_one_slot, as_on_one_slot_in_float32, ranks_do_not_matter,
                  work_is_shared, inputs_are_read_in_parts, values_are_brought_to_these_parts, bytes_of_halos,
                  images_do_not_see_each_other))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
