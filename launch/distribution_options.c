/* Mesh, layouts and distribution from options. */
#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/spmd/distribution_json.h"

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

static const char *choice_text(const iso_distribution_setup *setup, const char *key)
{
    return json_string_value(json_object_get(setup->choice, key));
}

static iso_status distribute_as_chosen(iso_context *ctx, iso_distribution_setup *setup)
{
    const json_t *rules = json_object_get(setup->choice, "distribution");
    return iso_agree(ctx, iso_distribution_from_json(setup->mesh, choice_text(setup, "name"), rules,
                                                     &setup->distribution));
}

static iso_status distribute(iso_context *ctx, const iso_train_options *options,
                             iso_distribution_setup *setup)
{
    iso_status status;
    if (setup->choice)
        return distribute_as_chosen(ctx, setup);
    if (!options->layouts.count && !options->layout_file)
        return iso_data_parallel_create(setup->mesh, &setup->distribution);
    ISO_TRY(iso_layout_map_create(setup->mesh, &setup->map));
    iso_layout_map_set_strict(setup->map, options->strict_layouts);
    ISO_TRY(iso_agree(ctx, set_keys(options, setup->map)));
    if (options->layout_file)
        ISO_TRY(iso_layout_map_read(setup->map, options->layout_file));
    ISO_TRY(
        iso_model_parallel_create(setup->map, &setup->distribution, .batch_axis = NULL)); /* the first axis */
done:
    return status;
}

iso_status iso_distribution_setup_lay_out(iso_context *ctx, const iso_train_options *options,
                                          iso_distribution_setup *setup)
{
    iso_status status = distribute(ctx, options, setup);
    if (setup->choice)
        return status; /* the rules contain the level */
    return status == ISO_OK ? iso_distribution_set_zero(setup->distribution, (int)options->zero) : status;
}

iso_status iso_distribution_setup_make(iso_context *ctx, const iso_train_options *options,
                                       iso_distribution_setup *setup)
{
    const char *chosen = setup->choice ? choice_text(setup, "mesh") : options->mesh;
    iso_status status = iso_mesh_create(ctx, chosen ? chosen : "data=*", &setup->mesh);
    return status == ISO_OK ? iso_distribution_setup_lay_out(ctx, options, setup) : status;
}

void iso_distribution_setup_free(iso_distribution_setup *setup)
{
    iso_distribution_destroy(setup->distribution);
    iso_layout_map_destroy(setup->map);
    iso_mesh_destroy(setup->mesh);
    json_decref(setup->choice);
}
