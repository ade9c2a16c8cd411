/* The search for layouts: coordinate descent on the cost of plans, one group of like tensors at a time. */
#include "runtime/exec/auto_sharding/suggest.h"
#include "runtime/exec/function/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/pattern.h"
#include "runtime/base/table.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/dry_run.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/graph/paths.h"

enum {
    MOST_ITEMS = 64,
    MOST_CHOICES = 96,
    MOST_SWEEPS = 4,
    MOST_STARTS = 2 * (1 + 2 * (ISO_MAX_AXES + 1)),
    DESCENTS = 3,       /* from the best of the starts */
    MOST_WORK = 250000, /* instructions of all plans; bounds the search equally on all machines */
    LAYOUT_TEXT = ISO_LAYOUT_TEXT,
    ROWS = -1
};

/* A group of tensors that get one layout: variables of the same shape and role in like layers. Or ROWS: how
 * the rows of all inputs are split. Choice 0 is the layout without a key. */
typedef struct item {
    int variable; /* the first one */
    int n_members, *members;
    int n_choices, chosen;
    iso_layout *choices;
} item;

typedef struct outcome {
    double excess, cost, measured, flops, bytes;
    int64_t slot_bytes, host_bytes;
} outcome;

typedef struct search {
    iso_graph *graph;
    iso_mesh *mesh;
    const iso_function_options *function;
    const iso_suggest_options *options;
    int n_items, tried;
    int64_t work;    /* instructions planned so far */
    iso_table known; /* hashes of sets of choices: their outcomes */
    outcome *outcomes;
    int n_outcomes;
    item items[MOST_ITEMS + 1];
} search;

/* ---- what a step costs ---- */

/* Costs, in operations of a product at full speed: a core did about 50 in a nanosecond when this was
 * measured. */
static const double ELEMENT = 12, /* an element that an op writes: memory is slower than arithmetic */
    BYTE_HERE = 8,                /* a byte from another slot of the host */
    BYTE_AWAY = 100,              /* or from another host */
    WEIGHT_BYTE = 5,              /* a byte of weights that another slot has updated: it comes from that
                                     slot's cache */
    BARRIER_HERE = 1e5,           /* an exchange: slots wait for each other */
    BARRIER_AWAY = 2e6;

/* Products of few rows or columns are slower: they do not fill the tiles of about 6 by 16 elements, and
 * loaded data is reused little. */
static double narrowness(const iso_shape *local)
{
    double factor = 1;
    for (int d = local->rank - 1; d >= 0 && d >= local->rank - 2; d--)
        factor *= 1 + (d == local->rank - 1 ? 8.0 : 4.0) / (double)(local->dim[d] > 0 ? local->dim[d] : 1);
    return factor;
}

static double cost_of_op(const iso_plan_report *r, const iso_report_op *op)
{
    double elements = 1, flops = op->flops / r->n_slots;
    bool computes = op->kind == ISO_REPORT_OP || op->kind == ISO_REPORT_PRODUCT;
    if (!computes && op->kind != ISO_REPORT_COPY)
        return 0;
    for (int d = 0; d < op->local.rank; d++)
        elements *= (double)op->local.dim[d];
    return (flops > 8 * elements ? flops * narrowness(&op->local) : flops) + ELEMENT * elements;
}

/* Weights that a slot reads and another one of its host has updated. */
static double weights_of_others(const iso_plan_report *r)
{
    double bytes = 0;
    for (int i = 0; i < r->n_variables; i++)
        if (r->variables[i].split > 1)
            bytes += (double)r->variables[i].bytes * (r->variables[i].split - 1) / r->variables[i].split;
    return bytes;
}

double iso_suggest_cost(const iso_plan_report *r)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL_AS("report", r))
        return 0;
    bool away = r->n_hosts > 1;
    double cost = r->bytes / r->n_slots * (away ? BYTE_AWAY : BYTE_HERE) + WEIGHT_BYTE * weights_of_others(r);
    for (int i = 0; i < r->n_ops; i++) {
        cost += cost_of_op(r, &r->ops[i]);
        if (r->n_slots > 1 && r->ops[i].kind == ISO_REPORT_EXCHANGE)
            cost += away ? BARRIER_AWAY : BARRIER_HERE;
    }
    for (int i = 0; i < r->n_collectives; i++) /* sent in the end as one exchange, or while slots compute */
        cost -= r->collectives[i].next_step ? BARRIER_AWAY : 0;
    return cost;
}

/* ---- choices ---- */

static bool add_choice(item *it, const iso_layout *layout)
{
    for (int i = 0; i < it->n_choices; i++)
        if (iso_layout_equal(&it->choices[i], layout))
            return true;
    if (it->n_choices == MOST_CHOICES)
        return false;
    it->choices[it->n_choices++] = *layout;
    return true;
}

static void shard(iso_layout *layout, int dim, int axis)
{
    layout->dim[dim].axis[layout->dim[dim].count++] = (int8_t)axis;
}

/* Every slot along the axis gets a part that is not empty. */
static bool divides(const search *s, const iso_shape *shape, int dim, int axis)
{
    return s->mesh->size[axis] > 1 && shape->dim[dim] >= s->mesh->size[axis];
}

/* Replicated; each dimension by each axis; by all axes; the last two dimensions by two axes. */
static void suggest_list_choices(search *s, item *it, const iso_shape *shape)
{
    iso_layout whole = iso_layout_whole(shape->rank), layout;
    int axes = s->mesh->n_axes, last = shape->rank - 1;
    add_choice(it, &whole);
    for (int d = last; d >= 0; d--)
        for (int a = axes - 1; a >= 0; a--) {
            layout = whole;
            shard(&layout, d, a);
            if (divides(s, shape, d, a))
                add_choice(it, &layout);
        }
    for (int d = last; d >= 0 && axes > 1; d--) {
        layout = whole;
        for (int a = 0; a < axes; a++)
            if (s->mesh->size[a] > 1)
                shard(&layout, d, a);
        if (shape->dim[d] >= s->mesh->n_slots)
            add_choice(it, &layout);
    }
    for (int a = 0; last > 0 && a < axes; a++)
        for (int b = 0; b < axes; b++) {
            layout = whole;
            shard(&layout, last - 1, a);
            if (a == b || !divides(s, shape, last - 1, a) || !divides(s, shape, last, b))
                continue;
            shard(&layout, last, b);
            add_choice(it, &layout);
        }
}

/* The function's inputs that have rows, one after the other from *at on; NULL: there are no more. */
static const iso_tensor *next_input(const search *s, int *at)
{
    while (*at < ISO_MAX_FUNCTION_INPUTS && s->function->inputs[*at]) {
        const iso_tensor *input = s->function->inputs[(*at)++];
        if (iso_input_has_batch(input))
            return input;
    }
    return NULL;
}

/* Whether a key can set the layout of each of these inputs alone. */
static bool inputs_have_own_paths(const search *s)
{
    const iso_tensor *input;
    bool own = true;
    for (int at = 0; own && (input = next_input(s, &at));) {
        iso_text path = {0};
        iso_text_add(&path, "%s/output", iso_tensor_name(input));
        own = !path.failed && iso_graph_count_path(s->graph, iso_text_get(&path)) == 1;
        iso_text_free(&path);
    }
    return own;
}

/* Rows over the first axis, which is the default, or over all axes. */
static void list_rows(search *s, item *it)
{
    iso_layout first = iso_layout_whole(1), all = iso_layout_whole(1);
    shard(&first, 0, 0);
    for (int a = 0; a < s->mesh->n_axes; a++)
        shard(&all, 0, a);
    add_choice(it, &first);
    if (s->mesh->n_axes > 1 && inputs_have_own_paths(s))
        add_choice(it, &all);
}

static int64_t suggest_elements(const iso_graph *graph, int variable)
{
    int64_t count = 0;
    return iso_shape_count(&graph->variables[variable]->shape, &count) == ISO_OK ? count : 0;
}

typedef struct weighed {
    int64_t elements;
    int variable;
} weighed;

static int heavier(const void *a, const void *b)
{
    const weighed *x = a, *y = b;
    return x->elements != y->elements ? (x->elements < y->elements ? 1 : -1) : x->variable - y->variable;
}

/* Whether two paths differ only in the numbers of layers: "dense/kernel" and "dense_3/kernel". */
static bool same_role(const char *a, const char *b)
{
    for (;; a++, b++) {
        size_t digits;
        while (*a == '_' && (digits = strspn(a + 1, "0123456789")) > 0)
            a += digits + 1;
        while (*b == '_' && (digits = strspn(b + 1, "0123456789")) > 0)
            b += digits + 1;
        if (*a != *b)
            return false;
        if (!*a)
            return true;
    }
}

/* The number of the model's kernels that were made before this one: tells which of a pair it is. */
static int number_among_kernels(const search *s, int variable)
{
    int number = 0;
    for (int i = 0; i < variable; i++)
        number += iso_variable_trainable(s->graph->variables[i]) && s->graph->variables[i]->shape.rank > 1;
    return number;
}

static item *find_like(search *s, int variable)
{
    const iso_variable *v = s->graph->variables[variable];
    for (int i = 1; i < s->n_items; i++) {
        const iso_variable *first = s->graph->variables[s->items[i].variable];
        if (iso_shape_equal(&first->shape, &v->shape) && same_role(first->path, v->path) &&
            number_among_kernels(s, variable) % 2 == number_among_kernels(s, s->items[i].variable) % 2)
            return &s->items[i];
    }
    return NULL;
}

static iso_status suggest_add_member(item *it, int variable)
{
    return iso_list_add(it->members, it->n_members, variable, "the choices of layouts");
}

static iso_status new_item(search *s, int variable)
{
    item *it = &s->items[s->n_items];
    *it = (item){.variable = variable, .choices = iso_new(MOST_CHOICES * sizeof *it->choices)};
    if (!it->choices)
        return iso_no_memory("the choices of layouts");
    s->n_items++;
    if (variable == ROWS) {
        list_rows(s, it);
        return ISO_OK;
    }
    suggest_list_choices(s, it, &s->graph->variables[variable]->shape);
    return suggest_add_member(it, variable);
}

/* Trainable variables that are not scalars, the heaviest first; returns their number. */
static int order_variables(const iso_graph *graph, weighed *order)
{
    int count = 0;
    for (int i = 0; i < graph->n_variables; i++)
        if (iso_variable_trainable(graph->variables[i]) && graph->variables[i]->shape.rank > 0)
            order[count++] = (weighed){suggest_elements(graph, i), i};
    qsort(order, (size_t)count, sizeof *order, heavier);
    return count;
}

static iso_status list_items(search *s)
{
    iso_status status = ISO_OK;
    weighed *order = iso_new(((size_t)s->graph->n_variables + 1) * sizeof *order);
    if (!order)
        return iso_error(ISO_NO_MEMORY, "no memory to order %d variables", s->graph->n_variables);
    int count = order_variables(s->graph, order);
    ISO_TRY(new_item(s, ROWS));
    for (int i = 0; i < count; i++) {
        item *like = find_like(s, order[i].variable);
        if (like)
            ISO_TRY(suggest_add_member(like, order[i].variable));
        else if (s->n_items <= MOST_ITEMS)
            ISO_TRY(new_item(s, order[i].variable));
    }
done:
    iso_free(order);
    return status;
}

/* ---- a trial ---- */

/* The layout of an input whose rows have this layout. */
static iso_layout input_layout(const iso_layout *rows, const iso_shape *shape)
{
    iso_layout layout = iso_layout_whole(shape->rank);
    layout.dim[0] = rows->dim[0];
    return layout;
}

/* What is done with a layout and its key, which matches one path alone. */
typedef iso_status (*layout_visit)(void *arg, const char *key, const iso_layout *layout);

/* Visits the layout of the path "<name><end>". */
static iso_status visit_path(layout_visit visit, void *arg, const char *name, const char *end,
                             const iso_layout *layout)
{
    iso_text key = {0};
    iso_pattern_add_path(&key, name);
    iso_text_add(&key, "%s", end);
    iso_status status = key.failed ? iso_no_memory("a layout key") : visit(arg, iso_text_get(&key), layout);
    iso_text_free(&key);
    return status;
}

/* Visits every layout that needs a key. */
static iso_status visit_layouts(const search *s, layout_visit visit, void *arg)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->n_items; i++) {
        const item *it = &s->items[i];
        const iso_layout *layout = &it->choices[it->chosen];
        if (it->chosen == 0)
            continue;
        for (int m = 0; m < it->n_members; m++)
            ISO_TRY(visit_path(visit, arg, s->graph->variables[it->members[m]]->path, "", layout));
        const iso_tensor *input;
        for (int at = 0; it->variable == ROWS && (input = next_input(s, &at));) {
            iso_layout rows = input_layout(layout, iso_tensor_shape(input));
            ISO_TRY(visit_path(visit, arg, iso_tensor_name(input), "/output", &rows));
        }
    }
done:
    return status;
}

typedef struct setter {
    const search *s;
    iso_layout_map *map;
} setter;

static iso_status set_key(void *arg, const char *key, const iso_layout *layout)
{
    const setter *to = arg;
    char text[LAYOUT_TEXT];
    return iso_layout_map_set(to->map, key, iso_layout_text(to->s->mesh, layout, text, sizeof text));
}

static void suggest_weigh(const search *s, const iso_plan_report *r, outcome *out)
{
    const iso_suggest_options *o = s->options;
    *out = (outcome){.cost = r->time ? r->time->step : iso_suggest_cost(r),
                     .measured = r->time ? r->time->measured : 0,
                     .flops = r->flops / r->n_slots,
                     .bytes = r->bytes / r->n_slots,
                     .slot_bytes = r->slot.total,
                     .host_bytes = r->host.total};
    double needed = (double)(o->memory_of_slot ? out->slot_bytes : out->host_bytes);
    out->excess = o->memory > 0 && needed > o->memory ? needed - o->memory : 0;
}

static iso_status plan_it(search *s, outcome *out)
{
    iso_status status;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_plan_report *report = NULL;
    void *before = s->graph->distribution;
    ISO_TRY(iso_layout_map_create(s->mesh, &map));
    ISO_TRY(visit_layouts(s, set_key, &(setter){s, map}));
    ISO_TRY(iso_model_parallel_create(map, &distribution));
    s->graph->distribution = distribution;
    ISO_TRY(iso_function_plan_timed(s->graph, s->options->rows, s->options->slots_per_host, s->function,
                                    s->options->time, &report));
    suggest_weigh(s, report, out);
    s->tried++;
    s->work += report->n_ops;
    if (s->options->progress)
        s->options->progress(s->options->user, s->tried);
done:
    s->graph->distribution = before;
    iso_plan_report_destroy(report);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    return status;
}

/* ---- known outcomes ---- */

static uint64_t key_of_choices(const search *s)
{
    uint64_t key = 0;
    for (int i = 0; i < s->n_items; i++)
        key = iso_hash_mix(key ^ (uint64_t)s->items[i].chosen);
    return key;
}

/* Plans each set of choices once. */
static iso_status try_it(search *s, outcome *out)
{
    static const char what[] = "a search of layouts";
    iso_status status = ISO_OK;
    uint64_t key = key_of_choices(s);
    int number = iso_table_find(&s->known, key, NULL, NULL);
    if (number < 0) {
        outcome fresh = {0};
        number = s->n_outcomes;
        ISO_TRY(plan_it(s, &fresh));
        ISO_TRY(iso_list_add(s->outcomes, s->n_outcomes, fresh, what));
        ISO_TRY(iso_table_add(&s->known, key, number, what));
    }
    *out = s->outcomes[number];
done:
    return status;
}

static bool has_time(const search *s)
{
    return s->work < MOST_WORK / (s->options->searches > 0 ? s->options->searches : 1);
}

/* ---- the descent ---- */

/* A layout that saves less than this fraction of a step is not worth a key. */
static const double WORTH_IT = 1e-3;

static bool suggest_better(const outcome *a, const outcome *b)
{
    if (a->excess != b->excess)
        return a->excess < b->excess;
    return a->cost < b->cost * (1 - WORTH_IT);
}

/* Gives one item the layout that is best while the others keep theirs. */
static iso_status improve(search *s, item *it, outcome *best, bool *changed)
{
    int kept = it->chosen;
    for (int i = 0; i < it->n_choices; i++) {
        outcome trial = {0};
        if (i == kept || !has_time(s))
            continue;
        int now = it->chosen;
        it->chosen = i;
        iso_status status = try_it(s, &trial);
        if (status != ISO_OK)
            return status;
        if (suggest_better(&trial, best))
            *best = trial;
        else
            it->chosen = now;
    }
    *changed |= it->chosen != kept;
    return ISO_OK;
}

/* Begins at the choices that are set and leaves its last choices in the items. */
static iso_status descend(search *s, outcome *best)
{
    bool changed = true;
    iso_status status = ISO_OK;
    ISO_TRY(try_it(s, best));
    for (int sweep = 0; changed && sweep < MOST_SWEEPS; sweep++) {
        changed = false;
        for (int i = 1; i < s->n_items && has_time(s); i++)
            ISO_TRY(improve(s, &s->items[i], best, &changed));
    }
done:
    return status;
}

/* ---- where descents begin ---- */

/* The number of the choice that shards dimension `dim` over these axes; 0 (replicated) if there is none. */
static int find_choice(const search *s, const item *it, int dim, uint32_t axes)
{
    iso_layout wanted = iso_layout_whole(it->choices[0].rank);
    for (int a = 0; a < s->mesh->n_axes; a++)
        if (axes & 1u << a && s->mesh->size[a] > 1)
            shard(&wanted, dim, a);
    for (int i = 0; i < it->n_choices; i++)
        if (iso_layout_equal(&it->choices[i], &wanted))
            return i;
    return 0;
}

/* The known patterns: nothing is sharded; kernels are sharded by columns; of each pair of kernels, the first
 * is sharded by columns and the second by rows. */
typedef enum start_pattern { REPLICATED, COLUMNS, PAIRS, PATTERNS } start_pattern;

static void set_pattern(search *s, int rows, start_pattern pattern, uint32_t axes)
{
    s->items[0].chosen = rows;
    for (int i = 1; i < s->n_items; i++) {
        item *it = &s->items[i];
        int last = it->choices[0].rank - 1;
        bool second = pattern == PAIRS && last > 0 && number_among_kernels(s, it->variable) % 2;
        it->chosen = pattern == REPLICATED || last == 0 ? 0 : find_choice(s, it, last - second, axes);
    }
}

/* A set of choices and what it costs. */
typedef struct start {
    int rows;
    start_pattern pattern;
    uint32_t axes;
    outcome outcome;
} start;

typedef struct starts {
    int count;
    start start[MOST_STARTS];
} starts;

static iso_status suggest_add_start(search *s, starts *all, int rows, start_pattern pattern, uint32_t axes)
{
    start *fresh = &all->start[all->count];
    *fresh = (start){.rows = rows, .pattern = pattern, .axes = axes};
    set_pattern(s, rows, pattern, axes);
    iso_status status = try_it(s, &fresh->outcome);
    all->count += status == ISO_OK;
    return status;
}

/* Lists the starts: for each way to split rows, replicated variables come first. */
static iso_status list_starts(search *s, starts *all)
{
    iso_status status = ISO_OK;
    uint32_t every = (1u << s->mesh->n_axes) - 1;
    for (int rows = 0; rows < s->items[0].n_choices; rows++) {
        ISO_TRY(suggest_add_start(s, all, rows, REPLICATED, 0));
        for (int k = COLUMNS; k < PATTERNS; k++) {
            for (int a = 0; a < s->mesh->n_axes && s->mesh->n_axes > 1; a++)
                if (s->mesh->size[a] > 1)
                    ISO_TRY(suggest_add_start(s, all, rows, (start_pattern)k, 1u << a));
            ISO_TRY(suggest_add_start(s, all, rows, (start_pattern)k, every));
        }
    }
done:
    return status;
}

/* Sorted by cost; starts of equal cost stay in the order in which they were found. */
static void sort_starts(starts *all)
{
    for (int i = 1; i < all->count; i++)
        for (int k = i; k > 0 && suggest_better(&all->start[k].outcome, &all->start[k - 1].outcome); k--) {
            start before = all->start[k - 1];
            all->start[k - 1] = all->start[k];
            all->start[k] = before;
        }
}

/* Layouts that save less than this fraction of data parallel's cost are not suggested: costs are only
 * estimates. */
static const double CLEARLY = 0.1;

typedef struct record {
    outcome outcome;
    int chosen[MOST_ITEMS + 1];
} record;

static void suggest_keep(const search *s, const outcome *found, record *best)
{
    best->outcome = *found;
    for (int i = 0; i < s->n_items; i++)
        best->chosen[i] = s->items[i].chosen;
}

/* Data parallel: replicated variables, and the better of the layouts of rows. */
static void find_data_parallel(search *s, const starts *all, record *found)
{
    const start *best = NULL;
    for (int i = 0; i < all->count; i++)
        if (all->start[i].pattern == REPLICATED &&
            (!best || suggest_better(&all->start[i].outcome, &best->outcome)))
            best = &all->start[i];
    set_pattern(s, best->rows, REPLICATED, 0);
    suggest_keep(s, &best->outcome, found);
}

static bool is_clearly_better(const outcome *a, const outcome *b)
{
    return a->excess != b->excess ? a->excess < b->excess : a->cost < b->cost * (1 - CLEARLY);
}

static iso_status suggest_find_best(search *s, outcome *found, double *data_parallel)
{
    starts all = {0};
    record best, plain;
    iso_status status = ISO_OK;
    ISO_TRY(list_starts(s, &all));
    find_data_parallel(s, &all, &plain);
    *data_parallel = plain.outcome.cost;
    sort_starts(&all);
    best = plain;
    for (int i = 0; i < all.count && i < (s->options->starts_only ? 1 : DESCENTS); i++) {
        outcome end = all.start[i].outcome;
        set_pattern(s, all.start[i].rows, all.start[i].pattern, all.start[i].axes);
        if (!s->options->starts_only)
            ISO_TRY(descend(s, &end));
        if (suggest_better(&end, &best.outcome))
            suggest_keep(s, &end, &best);
    }
    if (!is_clearly_better(&best.outcome, &plain.outcome))
        best = plain;
    for (int i = 0; i < s->n_items; i++)
        s->items[i].chosen = best.chosen[i];
    *found = best.outcome;
done:
    return status;
}

/* ---- the result ---- */

typedef struct writer {
    const search *s;
    iso_suggestion *suggestion;
} writer;

static iso_status write_layout(void *arg, const char *key, const iso_layout *layout)
{
    const writer *w = arg;
    char text[LAYOUT_TEXT];
    iso_suggestion *out = w->suggestion;
    char *copy = iso_strdup(key);
    char *value = iso_strdup(iso_layout_text(w->s->mesh, layout, text, sizeof text));
    if (!copy || !value) {
        iso_free(copy);
        iso_free(value);
        return iso_no_memory("a suggestion");
    }
    out->layouts[out->n_layouts++] = (iso_suggested_layout){copy, value};
    return ISO_OK;
}

static iso_status make_suggestion(const search *s, const outcome *best, double data_parallel,
                                  iso_suggestion **out)
{
    iso_suggestion *made = iso_new(sizeof *made);
    size_t most = (size_t)s->graph->n_variables + ISO_MAX_FUNCTION_INPUTS;
    if (!made || !(made->layouts = iso_new(most * sizeof *made->layouts))) {
        iso_free(made);
        return iso_no_memory("a suggestion");
    }
    made->tried = s->tried;
    made->fits = best->excess == 0;
    made->flops = best->flops;
    made->bytes = best->bytes;
    made->cost = best->cost;
    made->measured = best->measured;
    made->data_parallel = data_parallel;
    made->slot_bytes = best->slot_bytes;
    made->host_bytes = best->host_bytes;
    iso_status status = visit_layouts(s, write_layout, &(writer){s, made});
    if (status == ISO_OK)
        *out = made;
    else
        iso_suggestion_destroy(made);
    return status;
}

static void free_item(item *it)
{
    iso_free(it->choices);
    iso_free(it->members);
}

iso_status iso_function_suggest(iso_graph *graph, iso_mesh *mesh, const iso_function_options *function,
                                const iso_suggest_options *options, iso_suggestion **suggestion)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(graph, mesh, function, options, suggestion);
    iso_status status;
    outcome best = {0};
    double data_parallel = 0;
    search *s = iso_new(sizeof *s);
    if (!s)
        return iso_no_memory("a search of layouts");
    *s = (search){.graph = graph, .mesh = mesh, .function = function, .options = options};
    if (graph->runtime)
        ISO_TRY(iso_error(ISO_INVALID, "layouts can be suggested before a graph's first function is made"));
    ISO_TRY(iso_graph_error(graph));
    ISO_TRY(list_items(s));
    ISO_TRY(suggest_find_best(s, &best, &data_parallel));
    ISO_TRY(make_suggestion(s, &best, data_parallel, suggestion));
done:
    for (int i = 0; i < s->n_items; i++)
        free_item(&s->items[i]);
    iso_free(s->outcomes);
    iso_table_free(&s->known);
    iso_free(s);
    return status;
}

void iso_suggestion_destroy(iso_suggestion *suggestion)
{
    if (!suggestion)
        return;
    for (int i = 0; i < suggestion->n_layouts; i++) {
        iso_free((char *)suggestion->layouts[i].path);
        iso_free((char *)suggestion->layouts[i].layout);
    }
    iso_free(suggestion->layouts);
    iso_free(suggestion);
}
