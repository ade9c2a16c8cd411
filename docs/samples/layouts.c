/* One network on a mesh of two axes: rows of the batch along "data", columns of the first layer along
 * "model". */
#include <isogrid.h>

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_tensor *y = iso_dense(iso_flatten(x), 200, .activation = ISO_RELU, .name = "d1");
    return iso_model_create(g, x, iso_dense(y, 10, .name = "d2"));
}

static iso_status train(iso_layout_map *map, iso_dataset *data, iso_model *model)
{
    iso_distribution *distribution = NULL;
    iso_status status;

    ISO_TRY(iso_layout_map_set(map, "d1/kernel", "-, model")); /* [784, 200]: its columns */
    ISO_TRY(iso_layout_map_set(map, "d1/bias", "model"));      /* [200] */
    ISO_TRY(iso_layout_map_set(map, "d2/kernel", "model, -")); /* [200, 10]: its rows */
    ISO_TRY(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    ISO_TRY(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = distribution));
    ISO_TRY(iso_fit(model, data, .epochs = 2));
done:
    iso_model_destroy(model); /* before the distribution that it uses */
    iso_distribution_destroy(distribution);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_dataset *data = NULL;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(
        iso_mesh_create(ctx, iso_option(ctx, "mesh", "data=2,model=2"), &mesh)); /* four slots on any ranks */
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(iso_dataset_random(ctx, 128, &data, .shape = ISO_SHAPE(28, 28, 1), .targets = ISO_SHAPE(10)));
    ISO_TRY(iso_dataset_batch(data, 16));
    ISO_TRY(train(map, data, build(ctx)));
done:
    iso_dataset_destroy(data);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
