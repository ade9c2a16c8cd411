/* What twin.f90 does, in C; both print the same. */
#include <inttypes.h>
#include <isogrid.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 70 };

static float images[ROWS][8][6][2], targets[ROWS][3];
static float predicted[ROWS][3];

/* Each row's squares, weighted by the target. */
static iso_tensor *weighted(iso_tensor *y_true, iso_tensor *y_pred)
{
    iso_tensor *largest = iso_affine(iso_reduce_max(y_true, (int[]){1}, 1, true), 0, 0.5);
    return iso_reduce_mean(iso_multiply(iso_add(y_true, largest), iso_square(iso_subtract(y_true, y_pred))),
                           (int[]){1}, 1, false);
}

static void print_values(const char *name, const double *values, int count)
{
    printf("%s", name);
    for (int i = 0; i < count; i++)
        printf(" %14.10f", values[i]);
    printf("\n");
}

static iso_status train(iso_context *ctx)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_fingerprint fingerprint;
    double values[3], bias[5];
    iso_status status;
    ISO_TRY(iso_mesh_create(ctx, "data=4,model=2", &mesh));
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(iso_layout_map_set(map, "hidden/kernel", "-, model"));
    ISO_TRY(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    ISO_TRY(iso_dataset_arrays(ctx, &data, .x = {images, ISO_F32, ISO_SHAPE(ROWS, 8, 6, 2)},
                               .y = {targets, ISO_F32, ISO_SHAPE(ROWS, 3)}));
    ISO_TRY(iso_dataset_batch(data, 16));

    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "images", ISO_F32, ISO_SHAPE(8, 6, 2));
    iso_tensor *y = iso_conv2d(x, 4, 3, .padding = ISO_SAME, .strides_hw = {2, 1}, .activation = ISO_RELU,
                               .name = "conv");
    y = iso_concatenate(((iso_tensor *[]){y, iso_tanh(y)}), 2);
    y = iso_layer_norm(y, .axis = {2, -1}, .axis_count = 2);
    y = iso_dense(iso_flatten(y), 5, .activation = ISO_TANH,
                  .kernel_initializer = {.kind = ISO_INIT_RANDOM_UNIFORM, .low = -0.1, .high = 0.1},
                  .name = "hidden");
    y = iso_dense(y, 3, .no_bias = true, .kernel_l2 = 1e-3);
    model = iso_model_create(graph, x, y);
    ISO_TRY(iso_compile(model,
                        .optimizer = iso_adamw(1e-2, .beta_1 = ISO_ZERO, .weight_decay = 0.5,
                                               .no_decay = "hidden/kernel|.*bias", .clip_norm = 0.5),
                        .loss_function = weighted, .metrics = {ISO_METRIC_MSE, ISO_METRIC_MAE},
                        .metric_names = {"squares", "differences"}, .distribution = distribution));
    iso_callback *callbacks[] = {iso_terminate_on_nan(), NULL};
    ISO_TRY(iso_fit(model, data, .epochs = 3, .callbacks = callbacks));
    ISO_TRY(iso_evaluate(model, data, .loss = &values[0], .metrics = &values[1]));
    ISO_TRY(iso_predict(model, data, .outputs = {predicted}));
    ISO_TRY(iso_graph_fingerprint(graph, &fingerprint));
    ISO_TRY(iso_variable_read(iso_model_variable(model, "hidden/bias"), bias, 5));
    if (iso_is_chief(ctx)) {
        const iso_shape *kernel = iso_variable_shape(iso_model_variable(model, "conv/kernel"));
        printf("shape -1 8 6 2 %d %d %d %d\n", (int)kernel->dim[0], (int)kernel->dim[1], (int)kernel->dim[2],
               (int)kernel->dim[3]);
        printf("%s %s\n", iso_model_value_name(model, 1), iso_model_value_name(model, 2));
        print_values("values", values, 3);
        print_values("bias", bias, 5);
        print_values("first", (double[]){predicted[0][0], predicted[0][1], predicted[0][2]}, 3);
        print_values("last",
                     (double[]){predicted[ROWS - 1][0], predicted[ROWS - 1][1], predicted[ROWS - 1][2]}, 3);
        printf("fingerprint %016" PRIX64 " %016" PRIX64 "\n", fingerprint.word[0], fingerprint.word[1]);
    }
    if (iso_layout_map_set(map, "a", "b") != ISO_INVALID)
        status = ISO_FAILED;
    else if (iso_is_chief(ctx))
        printf("%s\n", iso_error_message());
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx;
    iso_status status;
    for (int n = 1; n <= ROWS; n++) {
        for (int i = 1; i <= 8; i++)
            for (int j = 1; j <= 6; j++)
                for (int k = 1; k <= 2; k++)
                    images[n - 1][i - 1][j - 1][k - 1] = (float)((7 * n + 11 * i * k + 5 * j) % 64) / 64;
        for (int k = 0; k < 3; k++)
            targets[n - 1][k] = (float)(n * (3 + 2 * k) % 16) / 16;
    }
    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(train(ctx));
done:
    return iso_finish(ctx, status);
}
