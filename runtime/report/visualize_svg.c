/* Pictures of layouts as SVG files: to scale, with a tooltip that describes each cell in full. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/thread_modes.h"
#include "runtime/report/visualize_impl.h"

enum { MOST_SHOWN = 32, MARGIN = 16, LINE = 18, SKIPPED = 28 };

typedef struct drawing {
    const iso_picture *picture;
    double scale[2], extent[2]; /* of rows and columns: pixels per element, pixels in all */
    double left, top;           /* of the grid that is drawn */
    double width;               /* of the widest line of text so far */
    iso_text *out;
} drawing;

/* ---- text ---- */

static void add_escaped(iso_text *out, const char *text)
{
    for (; *text; text++)
        if (*text == '&' || *text == '<' || *text == '>')
            iso_text_add(out, "%s", *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : "&gt;");
        else
            iso_text_add(out, "%c", *text);
}

static void add_words(drawing *d, double x, double y, double size, const char *anchor, const char *words)
{
    iso_text_add(d->out, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.2f\" text-anchor=\"%s\">", x, y, size,
                 anchor);
    add_escaped(d->out, words);
    iso_text_add(d->out, "</text>\n");
}

/* A line of text at the left edge, below what is drawn. */
static void add_line(drawing *d, const char *words)
{
    double width = 2 * MARGIN + 7.3 * (double)strlen(words);
    d->width = width > d->width ? width : d->width;
    d->top += LINE;
    add_words(d, MARGIN, d->top, 12, "start", words);
}

static void add_lines(drawing *d, const char *text)
{
    char line[512];
    while (*text) {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        add_line(d, line);
        text += length + (text[length] == '\n');
    }
}

/* ---- sizes ---- */

/* The largest of the shown parts gets `largest` pixels, unless all of them together would then exceed
 * `most`. */
static void choose_scale(drawing *d, int direction, double largest, double most)
{
    const iso_picture_side *side = &d->picture->side[direction];
    int64_t longest = 1, total = 0;
    double skipped = 0;
    for (int k = 0; k < side->shown; k++) {
        longest = side->part[k].count > longest ? side->part[k].count : longest;
        total += side->part[k].count;
        skipped += side->part[k].skipped ? SKIPPED : 0;
    }
    double scale = largest / (double)longest;
    d->scale[direction] = scale * (double)total > most ? most / (double)total : scale;
    d->extent[direction] = d->scale[direction] * (double)total + skipped;
}

/* The position at which a part begins. */
static double position_of(const drawing *d, int direction, int part)
{
    const iso_picture_side *side = &d->picture->side[direction];
    double at = 0;
    for (int k = 0; k <= part; k++) {
        at += side->part[k].skipped ? SKIPPED : 0;
        at += k < part ? d->scale[direction] * (double)side->part[k].count : 0;
    }
    return at;
}

static double size_of(const drawing *d, int direction, int part)
{
    return d->scale[direction] * (double)d->picture->side[direction].part[part].count;
}

/* Room for the ranges of rows. */
static double left_of(const iso_picture *picture)
{
    const iso_picture_side *side = &picture->side[0];
    size_t longest = 0;
    for (int k = 0; k < side->shown && side->dim >= 0; k++) {
        char label[64];
        int length = snprintf(label, sizeof label, "%" PRId64 ":%" PRId64, side->part[k].begin,
                              side->part[k].begin + side->part[k].count);
        longest = (size_t)length > longest ? (size_t)length : longest;
    }
    return MARGIN + 6.2 * (double)longest + (longest ? 6 : 0);
}

/* ---- cells ---- */

static void visualize_svg_describe(const iso_picture_cell *cell, char lines[3][80])
{
    snprintf(lines[0], 80, "%s %s", cell->several_slots ? "slots" : "slot", cell->slots);
    snprintf(lines[1], 80, "%s %s", cell->several_ranks ? "ranks" : "rank", cell->ranks);
    snprintf(lines[2], 80, "%s %s", cell->several_hosts ? "hosts" : "host", cell->hosts);
}

/* The text in the middle of a cell, as large as it allows; none if it would be too small to be read. */
static void add_cell_words(drawing *d, double x, double y, double width, double height, char lines[3][80])
{
    size_t longest = 1;
    for (int i = 0; i < 3; i++)
        longest = strlen(lines[i]) > longest ? strlen(lines[i]) : longest;
    double size = height / 4.4, fits = width / (0.65 * (double)longest);
    size = fits < size ? fits : size;
    size = size > 12 ? 12 : size;
    if (size < 4)
        return;
    for (int i = 0; i < 3; i++)
        add_words(d, x + width / 2, y + height / 2 + (i - 0.65) * 1.25 * size, size, "middle", lines[i]);
}

static void add_range(iso_text *text, const iso_picture_part *part)
{
    iso_text_add(text, "%" PRId64 ":%" PRId64, part->begin, part->begin + part->count);
}

static void add_cell(drawing *d, int slice, int row, int column)
{
    static const char *const colors[] = {"#a8d1f0", "#f3d3a5", "#b5e0b5", "#f2b8b5", "#cdbfee", "#f0ea9f",
                                         "#aee0dc", "#d8d8d8", "#e3bfe0", "#f4c09a", "#cfeaf5"};
    enum { COLORS = sizeof colors / sizeof colors[0] };
    const iso_picture *picture = d->picture;
    char lines[3][80];
    int columns = picture->side[1].shown;
    double x = d->left + position_of(d, 1, column), y = d->top + position_of(d, 0, row);
    double width = size_of(d, 1, column), height = size_of(d, 0, row);
    visualize_svg_describe(iso_picture_at(picture, slice, row, column), lines);
    iso_text_add(d->out,
                 "<g><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                 "stroke=\"#555\"/><title>",
                 x, y, width, height,
                 colors[(slice + row * (columns + (columns % COLORS == 0)) + column) % COLORS]);
    for (int i = 0; i < 2; i++) {
        if (picture->side[i].dim < 0)
            continue;
        iso_text_add(d->out, "%s ", i ? "columns" : "rows");
        add_range(d->out, &picture->side[i].part[i ? column : row]);
        iso_text_add(d->out, ", ");
    }
    for (int i = 0; i < 3; i++) {
        iso_text_add(d->out, "%s", i ? ", " : "");
        add_escaped(d->out, lines[i]);
    }
    iso_text_add(d->out, "</title>\n");
    add_cell_words(d, x, y, width, height, lines);
    iso_text_add(d->out, "</g>\n");
}

/* ---- grids ---- */

/* The ranges of a side's parts, if there is room for them, and dots for those that are left out. */
static void add_labels(drawing *d, int direction)
{
    const iso_picture_side *side = &d->picture->side[direction];
    for (int k = 0; k < side->shown; k++) {
        iso_text label = {0};
        double at = position_of(d, direction, k), size = size_of(d, direction, k), middle = at + size / 2;
        add_range(&label, &side->part[k]);
        bool fits = direction ? size >= 6.2 * (double)label.length : size >= 10;
        if (side->dim >= 0 && fits && direction)
            add_words(d, d->left + middle, d->top - 6, 10, "middle", iso_text_get(&label));
        else if (side->dim >= 0 && fits)
            add_words(d, d->left - 6, d->top + middle + 3, 10, "end", iso_text_get(&label));
        if (side->part[k].skipped && direction)
            add_words(d, d->left + at - SKIPPED / 2.0, d->top + d->extent[0] / 2, 12, "middle", "...");
        else if (side->part[k].skipped)
            add_words(d, d->left + d->extent[1] / 2, d->top + at - SKIPPED / 2.0, 12, "middle", "...");
        iso_text_free(&label);
    }
}

static void add_grid(drawing *d, int slice)
{
    const iso_picture *picture = d->picture;
    iso_text title = {0};
    iso_picture_slice_title(picture, slice, &title);
    if (picture->shape.rank > 2)
        add_line(d, iso_text_get(&title));
    iso_text_free(&title);
    d->top += 2 * LINE;
    add_labels(d, 0);
    add_labels(d, 1);
    for (int r = 0; r < picture->side[0].shown; r++)
        for (int c = 0; c < picture->side[1].shown; c++)
            add_cell(d, slice, r, c);
    d->top += d->extent[0] + LINE / 2.0;
}

static void add_picture(drawing *d)
{
    const iso_picture *picture = d->picture;
    iso_text title = {0}, notes = {0};
    iso_picture_title(picture, &title);
    iso_picture_notes(picture, false, &notes);
    iso_text_add(d->out, "<title>");
    add_escaped(d->out, iso_text_get(&title));
    iso_text_add(d->out, "</title>\n");
    add_line(d, iso_text_get(&title));
    if (picture->side[0].shown && picture->side[1].shown)
        for (int s = 0; s < picture->n_shown_slices; s++)
            add_grid(d, s);
    add_lines(d, iso_text_get(&notes));
    iso_text_free(&title);
    iso_text_free(&notes);
}

/* The head of the file is written last, because it has the size. */
static void write_svg(const iso_picture *picture, iso_text *out)
{
    iso_text body = {0};
    drawing d = {.picture = picture, .top = MARGIN / 2.0, .out = &body};
    choose_scale(&d, 0, 72, 960);
    choose_scale(&d, 1, 120, 1280);
    d.left = left_of(picture);
    d.width = d.left + d.extent[1] + MARGIN;
    add_picture(&d);
    iso_text_add(out,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
                 "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"monospace\">\n",
                 d.width, d.top + MARGIN, d.width, d.top + MARGIN);
    iso_text_add(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n",
                 iso_text_get(&body));
    out->failed |= body.failed;
    iso_text_free(&body);
}

iso_status iso_layout_visualize_svg(const iso_layout *layout, iso_shape shape, const char *path,
                                    const iso_visualize_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(layout, path);
    iso_visualize_options own = {0};
    iso_picture *picture;
    iso_text text = {0};
    iso_options_copy(&own, sizeof own, options, size);
    iso_status status = iso_picture_create(layout, &shape, &own, MOST_SHOWN, MOST_SHOWN, &picture);
    if (status != ISO_OK)
        return status;
    write_svg(picture, &text);
    status = text.failed ? iso_no_memory("the picture of a layout")
                         : iso_file_replace(path, iso_text_get(&text), text.length);
    iso_text_free(&text);
    iso_picture_destroy(picture);
    return status;
}
