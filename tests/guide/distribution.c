/* The Keras 3 distribution guide, as an Isogrid user would write it.
 * One process:      ./distribution
 * Eight processes:  mpirun -np 8 ./distribution        (same numbers)
 * Two hosts:        mpirun --hostfile hostfiles/two -np 8 ./distribution --mesh data=8,model=1
 */
#include <isogrid.h>

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1)); /* [batch, 28, 28, 1] */
    iso_tensor *y = iso_flatten(x);                                       /* [batch, 784] */
    y = iso_dense(y, 200, .no_bias = true, .activation = ISO_RELU, .name = "d1");
    y = iso_dropout(y, 0.4);
    y = iso_dense(y, 10, .activation = ISO_SOFTMAX, .name = "d2"); /* [batch, 10] */
    return iso_model_create(g, x, y); /* owns g; never NULL: the first error made while building stays in
                                         the model, and iso_compile returns it on every rank */
}

static iso_status train(iso_context *ctx, const char *mesh_spec)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *dist = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    double loss = 0;
    iso_status status = ISO_OK; /* ISO_TRY(call): status = call; on an error, goto done */

    ISO_TRY(iso_mesh_create(ctx, mesh_spec, &mesh)); /* "data=2,model=4": 8 slots on any ranks */

    /* Any weight whose whole path matches the regular expression is sharded so; all others are replicated. */
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(iso_layout_map_set(map, "d1/kernel", "-, model"));
    ISO_TRY(iso_layout_map_set(map, "d1/bias", "model")); /* d1 has none: the chief warns once, and
                                                             names the paths that come nearest */
    ISO_TRY(iso_layout_map_set(map, "d2/output", "data, -"));
    ISO_TRY(iso_model_parallel_create(map, &dist, .batch_axis = "data"));
    /* Data parallel instead: iso_data_parallel_create(mesh, &dist); with NULL for the mesh it takes every
     * slot there is. */

    ISO_TRY(iso_dataset_random(ctx, 128, &data, .shape = ISO_SHAPE(28, 28, 1), .targets = ISO_SHAPE(10)));
    ISO_TRY(iso_dataset_batch(data, 16)); /* the global batch */

    model = build(ctx);
    ISO_TRY(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = dist)); /* RMSprop, as Keras's default */
    ISO_TRY(iso_fit(model, data, .epochs = 3));
    ISO_TRY(iso_evaluate(model, data, .loss = &loss));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(dist);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status =
        iso_init(&argc, &argv, &ctx); /* begins MPI where it is needed and nobody has; takes --mesh and kin */
    if (status == ISO_OK)
        status = train(ctx, iso_option(ctx, "mesh", "data=2,model=4"));
    return iso_finish(ctx, status); /* prints the error once, naming its rank; the exit code */
}
