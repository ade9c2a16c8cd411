/* Pictures of layouts in a terminal. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/terminal.h"
#include "runtime/base/thread_modes.h"
#include "runtime/report/visualize_impl.h"

enum {
    MOST_ROWS = 12,
    MOST_COLUMNS = 16,
    LEAST_WIDTH = 20,
    DEFAULT_WIDTH = 80,
    DEFAULT_HEIGHT = 24,
    LINES = 3
};

/* A row or column of the grid: a part, or "..." for those that are left out. */
typedef struct track {
    int part; /* -1: left out */
    int size; /* characters or lines, without the border */
    char label[48];
} track;

typedef struct grid {
    const iso_picture *picture;
    bool full; /* cells show ranks and hosts too */
    bool colors;
    int tracks[2], margin;
    track *track[2];
    iso_text *out;
} grid;

/* ---- the terminal ---- */

static bool wants_colors(FILE *out, const iso_visualize_options *options)
{
    return options->colors == ISO_COLORS_AUTO ? iso_wants_colors(out) : options->colors == ISO_COLORS_ALWAYS;
}

static int line_width(FILE *out, const iso_visualize_options *options)
{
    int width = options->width > 0 ? options->width : iso_terminal_width(out);
    if (width <= 0)
        width = DEFAULT_WIDTH;
    return width < LEAST_WIDTH ? LEAST_WIDTH : width;
}

/* ---- the text of cells ---- */

/* Line number `line` of a cell. */
static void cell_line(const iso_picture_cell *cell, bool full, int line, char *text, size_t size)
{
    if (!full)
        snprintf(text, size, "%s", cell->slots);
    else if (line == 0)
        snprintf(text, size, "%s %s", cell->several_slots ? "slots" : "slot", cell->slots);
    else if (line == 1)
        snprintf(text, size, "%s %s", cell->several_ranks ? "ranks" : "rank", cell->ranks);
    else
        snprintf(text, size, "%s %s", cell->several_hosts ? "hosts" : "host", cell->hosts);
}

static int lines_of(const grid *g)
{
    return g->full ? LINES : 1;
}

/* The longest line of the cells of a column. */
static int column_needs(const grid *g, int column)
{
    size_t most = 1;
    for (int s = 0; s < g->picture->n_shown_slices; s++)
        for (int r = 0; r < g->picture->side[0].shown; r++)
            for (int line = 0; line < lines_of(g); line++) {
                char text[80];
                cell_line(iso_picture_at(g->picture, s, r, column), g->full, line, text, sizeof text);
                most = strlen(text) > most ? strlen(text) : most;
            }
    return (int)most;
}

/* ---- sizes ---- */

static iso_status list_tracks(grid *g, int direction)
{
    const iso_picture_side *side = &g->picture->side[direction];
    track *tracks = iso_new((2 * (size_t)side->shown + 1) * sizeof *tracks);
    int count = 0;
    if (!tracks)
        return iso_no_memory("the picture of a layout");
    for (int k = 0; k < side->shown; k++) {
        const iso_picture_part *part = &side->part[k];
        if (part->skipped)
            tracks[count++] = (track){.part = -1, .label = "..."};
        tracks[count].part = k;
        if (side->dim >= 0)
            snprintf(tracks[count].label, sizeof tracks[count].label, "%" PRId64 ":%" PRId64, part->begin,
                     part->begin + part->count);
        count++;
    }
    g->track[direction] = tracks;
    g->tracks[direction] = count;
    return ISO_OK;
}

static int least_size(const grid *g, int direction, const track *t)
{
    if (direction == 0)
        return t->part < 0 ? 1 : lines_of(g);
    int label = (int)strlen(t->label), needs = t->part < 0 ? 3 : column_needs(g, t->part);
    return (label > needs ? label : needs) + 2;
}

/* The size of a track in this proportion to its part, but at least the size of its text. */
static int size_at(const iso_picture_side *side, const track *t, double scale)
{
    int wanted = t->part < 0 ? 0 : (int)(scale * (double)side->part[t->part].count + 0.5);
    return wanted > t->size ? wanted : t->size;
}

static int sum_of_sizes(const grid *g, int direction, double scale)
{
    int total = 0;
    for (int i = 0; i < g->tracks[direction]; i++)
        total += size_at(&g->picture->side[direction], &g->track[direction][i], scale);
    return total;
}

/* Sizes in proportion to the parts, such that the text fits everywhere. If the result would be too large,
 * the proportion is reduced, down to what the text needs. Returns the sum. */
static int scale_tracks(grid *g, int direction, int room)
{
    const iso_picture_side *side = &g->picture->side[direction];
    double scale = 0;
    for (int i = 0; i < g->tracks[direction]; i++) {
        track *t = &g->track[direction][i];
        t->size = least_size(g, direction, t);
        double needed = t->part < 0 ? 0 : t->size / (double)side->part[t->part].count;
        scale = needed > scale ? needed : scale;
    }
    int least = sum_of_sizes(g, direction, 0);
    while (sum_of_sizes(g, direction, scale) > (room > least ? room : least))
        scale *= 0.95;
    for (int i = 0; i < g->tracks[direction]; i++)
        g->track[direction][i].size = size_at(side, &g->track[direction][i], scale);
    return sum_of_sizes(g, direction, 0);
}

/* ---- lines ---- */

static void repeat(iso_text *out, char c, int count)
{
    for (int i = 0; i < count; i++)
        iso_text_add(out, "%c", c);
}

/* Ends a line, without trailing spaces. */
static void end_line(iso_text *out)
{
    while (out->length > 0 && out->data[out->length - 1] == ' ')
        out->data[--out->length] = 0;
    iso_text_add(out, "\n");
}

static void add_centred(iso_text *out, const char *text, int width)
{
    int length = (int)strlen(text), before = (width - length) / 2;
    repeat(out, ' ', before);
    iso_text_add(out, "%s", text);
    repeat(out, ' ', width - length - before);
}

static void add_header(const grid *g)
{
    if (g->picture->side[1].dim < 0)
        return;
    repeat(g->out, ' ', g->margin + 1);
    for (int c = 0; c < g->tracks[1]; c++) {
        add_centred(g->out, g->track[1][c].label, g->track[1][c].size);
        iso_text_add(g->out, " ");
    }
    end_line(g->out);
}

static void add_border(const grid *g)
{
    repeat(g->out, ' ', g->margin);
    for (int c = 0; c < g->tracks[1]; c++) {
        iso_text_add(g->out, "+");
        repeat(g->out, '-', g->track[1][c].size);
    }
    iso_text_add(g->out, "+\n");
}

/* Black on a light colour; neighbours never have the same. */
static int color_of(const iso_picture *picture, int slice, int row, int column)
{
    static const int colors[] = {153, 223, 151, 217, 189, 229, 152, 180, 183, 216, 195};
    enum { COLORS = sizeof colors / sizeof colors[0] };
    int columns = picture->side[1].shown % COLORS == 0 ? picture->side[1].shown + 1 : picture->side[1].shown;
    return colors[(slice + row * columns + column) % COLORS];
}

static void add_cell_line(const grid *g, int slice, const track *row, const track *column, int line)
{
    char text[80] = "";
    int lines = lines_of(g), before = (row->size - lines) / 2;
    if (row->part < 0 || column->part < 0) {
        if (line == row->size / 2)
            snprintf(text, sizeof text, "...");
        add_centred(g->out, text, column->size);
        return;
    }
    if (line >= before && line < before + lines)
        cell_line(iso_picture_at(g->picture, slice, row->part, column->part), g->full, line - before, text,
                  sizeof text);
    if (g->colors)
        iso_text_add(g->out, "\033[38;5;16;48;5;%dm", color_of(g->picture, slice, row->part, column->part));
    add_centred(g->out, text, column->size);
    if (g->colors)
        iso_text_add(g->out, "\033[0m");
}

static void add_row(const grid *g, int slice, const track *row)
{
    for (int line = 0; line < row->size; line++) {
        const char *label = line == row->size / 2 ? row->label : "";
        iso_text_add(g->out, "%*s", g->margin - (g->margin > 0), label);
        repeat(g->out, ' ', g->margin > 0);
        for (int c = 0; c < g->tracks[1]; c++) {
            iso_text_add(g->out, "|");
            add_cell_line(g, slice, row, &g->track[1][c], line);
        }
        iso_text_add(g->out, "|\n");
    }
}

static void add_grid(const grid *g, int slice)
{
    add_header(g);
    add_border(g);
    for (int r = 0; r < g->tracks[0]; r++) {
        add_row(g, slice, &g->track[0][r]);
        add_border(g);
    }
}

/* ---- a picture ---- */

static void free_grid(grid *g)
{
    for (int i = 0; i < 2; i++) {
        iso_free(g->track[i]);
        g->track[i] = NULL;
    }
}

/* Lays the picture out with full cells, or with short ones if these do not fit. Returns the width. */
static int lay_out(grid *g, int width)
{
    int total = 0;
    g->margin = 0;
    for (int r = 0; r < g->tracks[0]; r++)
        if ((int)strlen(g->track[0][r].label) + 1 > g->margin && g->picture->side[0].dim >= 0)
            g->margin = (int)strlen(g->track[0][r].label) + 1;
    for (int full = 1; full >= 0; full--) {
        g->full = full;
        total = g->margin + g->tracks[1] + 1;
        total += scale_tracks(g, 1, width - total);
        if (total <= width)
            break;
    }
    scale_tracks(g, 0, DEFAULT_HEIGHT);
    return total;
}

static void add_picture(const grid *g)
{
    const iso_picture *picture = g->picture;
    iso_picture_title(picture, g->out);
    iso_text_add(g->out, "\n");
    for (int s = 0; s < picture->n_shown_slices && g->tracks[0] && g->tracks[1]; s++) {
        if (picture->shape.rank > 2) {
            iso_picture_slice_title(picture, s, g->out);
            iso_text_add(g->out, "\n");
        }
        add_grid(g, s);
    }
    iso_picture_notes(picture, !g->full, g->out);
}

/* Draws as many columns as fit into the width. */
static iso_status visualize_text_draw(const iso_layout *layout, const iso_shape *shape,
                                      const iso_visualize_options *options, int width, bool colors,
                                      iso_text *out)
{
    iso_status status = ISO_OK;
    for (int columns = MOST_COLUMNS;; columns = columns > 8 ? columns - 2 : columns - 1) {
        grid g = {.colors = colors, .out = out};
        iso_picture *picture = NULL;
        status = iso_picture_create(layout, shape, options, MOST_ROWS, columns, &picture);
        g.picture = picture;
        if (status == ISO_OK)
            status = list_tracks(&g, 0);
        if (status == ISO_OK)
            status = list_tracks(&g, 1);
        bool done = status != ISO_OK || lay_out(&g, width) <= width || columns == 2;
        if (done && status == ISO_OK)
            add_picture(&g);
        free_grid(&g);
        iso_picture_destroy(picture);
        if (done)
            return status;
    }
}

iso_status iso_layout_visualize_with(const iso_layout *layout, iso_shape shape, FILE *out,
                                     const iso_visualize_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(layout, out);
    iso_visualize_options own = {0};
    iso_text text = {0};
    iso_options_copy(&own, sizeof own, options, size);
    iso_status status = ISO_OK;
    ISO_TRY(visualize_text_draw(layout, &shape, &own, line_width(out, &own), wants_colors(out, &own), &text));
    if (text.failed)
        ISO_TRY(iso_no_memory("the picture of a layout"));
    fputs(iso_text_get(&text), out);
done:
    iso_text_free(&text);
    return status;
}

iso_status iso_layout_visualize(const iso_layout *layout, iso_shape shape, FILE *out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(layout, out);
    iso_visualize_options options = {0};
    return iso_layout_visualize_with(layout, shape, out, &options, sizeof options);
}
