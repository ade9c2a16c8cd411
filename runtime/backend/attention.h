/* The arrays of "attention" and "attention_grad" as their kernels see them. */
#ifndef ISO_BACKEND_ATTENTION_H
#define ISO_BACKEND_ATTENTION_H

#include "runtime/backend/backend.h"
#include "runtime/base/host_device.h"
#include "runtime/graph/ops/network.h"

enum { ISO_ATTENTION_QUERY, ISO_ATTENTION_KEY, ISO_ATTENTION_VALUE, ISO_ATTENTION_MASK };

typedef struct iso_attention {
    const iso_kernel_call *call;
    const iso_attention_attrs *attrs;
    int64_t groups, heads;    /* groups: of all dimensions before the positions */
    int64_t rows, keys, k, v; /* queries and keys of a group, features of a head */
    int64_t first_row;        /* the global position of query 0 */
} iso_attention;

static inline iso_attention iso_attention_of(const iso_kernel_call *call)
{
    const iso_array *q = &call->in[ISO_ATTENTION_QUERY], *value = &call->in[ISO_ATTENTION_VALUE];
    int at = q->rank - 3;
    iso_attention a;
    a.call = call;
    a.attrs = (const iso_attention_attrs *)call->attrs;
    a.groups = 1;
    a.heads = q->dim[at + 1];
    a.rows = q->dim[at];
    a.keys = value->dim[at];
    a.k = q->dim[at + 2];
    a.v = value->dim[at + 2];
    a.first_row = q->offset[at];
    for (int d = 0; d < at; d++)
        a.groups *= q->dim[d];
    return a;
}

/* The first element of a row of a head, in an array [groups, n, heads, features]. */
static inline int64_t iso_attention_index(const iso_attention *a, int64_t group, int64_t n, int64_t row,
                                          int64_t head, int64_t features)
{
    return ((group * n + row) * a->heads + head) * features;
}

/* The global index of the weight of a query and key 0, in [..., heads, t, s]: the number of its random number.
 * q: the array of queries; keys: s. */
ISO_HOST_DEVICE static inline uint64_t iso_attention_number(const iso_array *q, int64_t keys, int64_t group,
                                                            int64_t head, int64_t row)
{
    int at = q->rank - 3;
    uint64_t index = 0, stride = 1;
    for (int d = at - 1; d >= 0; d--) {
        index += stride * (uint64_t)(q->offset[d] + group % q->dim[d]);
        stride *= (uint64_t)q->global[d];
        group /= q->dim[d];
    }
    index = index * (uint64_t)q->global[at + 1] + (uint64_t)(q->offset[at + 1] + head);
    return (index * (uint64_t)q->global[at] + (uint64_t)(q->offset[at] + row)) * (uint64_t)keys;
}

static inline uint64_t iso_attention_weight(const iso_attention *a, int64_t group, int64_t head, int64_t row)
{
    return iso_attention_number(&a->call->in[ISO_ATTENTION_QUERY], a->keys, group, head, row);
}

/* The row of the mask for a query; NULL: there is no mask. */
static inline const uint8_t *iso_attention_mask(const iso_attention *a, int64_t group, int64_t head,
                                                int64_t row)
{
    if (!a->attrs->has_mask)
        return NULL;
    const iso_array *mask = &a->call->in[ISO_ATTENTION_MASK];
    head = mask->dim[1] == 1 ? 0 : head;
    return (const uint8_t *)mask->data + ((group * mask->dim[1] + head) * a->rows + row) * a->keys;
}

#endif
