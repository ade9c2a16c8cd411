/* The arrays of a call of "experts" or "experts_grad" (runtime/graph/ops/network.h). */
#ifndef ISO_BACKEND_EXPERTS_H
#define ISO_BACKEND_EXPERTS_H

#include "runtime/backend/index.h"
#include "runtime/graph/ops/network.h"

enum { ISO_EXPERTS_CHOICE = 1 /* the input of the choices */ };

/* Rows, choices, experts and features of the slot. NULL: the call does not have the array. */
typedef struct iso_experts {
    int64_t d, hidden;
    int64_t k, choice_count; /* of a row, of all rows */
    int64_t experts;         /* global */
    int64_t first, locally;  /* the slot's experts: first, first + 1, ... */
    iso_unary_kind activation;
    const iso_array *x, *choice, *share, *gate, *up, *down, *dy;
    const iso_array *dx, *dshare, *dgate, *dup, *ddown;
} iso_experts;

static inline iso_experts iso_experts_of(const iso_kernel_call *call)
{
    const iso_experts_attrs *attrs = (const iso_experts_attrs *)call->attrs;
    const int up = attrs->gated ? 4 : 3;
    const iso_array *in = call->in, *out = call->out;
    const bool gradient = call->n_inputs > up + 2;
    iso_experts e;
    e.activation = attrs->activation;
    e.x = &in[0], e.choice = &in[ISO_EXPERTS_CHOICE], e.share = &in[2];
    e.gate = attrs->gated ? &in[3] : NULL, e.up = &in[up], e.down = &in[up + 1];
    e.dy = gradient ? &in[up + 2] : NULL;
    e.dx = gradient ? &out[0] : NULL, e.dshare = gradient ? &out[1] : NULL;
    e.dgate = gradient && attrs->gated ? &out[2] : NULL;
    e.dup = gradient ? &out[up - 1] : NULL, e.ddown = gradient ? &out[up] : NULL;
    e.d = e.up->dim[1], e.hidden = e.up->dim[2];
    e.k = e.choice->dim[e.choice->rank - 1], e.choice_count = iso_array_count(e.choice);
    e.experts = e.up->global[0], e.first = e.up->offset[0], e.locally = e.up->dim[0];
    return e;
}

/* The number among the slot's experts of the one that is chosen; -1: another slot has it, or it is none. */
static inline int64_t iso_experts_local(const iso_experts *e, int64_t choice)
{
    const int64_t expert = iso_index_read(e->choice, choice, e->experts);
    return expert >= e->first && expert < e->first + e->locally ? expert - e->first : -1;
}

#endif
