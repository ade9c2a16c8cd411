/* A network of blocks and tables of layers, with layouts for weights, outputs, the input and an optimizer's
 * slots; from a file if one is named. */
#include <isogrid.h>

/* A block: a function that builds layers under a name, as a subclassed model of Keras does. */
static iso_tensor *block(iso_tensor *x, const char *name, int64_t units)
{
    iso_name_scope_begin(iso_tensor_graph(x), name);
    x = iso_dense(x, units, .no_bias = true);          /* the variable "encoder/dense/kernel" */
    x = iso_relu(iso_batch_norm(x));                   /* "encoder/batch_normalization/gamma", ... */
    return iso_name_scope_end(iso_tensor_graph(x), x); /* layouts find it as "encoder/output" */
}

/* A table: Keras's Sequential. The second layer sets the layouts of its own weights. */
static const iso_layer_row head[] = ISO_LAYERS(ISO_LAYER(dropout, 0.1),
                                               ISO_LAYER(dense, 32, .activation = ISO_RELU, .name = "hidden",
                                                         .kernel_layout = "-, model", .bias_layout = "model"),
                                               ISO_LAYER(dense, 10, .name = "logits"));

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "features", ISO_F32, ISO_SHAPE(40));
    iso_tensor *y = block(block(x, "encoder", 64), "middle", 48);
    return iso_model_create(g, x, iso_sequential_rows(y, head)); /* [batch, 10] */
}

static iso_status lay_out(iso_layout_map *map, const char *file)
{
    iso_status status;
    if (file)
        return iso_layout_map_read(map, file);
    ISO_TRY(iso_layout_map_set(map, "features/output", "data, model"));   /* the input: rows and columns */
    ISO_TRY(iso_layout_map_set(map, "encoder/dense/kernel", "model, -")); /* [40, 64]: its rows */
    ISO_TRY(iso_layout_map_set(map, "encoder/output", "data, -"));        /* whole from here on */
    ISO_TRY(iso_layout_map_set(map, "optimizer:middle/.*kernel/.*",
                               "data, -")); /* Adam's momentum and velocity */
    iso_layout_map_set_strict(map, true);   /* a key that matches nothing is an error */
done:
    return status;
}

static iso_status train(iso_context *ctx, iso_layout_map *map, iso_model *model)
{
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_status status;
    ISO_TRY(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    ISO_TRY(iso_dataset_random(ctx, 128, &data, .shape = ISO_SHAPE(40), .classes = 10));
    ISO_TRY(iso_dataset_batch(data, 16));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .distribution = distribution));
    ISO_TRY(iso_fit(model, data, .epochs = 2));
done:
    iso_model_destroy(model); /* before the distribution that it uses */
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_mesh_create(ctx, iso_option(ctx, "mesh", "data=2,model=2"), &mesh));
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(lay_out(map, argc > 1 ? argv[1] : NULL));
    ISO_TRY(train(ctx, map, build(ctx)));
done:
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
