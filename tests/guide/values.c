/* DTensor's own words: values laid out on the mesh by hand, weights that tell their layout.
 * One process:      ./values
 * Three processes:  mpirun -np 3 ./values        (same text)
 */
#include <isogrid.h>

enum { N = 16 };

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(N));
    iso_tensor *y = iso_dense(x, 4, .activation = ISO_RELU, .name = "feature");
    return iso_model_create(g, x, iso_dense(y, 1, .name = "head"));
}

static iso_status show(iso_context *ctx, iso_mesh *mesh, iso_model *model)
{
    iso_layout *sharded = NULL, *replicated = NULL;
    iso_value *value = NULL, *whole = NULL;
    iso_variable *kernel = iso_model_variable(model, "feature/kernel");
    float host_array[N * N], local_rows[N * N];
    double host_kernel[N * 4] = {1};
    iso_box box;
    iso_status status = ISO_OK;

    ISO_TRY(iso_layout_create(mesh, "batch, -",
                              &sharded)); /* or iso_layout_batch_sharded(mesh, "batch", 2, &l) */
    ISO_TRY(iso_layout_replicated(mesh, 2, &replicated));
    ISO_TRY(iso_value_create(sharded, ISO_F32, ISO_SHAPE(N, N), &value));
    for (int slot = 0; slot < iso_mesh_slots(mesh); slot++) { /* ranks pass over the slots of others */
        ISO_TRY(iso_value_box(value, slot, &box));
        for (int64_t i = 0; i < iso_box_count(&box); i++)
            local_rows[i] = (float)(box.offset[0] + i / N);
        ISO_TRY(iso_value_pack(value, slot, local_rows)); /* dtensor.pack: this slot's part */
    }
    ISO_TRY(iso_value_fetch(value, host_array)); /* collective: the global array on every rank */
    ISO_TRY(
        iso_value_copy_to_mesh(value, host_array)); /* dtensor.copy_to_mesh: global, from each host's copy */
    ISO_TRY(iso_value_reshard(value, replicated, &whole));
    if (iso_is_chief(ctx)) {
        printf("the last row is row %g\n", host_array[N * N - 1]);
        iso_layout_print(iso_value_layout(whole), stdout);
        iso_layout_print(iso_variable_layout(kernel), stdout);
        iso_layout_visualize(sharded, ISO_SHAPE(N, N), stdout); /* jax.debug.visualize_array_sharding */
    }
    ISO_TRY(iso_variable_assign(kernel, host_kernel, N * 4)); /* global array, collective */
done:
    iso_value_destroy(whole);
    iso_value_destroy(value);
    iso_layout_destroy(replicated);
    iso_layout_destroy(sharded);
    return status;
}

static iso_status run(iso_context *ctx, const char *mesh_spec)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *dist = NULL;
    iso_model *model = build(ctx);
    iso_status status = ISO_OK;

    ISO_TRY(iso_mesh_create(ctx, mesh_spec, &mesh));
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(iso_layout_map_set(map, "feature/kernel", "-, model"));
    ISO_TRY(iso_model_parallel_create(map, &dist));
    ISO_TRY(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = dist));
    ISO_TRY(show(ctx, mesh, model));
done:
    iso_model_destroy(model);
    iso_distribution_destroy(dist);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = run(ctx, iso_option(ctx, "mesh", "batch=4,model=2"));
    return iso_finish(ctx, status);
}
