#include "tests/support/probe.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/graph/op.h"

double random_number(uint64_t key, int64_t index)
{
    iso_philox drawn = iso_philox_draw(key, (uint64_t)index, 7);
    return 2 * iso_uniform_f64(drawn.word[0], drawn.word[1]) - 1;
}

void check_close(const double *a, const double *b, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(a[i] - b[i]) <= tolerance * fmax(1, fabs(b[i])),
                      "element %lld: %.17g, should be %.17g", (long long)i, a[i], b[i]);
}

void probe_begin(probe *p, int64_t rows, iso_dtype precision)
{
    *p = (probe){.graph = iso_graph_create(NULL), .rows = rows};
    iso_graph_set_precision(p->graph, precision);
    p->in = interpreter_create(p->graph, iso_backend_reference(), rows);
}

void probe_end(probe *p)
{
    for (int i = 0; i < p->feeds; i++)
        free(p->values[i]);
    for (int i = 0; i < p->results; i++)
        free(p->result[i]);
    interpreter_destroy(p->in);
    iso_graph_destroy(p->graph);
}

int64_t probe_count(const probe *p, const iso_tensor *tensor)
{
    iso_shape shape = iso_shape_with_rows(&tensor->shape, p->rows);
    int64_t count;
    ck_assert_int_eq(iso_shape_count(&shape, &count), ISO_OK);
    return count;
}

static double *feed(probe *p, iso_tensor *tensor, const double *values)
{
    ck_assert_int_lt(p->feeds, MAX_FEEDS);
    int64_t count = probe_count(p, tensor);
    double *copy = malloc((size_t)count * sizeof *copy + 1);
    for (int64_t i = 0; i < count; i++)
        copy[i] = values ? values[i] : random_number((uint64_t)p->feeds, i);
    interpreter_set(p->in, tensor, copy);
    p->tensor[p->feeds] = tensor;
    return p->values[p->feeds++] = copy;
}

iso_tensor *probe_input(probe *p, const char *name, iso_shape shape)
{
    return probe_given(p, name, ISO_F32, shape, NULL);
}

iso_tensor *probe_given(probe *p, const char *name, iso_dtype dtype, iso_shape shape, const double *values)
{
    iso_tensor *x = iso_input(p->graph, name, dtype, shape);
    feed(p, x, values);
    return x;
}

iso_tensor *probe_variable(probe *p, const char *name, iso_shape shape)
{
    iso_variable *variable =
        iso_variable_create(p->graph, name, ISO_F32, shape, (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
    feed(p, iso_variable_value(variable), NULL);
    return iso_variable_value(variable);
}

double *probe_values(const probe *p, const iso_tensor *tensor)
{
    for (int i = 0; i < p->feeds; i++)
        if (p->tensor[i] == tensor)
            return p->values[i];
    return NULL;
}

double *probe_evaluate(probe *p, iso_tensor *tensor)
{
    ck_assert_int_lt(p->results, MAX_RESULTS);
    p->in->info.step = p->step;
    const iso_array *value = interpreter_get(p->in, tensor);
    int64_t count = array_count(value);
    double *result = malloc((size_t)count * sizeof *result + 1);
    for (int64_t i = 0; i < count; i++)
        result[i] = array_get(value, i);
    p->fault = p->in->fault;
    return p->result[p->results++] = result;
}

static double loss_with(probe *p, iso_tensor *loss, int feed_index, int64_t element, double value)
{
    double *x = p->values[feed_index], saved = x[element];
    x[element] = value;
    interpreter_set(p->in, p->tensor[feed_index], x);
    x[element] = saved;
    return interpreter_number(p->in, loss);
}

/* With float64 and values around 1: the truncation of the difference is about 1e-10, its rounding too. */
static void check_gradient(probe *p, iso_tensor *loss, int feed_index, iso_tensor *gradient)
{
    const double step = 1e-5, tolerance = 2e-8;
    double *x = p->values[feed_index], *computed = probe_evaluate(p, gradient);
    for (int64_t i = 0; i < probe_count(p, p->tensor[feed_index]); i++) {
        double above = loss_with(p, loss, feed_index, i, x[i] + step);
        double difference = (above - loss_with(p, loss, feed_index, i, x[i] - step)) / (2 * step);
        ck_assert_msg(fabs(computed[i] - difference) <= tolerance * fmax(1, fabs(difference)),
                      "input '%s', element %lld: gradient %.12g, difference quotient %.12g",
                      iso_tensor_name(p->tensor[feed_index]), (long long)i, computed[i], difference);
    }
    interpreter_set(p->in, p->tensor[feed_index], x);
}

/* r [rows of y, ...], fed but not differentiated. */
static iso_tensor *random_weights(probe *p, const iso_tensor *y)
{
    iso_shape shape = y->shape;
    bool batch = shape.rank > 0 && shape.dim[0] == ISO_BATCH;
    if (!batch)
        return probe_variable(p, "probe/weights", shape);
    memmove(shape.dim, shape.dim + 1, sizeof shape.dim - sizeof *shape.dim);
    shape.rank--;
    return probe_input(p, "weights", shape);
}

void probe_check_gradients(probe *p, iso_tensor *y)
{
    int feeds = p->feeds;
    iso_tensor *gradients[MAX_FEEDS];
    iso_tensor *loss = iso_sum(iso_multiply(y, random_weights(p, y)));
    iso_gradients(loss, p->tensor, feeds, gradients);
    for (int i = 0; i < feeds; i++) {
        if (!iso_dtype_is_float(p->tensor[i]->dtype))
            continue;
        ck_assert_msg(gradients[i] != NULL, "input '%s' has no gradient", iso_tensor_name(p->tensor[i]));
        check_gradient(p, loss, i, gradients[i]);
    }
}
