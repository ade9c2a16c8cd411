/* The order in which Keras runs the calls of a Functional model: map_graph and _run_through_graph of
 * keras/src/ops/function.py, Keras 3.15. It counts where a MultiHeadAttention takes masks off its inputs. Other
 * networks keep the order of the file, so that the fingerprints in their checkpoints stay as they were. */
#include <stdlib.h>
#include <string.h>

#include "models/keras/network_impl.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

static const char WHAT[] = "the order of a network's calls";

/* A call, while the order is found: nodes are numbered through all layers. */
typedef struct node {
    int layer, number; /* of the layer, and among its calls */
    int *parent;       /* the nodes of its inputs, in the order of its arguments */
    int n_parents, next;
    int state;      /* 0: not met; 1: its inputs are searched; 2: done */
    int depth, met; /* met: when a depth was first noted; -1: not yet */
} node;

typedef struct finder {
    const iso_keras_network *net;
    int *first; /* [layers] the node of the first call of each */
    node *nodes;
    int count;
    int *stack, *done, n_done;
} finder;

/* ---- what a node needs ---- */

/* The node of ["dense", 0, 0]; -1: there is none. ends: see find_tensor in references.c. */
static int node_of(const finder *f, const json_t *history, bool ends)
{
    const char *name = json_string_value(json_array_get(history, 0));
    const json_t *index = name ? json_object_get(f->net->index, name) : NULL,
                 *at = json_array_get(history, 1);
    if (!index || !json_is_integer(at))
        return -1;
    int layer = (int)json_integer_value(index);
    const iso_keras_layer *l = &f->net->layers[layer];
    json_int_t call = json_integer_value(at) - (ends && iso_keras_is_model(l->type));
    return call >= 0 && call < l->n_nodes ? f->first[layer] + (int)call : -1;
}

/* Adds the nodes of all tensors in the arguments of a call. ISO_INVALID, without a message: one does not exist. */
static iso_status add_parents(const finder *f, const json_t *value, node *to)
{
    iso_status status = ISO_OK;
    const char *type = iso_keras_text(value, "class_name");
    if (type && strcmp(type, "__keras_tensor__") == 0) {
        int parent = node_of(f, json_object_get(json_object_get(value, "config"), "keras_history"), false);
        return parent < 0 ? ISO_INVALID : iso_list_add(to->parent, to->n_parents, parent, WHAT);
    }
    for (size_t i = 0; status == ISO_OK && i < json_array_size(value); i++)
        status = add_parents(f, json_array_get(value, i), to);
    for (const char *k = iso_keras_next_key(value, NULL); status == ISO_OK && k;
         k = iso_keras_next_key(value, k))
        status = add_parents(f, json_object_get(value, k), to);
    return status;
}

static iso_status make_nodes(finder *f)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < f->net->n_layers; i++) {
        const iso_keras_layer *l = &f->net->layers[i];
        f->first[i] = f->count;
        for (int k = 0; k < l->n_nodes; k++)
            f->nodes[f->count++] = (node){.layer = i, .number = k, .met = -1};
    }
    for (int i = 0; status == ISO_OK && i < f->count; i++) {
        const json_t *call =
            json_array_get(json_object_get(f->net->layers[f->nodes[i].layer].entry, "inbound_nodes"),
                           (size_t)f->nodes[i].number);
        status = add_parents(f, json_object_get(call, "args"), &f->nodes[i]);
        if (status == ISO_OK)
            status = add_parents(f, json_object_get(call, "kwargs"), &f->nodes[i]);
    }
    return status;
}

/* ---- depth-first from the outputs ---- */

/* ISO_INVALID: a cycle. */
static iso_status search(finder *f, int from)
{
    int depth = 0;
    if (f->nodes[from].state == 2)
        return ISO_OK;
    f->stack[depth++] = from;
    f->nodes[from].state = 1;
    while (depth > 0) {
        node *top = &f->nodes[f->stack[depth - 1]];
        if (top->next == top->n_parents) {
            top->state = 2;
            f->done[f->n_done++] = f->stack[--depth];
            continue;
        }
        int parent = top->parent[top->next++];
        if (f->nodes[parent].state == 1)
            return ISO_INVALID;
        if (f->nodes[parent].state == 0) {
            f->nodes[parent].state = 1;
            f->stack[depth++] = parent;
        }
    }
    return ISO_OK;
}

static iso_status search_ends(finder *f, const json_t *ends)
{
    iso_status status = ISO_OK;
    if (json_is_string(json_array_get(ends, 0))) {
        int from = node_of(f, ends, true);
        return from < 0 ? ISO_INVALID : search(f, from);
    }
    for (size_t i = 0; status == ISO_OK && i < json_array_size(ends); i++)
        status = search_ends(f, json_array_get(ends, i));
    for (const char *k = iso_keras_next_key(ends, NULL); status == ISO_OK && k;
         k = iso_keras_next_key(ends, k))
        status = search_ends(f, json_object_get(ends, k));
    return status;
}

/* ---- by depth ---- */

/* Notes a depth, at least. */
static void deepen(node *n, int depth, int *met)
{
    n->met = n->met < 0 ? (*met)++ : n->met;
    n->depth = n->depth > depth ? n->depth : depth;
}

/* The depth of a layer is that of its deepest call so far, which becomes the depth of the call too. layer_depth:
 * [layers], zeros. */
static void find_depths(finder *f, int *layer_depth)
{
    int met = 0;
    for (int i = f->n_done - 1; i >= 0; i--) {
        node *n = &f->nodes[f->done[i]];
        deepen(n, layer_depth[n->layer], &met);
        layer_depth[n->layer] = n->depth;
        for (int k = 0; k < n->n_parents; k++)
            deepen(&f->nodes[n->parent[k]], n->depth + 1, &met);
    }
}

static int compare(const void *a, const void *b)
{
    const node *x = a, *y = b;
    if ((x->met < 0) != (y->met < 0)) /* what no output needs comes last, in the order of the file */
        return x->met < 0 ? 1 : -1;
    if (x->met >= 0 && x->depth != y->depth)
        return x->depth > y->depth ? -1 : 1;
    if (x->met >= 0)
        return x->met < y->met ? -1 : 1;
    return x->layer != y->layer ? x->layer - y->layer : x->number - y->number;
}

static iso_status find(finder *f, int *layer_depth)
{
    iso_status status = make_nodes(f);
    if (status == ISO_OK)
        status = search_ends(f, json_object_get(f->net->config, "output_layers"));
    if (status == ISO_OK)
        find_depths(f, layer_depth);
    return status;
}

iso_status iso_keras_order_calls(const iso_keras_network *net, iso_keras_ordered_call **order, int *count)
{
    size_t nodes = 1, layers = (size_t)net->n_layers + 1;
    for (int i = 0; i < net->n_layers; i++)
        nodes += (size_t)net->layers[i].n_nodes;
    finder f = {
        .net = net, .first = iso_new(layers * sizeof *f.first), .nodes = iso_new(nodes * sizeof *f.nodes)};
    f.stack = iso_new(nodes * sizeof *f.stack);
    f.done = iso_new(nodes * sizeof *f.done);
    int *layer_depth = iso_new(layers * sizeof *layer_depth);
    iso_keras_ordered_call *list = iso_new(nodes * sizeof *list);
    iso_status status =
        f.first && f.nodes && f.stack && f.done && layer_depth && list ? ISO_OK : iso_no_memory(WHAT);
    if (status == ISO_OK)
        status = find(&f, layer_depth);
    for (int i = 0; i < f.count; i++)
        iso_free(f.nodes[i].parent);
    if (status == ISO_OK)
        qsort(f.nodes, (size_t)f.count, sizeof *f.nodes, compare);
    *count = status == ISO_OK ? f.count : 0;
    for (int i = 0; i < *count; i++)
        list[i] = (iso_keras_ordered_call){f.nodes[i].layer, f.nodes[i].number};
    void *table[] = {f.first, f.nodes, f.stack, f.done, layer_depth};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        iso_free(table[i]);
    *order = list;
    return status == ISO_INVALID ? ISO_OK
                                 : status; /* the file's order meets the error, and names the place */
}

/* ---- whether it counts ---- */

/* Whether the layers of a model, and of those within, have a class, or a member that is true. */
static bool has(const json_t *value, const char *type, const char *flag)
{
    const char *key;
    json_t *item;
    const char *name = iso_keras_text(value, "class_name");
    if (name && type && strcmp(name, type) == 0)
        return true;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (has(json_array_get(value, i), type, flag))
            return true;
    json_object_foreach((json_t *)value, key, item)
    {
        if ((flag && strcmp(key, flag) == 0 && json_is_true(item)) || has(item, type, flag))
            return true;
    }
    return false;
}

bool iso_keras_order_counts(const json_t *config)
{
    return has(config, "MultiHeadAttention", NULL) && has(config, "Masking", "mask_zero");
}
