/* Initial values: Keras's initializers from counter-based random numbers, so that an element depends on seed,
 * path and global index alone. The slots that share a copy of a variable each compute a part of it, on all
 * threads of their ranks. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/base/random_arrays.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/graph/initializers.h"
#include "runtime/session/session.h"

/* Fan in and fan out as Keras counts them: the receptive field times the last two dimensions. */
static void fans(const iso_shape *shape, double *in, double *out)
{
    double field = 1;
    if (shape->rank == 0) {
        *in = *out = 1;
        return;
    }
    if (shape->rank == 1) {
        *in = *out = (double)shape->dim[0];
        return;
    }
    for (int d = 0; d < shape->rank - 2; d++)
        field *= (double)shape->dim[d];
    *in = field * (double)shape->dim[shape->rank - 2];
    *out = field * (double)shape->dim[shape->rank - 1];
}

/* Drawn again, from the next stream, until it is within two standard deviations. */
static double truncated(double x, uint64_t key, uint64_t index)
{
    for (uint64_t stream = 2; fabs(x) >= 2; stream++)
        iso_random_fill_normal(key, index, stream, 1, &x);
    return x;
}

/* values[i] = element first + i. */
static void initialize_draw(const iso_draw *from, uint64_t key, uint64_t first, int count, double *values)
{
    if (from->kind == ISO_DRAW_UNIFORM)
        iso_random_fill_uniform(key, first, 0, count, values);
    else if (from->kind == ISO_DRAW_NORMAL || from->kind == ISO_DRAW_TRUNCATED)
        iso_random_fill_normal(key, first, 1, count, values);
    for (int i = 0; i < count; i++)
        switch (from->kind) {
        case ISO_DRAW_UNIFORM:
            values[i] = from->a + (from->b - from->a) * (1 - values[i]);
            break;
        case ISO_DRAW_NORMAL:
            values[i] = from->a + from->b * values[i];
            break;
        case ISO_DRAW_TRUNCATED:
            values[i] = from->a + from->b * truncated(values[i], key, first + (uint64_t)i);
            break;
        default:
            values[i] = from->a;
        }
}

/* Fills a box from the matrix [all dimensions but the last, last]. */
static void from_matrix(const iso_variable *variable, const iso_box *box, const double *q, double scale,
                        void *data)
{
    int64_t count = iso_box_count(box);
    for (int64_t i = 0; i < count; i++)
        iso_element_set(data, variable->dtype, i, scale * q[iso_box_global_index(box, &variable->shape, i)]);
}

static iso_status orthogonal(const iso_variable *variable, double scale, uint64_t key, const iso_box *box,
                             void *data)
{
    double *q;
    int64_t rows = 1, columns = variable->shape.dim[variable->shape.rank - 1];
    for (int d = 0; d < variable->shape.rank - 1; d++)
        rows *= variable->shape.dim[d];
    iso_status status = iso_orthogonal(key, rows, columns, &q);
    if (status != ISO_OK)
        return status;
    from_matrix(variable, box, q, scale, data);
    free(q);
    return ISO_OK;
}

/* How the elements of a variable are made. */
typedef struct source {
    iso_initializer init;
    const iso_initializer_type *type;
    iso_draw draw;
    uint64_t key;
} source;

static source source_of(const iso_variable *variable, uint64_t seed)
{
    double in, out;
    source from = {.init = iso_initializer_filled(&variable->initializer),
                   .key = iso_random_key(seed, variable->path)};
    from.type = iso_initializer_type_of(from.init.kind);
    fans(&variable->shape, &in, &out);
    if (variable->fan_in > 0 && variable->fan_out > 0) {
        in = variable->fan_in;
        out = variable->fan_out;
    }
    if (from.type->distribution)
        from.draw = from.type->distribution(&from.init, in, out);
    return from;
}

/* values[i] = element first + i of the variable. */
static void make_elements(const iso_variable *variable, const source *from, int64_t first, int count,
                          double *values)
{
    if (from->type->element)
        for (int i = 0; i < count; i++)
            values[i] = from->type->element(&from->init, &variable->shape, first + i);
    else
        initialize_draw(&from->draw, from->key, (uint64_t)first, count, values);
    for (int i = 0; i < count; i++)
        if (first + i >= variable->ones_begin && first + i < variable->ones_end)
            values[i] = 1;
}

enum { AT_ONCE = 256 }; /* elements */

/* Fills elements begin to begin + count - 1 of a box, within a row of the last dimension at a time. data: [box] */
static void fill_elements(const iso_variable *variable, const source *from, const iso_box *box, int64_t begin,
                          int64_t count, void *data)
{
    int64_t row = box->rank > 0 ? box->extent[box->rank - 1] : 1;
    double values[AT_ONCE];
    for (int64_t i = begin, end; i < begin + count; i = end) {
        end = i + row - i % row;
        end = end < begin + count ? end : begin + count;
        end = end < i + AT_ONCE ? end : i + AT_ONCE;
        make_elements(variable, from, iso_box_global_index(box, &variable->shape, i), (int)(end - i), values);
        for (int64_t k = i; k < end; k++)
            iso_element_set(data, variable->dtype, k, values[k - i]);
    }
}

iso_status iso_initialize(const iso_variable *variable, uint64_t seed, const iso_box *box, void *data)
{
    source from = source_of(variable, seed);
    if (from.draw.kind == ISO_DRAW_ORTHOGONAL)
        return orthogonal(variable, from.draw.a, from.key, box, data);
    fill_elements(variable, &from, box, 0, iso_box_count(box), data);
    return ISO_OK;
}

/* ---- all variables ---- */

/* Elements from which on a rank starts threads that it has no slots for. */
enum { MANY_ELEMENTS = 1 << 20 };

/* What a local slot computes of a variable. */
typedef struct part {
    iso_box box; /* of the slot */
    int64_t begin, count;
    iso_mapping mapping; /* of the slot's copy; none if count is 0 */
} part;

typedef struct filling {
    const iso_runtime *runtime;
    iso_thread_pool *pool;
    int threads;
    int *sharers; /* [copies, at most n_slots] slots that use this copy */
    int *turn;    /* [n_slots] those that use the copy of this slot and come before it */
    part *parts;  /* [n_locals] */
    const iso_variable *variable;
    source from;
} filling;

/* Counts the slots that use each copy. */
static void count_sharers(const filling *f)
{
    const int *copy = f->runtime->variables[f->variable->id].map->copy;
    int slots = f->runtime->mesh->n_slots;
    for (int s = 0; s < slots; s++)
        f->sharers[s] = 0;
    for (int s = 0; s < slots; s++)
        f->turn[s] = f->sharers[copy[s]]++;
}

/* The elements that a local slot computes. Where the host cannot write them in place, and of an orthogonal matrix,
 * which is made as a whole, the first slot that uses a copy computes all. */
static void find_part(const filling *f, int local)
{
    const iso_runtime *runtime = f->runtime;
    part *p = &f->parts[local];
    int slot = runtime->locals[local].slot, copy = runtime->variables[f->variable->id].map->copy[slot];
    bool divided = runtime->device->host_access && f->from.draw.kind != ISO_DRAW_ORTHOGONAL;
    *p = (part){.box = iso_runtime_variable_box(runtime, f->variable, slot)};
    int64_t count = iso_box_count(&p->box);
    if (divided)
        iso_part_range(count, f->sharers[copy], f->turn[slot], &p->begin, &p->count);
    else
        p->count = iso_runtime_first_in_domain(runtime, f->variable, slot) ? count : 0;
}

/* Fills the parts of a thread: those of its slots, or a piece of one slot's if there are more threads than slots. */
static void fill_on_thread(void *arg, int thread)
{
    const filling *f = arg;
    int locals = f->runtime->n_locals, each = f->threads > locals ? f->threads / locals : 1;
    int64_t shares = (int64_t)locals * each;
    for (int64_t i = shares * thread / f->threads; i < shares * (thread + 1) / f->threads; i++) {
        const part *p = &f->parts[i / each];
        int64_t begin, count;
        iso_part_range(p->count, each, i % each, &begin, &count);
        fill_elements(f->variable, &f->from, &p->box, p->begin + begin, count, p->mapping.data);
    }
}

static iso_status fill_matrices(const filling *f)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < f->runtime->n_locals && status == ISO_OK; i++)
        if (f->parts[i].count > 0)
            status = orthogonal(f->variable, f->from.draw.a, f->from.key, &f->parts[i].box,
                                f->parts[i].mapping.data);
    return status;
}

static iso_status initialize_variable(filling *f)
{
    const iso_runtime *runtime = f->runtime;
    iso_status status = ISO_OK;
    int mapped = 0;
    f->from = source_of(f->variable, runtime->graph->seed);
    count_sharers(f);
    for (; mapped < runtime->n_locals && status == ISO_OK; mapped++) {
        find_part(f, mapped);
        if (f->parts[mapped].count > 0)
            status = iso_runtime_map_variable(runtime, f->variable, runtime->locals[mapped].slot, true,
                                              &f->parts[mapped].mapping);
    }
    if (status == ISO_OK && f->from.draw.kind == ISO_DRAW_ORTHOGONAL)
        status = fill_matrices(f);
    else if (status == ISO_OK)
        iso_thread_pool_run(f->pool, fill_on_thread, f);
    for (int i = 0; i < mapped; i++)
        if (f->parts[i].count > 0)
            status = iso_unmap(status, &f->parts[i].mapping);
    return status;
}

/* The threads that compute: all of the rank if there is much to compute, else those that have slots. */
static iso_status find_pool(filling *f, int first, iso_thread_pool **own)
{
    const iso_runtime *runtime = f->runtime;
    int64_t elements = 0, count = 0;
    for (int v = first; v < runtime->n_variables; v++)
        if (iso_shape_count(&runtime->graph->variables[v]->shape, &count) == ISO_OK)
            elements += count;
    f->pool = runtime->pool;
    f->threads = runtime->n_threads;
    if (iso_threads(runtime->ctx) <= runtime->n_threads || elements < MANY_ELEMENTS)
        return ISO_OK;
    f->threads = iso_threads(runtime->ctx);
    iso_status status = iso_thread_pool_create(f->threads, false, own);
    f->pool = *own;
    return status;
}

iso_status iso_runtime_initialize(const iso_runtime *runtime, int first)
{
    iso_status status = ISO_OK;
    iso_thread_pool *own = NULL;
    size_t slots = (size_t)runtime->mesh->n_slots;
    filling f = {.runtime = runtime,
                 .sharers = iso_new(slots * sizeof *f.sharers),
                 .turn = iso_new(slots * sizeof *f.turn),
                 .parts = iso_new(((size_t)runtime->n_locals + 1) * sizeof *f.parts)};
    if (!f.sharers || !f.turn || !f.parts)
        ISO_TRY(iso_no_memory("the initial values of %d slots", runtime->mesh->n_slots));
    ISO_TRY(find_pool(&f, first, &own));
    for (int v = first; v < runtime->n_variables && runtime->n_locals > 0; v++) {
        f.variable = runtime->graph->variables[v];
        if (!runtime->variables[v].inherited)
            ISO_TRY(initialize_variable(&f));
    }
done:
    iso_thread_pool_destroy(own);
    iso_free(f.sharers);
    iso_free(f.turn);
    iso_free(f.parts);
    return status;
}
