/* A band of a matrix along its diagonal: the positions that attention may look at. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

/* The sum of i for 0 <= i < n, where i counts as `most` at most. */
static double sum_below(int64_t n, int64_t most)
{
    if (n <= 0)
        return 0;
    int64_t rising = n < most ? n : most;
    return (double)rising * ((double)rising - 1) / 2 + (double)(n - rising) * (double)most;
}

/* The sum of row + shift, kept within 0 .. columns, over the rows. */
static double sum_of_rows(int64_t first, int64_t count, int64_t shift, int64_t columns)
{
    return sum_below(first + count + shift, columns) - sum_below(first + shift, columns);
}

/* Where the band ends in each row, less where it begins. A window wider than rows and columns changes nothing. */
double iso_band_elements(const iso_band_attrs *band, int64_t first, int64_t count, int64_t columns)
{
    int64_t most = first + count + columns, window = band->window < most ? band->window : most;
    double all = (double)count * (double)columns;
    double ends = band->causal   ? sum_of_rows(first, count, 1, columns)
                  : band->window ? sum_of_rows(first, count, window, columns)
                                 : all;
    return band->window ? ends - sum_of_rows(first, count, 1 - window, columns) : ends;
}

static bool band_infer(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape;
    if (x->rank < 2 || x->dim[x->rank - 1] == ISO_BATCH || x->dim[x->rank - 2] == ISO_BATCH)
        return iso_op_refuse(op, "takes [..., t, s]");
    return iso_infer_same_float(op);
}

static void band_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_band_attrs attrs = *(const iso_band_attrs *)op->attrs;
    attrs.fill = 0;
    dx[0] = iso_op_1(&iso_op_band, dy[0], &attrs);
}

/* Linear if the elements outside the band are 0. */
static void band_rule_of(const iso_op *op, iso_rule *rule)
{
    iso_rule_parse(op, "...->...", rule);
    rule->linear = ((const iso_band_attrs *)op->attrs)->fill == 0;
}

const iso_op_type iso_op_band = {
    .name = "band",
    ISO_OP_ATTRS(band),
    .infer = band_infer,
    .gradient = band_gradient,
    .rule_of = band_rule_of,
    .in_place = 1 << 0,
};

iso_tensor *iso_band_op(iso_tensor *x, bool causal, int64_t window, double fill)
{
    ISO_NEED_TENSORS(x);
    iso_band_attrs attrs = {.fill = fill, .window = window, .causal = causal};
    if (window < 0) {
        iso_graph_fail(x->graph, "band: the window is %lld: it must not be negative", (long long)window);
        return iso_graph_bad_tensor(x->graph);
    }
    return iso_op_1(&iso_op_band, x, &attrs);
}
