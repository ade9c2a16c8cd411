#include "tests/support/linear.h"

#include <math.h>

#include "tests/support/once.h"

const double *linear_inputs(void)
{
    static double inputs[LINEAR_ROWS * LINEAR_FEATURES];
    for (int i = 0; i < LINEAR_ROWS * LINEAR_FEATURES; i++)
        inputs[i] = sin(i * 1.7);
    return inputs;
}

const double *linear_targets(void)
{
    static double targets[LINEAR_ROWS];
    const double *x = linear_inputs();
    for (int i = 0; i < LINEAR_ROWS; i++)
        targets[i] = 2 * x[LINEAR_FEATURES * i] - x[LINEAR_FEATURES * i + 1] + 0.5;
    return targets;
}

iso_dataset *linear_data(iso_context *ctx, int64_t rows, const double *y, const double *weights,
                         int64_t batch)
{
    iso_dataset *data = NULL;
    iso_dataset_arrays_options options = {.dataset = &data,
                                          .x = {linear_inputs(), ISO_F64, ISO_SHAPE(rows, LINEAR_FEATURES)},
                                          .y = {y ? y : linear_targets(), ISO_F64, ISO_SHAPE(rows)}};
    if (weights)
        options.sample_weight = (__typeof__(options.x)){weights, ISO_F64, ISO_SHAPE(rows)};
    check_ok(iso_dataset_arrays_with(ctx, &options, sizeof options));
    if (batch)
        check_ok(iso_dataset_batch(data, batch));
    return data;
}

iso_model *linear_model(iso_context *ctx, int64_t units)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, ISO_F64);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(LINEAR_FEATURES));
    return iso_model_create(graph, x, iso_dense(x, units, .name = "d"));
}

iso_model *linear_model_compiled(iso_context *ctx, iso_optimizer optimizer, iso_distribution *distribution)
{
    iso_model *model = linear_model(ctx, 1);
    check_ok(iso_compile(model, .optimizer = optimizer, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE},
                         .distribution = distribution));
    return model;
}
