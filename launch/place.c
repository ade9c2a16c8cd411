/* Mesh, layouts and distribution from options. */
#include "collectives/control/control.h"
#include "launch/train_impl.h"

static iso_status set_keys(const iso_train_options *options, iso_layout_map *map)
{
    char key[512];
    const char *layout;
    iso_status status = ISO_OK;
    for (int i = 0; i < options->layouts.count; i++) {
        ISO_TRY(iso_layout_option_split(options->layouts.item[i], key, sizeof key, &layout));
        ISO_TRY(iso_layout_map_set(map, key, layout));
    }
done:
    return status;
}

static iso_status distribute(iso_context *ctx, const iso_train_options *options, iso_place *place)
{
    iso_status status;
    if (!options->layouts.count && !options->layout_file)
        return iso_data_parallel_create(place->mesh, &place->distribution);
    ISO_TRY(iso_layout_map_create(place->mesh, &place->map));
    iso_layout_map_set_strict(place->map, options->strict_layouts);
    ISO_TRY(iso_agree(ctx, set_keys(options, place->map)));
    if (options->layout_file)
        ISO_TRY(iso_layout_map_read(place->map, options->layout_file));
    ISO_TRY(
        iso_model_parallel_create(place->map, &place->distribution, .batch_axis = NULL)); /* the first axis */
done:
    return status;
}

iso_status iso_place_lay_out(iso_context *ctx, const iso_train_options *options, iso_place *place)
{
    iso_status status = distribute(ctx, options, place);
    return status == ISO_OK ? iso_distribution_set_zero(place->distribution, (int)options->zero) : status;
}

iso_status iso_place_make(iso_context *ctx, const iso_train_options *options, iso_place *place)
{
    iso_status status = iso_mesh_create(ctx, options->mesh ? options->mesh : "data=*", &place->mesh);
    return status == ISO_OK ? iso_place_lay_out(ctx, options, place) : status;
}

void iso_place_free(iso_place *place)
{
    iso_distribution_destroy(place->distribution);
    iso_layout_map_destroy(place->map);
    iso_mesh_destroy(place->mesh);
}
