/* The search for layouts: a descent, one tensor at a time, over the costs that plans state. */
#include "runtime/exec/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/exec/function_impl.h"

enum {
    MOST_ITEMS = 64,
    MOST_CHOICES = 96,
    MOST_SWEEPS = 4,
    MOST_TRIED = 4000,
    LAYOUT_TEXT = ISO_LAYOUT_TEXT,
    ROWS = -1
};

/* A tensor whose layout is chosen, or ROWS: how all inputs' rows are split. Choice 0 is what holds without a
 * key. */
typedef struct item {
    int variable;
    int choices, chosen;
    iso_layout *choice;
} item;

typedef struct outcome {
    double excess, cost, flops, bytes;
    int64_t slot_bytes, host_bytes;
} outcome;

typedef struct search {
    iso_graph *graph;
    iso_mesh *mesh;
    const iso_function_options *function;
    const iso_suggest_options *options;
    int items, tried;
    item item[MOST_ITEMS + 1];
} search;

/* ---- what there is to choose ---- */

static bool add_choice(item *it, const iso_layout *layout)
{
    for (int i = 0; i < it->choices; i++)
        if (iso_layout_equal(&it->choice[i], layout))
            return true;
    if (it->choices == MOST_CHOICES)
        return false;
    it->choice[it->choices++] = *layout;
    return true;
}

static void shard(iso_layout *layout, int dim, int axis)
{
    layout->dim[dim].axis[layout->dim[dim].count++] = (int8_t)axis;
}

/* One that gives every slot along the axis something. */
static bool divides(const search *s, const iso_shape *shape, int dim, int axis)
{
    return s->mesh->size[axis] > 1 && shape->dim[dim] >= s->mesh->size[axis];
}

/* Replicated; each dimension by each axis; by all axes; the last two dimensions by two axes. */
static void list_choices(search *s, item *it, const iso_shape *shape)
{
    iso_layout whole = iso_layout_whole(shape->rank), layout;
    int axes = s->mesh->axes, last = shape->rank - 1;
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
        if (shape->dim[d] >= s->mesh->slots)
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

/* Rows over the first axis, as without a key, or over all. */
static void list_rows(search *s, item *it)
{
    iso_layout first = iso_layout_whole(1), all = iso_layout_whole(1);
    shard(&first, 0, 0);
    for (int a = 0; a < s->mesh->axes; a++)
        shard(&all, 0, a);
    add_choice(it, &first);
    if (s->mesh->axes > 1)
        add_choice(it, &all);
}

static int64_t elements(const iso_graph *graph, int variable)
{
    int64_t count = 0;
    return iso_shape_count(&graph->variable[variable]->shape, &count) == ISO_OK ? count : 0;
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

static iso_status new_item(search *s, int variable)
{
    item *it = &s->item[s->items];
    *it = (item){.variable = variable, .choice = iso_new(MOST_CHOICES * sizeof *it->choice)};
    if (!it->choice)
        return iso_error(ISO_NO_MEMORY, "no memory for the choices of layouts");
    s->items++;
    if (variable == ROWS)
        list_rows(s, it);
    else
        list_choices(s, it, &s->graph->variable[variable]->shape);
    return ISO_OK;
}

static iso_status list_items(search *s)
{
    const iso_graph *graph = s->graph;
    int count = 0;
    iso_status status = ISO_OK;
    weighed *order = iso_new(((size_t)graph->variables + 1) * sizeof *order);
    if (!order)
        return iso_error(ISO_NO_MEMORY, "no memory to order %d variables", graph->variables);
    for (int i = 0; i < graph->variables; i++)
        if (graph->variable[i]->trainable && graph->variable[i]->shape.rank > 0)
            order[count++] = (weighed){elements(graph, i), i};
    qsort(order, (size_t)count, sizeof *order, heavier);
    ISO_TRY(new_item(s, ROWS));
    for (int i = 0; i < count && i < MOST_ITEMS; i++)
        ISO_TRY(new_item(s, order[i].variable));
done:
    iso_free(order);
    return status;
}

/* ---- a trial ---- */

/* The layout of an input whose rows are split so. */
static iso_layout input_layout(const iso_layout *rows, const iso_shape *shape)
{
    iso_layout layout = iso_layout_whole(shape->rank);
    layout.dim[0] = rows->dim[0];
    return layout;
}

typedef iso_status (*layout_visit)(void *arg, const char *path, const iso_layout *layout);

/* Every layout that a key must say. */
static iso_status visit_layouts(const search *s, layout_visit visit, void *arg)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->items; i++) {
        const item *it = &s->item[i];
        const iso_layout *layout = &it->choice[it->chosen];
        if (it->chosen == 0)
            continue;
        if (it->variable != ROWS)
            ISO_TRY(visit(arg, s->graph->variable[it->variable]->path, layout));
        for (int k = 0; it->variable == ROWS && k < ISO_MAX_FUNCTION_INPUTS && s->function->inputs[k]; k++) {
            char path[512];
            iso_layout input = input_layout(layout, iso_tensor_shape(s->function->inputs[k]));
            snprintf(path, sizeof path, "%s/output", iso_tensor_name(s->function->inputs[k]));
            ISO_TRY(visit(arg, path, &input));
        }
    }
done:
    return status;
}

typedef struct setter {
    const search *s;
    iso_layout_map *map;
} setter;

static iso_status set_key(void *arg, const char *path, const iso_layout *layout)
{
    const setter *to = arg;
    char text[LAYOUT_TEXT];
    return iso_layout_map_set(to->map, path, iso_layout_text(to->s->mesh, layout, text, sizeof text));
}

static void weigh(const search *s, const iso_plan_report *r, outcome *out)
{
    const iso_suggest_options *o = s->options;
    *out = (outcome){.flops = r->flops / r->slots,
                     .bytes = r->bytes / r->slots,
                     .slot_bytes = r->slot.total,
                     .host_bytes = r->host.total};
    double needed = (double)(o->memory_of_slot ? out->slot_bytes : out->host_bytes);
    out->excess = o->memory > 0 && needed > o->memory ? needed - o->memory : 0;
    out->cost = out->flops + ISO_SUGGEST_BALANCE * out->bytes;
}

static iso_status try_it(search *s, outcome *out)
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
    ISO_TRY(iso_function_plan(s->graph, s->options->rows, s->options->slots_per_host, s->function, &report));
    weigh(s, report, out);
    s->tried++;
done:
    s->graph->distribution = before;
    iso_plan_report_destroy(report);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    return status;
}

/* ---- the descent ---- */

/* A layout that saves less than this part of a step is not worth a line in a file. */
static const double WORTH_IT = 1e-3;

static bool better(const outcome *a, const outcome *b)
{
    if (a->excess != b->excess)
        return a->excess < b->excess;
    return a->cost < b->cost * (1 - WORTH_IT);
}

/* Gives one tensor the layout that is best with those of the others as they are. */
static iso_status improve(search *s, item *it, outcome *best, bool *changed)
{
    int kept = it->chosen;
    for (int i = 0; i < it->choices; i++) {
        outcome trial = {0};
        if (i == kept)
            continue;
        int now = it->chosen;
        it->chosen = i;
        iso_status status = try_it(s, &trial);
        if (status != ISO_OK)
            return status;
        if (better(&trial, best))
            *best = trial;
        else
            it->chosen = now;
    }
    *changed |= it->chosen != kept;
    return ISO_OK;
}

/* From the choices that are set; the choices that it ends with are left in the items. */
static iso_status descend(search *s, outcome *best)
{
    bool changed = true;
    iso_status status = try_it(s, best);
    for (int sweep = 0; changed && sweep < MOST_SWEEPS; sweep++) {
        changed = false;
        for (int i = 1; i < s->items && status == ISO_OK && s->tried < MOST_TRIED; i++)
            status = improve(s, &s->item[i], best, &changed);
    }
    return status;
}

/* ---- where descents begin ---- */

/* A layout with dimension `dim` cut by these axes, among a tensor's choices; 0, replicated, where it is not.
 */
static int find_choice(const search *s, const item *it, int dim, uint32_t axes)
{
    iso_layout wanted = iso_layout_whole(it->choice[0].rank);
    for (int a = 0; a < s->mesh->axes; a++)
        if (axes & 1u << a && s->mesh->size[a] > 1)
            shard(&wanted, dim, a);
    for (int i = 0; i < it->choices; i++)
        if (iso_layout_equal(&it->choice[i], &wanted))
            return i;
    return 0;
}

/* Kernels of the model so far, in order of their making: which of a pair it is. */
static int place_among_kernels(const search *s, int variable)
{
    int place = 0;
    for (int i = 0; i < variable; i++)
        place += s->graph->variable[i]->trainable && s->graph->variable[i]->shape.rank > 1;
    return place;
}

/* What people do: nothing; or columns of kernels over some axes; or of pairs of kernels, columns of the first
 * and rows of the second. */
typedef enum start_pattern { REPLICATED, COLUMNS, PAIRS, PATTERNS } start_pattern;

static void set_pattern(search *s, int rows, start_pattern pattern, uint32_t axes)
{
    s->item[0].chosen = rows;
    for (int i = 1; i < s->items; i++) {
        item *it = &s->item[i];
        int last = it->choice[0].rank - 1;
        bool second = pattern == PAIRS && last > 0 && place_among_kernels(s, it->variable) % 2;
        it->chosen = pattern == REPLICATED || last == 0 ? 0 : find_choice(s, it, last - second, axes);
    }
}

typedef struct record {
    bool found;
    outcome outcome;
    int chosen[MOST_ITEMS + 1];
} record;

static iso_status begin_with(search *s, int rows, start_pattern pattern, uint32_t axes, record *best)
{
    outcome found = {0};
    if (best->found && s->tried >= MOST_TRIED)
        return ISO_OK;
    set_pattern(s, rows, pattern, axes);
    iso_status status = descend(s, &found);
    if (status != ISO_OK || (best->found && !better(&found, &best->outcome)))
        return status;
    best->found = true;
    best->outcome = found;
    for (int i = 0; i < s->items; i++)
        best->chosen[i] = s->item[i].chosen;
    return ISO_OK;
}

static iso_status find_best(search *s, outcome *found)
{
    record best = {0};
    iso_status status = ISO_OK;
    uint32_t all = (1u << s->mesh->axes) - 1;
    for (int rows = 0; rows < s->item[0].choices; rows++) {
        ISO_TRY(begin_with(s, rows, REPLICATED, 0, &best));
        for (int k = COLUMNS; k < PATTERNS; k++) {
            for (int a = 0; a < s->mesh->axes && s->mesh->axes > 1; a++)
                ISO_TRY(begin_with(s, rows, (start_pattern)k, 1u << a, &best));
            ISO_TRY(begin_with(s, rows, (start_pattern)k, all, &best));
        }
    }
    for (int i = 0; i < s->items; i++)
        s->item[i].chosen = best.chosen[i];
    *found = best.outcome;
done:
    return status;
}

/* ---- the result ---- */

typedef struct writer {
    const search *s;
    iso_suggestion *suggestion;
} writer;

static iso_status write_layout(void *arg, const char *path, const iso_layout *layout)
{
    const writer *w = arg;
    char text[LAYOUT_TEXT];
    iso_suggestion *out = w->suggestion;
    char *key = iso_strdup(path);
    char *value = iso_strdup(iso_layout_text(w->s->mesh, layout, text, sizeof text));
    if (!key || !value) {
        iso_free(key);
        iso_free(value);
        return iso_error(ISO_NO_MEMORY, "no memory for a suggestion");
    }
    out->layout[out->layouts++] = (iso_suggested_layout){key, value};
    return ISO_OK;
}

static iso_status make_suggestion(const search *s, const outcome *best, iso_suggestion **out)
{
    iso_suggestion *made = iso_new(sizeof *made);
    size_t most = (size_t)s->items + ISO_MAX_FUNCTION_INPUTS;
    if (!made || !(made->layout = iso_new(most * sizeof *made->layout))) {
        iso_free(made);
        return iso_error(ISO_NO_MEMORY, "no memory for a suggestion");
    }
    made->tried = s->tried;
    made->fits = best->excess == 0;
    made->flops = best->flops;
    made->bytes = best->bytes;
    made->cost = best->cost;
    made->slot_bytes = best->slot_bytes;
    made->host_bytes = best->host_bytes;
    iso_status status = visit_layouts(s, write_layout, &(writer){s, made});
    if (status == ISO_OK)
        *out = made;
    else
        iso_suggestion_destroy(made);
    return status;
}

iso_status iso_function_suggest(iso_graph *graph, iso_mesh *mesh, const iso_function_options *function,
                                const iso_suggest_options *options, iso_suggestion **suggestion)
{
    iso_status status;
    outcome best = {0};
    search *s = iso_new(sizeof *s);
    if (!s)
        return iso_error(ISO_NO_MEMORY, "no memory for a search of layouts");
    *s = (search){.graph = graph, .mesh = mesh, .function = function, .options = options};
    if (graph->runtime)
        ISO_TRY(iso_error(ISO_INVALID, "layouts can be suggested before a graph's first function is made"));
    ISO_TRY(iso_graph_error(graph));
    ISO_TRY(list_items(s));
    ISO_TRY(find_best(s, &best));
    ISO_TRY(make_suggestion(s, &best, suggestion));
done:
    for (int i = 0; i < s->items; i++)
        iso_free(s->item[i].choice);
    iso_free(s);
    return status;
}

void iso_suggestion_destroy(iso_suggestion *suggestion)
{
    if (!suggestion)
        return;
    for (int i = 0; i < suggestion->layouts; i++) {
        iso_free((char *)suggestion->layout[i].path);
        iso_free((char *)suggestion->layout[i].layout);
    }
    iso_free(suggestion->layout);
    iso_free(suggestion);
}
