/* The arrays of "recurrence" and "recurrence_grad" as their kernels see them. */
#ifndef ISO_BACKEND_RECURRENCE_H
#define ISO_BACKEND_RECURRENCE_H

#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/base/host_device.h"
#include "runtime/graph/ops/network.h"

/* Shapes as in graph/ops/network.h; NULL: the call does not have the array. */
typedef struct iso_recurrence {
    int64_t rows, steps, units;
    int64_t pixels;    /* of a row: 1, or of convolutions height times width. Each has a cell */
    int64_t size[2];   /* height and width of the image; 0: no image, the kernel is a matrix */
    int64_t window[2]; /* height and width of the kernel */
    int64_t columns;   /* of the kernel: the gates times the units */
    iso_recurrence_form form;
    const iso_array *x, *kernel, *bias, *h0, *c0, *mask;
    const iso_array *h, *gates, *c;       /* results, or what the gradient reads */
    const iso_array *dh, *dc;             /* of the gradient alone, as the following */
    const iso_array *dx, *dr, *dh0, *dc0; /* results */
} iso_recurrence;

static inline const iso_array *iso_recurrence_take(const iso_array **next, bool there)
{
    return there ? (*next)++ : NULL;
}

static inline void iso_recurrence_size(iso_recurrence *r)
{
    const int last = r->h->rank - 1;
    r->rows = r->h->dim[0];
    r->steps = r->h->dim[1];
    r->units = r->h->dim[last];
    r->columns = r->kernel->dim[r->kernel->rank - 1];
    r->pixels = 1;
    for (int i = 0; i < 2 && last == 4; i++) {
        r->size[i] = r->h->dim[2 + i];
        r->window[i] = r->kernel->dim[i];
        r->pixels *= r->size[i];
    }
}

/* The results of the op, from *next on. */
static inline void iso_recurrence_results(iso_recurrence *r, const iso_array *next)
{
    r->h = next++;
    r->gates = iso_recurrence_take(&next, r->form.cell != ISO_CELL_SIMPLE);
    r->c = iso_recurrence_take(&next, r->form.cell == ISO_CELL_LSTM);
}

static inline iso_recurrence iso_recurrence_of(const iso_kernel_call *call)
{
    const iso_recurrence_attrs *attrs = (const iso_recurrence_attrs *)call->attrs;
    const iso_array *in = call->in;
    iso_recurrence r;
    memset(&r, 0, sizeof r);
    r.form = attrs->form;
    r.x = in++;
    r.kernel = in++;
    r.bias = iso_recurrence_take(&in, attrs->has_bias);
    r.h0 = iso_recurrence_take(&in, attrs->has_state);
    r.c0 = iso_recurrence_take(&in, attrs->has_state && attrs->form.cell == ISO_CELL_LSTM);
    r.mask = iso_recurrence_take(&in, attrs->has_mask);
    iso_recurrence_results(&r, call->out);
    iso_recurrence_size(&r);
    return r;
}

static inline iso_recurrence iso_recurrence_grad_of(const iso_kernel_call *call)
{
    const iso_recurrence_attrs *attrs = (const iso_recurrence_attrs *)call->attrs;
    const bool lstm = attrs->form.cell == ISO_CELL_LSTM;
    const iso_array *in = call->in, *out = call->out;
    iso_recurrence r;
    memset(&r, 0, sizeof r);
    r.form = attrs->form;
    r.kernel = in++;
    r.h0 = iso_recurrence_take(&in, attrs->has_state);
    r.c0 = iso_recurrence_take(&in, attrs->has_state && lstm);
    r.mask = iso_recurrence_take(&in, attrs->has_mask);
    iso_recurrence_results(&r, in);
    in += lstm ? 3 : r.gates ? 2 : 1;
    r.dh = in++;
    r.dc = iso_recurrence_take(&in, attrs->has_dc);
    r.dx = out++;
    r.dr = iso_recurrence_take(&out, attrs->form.cell == ISO_CELL_GRU);
    r.dh0 = iso_recurrence_take(&out, attrs->has_state);
    r.dc0 = iso_recurrence_take(&out, attrs->has_state && lstm);
    iso_recurrence_size(&r);
    return r;
}

/* The cells of a step: row * pixels + pixel. */
static inline int64_t iso_recurrence_cells(const iso_recurrence *r)
{
    return r->rows * r->pixels;
}

/* The number of a cell at a time in arrays over time. */
ISO_HOST_DEVICE static inline int64_t iso_recurrence_index(int64_t steps, int64_t pixels, int64_t cell,
                                                           int64_t time)
{
    return pixels == 1 ? cell * steps + time : (cell / pixels * steps + time) * pixels + cell % pixels;
}

/* Whether the mask leaves out a step of a cell. */
static inline bool iso_recurrence_skips(const iso_recurrence *r, int64_t cell, int64_t time)
{
    return r->mask && !((const uint8_t *)r->mask->data)[cell / r->pixels * r->steps + time];
}

/* The position in time of the i-th step in the order of the recurrence. */
ISO_HOST_DEVICE static inline int64_t iso_recurrence_time(const iso_recurrence *r, int64_t i)
{
    return r->form.backwards ? r->steps - 1 - i : i;
}

#endif
