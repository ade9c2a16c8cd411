/* ReLUs that the normalisation in front of them does, and those that it must not; gradients of embeddings that are
 * added to others by rows; sums that layer normalisations compute; casts that kernels do.
 * Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network.h"
#include "runtime/session/session.h"
#include "runtime/spmd/program.h"
#include "tests/support/run_tests.h"

typedef struct fixture {
    iso_context *ctx;
    iso_graph *graph;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_program *program;
    iso_tensor *image;
    iso_fusion_kernels kernels;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    ck_assert_int_eq(iso_init(NULL, NULL, &f->ctx), ISO_OK);
    f->graph = iso_graph_create(f->ctx);
    ck_assert_int_eq(iso_mesh_create(f->ctx, "data=2,model=2", &f->mesh), ISO_OK);
    ck_assert_int_eq(iso_data_parallel_create(f->mesh, &f->distribution), ISO_OK);
}

static void end(fixture *f)
{
    iso_program_destroy(f->program);
    iso_graph_destroy(f->graph);
    iso_distribution_destroy(f->distribution);
    iso_mesh_destroy(f->mesh);
    ck_assert_int_eq(iso_finish(f->ctx, ISO_OK), 0);
}

static void make_program(fixture *f, iso_tensor *loss, iso_tensor *also, bool training)
{
    iso_optimizer optimizer = {.rule = "sgd", .learning_rate = 0.1};
    iso_update *update = training ? iso_minimize(loss, optimizer) : NULL;
    iso_tensor *outputs[] = {loss, also};
    iso_program_request request = {.training = training,
                                   .kernels = f->kernels,
                                   .n_inputs = 1,
                                   .inputs = &f->image,
                                   .n_outputs = also ? 2 : 1,
                                   .outputs = outputs,
                                   .n_updates = training,
                                   .updates = &update};
    ck_assert_msg(iso_graph_error(f->graph) == ISO_OK, "%s", iso_error_message());
    iso_status status = iso_program_create(f->graph, f->distribution, &request, &f->program);
    ck_assert_msg(status == ISO_OK, "%s", iso_error_message());
}

static int count_steps(const fixture *f, const char *name)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++)
        count += f->program->steps[i].op && strcmp(f->program->steps[i].op->type->name, name) == 0;
    return count;
}

/* Steps of this name with a ReLU in them. */
static int count_active(const fixture *f, const char *name)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        if (op && strcmp(op->type->name, name) == 0)
            count += ((const iso_batch_norm_attrs *)op->attrs)->activation == ISO_FUSED_RELU;
    }
    return count;
}

/* Every value is made by the step that it names, and every input of a step is made before it. */
static void check_order(const fixture *f)
{
    const iso_program *program = f->program;
    for (int i = 0; i < program->n_steps; i++) {
        const iso_program_step *step = &program->steps[i];
        for (int k = 0; step->op && k < step->op->n_inputs; k++)
            ck_assert_int_lt(program->values[step->input[k]].step, i);
        for (int k = 0; step->op && k < step->op->n_outputs; k++)
            ck_assert_int_eq(program->values[step->output[k]].step, i);
    }
}

static iso_tensor *image(fixture *f)
{
    f->image = iso_input(f->graph, "image", ISO_F32, ISO_SHAPE(6, 6, 3));
    return iso_conv2d(f->image, 4, 3);
}

START_TEST(forward_and_backward)
{
    fixture f;
    begin(&f);
    iso_tensor *x = iso_batch_norm(image(&f), .no_scale = _i & 1, .no_center = _i & 2);
    x = _i & 4 ? iso_clipped_relu(x, 6) : iso_relu(x);
    make_program(&f, iso_mean(iso_dense(x, 2)), NULL, true);
    for (int i = 0; i < f.program->n_steps; i++) {
        const iso_op *op = f.program->steps[i].op;
        if (op && !strncmp(op->type->name, "batch_norm", 10))
            ck_assert(((const iso_batch_norm_attrs *)op->attrs)->largest == (_i & 4 ? 6 : INFINITY));
    }
    ck_assert_int_eq(count_steps(&f, "relu") + count_steps(&f, "clipped_relu"), 0);
    ck_assert_int_eq(count_steps(&f, "unary_gradient"), 0);
    ck_assert_int_eq(count_active(&f, "batch_norm"), 1);
    ck_assert_int_eq(count_active(&f, "batch_norm_grad_sums"), 1);
    ck_assert_int_eq(count_active(&f, "batch_norm_grad"), 1);
    check_order(&f);
    end(&f);
}
END_TEST

START_TEST(inference)
{
    fixture f;
    begin(&f);
    make_program(&f, iso_mean(iso_relu(iso_batch_norm(image(&f)))), NULL, false);
    ck_assert_int_eq(count_steps(&f, "relu"), 0);
    ck_assert_int_eq(count_active(&f, "batch_norm"), 1);
    check_order(&f);
    end(&f);
}
END_TEST

/* What somebody else reads must be written. */
START_TEST(shared_outputs_stay)
{
    fixture f;
    begin(&f);
    iso_tensor *y = iso_batch_norm(image(&f));
    make_program(&f, iso_mean(iso_add(iso_relu(y), y)), NULL, true);
    ck_assert_int_eq(count_steps(&f, "relu"), 1);
    ck_assert_int_eq(count_active(&f, "batch_norm"), 0);
    check_order(&f);
    end(&f);
}
END_TEST

START_TEST(requested_outputs_stay)
{
    fixture f;
    begin(&f);
    iso_tensor *y = iso_batch_norm(image(&f));
    make_program(&f, iso_mean(iso_relu(y)), y, false);
    ck_assert_int_eq(count_steps(&f, "relu"), 1);
    ck_assert_int_eq(count_active(&f, "batch_norm"), 0);
    end(&f);
}
END_TEST

/* Another activation is none of ours. */
START_TEST(others_stay)
{
    fixture f;
    begin(&f);
    make_program(&f, iso_mean(iso_tanh(iso_batch_norm(image(&f)))), NULL, true);
    ck_assert_int_eq(count_steps(&f, "tanh"), 1);
    ck_assert_int_eq(count_active(&f, "batch_norm_grad"), 0);
    end(&f);
}
END_TEST

/* A table that is looked up and makes the logits: rows are added to the product's gradient. */
START_TEST(rows_are_added_to_gradients_of_tables)
{
    fixture f;
    begin(&f);
    f.image = iso_input(f.graph, "tokens", ISO_I32, ISO_SHAPE(4));
    iso_tensor *h = iso_reversible_embedding(f.image, 9, 5, .name = "table");
    iso_share_begin(f.graph);
    iso_tensor *y = iso_reversible_embedding(h, 9, 5, .reverse = true, .name = "table");
    iso_share_end(f.graph);
    make_program(&f, iso_mean(iso_square(y)), NULL, true);
    ck_assert_int_eq(count_steps(&f, "embedding_grad"), 0);
    ck_assert_int_eq(count_steps(&f, "embedding_grad_add"), 1);
    check_order(&f);
    end(&f);
}
END_TEST

/* Steps of this name that add a residual. */
static int count_residual(const fixture *f, const char *name)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        if (op && strcmp(op->type->name, name) == 0)
            count += ((const iso_layer_norm_attrs *)op->attrs)->residual;
    }
    return count;
}

/* Additions of tensors of at least two dimensions. */
static int count_sums(const fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        count += op && strcmp(op->type->name, "add") == 0 && iso_tensor_shape(op->outputs[0])->rank > 1;
    }
    return count;
}

/* x + f(norm(x)), normalised: one sum forward, two backward. */
START_TEST(normalisations_add_residuals)
{
    fixture f;
    begin(&f);
    f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *x = iso_dense(f.image, 4, .no_bias = true);
    iso_tensor *y = iso_add(x, iso_dense(iso_layer_norm(x), 4, .no_bias = true));
    make_program(&f, iso_mean(iso_dense(iso_add(y, iso_layer_norm(y)), 2, .no_bias = true)), NULL, true);
    ck_assert_int_eq(count_residual(&f, "layer_norm"), 1);
    ck_assert_int_eq(count_residual(&f, "layer_norm_grad"), 2);
    ck_assert_int_eq(count_sums(&f), 1); /* y + norm(y) */
    check_order(&f);
    end(&f);
}
END_TEST

/* x + f(norm(x)) + g(norm(x)): dx is a sum of three, and each gradient of a normalisation adds one other addend. */
START_TEST(a_gradient_adds_one_residual)
{
    fixture f;
    begin(&f);
    f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *x = iso_dense(f.image, 4, .no_bias = true);
    iso_tensor *y = iso_add(x, iso_dense(iso_layer_norm(x), 4, .no_bias = true));
    y = iso_add(y, iso_dense(iso_layer_norm(x), 4, .no_bias = true));
    make_program(&f, iso_mean(iso_dense(y, 2, .no_bias = true)), NULL, true);
    for (int i = 0; i < f.program->n_steps; i++) {
        const iso_op *op = f.program->steps[i].op;
        if (!op || strcmp(op->type->name, "layer_norm_grad") != 0)
            continue;
        const iso_layer_norm_attrs *attrs = op->attrs;
        ck_assert_int_eq(op->n_inputs, 3 + attrs->residual);
    }
    ck_assert_int_eq(count_steps(&f, "layer_norm_grad"), 2);
    ck_assert_int_eq(count_residual(&f, "layer_norm_grad"), 2);
    check_order(&f);
    end(&f);
}
END_TEST

/* The sum is read before it is normalised. */
START_TEST(sums_that_are_read_before_stay)
{
    fixture f;
    begin(&f);
    f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *y = iso_add(f.image, iso_relu(f.image)), *z = iso_tanh(y);
    make_program(&f, iso_mean(iso_multiply(iso_layer_norm(y), z)), NULL, false);
    ck_assert_int_eq(count_residual(&f, "layer_norm"), 0);
    ck_assert_int_eq(count_sums(&f), 1);
    check_order(&f);
    end(&f);
}
END_TEST

/* Casts of float32 sums of more than one dimension to bfloat16. */
static int count_roundings(const fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        count += op && strcmp(op->type->name, "cast") == 0 && op->inputs[0]->producer->widened &&
                 op->outputs[0]->dtype == ISO_BF16;
    }
    return count;
}

/* A convolution, a product and their gradients of inputs write bfloat16; gradients of weights stay float32. */
START_TEST(kernels_round_whole_sums)
{
    for (int rounds = 0; rounds < 2; rounds++) {
        fixture f;
        begin(&f);
        f.kernels.rounds = rounds;
        iso_graph_set_precision(f.graph, ISO_BF16);
        iso_tensor *x = iso_conv2d(image(&f), 2, 3, .no_bias = true);
        make_program(&f, iso_mean(iso_dense(iso_flatten(x), 2, .no_bias = true)), NULL, true);
        ck_assert_int_eq(count_roundings(&f), rounds ? 0 : 5); /* 3 layers, 2 gradients of inputs */
        int narrow = 0, wide = 0;
        for (int i = 0; i < f.program->n_steps; i++) {
            const iso_program_step *step = &f.program->steps[i];
            const char *name = step->op ? step->op->type->name : "";
            bool of_weight =
                strcmp(name, "conv2d_grad_kernel") == 0 ||
                (strcmp(name, "matmul") == 0 && ((const iso_matmul_attrs *)step->op->attrs)->contract);
            if (strncmp(name, "conv2d", 6) != 0 && strcmp(name, "matmul") != 0)
                continue;
            iso_dtype made = f.program->values[step->output[0]].tensor->dtype;
            ck_assert_int_eq(made, step->op->outputs[0]->dtype);
            if (of_weight)
                ck_assert_int_eq(made, ISO_F32);
            narrow += made == ISO_BF16;
            wide += made == ISO_F32;
        }
        ck_assert_int_eq(narrow, rounds ? 5 : 0);
        ck_assert_int_eq(wide, rounds ? 3 : 8);
        check_order(&f);
        end(&f);
    }
}
END_TEST

/* A sum that slots add, or that somebody else reads, is rounded afterwards. */
START_TEST(other_sums_are_rounded_later)
{
    fixture f;
    iso_layout_map *map = NULL;
    begin(&f);
    f.kernels.rounds = true;
    iso_graph_set_precision(f.graph, ISO_BF16);
    f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *x = iso_dense(f.image, 4, .no_bias = true),
               *y = iso_dense(x, 4, .no_bias = true, .name = "cut");
    if (_i == 0) { /* slots of `model` have parts of the second product's sum */
        iso_distribution_destroy(f.distribution);
        ck_assert_int_eq(iso_layout_map_create(f.mesh, &map), ISO_OK);
        ck_assert_int_eq(iso_layout_map_set(map, "cut/kernel", "model, -"), ISO_OK);
        ck_assert_int_eq(iso_model_parallel_create(map, &f.distribution), ISO_OK);
    }
    make_program(&f, y, _i == 0 ? NULL : y->producer->inputs[0], false);
    ck_assert_int_eq(count_roundings(&f), 1);
    ck_assert_int_eq(count_steps(&f, "matmul"), 2);
    check_order(&f);
    end(&f);
    iso_layout_map_destroy(map);
}
END_TEST

/* Casts of more than one dimension. */
static int count_casts(const fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        count += op && strcmp(op->type->name, "cast") == 0 && op->outputs[0]->shape.rank > 1;
    }
    return count;
}

static iso_dtype type_of(const fixture *f, int value)
{
    return f->program->values[value].tensor->dtype;
}

/* x + f(norm(x)), normalised, in mixed_bfloat16: the normalisations and their gradients read and write bfloat16, add
 * the residuals in it, and leave gamma and beta in float32. */
START_TEST(normalisations_do_casts)
{
    for (int normalizes = 0; normalizes < 2; normalizes++) {
        fixture f;
        begin(&f);
        f.kernels = (iso_fusion_kernels){.rounds = true, .normalizes = normalizes};
        iso_graph_set_precision(f.graph, ISO_BF16);
        f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
        iso_tensor *x = iso_dense(f.image, 4, .no_bias = true);
        iso_tensor *y = iso_add(x, iso_dense(iso_layer_norm(x), 4, .no_bias = true));
        make_program(&f, iso_mean(iso_dense(iso_layer_norm(y), 2, .no_bias = true)), NULL, true);
        ck_assert_int_eq(count_residual(&f, "layer_norm"), normalizes);
        ck_assert_int_eq(count_residual(&f, "layer_norm_grad"), normalizes);
        int narrow = 0;
        for (int i = 0; i < f.program->n_steps; i++) {
            const iso_program_step *step = &f.program->steps[i];
            if (!step->op || strncmp(step->op->type->name, "layer_norm", 10) != 0)
                continue;
            ck_assert_int_eq(type_of(&f, step->input[0]), normalizes ? ISO_BF16 : ISO_F32);
            bool sums = strcmp(step->op->type->name, "layer_norm_grad_sums") == 0;
            ck_assert_int_eq(type_of(&f, step->output[0]), normalizes && !sums ? ISO_BF16 : ISO_F32);
            for (int k = 0; k < step->op->n_inputs; k++)
                ck_assert_int_eq(step->op->inputs[k]->dtype, type_of(&f, step->input[k]));
            narrow++;
        }
        ck_assert_int_eq(narrow, 6);
        /* the input, and three kernels; without: two more for each normalisation, one for each gradient */
        ck_assert_int_eq(count_casts(&f), normalizes ? 4 : 10);
        check_order(&f);
        end(&f);
    }
}
END_TEST

/* What is normalised in float32 stays so, also if the gradient comes in bfloat16. */
START_TEST(float32_is_normalised_in_float32)
{
    fixture f;
    begin(&f);
    f.kernels = (iso_fusion_kernels){.rounds = true, .normalizes = true};
    f.image = iso_input(f.graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *y = iso_layer_norm(iso_dense(f.image, 4, .no_bias = true));
    make_program(&f, iso_mean(iso_cast(iso_square(iso_cast(y, ISO_BF16)), ISO_F32)), NULL, true);
    for (int i = 0; i < f.program->n_steps; i++) {
        const iso_program_step *step = &f.program->steps[i];
        for (int k = 0; step->op && strncmp(step->op->type->name, "layer_norm", 10) == 0 && k < 2; k++)
            ck_assert_int_eq(type_of(&f, step->input[k]), ISO_F32);
    }
    check_order(&f);
    end(&f);
}
END_TEST

/* ---- windows along the depth ---- */
static iso_tensor *volume(fixture *f)
{
    f->image = iso_input(f->graph, "x", ISO_F32, ISO_SHAPE(5, 6, 6, 4));
    return f->image;
}

/* Convolutions of which kernels take the windows along the depth. */
static int count_deep(const fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->program->n_steps; i++) {
        const iso_op *op = f->program->steps[i].op;
        count +=
            op && !strncmp(op->type->name, "conv2d", 6) && ((const iso_conv_attrs *)op->attrs)->depth.size;
    }
    return count;
}

static int count_copies(const fixture *f)
{
    return count_steps(f, "unfold") + count_steps(f, "fold");
}

/* Forward and backward. Both gradients of the transposed convolution read the same windows. */
START_TEST(convolutions_take_windows)
{
    for (int unfolds = 0; unfolds < 2; unfolds++) {
        fixture f;
        begin(&f);
        f.kernels.unfolds = unfolds;
        iso_tensor *x =
            iso_conv3d_transpose(iso_conv3d(iso_conv3d(volume(&f), 6, 3), 8, 2), 3, 2, .strides = 2);
        make_program(&f, iso_mean(iso_dense(iso_flatten(x), 2)), NULL, true);
        ck_assert_int_eq(count_deep(&f), unfolds ? 8 : 0);
        ck_assert_int_eq(count_copies(&f), unfolds ? 0 : 7);
        check_order(&f);
        end(&f);
    }
}
END_TEST

/* Windows of groups, of other types, along other dimensions, and such as others read too. */
START_TEST(other_windows_stay)
{
    for (int i = 0; i < 4; i++) {
        fixture f;
        begin(&f);
        f.kernels.unfolds = true;
        iso_tensor *x = volume(&f), *also = NULL;
        if (i == 0)
            x = iso_conv3d(x, 8, 2, .groups = 2);
        if (i >= 1) {
            const iso_unfold_geometry windows = {.size = 3, .stride = 1, .dilation = 1};
            const iso_conv_geometry plain = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
            const iso_dtype dtype = i == 1 ? ISO_F64 : ISO_F32;
            const double kernel[3 * 3 * 12 * 2] = {1};
            x = iso_unfold_op(iso_cast(x, dtype), i == 2 ? 2 : 1, &windows);
            const iso_shape *s = iso_tensor_shape(x);
            x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, s->dim[1], s->dim[2], s->dim[3], 12));
            also = i == 3 ? iso_mean(x) : NULL;
            x = iso_conv2d_op(x, iso_constant(f.graph, dtype, ISO_SHAPE(3, 3, 12, 2), kernel), &plain);
        }
        make_program(&f, iso_mean(x), also, false);
        ck_assert_int_eq(count_deep(&f), 0);
        ck_assert_int_eq(count_copies(&f), 1);
        end(&f);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fuse");
    TCase *tests = tcase_create("fuse");
    tcase_set_timeout(tests, 30);
    tcase_add_loop_test(tests, forward_and_backward, 0, 8);
    tcase_add_test(tests, inference);
    tcase_add_test(tests, shared_outputs_stay);
    tcase_add_test(tests, requested_outputs_stay);
    tcase_add_test(tests, others_stay);
    tcase_add_test(tests, rows_are_added_to_gradients_of_tables);
    tcase_add_test(tests, normalisations_add_residuals);
    tcase_add_test(tests, a_gradient_adds_one_residual);
    tcase_add_test(tests, sums_that_are_read_before_stay);
    tcase_add_test(tests, kernels_round_whole_sums);
    tcase_add_loop_test(tests, other_sums_are_rounded_later, 0, 2);
    tcase_add_test(tests, normalisations_do_casts);
    tcase_add_test(tests, convolutions_take_windows);
    tcase_add_test(tests, other_windows_stay);
    tcase_add_test(tests, float32_is_normalised_in_float32);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
