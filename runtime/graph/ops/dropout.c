/* Dropout and noise: random numbers that depend only on seed, path, step and global index. */
#include <math.h>

#include "runtime/base/random.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

/* The gradient keeps the same elements. */
static void dropout_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_dropout, dy[0], op->attrs);
}

const iso_op_type iso_op_dropout = {
    .name = "dropout",
    ISO_OP_ATTRS(dropout),
    .infer = iso_infer_same_float,
    .gradient = dropout_gradient,
    .rule = "...->...",
    .linear = 1 << 0,
    .in_place = 1 << 0,
    .random = true,
};

iso_dropout_attrs iso_dropout_attrs_of(const iso_graph *graph, double rate, const char *path)
{
    return (iso_dropout_attrs){
        .key = iso_random_key(iso_graph_seed(graph), path),
        .threshold = (uint32_t)ceil(rate * 0x1p24),
        .scale = rate < 1 ? 1 / (1 - rate) : 0,
    };
}

iso_tensor *iso_dropout_op(iso_tensor *x, double rate, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, path))
        return iso_graph_bad_tensor(x->graph);
    if (!(rate >= 0 && rate <= 1)) {
        iso_graph_fail(x->graph, "dropout '%s': rate %g is not between 0 and 1", path, rate);
        return iso_graph_bad_tensor(x->graph);
    }
    iso_dropout_attrs attrs = iso_dropout_attrs_of(x->graph, rate, path);
    return iso_op_1(&iso_op_dropout, x, &attrs);
}

/* ---- noise ---- */
static void noise_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    (void)op;
    dx[0] = dy[0];
}

const iso_op_type iso_op_gaussian_noise = {
    .name = "gaussian_noise",
    ISO_OP_ATTRS(noise),
    .infer = iso_infer_same_float,
    .gradient = noise_gradient,
    .rule = "...->...",
    .in_place = 1 << 0,
    .random = true,
};

iso_tensor *iso_gaussian_noise_op(iso_tensor *x, double stddev, const char *path)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, path))
        return iso_graph_bad_tensor(x->graph);
    if (!(stddev >= 0) || isinf(stddev)) {
        iso_graph_fail(x->graph,
                       "noise '%s': the standard deviation is %g: it must be finite and not negative", path,
                       stddev);
        return iso_graph_bad_tensor(x->graph);
    }
    iso_noise_attrs attrs = {.key = iso_random_key(iso_graph_seed(x->graph), path), .stddev = stddev};
    return iso_op_1(&iso_op_gaussian_noise, x, &attrs);
}
