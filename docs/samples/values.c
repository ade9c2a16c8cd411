/* Values laid out on a mesh by hand: packed slot by slot, resharded, fetched. Any number of processes prints
 * the same. */
#include <isogrid.h>

static iso_status sums(iso_context *ctx, iso_mesh *mesh)
{
    iso_layout *partial = NULL, *rows = NULL;
    iso_value *products = NULL, *sum = NULL;
    float part[4 * 6], whole[4 * 6];
    iso_status status;
    ISO_TRY(iso_layout_create(mesh, "-, -; partial(model)", &partial));
    ISO_TRY(iso_layout_batch_sharded(mesh, "data", 2, &rows)); /* "data, -" */
    ISO_TRY(iso_value_create(partial, ISO_F32, ISO_SHAPE(4, 6), &products));
    for (int slot = 0; slot < iso_mesh_slots(mesh); slot++) {
        for (int i = 0; i < 4 * 6; i++)
            part[i] = (float)(slot % 4 * i);
        ISO_TRY(iso_value_pack(products, slot, part)); /* does nothing if another rank hosts the slot */
    }
    ISO_TRY(iso_value_reshard(products, rows, &sum));
    ISO_TRY(iso_value_fetch(sum, whole)); /* on every rank */
    if (iso_is_chief(ctx)) {
        printf("the last element is %g\n", whole[4 * 6 - 1]);
        iso_layout_visualize(iso_value_layout(products), iso_value_shape(products), stdout);
        iso_layout_visualize(iso_value_layout(sum), iso_value_shape(sum), stdout);
    }
done:
    iso_value_destroy(sum);
    iso_value_destroy(products);
    iso_layout_destroy(rows);
    iso_layout_destroy(partial);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_mesh *mesh = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = iso_mesh_create(ctx, "data=2,model=4", &mesh);
    if (status == ISO_OK)
        status = sums(ctx, mesh);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
