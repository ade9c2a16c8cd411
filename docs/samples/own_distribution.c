/* A distribution of the program's own: every kernel is sharded over the second axis of the mesh if there is one
 * that divides its last dimension. */
#include <isogrid.h>
#include <stdio.h>
#include <string.h>

/* Called for each variable, on every rank, with the same paths in the same order. What is left empty is
 * replicated. */
static iso_status shard_kernels(void *arg, const char *path, const iso_shape *shape, char *layout,
                                size_t size)
{
    const iso_mesh *mesh = arg;
    const char *name = strrchr(path, '/');
    if (iso_mesh_axes(mesh) < 2 || !name || strcmp(name, "/kernel") != 0 ||
        shape->dim[shape->rank - 1] % iso_mesh_axis_size(mesh, 1) != 0)
        return ISO_OK;
    for (int d = 1; d < shape->rank; d++)
        strncat(layout, "-, ", size - strlen(layout) - 1);
    strncat(layout, iso_mesh_axis_name(mesh, 1), size - strlen(layout) - 1); /* "-, model" */
    return ISO_OK;
}

/* The rows of inputs along the first axis, everything else whole. */
static iso_status split_rows(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)path;
    snprintf(layout, size, "%s", iso_mesh_axis_name(arg, 0));
    for (int d = 1; d < shape->rank; d++)
        strncat(layout, ", -", size - strlen(layout) - 1);
    return ISO_OK;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_mesh_create(ctx, iso_option(ctx, "mesh", "data=2,model=2"), &mesh));
    ISO_TRY(iso_distribution_create(mesh, &distribution, .data = split_rows, .variable = shard_kernels,
                                    .arg = mesh));
    ISO_TRY(iso_dataset_random(ctx, 64, &data, .shape = ISO_SHAPE(28, 28, 1), .classes = 10));
    ISO_TRY(iso_dataset_batch(data, 16));

    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_tensor *y = iso_dense(iso_flatten(x), 200, .activation = ISO_RELU); /* 200 columns: sharded */
    model = iso_model_create(g, x, iso_dense(y, 10));
    ISO_TRY(iso_compile(model, .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, .distribution = distribution));
    ISO_TRY(iso_fit(model, data, .epochs = 1));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
