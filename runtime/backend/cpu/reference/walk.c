#include "runtime/backend/cpu/reference/walk.h"

/* Whether dimension d of the walk and an inner dimension of these strides can be merged for every operand. */
static bool one_run(const iso_walk *walk, int d, int64_t inner_dim, int inner,
                    const int64_t (*stride)[ISO_MAX_RANK])
{
    for (int k = 0; k < walk->n_operands; k++)
        if (walk->stride[k][d] != stride[k][inner] * inner_dim)
            return false;
    return true;
}

static void ref_walk_merge(iso_walk *walk, int rank, const int64_t *dim,
                           const int64_t (*stride)[ISO_MAX_RANK])
{
    for (int d = 0; d < rank; d++) {
        if (dim[d] == 1)
            continue;
        int last = walk->rank - 1;
        if (last >= 0 && one_run(walk, last, dim[d], d, stride)) {
            walk->dim[last] *= dim[d];
        } else {
            last = walk->rank++;
            walk->dim[last] = dim[d];
        }
        for (int k = 0; k < walk->n_operands; k++)
            walk->stride[k][last] = stride[k][d];
    }
}

void iso_walk_begin(iso_walk *walk, int rank, const int64_t *dim, int operands,
                    const int64_t (*stride)[ISO_MAX_RANK])
{
    *walk = (iso_walk){.n_runs = 1, .length = 1, .n_operands = operands};
    ref_walk_merge(walk, rank, dim, stride);
    if (walk->rank > 0) {
        int last = --walk->rank;
        walk->length = walk->dim[last];
        for (int k = 0; k < operands; k++)
            walk->step[k] = walk->stride[k][last];
    }
    for (int d = 0; d < walk->rank; d++)
        walk->n_runs *= walk->dim[d];
    if (walk->length == 0)
        walk->n_runs = 0;
}

void iso_walk_next(iso_walk *walk)
{
    for (int d = walk->rank - 1; d >= 0; d--) {
        for (int k = 0; k < walk->n_operands; k++)
            walk->at[k] += walk->stride[k][d];
        if (++walk->index[d] < walk->dim[d])
            return;
        walk->index[d] = 0;
        for (int k = 0; k < walk->n_operands; k++)
            walk->at[k] -= walk->stride[k][d] * walk->dim[d];
    }
}

void iso_strides(const iso_array *array, int64_t *stride)
{
    int64_t step = 1;
    for (int d = array->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= array->dim[d];
    }
}

void iso_broadcast_strides(const iso_array *array, const iso_array *out, int64_t *stride)
{
    int64_t own[ISO_MAX_RANK];
    int lead = out->rank - array->rank;
    iso_strides(array, own);
    for (int d = 0; d < out->rank; d++)
        stride[d] = d < lead || array->dim[d - lead] == 1 ? 0 : own[d - lead];
}
