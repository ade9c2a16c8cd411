/* Rotary positions, pair by pair. */
#include "runtime/backend/rotary.h"
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

static void ref_rotary_run(const iso_kernel_call *call)
{
    const iso_rotary_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *y = &call->out[0];
    const int64_t features = iso_last_dim(x), half = features / 2, rows = iso_row_count(x);
    int64_t rows_each = 1; /* of a position */
    for (int d = (int)attrs->axis + 1; d < x->rank - 1; d++)
        rows_each *= x->dim[d];
    for (int64_t row = 0; row < rows; row++) {
        int64_t position = row / rows_each % x->dim[attrs->axis] + x->offset[attrs->axis];
        for (int64_t i = row * features, pair = 0; pair < half; i++, pair++) {
            iso_turn turn = iso_turn_of((double)position * iso_rotary_frequency(attrs, pair, features));
            double a = iso_get(x, i), b = iso_get(x, i + half);
            iso_put(y, i, a * turn.cosine - b * turn.sine);
            iso_put(y, i + half, b * turn.cosine + a * turn.sine);
        }
    }
}

const iso_kernel iso_reference_rotary = {
    .op = "rotary", .name = "reference", .run = ref_rotary_run, .in_place = true};
