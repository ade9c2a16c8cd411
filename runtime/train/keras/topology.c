/* Networks in Keras's order: map_graph of keras/src/ops/function.py, Keras 3.15, for the records of a graph.
 * Keras calls a call a node. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/graph/op.h"
#include "runtime/graph/ops/list.h"
#include "runtime/train/keras/topology.h"

static const char CALLS[] = "the calls of a graph of %d layers";

enum { OUTSIDE = -2, NONE = -1 };

/* The state of the search; in its tables NONE means "not yet". */
typedef struct finder {
    const iso_graph *graph;
    iso_keras_topology *net;
    int scope;                /* the block whose inside is searched; NONE: the whole graph */
    int last_layer;           /* the layers from here on were added after the scope */
    iso_tensor *const *given; /* the network's inputs */
    int n_given, most;        /* upper bound on the number of calls */
    int *last;                /* [tensors] the last layer call that returned the tensor */
    int *previous;            /* [layers] the previous call that returned the same tensor */
    int *call_of_layer, *call_of_block, *call_of_op, *call_of_input;
    int *operation_of_layer, *operation_of_block;
    /* the depth-first search: active calls, with the next input to follow for each; finished calls */
    int *stack, *next, depth, *finished, n_finished;
    int *met, n_met; /* [operations] in the order in which they were first found */
    int *call_depth, *operation_depth;
    int *entered; /* [calls] NONE: not yet */
    int *tables;  /* the memory of all these tables */
} finder;

/* ---- which call made a tensor ---- */

/* The innermost block in which an op was made. */
static int block_of_op(const iso_graph *graph, int op)
{
    for (int b = iso_graph_block_count(graph) - 1; b >= 0;
         b--) /* an inner block comes after the one around it */
        if (iso_graph_block(graph, b)->first_op <= op && op < iso_graph_block(graph, b)->last_op)
            return b;
    return NONE;
}

/* The outermost block around `block` (or `block` itself) that is inside the scope. NONE: `block` is the scope
 * itself; OUTSIDE: it is not inside the scope. */
static int block_in_scope(const finder *f, int block)
{
    int inner = NONE;
    while (block != f->scope && block >= 0) {
        inner = block;
        block = iso_graph_block(f->graph, block)->around;
    }
    return block == f->scope ? inner : OUTSIDE;
}

/* The last of the layer calls [0, before), recorded when the graph had at most `ops` ops, that returned the
 * tensor. Layers that do nothing return their input, so several calls may return one tensor. */
static int layer_before(const finder *f, const iso_tensor *tensor, int before, int ops)
{
    int layer = f->last[tensor->id];
    while (layer >= before || (layer >= 0 && iso_graph_layer(f->graph, layer)->n_ops > ops))
        layer = f->previous[layer];
    return layer;
}

/* Whether no op computed it: a variable's value or a constant. */
static bool is_leaf(const iso_tensor *tensor)
{
    return tensor->producer->type == &iso_op_variable || tensor->producer->type == &iso_op_constant;
}

/* ---- calls ---- */

static int add_operation(finder *f, iso_operation_kind kind, const char *type, const char *name, int record)
{
    f->net->operations[f->net->n_operations] =
        (iso_operation){.kind = kind, .type = type, .name = name, .record = record};
    return f->net->n_operations++;
}

static iso_tensor **copy(iso_tensor *const *list, int count)
{
    iso_tensor **out = iso_new((size_t)count * sizeof *out + 1);
    if (out && count)
        memcpy(out, list, (size_t)count * sizeof *out);
    return out;
}

/* Returns the call's number; NONE: out of memory. */
static int add_call(finder *f, int operation, int record, iso_tensor *const *inputs, int input_count,
                    iso_tensor *const *outputs, int output_count)
{
    iso_layer_call *call = &f->net->calls[f->net->n_calls++];
    *call = (iso_layer_call){.operation = operation,
                             .record = record,
                             .n_inputs = input_count,
                             .n_outputs = output_count,
                             .inputs = copy(inputs, input_count),
                             .outputs = copy(outputs, output_count),
                             .from = iso_new((size_t)input_count * sizeof *call->from + 1)};
    f->net->operations[operation].n_calls++;
    return call->inputs && call->outputs && call->from ? f->net->n_calls - 1 : NONE;
}

/* The results after the first. False: out of memory. */
static bool add_others(iso_layer_call *call, const iso_layer_record *layer)
{
    for (int i = 0; i < layer->n_others; i++)
        if (iso_list_add(call->outputs, call->n_outputs, layer->others[i], "the outputs of a call") != ISO_OK)
            return false;
    return true;
}

static int call_layer(finder *f, int record)
{
    const iso_layer_record *call = iso_graph_layer(f->graph, record), *layer = call;
    int first = record, *operation;
    if (f->call_of_layer[record] >= 0)
        return f->call_of_layer[record];
    for (; layer->again >= 0; layer = iso_graph_layer(f->graph, first))
        first = layer->again;
    operation = &f->operation_of_layer[first];
    if (*operation < 0)
        *operation = add_operation(f, layer->function_of ? ISO_OPERATION_FUNCTION : ISO_OPERATION_LAYER,
                                   layer->type, layer->name, first);
    int number = add_call(f, *operation, record, call->inputs, call->n_inputs, &call->output, 1);
    if (number >= 0 && !add_others(&f->net->calls[number], call))
        return NONE;
    return f->call_of_layer[record] = number;
}

static int call_op(finder *f, const iso_op *op)
{
    if (f->call_of_op[op->id] >= 0)
        return f->call_of_op[op->id];
    int operation = add_operation(f, ISO_OPERATION_OP, op->type->name, iso_tensor_name(op->outputs[0]), NONE);
    return f->call_of_op[op->id] =
               add_call(f, operation, NONE, op->inputs, op->n_inputs, op->outputs, op->n_outputs);
}

/* The name of an input: of its InputLayer in the scope, otherwise the tensor's. Inputs of blocks have
 * none. */
static const char *input_name(const finder *f, const iso_tensor *tensor)
{
    for (int i = 0; i < iso_graph_layer_count(f->graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(f->graph, i);
        if (layer->block == f->scope && layer->output == tensor && strcmp(layer->type, "InputLayer") == 0)
            return layer->name;
    }
    return f->scope == NONE ? iso_tensor_name(tensor) : "input_layer";
}

static int call_input(finder *f, int number)
{
    iso_tensor *tensor = f->given[number];
    if (f->call_of_input[number] >= 0)
        return f->call_of_input[number];
    int operation = add_operation(f, ISO_OPERATION_INPUT, "InputLayer", input_name(f, tensor), NONE);
    return f->call_of_input[number] = add_call(f, operation, NONE, NULL, 0, &tensor, 1);
}

/* ---- inputs of a block that did not record them: the tensors that its ops take from outside ---- */

static bool is_in(iso_tensor *const *list, int count, const iso_tensor *tensor)
{
    for (int i = 0; i < count; i++)
        if (list[i] == tensor)
            return true;
    return false;
}

/* Sets the inputs of a block's call. False: out of memory. */
static bool derive_inputs(const finder *f, const iso_block_record *block, iso_layer_call *call)
{
    for (int o = block->first_op; o < block->last_op; o++) {
        const iso_op *op = iso_graph_op(f->graph, o);
        for (int i = 0; i < op->n_inputs; i++) {
            iso_tensor *tensor = op->inputs[i];
            bool inside = tensor->producer->id >= block->first_op && tensor->producer->type != &iso_op_input;
            if (inside || is_leaf(tensor) || is_in(call->inputs, call->n_inputs, tensor))
                continue;
            if (iso_list_add(call->inputs, call->n_inputs, tensor, "the inputs of a block") != ISO_OK)
                return false;
        }
    }
    iso_free(call->from);
    return (call->from = iso_new((size_t)call->n_inputs * sizeof *call->from + 1));
}

const char *iso_topology_class(bool sequential)
{
    return sequential ? "Sequential" : "Functional";
}

static int call_block(finder *f, int record)
{
    const iso_block_record *called = iso_graph_block(f->graph, record), *block = called;
    int first = record, *operation;
    if (f->call_of_block[record] >= 0)
        return f->call_of_block[record];
    for (; block->again >= 0; block = iso_graph_block(f->graph, first))
        first = block->again;
    operation = &f->operation_of_block[first];
    if (*operation < 0)
        *operation =
            add_operation(f, ISO_OPERATION_BLOCK, iso_topology_class(block->sequential), block->name, first);
    int call =
        add_call(f, *operation, record, called->inputs, called->n_inputs, called->outputs, called->n_outputs);
    if (call >= 0 && called->n_inputs == 0 && !derive_inputs(f, called, &f->net->calls[call]))
        return NONE;
    return f->call_of_block[record] = call;
}

/* The index of a tensor among a call's outputs. Any tensor of a block that others use is one of its
 * outputs. */
static int output_of(finder *f, int call, iso_tensor *tensor)
{
    iso_layer_call *c = &f->net->calls[call];
    for (int i = 0; i < c->n_outputs; i++)
        if (c->outputs[i] == tensor)
            return i;
    iso_status status = iso_list_add(c->outputs, c->n_outputs, tensor, "the outputs of a call");
    return status == ISO_OK ? c->n_outputs - 1 : NONE;
}

/* Finds the scope's call that made the tensor, considering only the first `layers` layers and `ops` ops of
 * the graph. */
static iso_status find_maker(finder *f, iso_tensor *tensor, int layers, int ops, iso_layer_call_output *out)
{
    int layer = layer_before(f, tensor, layers, ops), block, call = NONE;
    const iso_op *op = tensor->producer;
    *out = (iso_layer_call_output){NONE, 0};
    if (layer < 0 && is_leaf(tensor))
        return ISO_OK;
    if (layer < 0 && op->type == &iso_op_input)
        block = OUTSIDE;
    else
        block = block_in_scope(f, layer >= 0 ? iso_graph_layer(f->graph, layer)->block
                                             : block_of_op(f->graph, op->id));
    if (block >= 0)
        call = call_block(f, block);
    else if (block == NONE)
        call = layer >= 0 ? call_layer(f, layer) : call_op(f, op);
    else {
        int number = 0;
        while (number < f->n_given && f->given[number] != tensor)
            number++;
        if (number == f->n_given)
            return iso_error(ISO_INVALID, "'%s' does not follow from the inputs of the network",
                             iso_tensor_name(tensor));
        call = call_input(f, number);
    }
    *out = (iso_layer_call_output){call, call < 0 ? NONE : output_of(f, call, tensor)};
    return out->output < 0 ? iso_no_memory(CALLS, iso_graph_layer_count(f->graph)) : ISO_OK;
}

/* Finds the call that made an input of a call. */
static iso_status find_input(finder *f, int call, int input, iso_layer_call_output *from)
{
    iso_layer_call *c = &f->net->calls[call];
    int layers = f->last_layer, ops = iso_graph_op_count(f->graph);
    const iso_operation_kind kind = f->net->operations[c->operation].kind;
    if (kind == ISO_OPERATION_LAYER || kind == ISO_OPERATION_FUNCTION)
        layers = c->record;
    else if (kind == ISO_OPERATION_BLOCK)
        layers = iso_graph_block(f->graph, c->record)->first_layer;
    else
        ops = c->outputs[0]->producer->id;
    iso_status status = find_maker(f, c->inputs[input], layers, ops, from);
    if (status == ISO_OK)
        f->net->calls[call].from[input] = *from;
    return status;
}

/* ---- order: depth-first search from the outputs, then by distance from the outputs ---- */

static void enter(finder *f, int call)
{
    int operation = f->net->calls[call].operation;
    if (f->entered[call] >= 0)
        return;
    f->entered[call] = 1;
    if (f->met[operation] < 0)
        f->met[operation] = f->n_met++;
    f->stack[f->depth] = call;
    f->next[f->depth++] = 0;
}

static iso_status search_from(finder *f, int call)
{
    iso_status status = ISO_OK;
    enter(f, call);
    while (f->depth > 0) {
        iso_layer_call_output from;
        int top = f->stack[f->depth - 1], input = f->next[f->depth - 1]++;
        if (input == f->net->calls[top].n_inputs) {
            f->finished[f->n_finished++] = top;
            f->depth--;
            continue;
        }
        ISO_TRY(find_input(f, top, input, &from));
        if (from.call >= 0)
            enter(f, from.call);
    }
done:
    return status;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The depth of an operation is that of its deepest call so far, which becomes the depth of the call too. */
static void find_depths(finder *f)
{
    for (int i = f->n_finished - 1; i >= 0; i--) {
        const iso_layer_call *call = &f->net->calls[f->finished[i]];
        int *depth = &f->call_depth[f->finished[i]], *of_operation = &f->operation_depth[call->operation];
        *depth = *of_operation = larger(*depth, *of_operation);
        for (int k = 0; k < call->n_inputs; k++) {
            int from = call->from[k].call;
            if (from >= 0)
                f->call_depth[from] = larger(f->call_depth[from], *depth + 1);
        }
    }
}

typedef struct rank {
    int operation, depth, met;
} rank;

static int compare_ranks(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth > y->depth ? -1 : 1;
    if (x->met != y->met)
        return x->met < y->met ? -1 : 1;
    return x->operation - y->operation; /* unused inputs come in the order in which they are given */
}

static iso_status sort_operations(finder *f)
{
    iso_keras_topology *net = f->net;
    size_t count = (size_t)net->n_operations;
    rank *ranks = iso_new(count * sizeof *ranks + 1);
    iso_operation *sorted = iso_new(count * sizeof *sorted + 1);
    int *index_of = iso_new(count * sizeof *index_of + 1);
    iso_status status =
        ranks && sorted && index_of ? ISO_OK : iso_no_memory(CALLS, iso_graph_layer_count(f->graph));
    if (status == ISO_OK) {
        for (int i = 0; i < net->n_operations; i++)
            ranks[i] = (rank){i, f->operation_depth[i], f->met[i]};
        qsort(ranks, count, sizeof *ranks, compare_ranks);
        for (int i = 0; i < net->n_operations; i++) {
            sorted[i] = net->operations[ranks[i].operation];
            index_of[ranks[i].operation] = i;
        }
        memcpy(net->operations, sorted, count * sizeof *sorted);
        for (int c = 0; c < net->n_calls; c++)
            net->calls[c].operation = index_of[net->calls[c].operation];
    }
    iso_free(ranks);
    iso_free(sorted);
    iso_free(index_of);
    return status;
}

/* Gives each operation the list of its calls, in the order in which they were made. */
static iso_status list_calls(finder *f)
{
    iso_keras_topology *net = f->net;
    for (int i = 0; i < net->n_operations; i++) {
        iso_operation *operation = &net->operations[i];
        if (!(operation->calls = iso_new((size_t)operation->n_calls * sizeof *operation->calls + 1)))
            return iso_no_memory(CALLS, iso_graph_layer_count(f->graph));
        operation->n_calls = 0;
    }
    for (int c = 0; c < net->n_calls; c++) {
        iso_operation *operation = &net->operations[net->calls[c].operation];
        int at = operation->n_calls++;
        for (; at > 0 && net->calls[operation->calls[at - 1]].record > net->calls[c].record; at--)
            operation->calls[at] = operation->calls[at - 1];
        operation->calls[at] = c;
    }
    return ISO_OK;
}

/* ---- one network ---- */

static bool make_tables(finder *f)
{
    int layers = iso_graph_layer_count(f->graph), blocks = iso_graph_block_count(f->graph);
    int ops = iso_graph_op_count(f->graph), tensors = iso_graph_tensor_count(f->graph);
    int most = f->most = layers + blocks + ops + f->n_given;
    struct {
        int **table, size;
    } all[] = {{&f->last, tensors},
               {&f->previous, layers},
               {&f->call_of_layer, layers},
               {&f->call_of_block, blocks},
               {&f->call_of_op, ops},
               {&f->call_of_input, f->n_given},
               {&f->operation_of_layer, layers},
               {&f->operation_of_block, blocks},
               {&f->stack, most},
               {&f->next, most},
               {&f->finished, most},
               {&f->met, most},
               {&f->call_depth, most},
               {&f->operation_depth, most},
               {&f->entered, most}};
    size_t count = 0, n_tables = sizeof all / sizeof *all;
    for (size_t i = 0; i < n_tables; i++)
        count += (size_t)all[i].size;
    f->tables = iso_new(count * sizeof *f->tables + 1);
    for (size_t i = 0; f->tables && i < count; i++)
        f->tables[i] = NONE;
    int *at = f->tables;
    for (size_t i = 0; at && i < n_tables; at += all[i++].size)
        *all[i].table = at;
    f->net->calls = iso_new((size_t)most * sizeof *f->net->calls + 1);
    f->net->operations = iso_new((size_t)most * sizeof *f->net->operations + 1);
    return f->tables && f->net->calls && f->net->operations;
}

static void note_layers(finder *f)
{
    for (int i = 0; i < iso_graph_layer_count(f->graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(f->graph, i);
        if (strcmp(layer->type, "InputLayer") == 0)
            continue;
        f->previous[i] = f->last[layer->output->id];
        f->last[layer->output->id] = i;
        for (int k = 0; k < layer->n_others; k++)
            f->last[layer->others[k]->id] = i;
    }
}

static iso_status topology_find(finder *f, iso_tensor *const *outputs, int count)
{
    iso_keras_topology *net = f->net;
    iso_status status = ISO_OK;
    net->inputs = iso_new((size_t)f->n_given * sizeof *net->inputs + 1);
    net->outputs = iso_new((size_t)count * sizeof *net->outputs + 1);
    if (!make_tables(f) || !net->inputs || !net->outputs)
        return iso_no_memory(CALLS, iso_graph_layer_count(f->graph));
    note_layers(f);
    for (; net->n_outputs < count; net->n_outputs++) {
        iso_layer_call_output *output = &net->outputs[net->n_outputs];
        ISO_TRY(find_maker(f, outputs[net->n_outputs], f->last_layer, iso_graph_op_count(f->graph), output));
        if (output->call >= 0)
            ISO_TRY(search_from(f, output->call));
    }
    for (int i = 0; i < f->most; i++) {
        f->call_depth[i] = larger(f->call_depth[i], 0);
        f->operation_depth[i] = larger(f->operation_depth[i], 0);
    }
    find_depths(f);
    for (; net->n_inputs < f->n_given; net->n_inputs++)
        if ((net->inputs[net->n_inputs].call = call_input(f, net->n_inputs)) < 0)
            return iso_no_memory(CALLS, iso_graph_layer_count(f->graph));
    ISO_TRY(sort_operations(f));
    ISO_TRY(list_calls(f));
done:
    return status;
}

static iso_status topology_create(finder *f, iso_tensor *const *outputs, int count,
                                  iso_keras_topology *network)
{
    iso_keras_topology found = {.sequential = network->sequential};
    f->net = &found;
    iso_status status = topology_find(f, outputs, count);
    iso_free(f->tables);
    if (status == ISO_OK)
        *network = found;
    else
        iso_keras_topology_free(&found);
    return status;
}

iso_status iso_keras_topology_create(const iso_graph *graph, iso_tensor *const *inputs, int input_count,
                                     iso_tensor *const *outputs, int output_count,
                                     iso_keras_topology *network)
{
    finder f = {.graph = graph,
                .scope = NONE,
                .last_layer = iso_graph_layer_count(graph),
                .given = inputs,
                .n_given = input_count};
    network->sequential = iso_graph_is_sequential(graph);
    return topology_create(&f, outputs, output_count, network);
}

iso_status iso_keras_topology_create_block(const iso_graph *graph, const iso_layer_call *call,
                                           iso_keras_topology *network)
{
    const iso_block_record *block = iso_graph_block(graph, call->record);
    finder f = {.graph = graph,
                .scope = call->record,
                .last_layer = block->last_layer,
                .given = call->inputs,
                .n_given = call->n_inputs};
    network->sequential = block->sequential;
    return topology_create(&f, call->outputs, call->n_outputs, network);
}

void iso_keras_topology_free(iso_keras_topology *network)
{
    for (int i = 0; i < network->n_operations; i++)
        iso_free(network->operations[i].calls);
    for (int i = 0; i < network->n_calls; i++) {
        iso_free(network->calls[i].inputs);
        iso_free(network->calls[i].outputs);
        iso_free(network->calls[i].from);
    }
    iso_free(network->operations);
    iso_free(network->calls);
    iso_free(network->inputs);
    iso_free(network->outputs);
    *network = (iso_keras_topology){0};
}
