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
