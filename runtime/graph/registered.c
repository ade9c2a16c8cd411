#include "runtime/graph/registered.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

/* ---- the list: it only grows, and is read without a lock ---- */

static _Atomic(iso_registered_op *) first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const iso_registered_op *iso_registered_op_find(const char *name)
{
    for (const iso_registered_op *op = atomic_load(&first); op; op = op->next)
        if (strcmp(op->type->name, name) == 0)
            return op;
    return NULL;
}

static void list(const iso_registered_op *op, iso_text *lines)
{
    if (!op)
        return;
    const iso_op_type *t = op->type;
    list(op->next, lines);
    iso_text_add(
        lines,
        "op '%s': rule '%s', %d outputs, %zu bytes of attributes, linear %x, in place %x, %s%s%s%d kernels\n",
        t->name, t->rule ? t->rule : "a function", t->n_outputs ? t->n_outputs : 1, t->attr_size, t->linear,
        t->in_place, t->jointly ? "jointly, " : "", t->contract_max ? "maximum, " : "",
        t->random ? "random, " : "", op->n_kernels);
}

void iso_registered_ops_list(iso_text *lines)
{
    list(atomic_load(&first), lines);
}

/* ---- the rule as text: operands made of letters, or all "..." ---- */

enum { ELLIPSIS = -1 };

typedef struct operands {
    int n_inputs, n_outputs;
    const char *at[ISO_MAX_INPUTS + ISO_MAX_OUTPUTS]; /* inputs, then outputs */
    int rank[ISO_MAX_INPUTS + ISO_MAX_OUTPUTS];       /* or ELLIPSIS */
} operands;

static int rank_of(const char *text)
{
    int rank = 0;
    if (strncmp(text, "...", 3) == 0)
        return ELLIPSIS;
    while (isalpha((unsigned char)text[rank]) || text[rank] == '.')
        rank++;
    return rank;
}

/* Finds the operands. Returns what is wrong with the text, or NULL. */
static const char *find_operands(const char *text, operands *o)
{
    bool after_arrow = false;
    *o = (operands){0};
    for (const char *at = text;; at++) {
        int *count = after_arrow ? &o->n_outputs : &o->n_inputs, i = o->n_inputs + o->n_outputs;
        if (*count == (after_arrow ? ISO_MAX_OUTPUTS : ISO_MAX_INPUTS))
            return "it has too many operands";
        o->at[i] = at;
        o->rank[i] = rank_of(at);
        (*count)++;
        at += o->rank[i] == ELLIPSIS ? 3 : o->rank[i];
        if (*at == 0)
            return after_arrow ? NULL : "it has no '->'";
        if (strncmp(at, "->", 2) == 0 && !after_arrow)
            after_arrow = *at++ == '-';
        else if (*at != ',')
            return "operands have letters or '.' for their dimensions, with ',' between them and one '->'";
    }
}

static const char *check_letters(const operands *o)
{
    char letters[ISO_MAX_FACTORS + 1] = "";
    for (int i = 0; i < o->n_inputs + o->n_outputs; i++) {
        if ((o->rank[i] == ELLIPSIS) != (o->rank[0] == ELLIPSIS))
            return "either all operands are '...' or none is";
        if (o->rank[i] > ISO_MAX_RANK)
            return "an operand has too many dimensions";
        for (int d = 0; d < o->rank[i]; d++) {
            const char *letter = o->at[i] + d;
            if (*letter != '.' && memchr(o->at[i], *letter, (size_t)d))
                return "a letter occurs twice in one operand";
            if (*letter == '.' || strchr(letters, *letter))
                continue;
            if (i >= o->n_inputs)
                return "an output has a letter that no input has";
            if (strlen(letters) == ISO_MAX_FACTORS)
                return "it has too many letters";
            letters[strlen(letters)] = *letter;
        }
    }
    return NULL;
}

static iso_status check_rule(const iso_op_type *type)
{
    operands o;
    if (!type->rule == !type->rule_of)
        return iso_error(ISO_INVALID, "op '%s': one of .rule and .rule_of must be given", type->name);
    if (!type->rule)
        return ISO_OK;
    const char *wrong = find_operands(type->rule, &o);
    if (!wrong)
        wrong = check_letters(&o);
    if (!wrong && o.n_outputs != (type->n_outputs ? type->n_outputs : 1))
        wrong = "it does not have as many outputs as .n_outputs says";
    if (!wrong && (uint64_t)type->linear >> o.n_inputs)
        wrong = ".linear names an input that it does not have";
    if (!wrong && (uint64_t)type->in_place >> o.n_inputs)
        wrong = ".in_place names an input that it does not have";
    return wrong ? iso_error(ISO_INVALID, "op '%s': the rule '%s': %s", type->name, type->rule, wrong)
                 : ISO_OK;
}

/* ---- registration ---- */

static iso_status check_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            return iso_error(ISO_INVALID, "op '%s': a name may have only letters, digits, '_' and '.'", name);
    if (!*name)
        return iso_error(ISO_INVALID, "the name of an op is empty");
    const iso_op_type *const planner[] = {&iso_op_input,   &iso_op_variable, &iso_op_constant,
                                          &iso_op_by_mode, &iso_op_gate,     &iso_op_apply_optimizer};
    bool taken = iso_op_type_find(name) || iso_registered_op_find(name);
    for (size_t i = 0; i < sizeof planner / sizeof *planner; i++)
        taken = taken || strcmp(planner[i]->name, name) == 0;
    return taken ? iso_error(ISO_INVALID, "op '%s': there is an op of this name", name) : ISO_OK;
}

static iso_status check_type(const iso_op_type *type)
{
    iso_status status = check_name(type->name);
    if (status != ISO_OK)
        return status;
    if (!type->infer)
        return iso_error(ISO_INVALID, "op '%s': .infer is NULL", type->name);
    if (type->n_outputs < 0 || type->n_outputs > ISO_MAX_OUTPUTS)
        return iso_error(ISO_INVALID, "op '%s': .n_outputs is %d, at most %d are possible", type->name,
                         type->n_outputs, ISO_MAX_OUTPUTS);
    if (type->no_kernel)
        return iso_error(ISO_INVALID, "op '%s': .no_kernel is for the library's own ops", type->name);
    return check_rule(type);
}

iso_status iso_registered_op_add(const iso_op_type *type, const struct iso_kernel *kernel, int kernels)
{
    pthread_mutex_lock(&lock);
    iso_status status = check_type(type);
    iso_registered_op *op = status == ISO_OK ? iso_new(sizeof *op) : NULL;
    if (op) {
        *op = (iso_registered_op){type, kernel, kernels, atomic_load(&first)};
        atomic_store(&first, op);
    } else if (status == ISO_OK)
        status = iso_no_memory("the op '%s' (%zu bytes)", type->name, sizeof *op);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- ops of registered types ---- */

bool iso_op_type_check(iso_graph *graph, const iso_op_type *type)
{
    const iso_registered_op *op = iso_registered_op_find(type->name);
    if (op ? op->type == type : type->no_kernel || iso_op_type_find(type->name) == type)
        return true;
    iso_graph_fail(graph, "the op '%s' is not registered (iso_op_register)", type->name);
    return false;
}

static bool check_outputs(iso_op *op)
{
    for (int i = 0; i < op->n_outputs; i++) {
        const iso_tensor *y = op->outputs[i];
        bool good = iso_dtype_size(y->dtype) > 0 && y->shape.rank >= 0 && y->shape.rank <= ISO_MAX_RANK;
        for (int d = 0; good && d < y->shape.rank; d++)
            good = y->shape.dim[d] >= (d == 0 ? ISO_BATCH : 0);
        if (!good)
            return iso_op_refuse(op, "its .infer gave output %d no type, or no shape", i);
    }
    return true;
}

/* Checks that each letter has the same extent wherever it occurs. */
static bool check_extents(iso_op *op, const operands *o, const iso_shape *const *shape)
{
    int64_t extent[128];
    bool known[128] = {false};
    for (int i = 0; i < o->n_inputs + o->n_outputs; i++) {
        for (int d = 0; d < o->rank[i]; d++) {
            int letter = o->at[i][d] & 127;
            if (letter == '.')
                continue;
            if (known[letter] && extent[letter] != shape[i]->dim[d])
                return iso_op_refuse(op, "in its rule '%s' the dimensions '%c' have different extents",
                                     op->type->rule, letter);
            known[letter] = true;
            extent[letter] = shape[i]->dim[d];
        }
    }
    return true;
}

/* Checks a rule of '...': inputs must broadcast to the outputs, which all have one shape. */
static bool check_broadcast(iso_op *op, const operands *o, const iso_shape *const *shape)
{
    const iso_shape *out = shape[o->n_inputs];
    for (int i = 0; i < o->n_inputs + o->n_outputs; i++) {
        iso_shape both;
        if (!iso_shape_broadcast(shape[i], out, &both) || !iso_shape_equal(&both, out) ||
            (i > o->n_inputs && !iso_shape_equal(shape[i], out)))
            return iso_op_refuse(op, "by its rule '%s' the inputs must broadcast to the output",
                                 op->type->rule);
    }
    return true;
}

bool iso_registered_op_check(iso_op *op)
{
    operands o;
    const iso_shape *shape[ISO_MAX_INPUTS + ISO_MAX_OUTPUTS];
    if (!iso_registered_op_find(op->type->name))
        return true;
    if (!check_outputs(op) || !op->type->rule)
        return iso_graph_error(op->graph) == ISO_OK;
    find_operands(op->type->rule, &o);
    if (o.n_inputs != op->n_inputs || o.n_outputs != op->n_outputs)
        return iso_op_refuse(op, "its rule '%s' is for %d inputs and %d outputs", op->type->rule, o.n_inputs,
                             o.n_outputs);
    for (int i = 0; i < o.n_inputs + o.n_outputs; i++) {
        shape[i] = i < o.n_inputs ? &op->inputs[i]->shape : &op->outputs[i - o.n_inputs]->shape;
        if (o.rank[i] != ELLIPSIS && o.rank[i] != shape[i]->rank)
            return iso_op_refuse(op, "its rule '%s' has %d dimensions for %s %d, which has %d",
                                 op->type->rule, o.rank[i], i < o.n_inputs ? "input" : "output",
                                 i < o.n_inputs ? i : i - o.n_inputs, shape[i]->rank);
    }
    return o.rank[0] == ELLIPSIS ? check_broadcast(op, &o, shape) : check_extents(op, &o, shape);
}
