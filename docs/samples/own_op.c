/* An op of one's own with gradient, sharding rule and kernels, in a layer and a loss; its gradient against finite differences.
 * The first argument is the layout of the layer's centers, "model, -" say; without one they are replicated. */
#include <isogrid_extend.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 60, FEATURES = 5, CENTERS = 7, CLASSES = 3 };

/* ---- the op: x [m, k], c [n, k] -> squared distances [m, n] ---- */

static bool infer(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape, *c = &op->inputs[1]->shape;
    if (x->rank != 2 || c->rank != 2 || x->dim[1] != c->dim[1])
        return iso_op_refuse(op, "takes [m, k] and [n, k]");
    return iso_op_set_output(op, op->inputs[0]->dtype, &(iso_shape){2, {x->dim[0], c->dim[0]}});
}

/* dy [m, n], a [m, k], b [n, k] -> 2 sum over n of dy (a - b): [m, k], the gradient of a */
static bool infer_gradient(iso_op *op)
{
    return iso_op_set_output(op, op->inputs[1]->dtype, &op->inputs[1]->shape);
}

/* A kernel computes a slot's part from its parts of the inputs: all extents are local. A slot that has a part of k gives a partial
 * sum, and the partitioner adds these. */
#define KERNELS(type, name)                                                                                  \
    static void name##_distances(const iso_kernel_call *call)                                                \
    {                                                                                                        \
        const type *x = call->in[0].data, *c = call->in[1].data;                                             \
        type *y = call->out[0].data;                                                                         \
        int64_t rows = call->in[0].dim[0], centers = call->in[1].dim[0], width = call->in[0].dim[1];         \
        for (int64_t i = 0; i < rows * centers; i++) {                                                       \
            const type *a = x + i / centers * width, *b = c + i % centers * width;                           \
            type sum = 0;                                                                                    \
            for (int64_t k = 0; k < width; k++)                                                              \
                sum += (a[k] - b[k]) * (a[k] - b[k]);                                                        \
            y[i] = sum;                                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_gradient(const iso_kernel_call *call)                                                 \
    {                                                                                                        \
        const type *dy = call->in[0].data, *a = call->in[1].data, *b = call->in[2].data;                     \
        type *da = call->out[0].data;                                                                        \
        int64_t rows = call->in[0].dim[0], centers = call->in[0].dim[1], width = call->in[1].dim[1];         \
        for (int64_t i = 0; i < rows * width; i++) {                                                         \
            type sum = 0;                                                                                    \
            for (int64_t n = 0; n < centers; n++)                                                            \
                sum += 2 * dy[i / width * centers + n] * (a[i] - b[n * width + i % width]);                  \
            da[i] = sum;                                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static bool name##_fits(const iso_kernel_call *call)                                                     \
    {                                                                                                        \
        return iso_dtype_size(call->out[0].dtype) == sizeof(type) && iso_dtype_is_float(call->out[0].dtype); \
    }
KERNELS(float, f32)
KERNELS(double, f64)

static const iso_kernel distances_kernels[] = {{.name = "float32", .fits = f32_fits, .run = f32_distances},
                                               {.name = "float64", .fits = f64_fits, .run = f64_distances}};
static const iso_kernel gradient_kernels[] = {{.name = "float32", .fits = f32_fits, .run = f32_gradient},
                                              {.name = "float64", .fits = f64_fits, .run = f64_gradient}};

/* The rule has a letter for each dimension. Any may be sharded; k, which the output does not have, is summed. */
static const iso_op_type distances_gradient = {.name = "distances_gradient",
                                               .infer = infer_gradient,
                                               .rule = "mn,mk,nk->mk",
                                               .linear = 1 << 0 /* in dy */};

static void gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const int swap[] = {1, 0};
    iso_tensor *x = op->inputs[0], *c = op->inputs[1];
    dx[0] = iso_op_3(&distances_gradient, dy[0], x, c, NULL);
    dx[1] = iso_op_3(&distances_gradient, iso_transpose(dy[0], swap), c, x, NULL);
}

static const iso_op_type distances = {
    .name = "distances", .infer = infer, .rule = "mk,nk->mn", .gradient = gradient};

/* On every rank, before the first op is made. */
static iso_status register_ops(void)
{
    iso_status status = iso_op_register(&distances, distances_kernels, 2);
    return status == ISO_OK ? iso_op_register(&distances_gradient, gradient_kernels, 2) : status;
}

/* ---- a layer and a loss with it ---- */

/* Radial basis functions: x [batch, FEATURES] -> exp(-|x - center|^2) [batch, units] */
static iso_tensor *radial_basis(iso_tensor *x, int64_t units, const char *layout)
{
    iso_graph *g = iso_tensor_graph(x);
    iso_name_scope_begin(g, "basis");
    iso_variable *centers = iso_variable_create(g, "centers", iso_tensor_dtype(x), ISO_SHAPE(units, FEATURES),
                                                (iso_initializer){.kind = ISO_INIT_GLOROT_UNIFORM}, true);
    iso_variable_set_layout(centers, layout);
    return iso_name_scope_end(
        g, iso_exp(iso_negate(iso_op_2(&distances, x, iso_variable_value(centers), NULL))));
}

/* The nearer the prediction is to the corner of the label's class, the less. labels: [batch], y: [batch, CLASSES] */
static iso_tensor *corner_loss(iso_tensor *labels, iso_tensor *y)
{
    static const double corners[CLASSES * CLASSES] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    iso_tensor *c =
        iso_constant(iso_tensor_graph(y), iso_tensor_dtype(y), ISO_SHAPE(CLASSES, CLASSES), corners);
    return iso_sparse_crossentropy(labels, iso_negate(iso_op_2(&distances, y, c, NULL)), .from_logits = true);
}

/* ---- the gradient of the mean loss with respect to each center, against finite differences ---- */

static iso_status check_gradient(iso_model *model, iso_dataset *data, double *worst)
{
    enum { COUNT = CENTERS * FEATURES };
    const double step = 1e-5;
    double value[COUNT], gradient[COUNT], loss[2], low, high;
    iso_graph *g = iso_model_graph(model);
    iso_variable *centers = iso_graph_find_variable(g, "basis/centers");
    iso_tensor *at = iso_variable_value(centers), *found;
    iso_function *both = NULL;
    const iso_batch *batch;
    iso_status status;
    iso_tensor *labels = iso_input(g, "labels", ISO_I32, ISO_SCALAR);
    iso_tensor *mean = iso_mean(corner_loss(labels, iso_model_output(model)));
    iso_gradients(mean, &at, 1, &found);
    ISO_TRY(
        iso_function_create(g, &both, .inputs = {iso_model_input(model), labels}, .outputs = {mean, found}));
    ISO_TRY(iso_variable_read(centers, value, COUNT));
    ISO_TRY(iso_dataset_rewind(data, 0));
    ISO_TRY(iso_dataset_next(data, &batch));
    *worst = 0;
    ISO_TRY(iso_function_evaluate(both, batch, (double *[]){loss, gradient}));
    for (int i = 0; i < COUNT; i++) {
        double unchanged = value[i], other[COUNT];
        value[i] = unchanged + step;
        ISO_TRY(iso_variable_assign(centers, value, COUNT));
        ISO_TRY(iso_function_evaluate(both, batch, (double *[]){&high, other}));
        value[i] = unchanged - step;
        ISO_TRY(iso_variable_assign(centers, value, COUNT));
        ISO_TRY(iso_function_evaluate(both, batch, (double *[]){&low, other}));
        value[i] = unchanged;
        *worst = fmax(*worst, fabs((high - low) / (2 * step) - gradient[i]));
    }
    ISO_TRY(iso_variable_assign(centers, value, COUNT));
done:
    iso_function_destroy(both);
    return status;
}

static iso_status train(iso_context *ctx, iso_dataset *data, const char *layout)
{
    double worst, loss;
    iso_status status;
    iso_graph *g = iso_graph_create(ctx);
    iso_graph_set_precision(g, ISO_F64);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_model *model = iso_model_create(g, x, iso_dense(radial_basis(x, CENTERS, layout), CLASSES));

    ISO_TRY(check_gradient(model, data, &worst));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(0.05), .loss_function = corner_loss,
                        .target_dtype = ISO_I32));
    ISO_TRY(iso_fit(model, data, .epochs = 3, .verbose = ISO_ZERO));
    ISO_TRY(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    if (iso_is_chief(ctx))
        printf("gradient %s, loss %.9f\n", worst < 1e-8 ? "correct" : "wrong", loss);
done:
    iso_model_destroy(model);
    return status;
}

int main(int argc, char **argv)
{
    static float x[ROWS * FEATURES];
    static int32_t y[ROWS];
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_status status;

    for (int i = 0; i < ROWS; i++)
        y[i] = i % CLASSES;
    for (int i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)(i * 7 % 11) / 11 + (i % FEATURES == y[i / FEATURES] ? 1.0f : 0.0f);
    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(register_ops());
    ISO_TRY(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, FEATURES)},
                               .y = {y, ISO_I32, ISO_SHAPE(ROWS)}));
    ISO_TRY(iso_dataset_batch(data, 20));
    ISO_TRY(train(ctx, data, argc > 1 ? argv[1] : NULL));
done:
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
