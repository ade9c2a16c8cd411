/* A layer, a loss and a metric of one's own in a compiled model, with class weights; then a training loop and an
 * update rule of one's own. */
#include <isogrid.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 600, FEATURES = 20, CLASSES = 3 };

/* A layer is a function of tensors and variables. x: [batch, k] -> [batch, units], by a kernel of low rank. */
static iso_tensor *low_rank(iso_tensor *x, int64_t rank, int64_t units, const char *name)
{
    const iso_initializer glorot = {.kind = ISO_INIT_GLOROT_UNIFORM};
    iso_graph *g = iso_tensor_graph(x);
    iso_name_scope_begin(g,
                         name); /* the variables are "<name>/u" and "<name>/v", for layouts and checkpoints */
    iso_variable *u = iso_variable_create(g, "u", ISO_F32, ISO_SHAPE(FEATURES, rank), glorot, true);
    iso_variable *v = iso_variable_create(g, "v", ISO_F32, ISO_SHAPE(rank, units), glorot, true);
    iso_tensor *y = iso_matmul(iso_matmul(x, iso_variable_value(u)), iso_variable_value(v));
    return iso_name_scope_end(g, y); /* layouts find the result as "<name>/output" */
}

/* A loss gives a value for each row; its mean over the global batch is minimised. This is the focal loss of Lin
 * et al. (2017), -(1 - p)^2 log p. labels: [batch], logits: [batch, classes] -> [batch] */
static iso_tensor *focal(iso_tensor *labels, iso_tensor *logits)
{
    iso_tensor *minus_log_p = iso_sparse_crossentropy(labels, logits, .from_logits = true);
    iso_tensor *others = iso_affine(iso_exp(iso_negate(minus_log_p)), -1, 1); /* 1 - p */
    return iso_multiply(iso_square(others), minus_log_p);
}

/* A metric has the same form. Its mean over all rows is reported: here the share of rows with p > 0.5. */
static iso_tensor *confident(iso_tensor *labels, iso_tensor *logits)
{
    iso_tensor *minus_log_p = iso_sparse_crossentropy(labels, logits, .from_logits = true);
    return iso_less(minus_log_p,
                    iso_number(iso_tensor_graph(logits), ISO_F32, 0.6931471805599453)); /* ln 2 */
}

/* x: [batch, FEATURES] -> logits: [batch, CLASSES] */
static iso_tensor *network(iso_tensor *x)
{
    return iso_dense(iso_relu(low_rank(x, 4, 32, "low_rank")), CLASSES, .name = "logits");
}

/* ---- in iso_compile and iso_fit ---- */
static iso_status fit(iso_context *ctx, const float *x, const int32_t *y)
{
    static const double class_weights[CLASSES] = {1, 1, 4};
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_status status;
    ISO_TRY(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, FEATURES)},
                               .y = {y, ISO_I32, ISO_SHAPE(ROWS)}));
    ISO_TRY(iso_dataset_batch(data, 50));

    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *in = iso_input(g, "features", ISO_F32, ISO_SHAPE(FEATURES));
    model = iso_model_create(g, in, network(in));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-2), .loss_function = focal, .target_dtype = ISO_I32,
                        .metrics = {ISO_METRIC_SPARSE_ACCURACY}, .custom_metrics = {{"confident", confident}},
                        .class_weights = class_weights, .n_class_weights = CLASSES));
    ISO_TRY(iso_fit(model, data, .epochs = 2));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return status;
}

/* ---- in a loop of one's own ---- */

/* SGD whose steps have the gradient's sign only (Bernstein et al. 2018): v - rate * sign(dloss/dv) */
static iso_update *sign_sgd(iso_tensor *loss, double rate)
{
    enum { VARIABLES = 4 }; /* u, v, and the kernel and bias of "logits" */
    iso_graph *g = iso_tensor_graph(loss);
    iso_tensor *value[VARIABLES], *gradient[VARIABLES];
    iso_update *update = NULL;
    for (int i = 0; i < VARIABLES; i++)
        value[i] = iso_variable_value(iso_graph_variable(g, i));
    iso_gradients(loss, value, VARIABLES, gradient); /* NULL if the loss does not depend on a variable */
    for (int i = 0; i < VARIABLES; i++) {
        iso_tensor *change = iso_affine(iso_sign(gradient[i]), -rate, 0);
        update = iso_update_join(update, iso_assign(iso_graph_variable(g, i), iso_add(value[i], change)));
    }
    return update;
}

static iso_status loop(iso_context *ctx, const float *x, const int32_t *y)
{
    iso_dataset *data = NULL;
    iso_function *step = NULL;
    iso_status status;
    iso_graph *g = iso_graph_create(ctx); /* all slots data parallel; iso_graph_distribute says otherwise */
    iso_tensor *in = iso_input(g, "features", ISO_F32, ISO_SHAPE(FEATURES));
    iso_tensor *labels = iso_input(g, "labels", ISO_I32, ISO_SCALAR);
    iso_tensor *loss = iso_mean(focal(labels, network(in))); /* of the global batch */

    ISO_TRY(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, FEATURES)},
                               .y = {y, ISO_I32, ISO_SHAPE(ROWS)}));
    ISO_TRY(iso_dataset_shuffle(data, 0));
    ISO_TRY(iso_dataset_batch(data, 50));
    ISO_TRY(iso_function_create(g, &step, .inputs = {in, labels}, .outputs = {loss},
                                .updates = {sign_sgd(loss, 1e-3)}, .training = true));
    for (int epoch = 0; epoch < 2; epoch++) {
        double sum = 0, result;
        const iso_batch *batch; /* lent until the next call; NULL after the last */
        ISO_TRY(iso_dataset_rewind(data, epoch));
        while ((status = iso_dataset_next(data, &batch)) == ISO_OK && batch) {
            ISO_TRY(iso_function_run(step, batch, &result));
            sum += result * (double)batch->rows;
        }
        ISO_TRY(status);
        if (iso_rank(ctx) == 0)
            printf("epoch %d: loss %.4f\n", epoch + 1, sum / ROWS);
    }
done:
    iso_function_destroy(step);
    iso_dataset_destroy(data);
    iso_graph_destroy(g);
    return status;
}

int main(int argc, char **argv)
{
    static float x[ROWS * FEATURES];
    static int32_t y[ROWS];
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % 17 ? i % 2 : 2; /* the third class is rare */
        for (int k = 0; k < FEATURES; k++)
            x[i * FEATURES + k] = (float)((i * 7 + k * 13) % 11) / 11 + (k % CLASSES == y[i] ? 1.0f : 0.0f);
    }
    if (status == ISO_OK)
        status = fit(ctx, x, y);
    if (status == ISO_OK)
        status = loop(ctx, x, y);
    return iso_finish(ctx, status);
}
