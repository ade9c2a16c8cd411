/* Reverse-mode differentiation: appends the backward pass to the graph. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/ops_impl.h"

typedef struct backward {
    iso_graph *graph;
    int n_tensors;        /* tensors that existed when the pass began */
    bool *depends;        /* [tensors] on one of the requested tensors */
    iso_tensor **adjoint; /* [tensors] the gradient accumulated so far */
    iso_op **again;       /* [ops] the op that computes it again; NULL: none yet */
    /* The slices of a tensor, whose gradients are not in its adjoint yet: the last one that the pass has found, and
     * for each the one before. */
    iso_op **last_slice; /* [tensors] */
    iso_op **next_slice; /* [ops] */
} backward;

static void mark_dependents(backward *pass, iso_tensor *const *of, int count, int ops)
{
    for (int i = 0; i < count; i++)
        if (of[i]->id >= 0 && of[i]->id < pass->n_tensors)
            pass->depends[of[i]->id] = true;
    for (int k = 0; k < ops; k++) {
        const iso_op *op = pass->graph->ops[k];
        bool any = false;
        for (int i = 0; i < op->n_inputs; i++)
            any |= pass->depends[op->inputs[i]->id];
        for (int i = 0; any && i < op->n_outputs; i++)
            pass->depends[op->outputs[i]->id] = true;
    }
}

/* A tensor that is the gradient of several (an addition passes its own gradient on) is recorded for the
 * first one. */
static void autodiff_note(const backward *pass, iso_tensor *gradient, iso_tensor *tensor)
{
    if (gradient->id >= pass->n_tensors && !gradient->gradient_of)
        gradient->gradient_of = tensor;
}

static void autodiff_gather(backward *pass, iso_tensor *tensor, iso_tensor *gradient)
{
    iso_tensor **sum = &pass->adjoint[tensor->id];
    autodiff_note(pass, gradient, tensor);
    *sum = *sum ? iso_add(*sum, gradient) : gradient;
    autodiff_note(pass, *sum, tensor);
}

/* ---- slices of one tensor ---- */

/* A slice. axis: the one dimension that it does not take whole; -1: there are several. */
typedef struct part {
    iso_op *op;
    int64_t begin, size; /* along the axis */
    int axis;
    int order; /* in which the backward pass found it */
} part;

static part part_of(iso_op *slice, int order)
{
    const iso_shape *from = &slice->inputs[0]->shape, *to = &slice->outputs[0]->shape;
    part made = {.op = slice, .axis = -1, .order = order};
    int cut = 0;
    for (int d = 0; d < from->rank; d++)
        if (to->dim[d] != from->dim[d]) {
            made.axis = d;
            cut++;
        }
    if (cut != 1)
        made.axis = -1;
    if (made.axis >= 0) {
        made.begin = ((const iso_slice_attrs *)slice->attrs)->begin[made.axis];
        made.size = to->dim[made.axis];
    }
    return made;
}

static int compare_parts(const void *left, const void *right)
{
    const part *a = left, *b = right;
    if (a->axis != b->axis)
        return a->axis < b->axis ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* How many parts from the first on lie one behind the other. */
static int count_of_run(const part *parts, int count)
{
    int n = 1;
    while (n < count && parts[n].axis >= 0 && parts[n].axis == parts[0].axis &&
           parts[n].begin == parts[n - 1].begin + parts[n - 1].size)
        n++;
    return n;
}

/* The gradient that a run of parts has for the tensor: theirs, and 0 elsewhere. */
static iso_tensor *gradient_of_run(const backward *pass, const part *parts, int count)
{
    iso_tensor *dy = pass->adjoint[parts[0].op->outputs[0]->id], *dx = NULL;
    if (count == 1) {
        parts[0].op->type->gradient(parts[0].op, &dy, &dx);
        return dx;
    }
    const size_t bytes = (size_t)count * sizeof dy;
    iso_tensor **each = iso_new(bytes), *x = parts[0].op->inputs[0];
    if (!each) {
        iso_graph_fail_memory(pass->graph, "the gradients of slices", bytes);
        return iso_graph_bad_tensor(pass->graph);
    }
    for (int i = 0; i < count; i++)
        each[i] = pass->adjoint[parts[i].op->outputs[0]->id];
    iso_slice_attrs attrs = {.shape = x->shape};
    attrs.begin[parts[0].axis] = parts[0].begin;
    dx = iso_concat(each, count, parts[0].axis);
    iso_free(each);
    return iso_shape_equal(&dx->shape, &x->shape) ? dx : iso_op_1(&iso_op_pad, dx, &attrs);
}

/* Adds the gradients of all slices to that of the tensor. Many slices that lie one behind the other are joined: a sum
 * of one padded tensor for each of n slices would take n times the time and memory of the tensor. Few are padded,
 * since a dimension that is padded may be sharded, and one that is joined may not. */
static void add_slices(backward *pass, iso_tensor *tensor)
{
    enum { FEW = 8 };
    int count = 0, i = 0, first = pass->graph->n_ops;
    iso_op *last = pass->last_slice[tensor->id];
    for (const iso_op *op = last; op; op = pass->next_slice[op->id])
        count++;
    part *parts = iso_new((size_t)count * sizeof *parts);
    if (!parts) {
        iso_graph_fail_memory(pass->graph, "the gradients of slices", (size_t)count * sizeof *parts);
        return;
    }
    for (iso_op *op = last; op; op = pass->next_slice[op->id], i++)
        parts[i] = part_of(op, i);
    if (count > FEW)
        qsort(parts, (size_t)count, sizeof *parts, compare_parts);
    for (int n, k = 0; k < count; k += n) {
        n = count > FEW ? count_of_run(parts + k, count - k) : 1;
        autodiff_gather(pass, tensor, gradient_of_run(pass, parts + k, n));
    }
    for (int k = first; k < pass->graph->n_ops; k++)
        pass->graph->ops[k]->backward_of = last;
    iso_free(parts);
}

/* The gradient of a tensor; NULL: none. No op that reads the tensor is left. */
static iso_tensor *gradient_so_far(backward *pass, iso_tensor *tensor)
{
    if (pass->last_slice[tensor->id]) {
        add_slices(pass, tensor);
        pass->last_slice[tensor->id] = NULL;
    }
    return pass->adjoint[tensor->id];
}

/* ---- recomputation ---- */

/* An input of an op of a recomputation: computed again if it was computed within it. */
static iso_tensor *input_again(const backward *pass, int recomputation, iso_tensor *x)
{
    const iso_op *producer = x->producer;
    const iso_op *again = producer->recomputation == recomputation ? pass->again[producer->id] : NULL;
    return again ? again->outputs[x->output] : x;
}

/* Inputs, variables and constants are there all the time. */
static bool is_computed(const iso_op *op)
{
    return op->type != &iso_op_input && op->type != &iso_op_variable && op->type != &iso_op_constant &&
           op->type != &iso_op_apply_optimizer;
}

/* Computes the ops of a recomputation again, up to `last`; functions leave out those that nothing reads. */
static void compute_again(const backward *pass, const iso_op *last)
{
    iso_tensor *inputs[ISO_MAX_INPUTS];
    for (int k = 0; k <= last->id; k++) {
        const iso_op *op = pass->graph->ops[k];
        if (op->recomputation != last->recomputation || !is_computed(op))
            continue;
        for (int i = 0; i < op->n_inputs; i++)
            inputs[i] = input_again(pass, op->recomputation, op->inputs[i]);
        pass->again[k] = iso_op_again(op, inputs);
    }
}

/* The op whose inputs and outputs its gradient reads. */
static iso_op *for_gradient(const backward *pass, iso_op *op)
{
    if (op->recomputation > 0 && is_computed(op) && !pass->again[op->id])
        compute_again(pass, op);
    return pass->again[op->id] ? pass->again[op->id] : op;
}

/* The gradient of an input has the input's shape. */
static bool check_gradients(const iso_op *op, iso_tensor *const *dx)
{
    char is[160], has[160];
    for (int i = 0; i < op->n_inputs; i++)
        if (dx[i] && iso_tensor_good(dx[i]) && !iso_shape_equal(&dx[i]->shape, &op->inputs[i]->shape))
            iso_graph_fail(op->graph, "%s: its .gradient gave %s for input %d, whose shape is %s",
                           op->type->name, iso_shape_text(&dx[i]->shape, is, sizeof is), i,
                           iso_shape_text(&op->inputs[i]->shape, has, sizeof has));
    return op->graph->status == ISO_OK;
}

static void through(backward *pass, iso_op *op)
{
    iso_tensor *dy[ISO_MAX_OUTPUTS] = {0}, *dx[ISO_MAX_INPUTS] = {0};
    bool any = false, wanted = false;
    for (int i = 0; i < op->n_outputs; i++)
        any |= (dy[i] = gradient_so_far(pass, op->outputs[i])) != NULL;
    for (int i = 0; i < op->n_inputs; i++)
        wanted |= pass->depends[op->inputs[i]->id];
    if (!any || !wanted)
        return;
    if (op->type->no_second)
        iso_graph_fail(
            pass->graph,
            "the gradient of '%s' has no gradient of its own: second derivatives through this op are "
            "not supported",
            op->backward_of ? op->backward_of->type->name : op->type->name);
    if (!op->type->gradient || pass->graph->status != ISO_OK)
        return;
    iso_op *read = for_gradient(pass, op);
    int first = pass->graph->n_ops;
    for (int i = 0; i < op->n_outputs; i++)
        if (dy[i] && op->widened & 1u << i)
            dy[i] = iso_cast_back(dy[i], ISO_BF16);
    if (op->type == &iso_op_slice) {
        pass->adjoint[op->outputs[0]->id] = dy[0];
        pass->next_slice[op->id] = pass->last_slice[op->inputs[0]->id];
        pass->last_slice[op->inputs[0]->id] = op;
        return;
    }
    op->type->gradient(read, dy, dx);
    if (!check_gradients(op, dx))
        return;
    for (int i = 0; i < op->n_inputs; i++)
        if (dx[i] && pass->depends[op->inputs[i]->id])
            autodiff_gather(pass, op->inputs[i], dx[i]);
    for (int k = first; k < pass->graph->n_ops; k++)
        pass->graph->ops[k]->backward_of = op;
}

static bool differentiable(iso_tensor *loss)
{
    char text[160];
    if (!iso_tensor_good(loss))
        return false;
    if (!iso_tensor_within(loss->graph, loss))
        iso_graph_fail(loss->graph, "iso_gradients: '%s' was taken out of the graph with an earlier error",
                       iso_tensor_name(loss));
    else if (loss->shape.rank != 0 || !iso_dtype_is_float(loss->dtype))
        iso_graph_fail(loss->graph, "gradients are of a floating-point scalar; '%s' is %s of %s",
                       iso_tensor_name(loss), iso_shape_text(&loss->shape, text, sizeof text),
                       iso_dtype_name(loss->dtype));
    return loss->graph->status == ISO_OK;
}

/* The tensors that gradients are taken for. */
static bool check_sources(iso_graph *graph, iso_tensor *const *of, int count)
{
    if (count < 0)
        iso_graph_fail(graph, "iso_gradients: count is %d, it must not be negative", count);
    for (int i = 0; i < count; i++) {
        if (!of[i])
            iso_graph_fail(graph, "iso_gradients: of[%d] is NULL", i);
        else if (of[i]->graph != graph)
            iso_graph_fail(graph, "iso_gradients: of[%d] belongs to another graph", i);
        else if (!iso_tensor_within(graph, of[i]))
            iso_graph_fail(graph, "iso_gradients: of[%d] was taken out of the graph with an earlier error",
                           i);
    }
    return graph->status == ISO_OK;
}

void iso_gradients(iso_tensor *loss, iso_tensor *const *of, int count, iso_tensor **gradients)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(loss) || ISO_NULL_IN(loss->graph, of, gradients))
        return;
    for (int i = 0; i < count; i++)
        gradients[i] = NULL;
    if (!check_sources(loss->graph, of, count) || !differentiable(loss))
        return;
    iso_graph *graph = loss->graph;
    int ops = graph->n_ops, recomputing = graph->recomputing;
    backward pass = {.graph = graph, .n_tensors = graph->n_tensors};
    pass.depends = iso_new((size_t)pass.n_tensors * sizeof *pass.depends);
    pass.adjoint = iso_new((size_t)pass.n_tensors * sizeof *pass.adjoint);
    pass.again = iso_new(((size_t)ops + 1) * sizeof *pass.again);
    pass.last_slice = iso_new((size_t)pass.n_tensors * sizeof *pass.last_slice);
    pass.next_slice = iso_new(((size_t)ops + 1) * sizeof *pass.next_slice);
    graph->recomputing = 0;
    if (!pass.depends || !pass.adjoint || !pass.again || !pass.last_slice || !pass.next_slice) {
        const size_t of_tensor = sizeof *pass.depends + sizeof *pass.adjoint + sizeof *pass.last_slice,
                     of_op = sizeof *pass.again + sizeof *pass.next_slice;
        iso_graph_fail_memory(graph, "the gradients of tensors",
                              (size_t)pass.n_tensors * of_tensor + (size_t)ops * of_op);
    } else {
        mark_dependents(&pass, of, count, ops);
        pass.adjoint[loss->id] = iso_number(graph, loss->dtype, 1);
        for (int k = ops - 1; k >= 0 && graph->status == ISO_OK; k--)
            through(&pass, graph->ops[k]);
        for (int i = 0; i < count && graph->status == ISO_OK; i++)
            gradients[i] = pass.depends[of[i]->id] ? gradient_so_far(&pass, of[i]) : NULL;
    }
    graph->recomputing = recomputing;
    iso_free(pass.depends);
    iso_free(pass.adjoint);
    iso_free(pass.again);
    iso_free(pass.last_slice);
    iso_free(pass.next_slice);
}
