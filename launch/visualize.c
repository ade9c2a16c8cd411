/* isogrid visualize: shows which slot, rank and host holds which part of a tensor, as text or SVG. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/command_line.h"
#include "launch/train_impl.h"
#include "runtime/report/visualize.h"

typedef struct visualize_options {
    const char *shape, *layout, *mesh, *devices, *svg, *color;
    int64_t slots_per_rank, slots_per_host;
} visualize_options;

static const char *const colors[] = {"auto", "always", "never", NULL};

static const iso_argument table[] = {
    {"shape", ISO_ARGUMENT_TEXT, offsetof(visualize_options, shape), "N,...", "the tensor's shape", 0, 0,
     NULL},
    {"layout", ISO_ARGUMENT_TEXT, offsetof(visualize_options, layout), "LAYOUT",
     "one entry for each dimension: mesh axes joined by '+', '-' for replicated, such as 'data, -'; may end "
     "with '; partial(model)' or '; partial max(model)'",
     0, 0, NULL},
    {"mesh", ISO_ARGUMENT_TEXT, offsetof(visualize_options, mesh), "AXIS=N,...",
     "the grid of slots, such as data=2,model=4, of any size; default: a slot for each rank, "
     "in one process for each thread",
     0, 0, NULL},
    {"devices", ISO_ARGUMENT_TEXT, offsetof(visualize_options, devices), "RANK,...",
     "the rank of each slot, such as 0,2,1,3 or 0-3,0-3 or 0x4,1x4", 0, 0, NULL},
    {"slots-per-rank", ISO_ARGUMENT_COUNT, offsetof(visualize_options, slots_per_rank), "N",
     "without --devices: number of slots on each rank, in the mesh's order; default 1", 1, 0x1p31 - 1, NULL},
    {"slots-per-host", ISO_ARGUMENT_COUNT, offsetof(visualize_options, slots_per_host), "N",
     "number of slots on each host, in the order of their ranks; default: all on one host", 1, 0x1p31 - 1,
     NULL},
    {"svg", ISO_ARGUMENT_TEXT, offsetof(visualize_options, svg), "FILE",
     "writes the picture to a file instead; an existing file is replaced", 0, 0, NULL},
    {"color", ISO_ARGUMENT_CHOICE, offsetof(visualize_options, color), "WHEN",
     "default auto: on a terminal, unless the environment variable NO_COLOR is set", 0, 0, colors},
};
enum { ROWS = sizeof table / sizeof table[0] };

static void visualize_help(iso_text *text)
{
    iso_arguments_help(table, ROWS, text);
}

static iso_status visualize_read_options(int argc, char *const *argv, visualize_options *options,
                                         iso_shape *shape)
{
    iso_status status = iso_arguments_parse(table, ROWS, argc, argv, options);
    if (status == ISO_OK && (!options->shape || !options->layout))
        status = iso_error(ISO_INVALID, "%s is missing; see `isogrid visualize --help`",
                           options->shape ? "--layout" : "--shape");
    if (status == ISO_OK && options->devices && options->slots_per_rank)
        status = iso_error(ISO_INVALID, "--devices and --slots-per-rank: give one of them");
    if (status == ISO_OK && !options->devices && !options->slots_per_rank)
        options->slots_per_rank = 1;
    if (status == ISO_OK && options->slots_per_rank && options->slots_per_host % options->slots_per_rank != 0)
        status = iso_error(ISO_INVALID, "--slots-per-host %lld is not a multiple of --slots-per-rank %lld",
                           (long long)options->slots_per_host, (long long)options->slots_per_rank);
    if (status == ISO_OK)
        status = iso_argument_shape("--shape", options->shape, 0, ISO_MAX_RANK, shape);
    return status;
}

/* Whether --svg can be written. On the chief alone. */
static iso_status visualize_check_svg(const char *path)
{
    return path ? iso_output_path_check("--svg ", path, ISO_TARGET_REPLACED) : ISO_OK;
}

/* Draws on the chief alone. */
static iso_status visualize_draw(const visualize_options *options, const iso_layout *layout,
                                 const iso_shape *shape)
{
    iso_visualize_options how = {.slots_per_rank = options->slots_per_rank,
                                 .slots_per_host = options->slots_per_host};
    for (int i = 0; options->color && colors[i]; i++)
        if (!strcmp(options->color, colors[i]))
            how.colors = i == 0 ? ISO_COLORS_AUTO : i == 1 ? ISO_COLORS_ALWAYS : ISO_COLORS_NEVER;
    return options->svg ? iso_layout_visualize_svg(layout, *shape, options->svg, &how, sizeof how)
                        : iso_layout_visualize_with(layout, *shape, stdout, &how, sizeof how);
}

static iso_status visualize_run(iso_context *ctx, int argc, char *const *argv)
{
    visualize_options options = {.shape = NULL};
    iso_shape shape;
    iso_mesh *mesh = NULL;
    iso_layout *layout = NULL;
    iso_status status;
    ISO_TRY(visualize_read_options(argc, argv, &options, &shape));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? visualize_check_svg(options.svg) : ISO_OK));
    ISO_TRY(iso_mesh_abstract_on(ctx, options.mesh ? options.mesh : "data=*", options.devices, &mesh));
    ISO_TRY(iso_layout_create(mesh, options.layout, &layout));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? visualize_draw(&options, layout, &shape) : ISO_OK));
done:
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
    return status;
}

const iso_command iso_command_visualize = {"visualize", "--shape N,... --layout LAYOUT [OPTION...]",
                                           "shows which slot holds which part of a tensor",
                                           .run = visualize_run, .help = visualize_help};
