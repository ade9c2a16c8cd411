#include "tests/support/data_parallel.h"

iso_status data_parallel_begin(const char *axes, iso_context **ctx, iso_mesh **mesh,
                               iso_distribution **distribution)
{
    iso_status status = iso_init(NULL, NULL, ctx);
    if (status == ISO_OK)
        status = iso_mesh_create(*ctx, axes, mesh);
    if (status == ISO_OK)
        status = iso_data_parallel_create(*mesh, distribution);
    return status;
}

int data_parallel_end(iso_context *ctx, iso_mesh *mesh, iso_distribution *distribution, iso_status status)
{
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}

iso_status data_parallel_place(iso_context *ctx, const char *axes, placing how, iso_mesh **mesh,
                               iso_distribution **distribution)
{
    int rank_of_slot[16], slots = 0, ranks = iso_ranks(ctx);
    iso_mesh *abstract;
    iso_status status = iso_mesh_abstract(ctx, axes, &abstract);
    if (status != ISO_OK)
        return status;
    slots = iso_mesh_slots(abstract);
    iso_mesh_destroy(abstract);
    for (int s = 0; s < slots; s++)
        rank_of_slot[s] = how == IN_BLOCKS   ? s * ranks / slots
                          : how == SCATTERED ? (3 * s + 1) % ranks
                                             : ranks - 1;
    status = iso_mesh_create_on(ctx, axes, rank_of_slot, slots, mesh);
    return status == ISO_OK ? iso_data_parallel_create(*mesh, distribution) : status;
}
