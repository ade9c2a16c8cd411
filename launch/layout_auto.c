/* isogrid train --layout auto: chooses the layouts of a run. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/plan_impl.h"
#include "runtime/backend/backend.h"
#include "runtime/spmd/distribution_json.h"

static iso_status search(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                         json_t **choice)
{
    iso_plan_options plan = {.train = *options, .suggest = true, .row = *row};
    iso_mesh *mesh = NULL;
    iso_status status;
    ISO_TRY(iso_mesh_create(ctx, options->mesh ? options->mesh : "data=*", &mesh));
    plan.slots = options->mesh ? 0 : iso_mesh_slots(mesh);
    plan.slots_per_host = iso_mesh_most_slots_of_host(mesh);
    ISO_TRY(iso_layouts_choose(ctx, &plan, choice));
done:
    iso_mesh_destroy(mesh);
    return status;
}

/* The layouts with which a checkpoint was written keep the bits of its run, also on fewer hosts. */
static iso_status take_stored(const iso_train_options *options, const iso_resumption *from, json_t **choice)
{
    const char *path = iso_saved_file_path(from->file);
    iso_text reason = {0}, name = {0};
    if (!json_is_object(from->distribution))
        return iso_error(
            ISO_INVALID,
            "--layout auto takes the layouts that are stored in the checkpoint, and %s, of an older "
            "version, has none: give --layout or --layout-file as its run did, or begin anew (--resume "
            "never, or without --checkpoint no --resume)",
            path);
    iso_text_add(&reason, "those of %s", path);
    iso_text_add(&name, "the layouts of %s, which --layout auto takes%s%s", path,
                 options->mesh ? ", on --mesh " : "", options->mesh ? options->mesh : "");
    *choice =
        json_pack("{s:s, s:s, s:s, s:O}", "mesh", options->mesh ? options->mesh : from->mesh, "reason",
                  iso_text_get(&reason), "name", iso_text_get(&name), "distribution", from->distribution);
    iso_text_free(&reason);
    iso_text_free(&name);
    return *choice ? ISO_OK : iso_no_memory("the layouts of %s", path);
}

iso_status iso_distribution_setup_choose(iso_context *ctx, const iso_train_options *options,
                                         const iso_shape *row, const iso_resumption *from,
                                         iso_distribution_setup *setup)
{
    if (from->file)
        return iso_agree(ctx, take_stored(options, from, &setup->choice));
    return search(ctx, options, row, &setup->choice);
}

static bool has_hint(iso_context *ctx, const iso_train_options *options, const iso_mesh *mesh)
{
    return options->verbose > 0 && iso_hosts(ctx) == 1 && iso_mesh_slots(mesh) > 1 &&
           strcmp(iso_context_backend(ctx)->name, "cpu") == 0;
}

static bool has_layouts_of_its_own(const iso_train_options *options, const iso_resumption *from)
{
    return options->layout_auto || options->layouts.count || options->layout_file || options->zero > 1 ||
           from->mesh || from->file;
}

void iso_layouts_print_hint(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                            const iso_resumption *from, const iso_mesh *mesh)
{
    iso_plan_options plan = {.train = *options, .suggest = true, .row = *row};
    iso_text hint = {0};
    if (!has_hint(ctx, options, mesh) || has_layouts_of_its_own(options, from))
        return;
    plan.slots_per_host = iso_mesh_slots(mesh);
    plan.train.time = plan.train.network = NULL;
    if (iso_layouts_hint(ctx, &plan, iso_mesh_text(mesh), &hint) != ISO_OK) {
        iso_text_free(&hint);
        iso_text_add(&hint, "others could not be compared with it: %s", iso_error_message());
    }
    if (hint.length && iso_is_chief(ctx))
        printf("layouts: data parallel; %s\n", iso_text_get(&hint));
    iso_text_free(&hint);
}
