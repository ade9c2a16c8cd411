/* The arrays of "attention" and "attention_grad" as their kernels see them. */
#ifndef ISO_BACKEND_ATTENTION_H
#define ISO_BACKEND_ATTENTION_H

#include "runtime/backend/backend.h"
#include "runtime/base/host_device.h"
#include "runtime/graph/ops/network.h"

enum { ISO_ATTENTION_QUERY, ISO_ATTENTION_KEY, ISO_ATTENTION_VALUE, ISO_ATTENTION_MASKS };

/* A mask [batch, heads, t, s], each of which may be 1: elements from one number of a dimension to the next, 0 if one
 * stands for all. */
typedef struct iso_attention_mask {
    const uint8_t *data; /* NULL: there is none */
    int64_t group, head, row, key;
} iso_attention_mask;

/* What masks leave of the keys of a query: key i if at[i * step] is not 0; at is NULL: all of them. */
typedef struct iso_attention_mask_row {
    const uint8_t *at;
    int64_t step;
} iso_attention_mask_row;

typedef struct iso_attention {
    const iso_kernel_call *call;
    const iso_attention_attrs *attrs;
    int64_t groups, heads;    /* groups: of all dimensions before the positions */
    int64_t rows, keys, k, v; /* queries and keys of a group, features of a head */
    int64_t first_row;        /* the global position of query 0 */
    iso_attention_mask mask, query_mask;
} iso_attention;

static inline iso_attention_mask iso_attention_mask_of(const iso_array *mask)
{
    iso_attention_mask m = {(const uint8_t *)mask->data, 0, 0, 0, 0};
    m.key = mask->dim[3] == 1 ? 0 : 1;
    m.row = mask->dim[2] == 1 ? 0 : mask->dim[3];
    m.head = mask->dim[1] == 1 ? 0 : mask->dim[2] * mask->dim[3];
    m.group = mask->dim[0] == 1 ? 0 : mask->dim[1] * mask->dim[2] * mask->dim[3];
    return m;
}

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
    a.mask.data = a.query_mask.data = NULL;
    if (a.attrs->has_mask)
        a.mask = iso_attention_mask_of(&call->in[ISO_ATTENTION_MASKS]);
    if (a.attrs->has_query_mask)
        a.query_mask = iso_attention_mask_of(&call->in[ISO_ATTENTION_MASKS + (a.attrs->has_mask ? 1 : 0)]);
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

ISO_HOST_DEVICE static inline const uint8_t *iso_attention_mask_at(const iso_attention_mask *m, int64_t group,
                                                                   int64_t head, int64_t row)
{
    return m->data ? m->data + group * m->group + head * m->head + row * m->row : NULL;
}

/* Of a query that does not count, its own 0 stands for all keys. */
ISO_HOST_DEVICE static inline iso_attention_mask_row
iso_attention_join_masks(const iso_attention_mask *mask, const iso_attention_mask *queries, int64_t group,
                         int64_t head, int64_t row)
{
    const uint8_t *query = iso_attention_mask_at(queries, group, head, row);
    iso_attention_mask_row joined = {query, 0};
    if (query && (!*query || !mask->data))
        return joined;
    joined.at = iso_attention_mask_at(mask, group, head, row);
    joined.step = mask->key;
    return joined;
}

static inline bool iso_attention_has_masks(const iso_attention *a)
{
    return a->attrs->has_mask || a->attrs->has_query_mask;
}

static inline iso_attention_mask_row iso_attention_mask_row_of(const iso_attention *a, int64_t group,
                                                               int64_t head, int64_t row)
{
    return iso_attention_join_masks(&a->mask, &a->query_mask, group, head, row);
}

ISO_HOST_DEVICE static inline bool iso_attention_counts(iso_attention_mask_row mask, int64_t key)
{
    return !mask.at || mask.at[key * mask.step];
}

#endif
