#include "tests/support/samples.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/random.h"

iso_tensor *sample_leaf(sample_graph *s, iso_dtype dtype, double low, double high, iso_shape shape)
{
    char name[16];
    ck_assert_int_lt(s->leaves, SAMPLE_LEAVES);
    snprintf(name, sizeof name, "leaf%d", s->leaves);
    iso_tensor *leaf;
    if (shape.rank > 0 && shape.dim[0] == ISO_BATCH) {
        shape.rank--;
        memmove(shape.dim, shape.dim + 1, (size_t)shape.rank * sizeof *shape.dim);
        leaf = iso_input(s->graph, name, dtype, shape);
    } else {
        leaf =
            iso_variable_value(iso_variable_create(s->graph, name, dtype, shape, (iso_initializer){0}, true));
    }
    s->leaf[s->leaves] = leaf;
    s->low[s->leaves] = low;
    s->high[s->leaves++] = high;
    bool narrow = dtype == ISO_F32 && iso_graph_compute_type(s->graph) == ISO_BF16;
    return narrow ? iso_cast(leaf, ISO_BF16) : leaf;
}

/* A value of low..high that has few bits, so that float32 holds it. */
static double leaf_value(iso_dtype dtype, double low, double high, int leaf, int64_t index)
{
    double u = iso_uniform_f32(iso_random_word(17, (uint64_t)leaf, (uint64_t)index));
    if (dtype == ISO_BOOL)
        return u < 0.5 ? 0 : 1;
    if (iso_dtype_is_float(dtype))
        return (float)(low + u * (high - low));
    return (double)(int64_t)(low + u * (high - low + 1) * 0.999999);
}

static void set_leaf(sample_case *c, int k)
{
    const iso_tensor *leaf = c->s.leaf[k];
    iso_shape shape = interpreter_shape(c->in, leaf);
    int64_t count;
    ck_assert_int_eq(iso_shape_count(&shape, &count), ISO_OK);
    ck_assert_int_le(count, 4096);
    double values[4096];
    for (int64_t i = 0; i < count; i++)
        values[i] = leaf_value(leaf->dtype, c->s.low[k], c->s.high[k], k, i);
    interpreter_set(c->in, leaf, values);
}

bool sample_builds(const sample *from, iso_dtype precision)
{
    sample_graph s = {.graph = iso_graph_create(NULL)};
    iso_graph_set_precision(s.graph, precision);
    from->build(&s);
    bool builds = iso_graph_error(s.graph) == ISO_OK;
    iso_graph_destroy(s.graph);
    return builds;
}

void sample_begin(sample_case *c, const sample *from, const iso_backend *backend, iso_dtype precision)
{
    *c = (sample_case){.from = from, .s.graph = iso_graph_create(NULL)};
    iso_graph_set_precision(c->s.graph, precision);
    from->build(&c->s);
    ck_assert_msg(c->s.graph->status == ISO_OK, "sample of %s: %s", from->op, c->s.graph->message);
    for (int k = 0; k < c->s.graph->n_ops; k++)
        if (strcmp(c->s.graph->ops[k]->type->name, from->op) == 0)
            c->op = c->s.graph->ops[k];
    ck_assert_msg(c->op != NULL, "the sample of %s has no such op", from->op);
    c->in = interpreter_create(c->s.graph, backend, SAMPLE_ROWS);
    for (int k = 0; k < c->s.leaves; k++)
        set_leaf(c, k);
}

void sample_end(sample_case *c)
{
    interpreter_destroy(c->in);
    iso_graph_destroy(c->s.graph);
}

const sample *sample_at(int index)
{
    static const sample *const lists[] = {basic_samples, network_samples, decomposed_samples};
    for (int list = 0; list < 3; list++)
        for (int i = 0; lists[list][i].op; i++)
            if (index-- == 0)
                return &lists[list][i];
    return NULL;
}
