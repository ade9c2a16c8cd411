/* The summary of a model, in the form of Keras's table. */
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/train/model_impl.h"

enum { LAYER_WIDTH = 33, SHAPE_WIDTH = 24, COUNT_WIDTH = 15 };

static void rule(FILE *out, const char *left, const char *line, const char *middle, const char *right)
{
    static const int width[] = {LAYER_WIDTH, SHAPE_WIDTH, COUNT_WIDTH};
    fputs(left, out);
    for (int column = 0; column < 3; column++) {
        for (int i = 0; i < width[column]; i++)
            fputs(line, out);
        fputs(column < 2 ? middle : right, out);
    }
    fputc('\n', out);
}

/* 1234567 as "1,234,567" */
static void with_commas(int64_t value, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value), at = 0;
    for (int i = 0; i < length; i++) {
        text[at++] = digits[i];
        if ((length - 1 - i) % 3 == 0 && i < length - 1)
            text[at++] = ',';
    }
    text[at] = 0;
}

static void row(FILE *out, const char *bar, const char *layer, const char *shape, const char *count)
{
    fprintf(out, "%s %-*.*s %s %-*.*s %s %*s %s\n", bar, LAYER_WIDTH - 2, LAYER_WIDTH - 2, layer, bar,
            SHAPE_WIDTH - 2, SHAPE_WIDTH - 2, shape, bar, COUNT_WIDTH - 2, count, bar);
}

/* "(None, 28, 28, 1)" */
static void shape_text(const iso_shape *shape, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < shape->rank && at < size; i++) {
        const char *comma = i ? ", " : "";
        if (shape->dim[i] == ISO_BATCH)
            at += (size_t)snprintf(text + at, size - at, "%sNone", comma);
        else
            at += (size_t)snprintf(text + at, size - at, "%s%lld", comma, (long long)shape->dim[i]);
    }
    if (at < size)
        snprintf(text + at, size - at, ")");
}

static int64_t elements(const iso_variable *variable)
{
    int64_t count = 0;
    return iso_shape_count(iso_variable_shape(variable), &count) == ISO_OK ? count : 0;
}

static bool belongs(const iso_variable *variable, const char *layer)
{
    size_t length = strlen(layer);
    const char *path = iso_variable_path(variable);
    return strncmp(path, layer, length) == 0 && path[length] == '/';
}

static int64_t layer_parameters(const iso_graph *graph, const char *layer)
{
    int64_t count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        if (belongs(iso_graph_variable(graph, i), layer))
            count += elements(iso_graph_variable(graph, i));
    return count;
}

static void layer_row(FILE *out, const char *name, const char *type, iso_tensor *output, int64_t parameters)
{
    char layer[200], shape[200], count[32];
    snprintf(layer, sizeof layer, "%s (%s)", name, type);
    shape_text(iso_tensor_shape(output), shape, sizeof shape);
    with_commas(parameters, count);
    row(out, "│", layer, shape, count);
}

static void total(FILE *out, const char *what, int64_t parameters, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    char count[32];
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    with_commas(parameters, count);
    fprintf(out, " %s: %s (%.2f %s)\n", what, count, bytes, units[unit]);
}

static void totals(FILE *out, const iso_graph *graph)
{
    int64_t count[2] = {0, 0};
    double bytes[2] = {0, 0};
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (strncmp(iso_variable_path(variable), "optimizer/", 10) == 0)
            continue;
        int trainable = iso_variable_trainable(variable);
        count[trainable] += elements(variable);
        bytes[trainable] += (double)elements(variable) * (double)iso_dtype_size(iso_variable_dtype(variable));
    }
    total(out, "Total params", count[0] + count[1], bytes[0] + bytes[1]);
    total(out, "Trainable params", count[1], bytes[1]);
    total(out, "Non-trainable params", count[0], bytes[0]);
}

void iso_model_summary(iso_model *model, FILE *out)
{
    if (model->status != ISO_OK || iso_graph_error(model->graph) != ISO_OK) {
        fprintf(out, "a model that could not be built: %s\n", iso_error_message());
        return;
    }
    rule(out, "┏", "━", "┳", "┓");
    row(out, "┃", "Layer (type)", "Output Shape", "Param #");
    rule(out, "┡", "━", "╇", "┩");
    for (int i = 0; i < model->inputs; i++) {
        if (i)
            rule(out, "├", "─", "┼", "┤");
        layer_row(out, iso_tensor_name(model->input[i]), "InputLayer", model->input[i], 0);
    }
    for (int i = 0; i < iso_graph_layer_count(model->graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(model->graph, i);
        if (layer->again >= 0)
            continue; /* a shared layer is one layer */
        rule(out, "├", "─", "┼", "┤");
        layer_row(out, layer->name, layer->type, layer->output, layer_parameters(model->graph, layer->name));
    }
    rule(out, "└", "─", "┴", "┘");
    totals(out, model->graph);
}
