/* Mesh, layouts and distribution from options. */
#include <inttypes.h>
#include <stdio.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/backend/backend.h"
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

/* The fewest slots whose largest part of the rows is as small as with a slot for each thread: more slots would only
 * exchange more. Threads that are left compute parts of ops. */
static int64_t slots_for(int64_t rows, int64_t threads)
{
    int64_t part = (rows + threads - 1) / threads;
    return (rows + part - 1) / part;
}

void iso_default_mesh_write(iso_context *ctx, int64_t rows, char *text, size_t size)
{
    bool computed = iso_ranks(ctx) > 1 || iso_slots_stated() || iso_option(ctx, "devices", NULL) ||
                    iso_context_backend(ctx)->devices;
    if (computed)
        snprintf(text, size, "data=*");
    else
        snprintf(text, size, "data=%" PRId64, slots_for(rows, iso_threads(ctx)));
}

iso_status iso_distribution_setup_make(iso_context *ctx, const iso_train_options *options,
                                       iso_distribution_setup *setup)
{
    char spec[32];
    iso_default_mesh_write(ctx, options->batch_size, spec, sizeof spec);
    const char *chosen = setup->choice ? choice_text(setup, "mesh") : options->mesh;
    iso_status status = iso_mesh_create(ctx, chosen ? chosen : spec, &setup->mesh);
    return status == ISO_OK ? iso_distribution_setup_lay_out(ctx, options, setup) : status;
}

void iso_distribution_setup_free(iso_distribution_setup *setup)
{
    iso_distribution_destroy(setup->distribution);
    iso_layout_map_destroy(setup->map);
    iso_mesh_destroy(setup->mesh);
    json_decref(setup->choice);
}
