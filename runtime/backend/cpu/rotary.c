/* The kernel of rotary positions: the angles of a position serve all its rows. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/graph/ops/network.h"

enum { PAIRS = 256 /* at a time */ };

/* Up to PAIRS pairs of a call. x: [outer, positions, rows, features], in elements of `size` bytes. */
typedef struct rotary {
    const iso_kernel_call *call;
    int64_t outer, positions, rows, features;
    int64_t first, pairs;
    double frequency[PAIRS], cosine[PAIRS], sine[PAIRS];
    float narrow_cosine[PAIRS], narrow_sine[PAIRS];
} rotary;

static void rotary_set_angles(rotary *r, int64_t position)
{
    iso_cpu_functions()->rotary_angles(r->pairs, (double)position, r->frequency, r->cosine, r->sine);
    for (int64_t i = 0; i < r->pairs; i++) {
        r->narrow_cosine[i] = (float)r->cosine[i];
        r->narrow_sine[i] = (float)r->sine[i];
    }
}

/* The rows of a position, which begin at an element. */
static void rotary_turn_rows(const rotary *r, int64_t element)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const size_t at = (size_t)(element + r->first) * iso_dtype_size(r->call->in[0].dtype);
    const void *x = (const char *)r->call->in[0].data + at;
    void *y = (char *)r->call->out[0].data + at;
    switch (r->call->in[0].dtype) {
    case ISO_F32:
        f->rotary_f32(r->rows, r->features, r->pairs, r->narrow_cosine, r->narrow_sine, x, y);
        break;
    case ISO_BF16:
        f->rotary_bf16(r->rows, r->features, r->pairs, r->narrow_cosine, r->narrow_sine, x, y);
        break;
    default:
        f->rotary_f64(r->rows, r->features, r->pairs, r->cosine, r->sine, x, y);
    }
}

static bool rotary_fits(const iso_kernel_call *call)
{
    return iso_cpu_is_f32_or_bf16(call) || iso_cpu_has_type(call, ISO_F64);
}

static void rotary_run(const iso_kernel_call *call)
{
    const iso_rotary_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    const int axis = (int)attrs->axis, last = x->rank - 1;
    rotary r = {.call = call,
                .outer = iso_cpu_product(x, 0, axis),
                .positions = x->dim[axis],
                .rows = iso_cpu_product(x, axis + 1, last),
                .features = x->dim[last]};
    for (r.first = 0; r.first < r.features / 2; r.first += r.pairs) {
        int64_t rest = r.features / 2 - r.first;
        r.pairs = rest < PAIRS ? rest : PAIRS;
        for (int64_t i = 0; i < r.pairs; i++)
            r.frequency[i] = iso_rotary_frequency(attrs, r.first + i, r.features);
        for (int64_t position = 0; position < r.positions; position++) {
            rotary_set_angles(&r, x->offset[axis] + position);
            for (int64_t outer = 0; outer < r.outer; outer++)
                rotary_turn_rows(&r, (outer * r.positions + position) * r.rows * r.features);
        }
    }
}

const iso_kernel iso_cpu_rotary = {.op = "rotary",
                                   .name = "vector",
                                   .fits = rotary_fits,
                                   .run = rotary_run,
                                   .in_place = true,
                                   .by_rows = true};
