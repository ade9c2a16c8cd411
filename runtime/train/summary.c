/* The summary of a model, in the form of Keras's table. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/train/keras/topology.h"
#include "runtime/train/model_impl.h"

enum { LAYER_WIDTH = 33, SHAPE_WIDTH = 24, COUNT_WIDTH = 15, FROM_WIDTH = 30, MOST_COLUMNS = 4 };
static const int widths[MOST_COLUMNS] = {LAYER_WIDTH, SHAPE_WIDTH, COUNT_WIDTH, FROM_WIDTH};

/* The table being printed. For a chain it has no column of connections. */
typedef struct table {
    FILE *out;
    const iso_graph *graph;
    iso_keras_topology net;
    int columns;
} table;

static void rule(const table *t, const char *left, const char *line, const char *middle, const char *right)
{
    fputs(left, t->out);
    for (int column = 0; column < t->columns; column++) {
        for (int i = 0; i < widths[column]; i++)
            fputs(line, t->out);
        fputs(column < t->columns - 1 ? middle : right, t->out);
    }
    fputc('\n', t->out);
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

/* The length of the first line of a text: as much as fits, up to the last ", " if there is one. */
static int first_line(const char *text, int width)
{
    int length = (int)strlen(text), at = width;
    if (length <= width)
        return length;
    while (at > 1 && !(text[at - 2] == ',' && text[at - 1] == ' '))
        at--;
    return at > 1 ? at : width;
}

/* Prints one row, on as many lines as its longest cell needs. */
static void row(const table *t, const char *bar, const char *const *cell)
{
    const char *left[MOST_COLUMNS];
    bool more = true;
    memcpy(left, cell, (size_t)t->columns * sizeof *left);
    while (more) {
        more = false;
        for (int c = 0; c < t->columns; c++) {
            int width = widths[c] - 2, count = first_line(left[c], width);
            fprintf(t->out, c == 2 ? "%s %*.*s " : "%s %-*.*s ", bar, width, count, left[c]);
            left[c] += count;
            more = more || *left[c];
        }
        fprintf(t->out, "%s\n", bar);
    }
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

/* ---- an operation of the network ---- */

static void shapes_text(const iso_layer_call *call, iso_text *text)
{
    char shape[200];
    for (int i = 0; i < call->n_outputs; i++) {
        shape_text(iso_tensor_shape(call->outputs[i]), shape, sizeof shape);
        iso_text_add(text, "%s%s%s",
                     i                     ? ", "
                     : call->n_outputs > 1 ? "["
                                           : "",
                     shape, i > 0 && i == call->n_outputs - 1 ? "]" : "");
    }
}

/* The index of a call among the calls of its operation. */
static int number_of_call(const iso_keras_topology *net, int call)
{
    const iso_operation *operation = &net->operations[net->calls[call].operation];
    int number = 0;
    while (number < operation->n_calls - 1 && operation->calls[number] != call)
        number++;
    return number;
}

/* "dense[0][0], flat[0][0]": the layer, its call, and that call's output. */
static void connections_text(const iso_keras_topology *net, const iso_operation *operation, iso_text *text)
{
    for (int k = 0; k < operation->n_calls; k++) {
        const iso_layer_call *call = &net->calls[operation->calls[k]];
        for (int i = 0; i < call->n_inputs; i++) {
            const iso_layer_call_output *from = &call->from[i];
            if (from->call < 0)
                continue;
            iso_text_add(text, "%s%s[%d][%d]", text->length ? ", " : "",
                         net->operations[net->calls[from->call].operation].name,
                         number_of_call(net, from->call), from->output);
        }
    }
    if (text->length == 0)
        iso_text_add(text, "-");
}

static void operation_row(const table *t, const iso_operation *operation)
{
    iso_text layer = {0}, shape = {0}, from = {0};
    char count[32];
    iso_text_add(&layer, "%s (%s)", operation->name, operation->type);
    shapes_text(&t->net.calls[operation->calls[operation->n_calls - 1]], &shape);
    connections_text(&t->net, operation, &from);
    bool weights = operation->kind == ISO_OPERATION_LAYER || operation->kind == ISO_OPERATION_BLOCK;
    with_commas(weights ? layer_parameters(t->graph, operation->name) : 0, count);
    row(t, "│",
        (const char *const[]){iso_text_get(&layer), iso_text_get(&shape), count, iso_text_get(&from)});
    iso_text_free(&layer);
    iso_text_free(&shape);
    iso_text_free(&from);
}

/* Whether each operation is called once, on the result of one other operation that no other uses. */
static bool is_chain(const iso_keras_topology *net)
{
    int taken = 0;
    for (int k = 0; k < net->n_calls; k++) {
        int from = 0;
        for (int i = 0; i < net->calls[k].n_inputs; i++)
            from += net->calls[k].from[i].call >= 0;
        if (from > 1)
            return false;
        taken += from;
    }
    return net->n_calls == net->n_operations && net->n_inputs == 1 && net->n_outputs == 1 &&
           taken == net->n_calls - 1;
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

static void print_table(const table *t)
{
    rule(t, "┏", "━", "┳", "┓");
    row(t, "┃", (const char *const[]){"Layer (type)", "Output Shape", "Param #", "Connected to"});
    rule(t, "┡", "━", "╇", "┩");
    for (int i = 0; i < t->net.n_operations; i++) {
        if (i)
            rule(t, "├", "─", "┼", "┤");
        operation_row(t, &t->net.operations[i]);
    }
    rule(t, "└", "─", "┴", "┘");
    totals(t->out, t->graph);
}

void iso_model_summary(iso_model *model, FILE *out)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(model, out))
        return;
    table t = {.out = out, .graph = model->graph};
    if (model->status != ISO_OK || iso_graph_error(model->graph) != ISO_OK ||
        iso_keras_topology_create(model->graph, model->inputs, model->n_inputs, model->outputs,
                                  model->n_outputs, &t.net) != ISO_OK) {
        fprintf(out, "a model that could not be built: %s\n", iso_error_message());
        return;
    }
    t.columns = is_chain(&t.net) ? 3 : 4;
    print_table(&t);
    iso_keras_topology_free(&t.net);
}
