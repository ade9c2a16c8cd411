#include "models/layers/einsum.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/graph/op.h"

bool iso_labels_have(const char *labels, char label)
{
    return label && strchr(labels, label);
}

void iso_labels_add(char *labels, char label)
{
    const size_t length = strlen(labels);
    labels[length] = label;
    labels[length + 1] = 0;
}

static int rank_of(const iso_labelled *a)
{
    return (int)strlen(a->label);
}

int64_t iso_labelled_extent(const iso_labelled *a, char label)
{
    const char *at = iso_labels_have(a->label, label) ? strchr(a->label, label) : NULL;
    return at ? iso_tensor_shape(a->x)->dim[at - a->label] : 1;
}

static void refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(char *why, const char *format, ...)
{
    va_list args;
    if (*why)
        return;
    va_start(args, format);
    vsnprintf(why, ISO_EINSUM_WHY, format, args);
    va_end(args);
}

static void refuse_batch(char *why, const char *what)
{
    refuse(why, "%s: the rows of a batch stay apart, in their order, in the first dimension", what);
}

/* The label of the batch; 0: it has none. */
static char batch_label(const iso_labelled *a)
{
    return rank_of(a) > 0 && iso_tensor_shape(a->x)->dim[0] == ISO_BATCH ? a->label[0] : 0;
}

/* a, then b, in `all`. */
static void join(const char *a, const char *b, char *all)
{
    strcat(strcpy(all, a), b);
}

/* x in another shape, whose dimensions are those of these labels. */
static iso_tensor *in_shape(const iso_labelled *a, const iso_labelled *b, const char *labels, iso_tensor *x)
{
    iso_shape shape = {.rank = 0};
    for (; *labels && shape.rank < ISO_MAX_RANK; labels++)
        shape.dim[shape.rank++] = iso_labels_have(a->label, *labels) ? iso_labelled_extent(a, *labels)
                                                                     : iso_labelled_extent(b, *labels);
    return iso_reshape_to(x, shape);
}

/* The elements of some dimensions; -1, which no reshape takes, if they are too many. */
static int64_t elements(const iso_labelled *a, const char *labels)
{
    int64_t count = 1;
    for (; *labels; labels++)
        if (__builtin_mul_overflow(count, iso_labelled_extent(a, *labels), &count))
            return -1;
    return count;
}

iso_labelled iso_labelled_sum(iso_labelled a, const char *kept, const char *also, char *why)
{
    int axes[ISO_MAX_RANK], count = 0;
    iso_labelled b = {.label = ""};
    for (int i = 0; i < rank_of(&a); i++)
        if (iso_labels_have(kept, a.label[i]) || iso_labels_have(also, a.label[i]))
            iso_labels_add(b.label, a.label[i]);
        else
            axes[count++] = i;
    if (batch_label(&a) && !iso_labels_have(b.label, batch_label(&a)))
        refuse_batch(why, "it sums over the rows of the batch");
    b.x = count && !*why ? iso_reduce_sum(a.x, axes, count, false) : a.x;
    return b;
}

iso_labelled iso_labelled_order(iso_labelled a, const char *labels, char *why)
{
    int permutation[ISO_MAX_RANK], count = 0;
    iso_labelled b = {.label = ""};
    bool same = true;
    for (; *labels; labels++)
        if (iso_labels_have(a.label, *labels)) {
            permutation[count] = (int)(strchr(a.label, *labels) - a.label);
            same = same && permutation[count] == count;
            iso_labels_add(b.label, *labels);
            count++;
        }
    if (batch_label(&a) && b.label[0] != batch_label(&a))
        refuse_batch(why, "it moves the batch to another dimension");
    b.x = same || *why ? a.x : iso_transpose(a.x, permutation);
    return b;
}

/* Without the dimensions of one element that `b` has with more and that are in `out`: they are broadcast. */
static iso_labelled drop_ones(const iso_labelled *a, const iso_labelled *b, const char *out)
{
    iso_labelled c = {.label = ""};
    for (const char *at = a->label; *at; at++)
        if (iso_labelled_extent(a, *at) != 1 || iso_labelled_extent(b, *at) == 1 ||
            !iso_labels_have(out, *at))
            iso_labels_add(c.label, *at);
    c.x = rank_of(&c) < rank_of(a) ? in_shape(a, a, c.label, a->x) : a->x;
    return c;
}

/* The tensor with the dimensions of `labels` in this order, and 1 for those that it does not have. */
static iso_tensor *align(const iso_labelled *a, const char *labels, char *why)
{
    const iso_labelled b = iso_labelled_order(*a, labels, why);
    return in_shape(&b, &b, labels, b.x);
}

/* The labels of two tensors by where they are: in both and the result, in one and the result, summed. */
typedef struct roles {
    char both[ISO_MAX_RANK + 1], a[ISO_MAX_RANK + 1], b[ISO_MAX_RANK + 1], summed[ISO_MAX_RANK + 1];
} roles;

static roles find_roles(const iso_labelled *a, const iso_labelled *b, const char *out)
{
    roles r = {.both = ""};
    for (const char *at = a->label; *at; at++)
        iso_labels_add(!iso_labels_have(b->label, *at) ? r.a
                       : iso_labels_have(out, *at)     ? r.both
                                                       : r.summed,
                       *at);
    for (const char *at = b->label; *at; at++)
        if (!iso_labels_have(a->label, *at))
            iso_labels_add(r.b, *at);
    return r;
}

/* Puts labels into the order of a list, which has all of them. */
static void sort(char *labels, const char *order)
{
    char sorted[ISO_MAX_RANK + 1] = "";
    for (; *order; order++)
        if (iso_labels_have(labels, *order))
            iso_labels_add(sorted, *order);
    strcpy(labels, sorted);
}

/* The tensor as [both..., rows, columns]; rows and columns are lists of dimensions. */
static iso_tensor *as_matrices(const iso_labelled *a, const char *both, const char *rows, const char *columns,
                               char *why)
{
    char labels[ISO_MOST_LABELS + 1], front[ISO_MOST_LABELS + 1];
    iso_shape shape = {.rank = 0};
    join(both, rows, front);
    join(front, columns, labels);
    const iso_labelled b = iso_labelled_order(*a, labels, why);
    if (strlen(both) + 2 > ISO_MAX_RANK) {
        refuse(why, "it has too many dimensions");
        return b.x;
    }
    for (const char *at = both; *at; at++)
        shape.dim[shape.rank++] = iso_labelled_extent(a, *at);
    shape.dim[shape.rank++] = elements(a, rows);
    shape.dim[shape.rank++] = elements(a, columns);
    return iso_reshape_to(b.x, shape);
}

/* Whether the labels are these, in this order. */
static bool is_ordered(const char *labels, const char *first, const char *second, const char *third)
{
    const size_t n = strlen(first), m = strlen(second);
    return strncmp(labels, first, n) == 0 && strncmp(labels + n, second, m) == 0 &&
           strcmp(labels + n + m, third) == 0;
}

/* The product with matrices for each index of r->both: [r->both..., r->a..., r->b...] */
static iso_tensor *product_of_matrices(const iso_labelled *a, const iso_labelled *b, const roles *r,
                                       char *why)
{
    const bool transposed = is_ordered(b->label, r->both, r->b, r->summed);
    iso_tensor *x = as_matrices(a, r->both, r->a, r->summed, why);
    iso_tensor *z = transposed ? as_matrices(b, r->both, r->b, r->summed, why)
                               : as_matrices(b, r->both, r->summed, r->b, why);
    return *why ? x : iso_matmul_with(x, z, false, transposed);
}

/* The product of a tensor, whose rows stay as they are, with one matrix: [r->a..., elements of r->b]. What is moved
 * anyway is moved into the order of the result and of b. */
static iso_tensor *product_with_matrix(const iso_labelled *a, const iso_labelled *b, roles *r,
                                       const char *out, char *why)
{
    iso_shape shape = {.rank = 0};
    char labels[ISO_MOST_LABELS + 1];
    if (!is_ordered(a->label, r->a, r->summed, "")) {
        sort(r->a, out);
        sort(r->summed, b->label);
    }
    sort(r->b, out);
    join(r->a, r->summed, labels);
    iso_labelled x = iso_labelled_order(*a, labels, why);
    for (const char *at = r->a; *at; at++)
        shape.dim[shape.rank++] = iso_labelled_extent(a, *at);
    if (shape.rank == ISO_MAX_RANK)
        refuse(why, "it has too many dimensions");
    if (*why)
        return x.x;
    shape.dim[shape.rank++] = elements(a, r->summed);
    x.x = strlen(r->summed) == 1 ? x.x : iso_reshape_to(x.x, shape);
    const bool transposed =
        is_ordered(b->label, r->b, r->summed, "") && !is_ordered(b->label, r->summed, r->b, "");
    iso_tensor *matrix =
        transposed ? as_matrices(b, "", r->b, r->summed, why) : as_matrices(b, "", r->summed, r->b, why);
    return *why ? matrix : iso_matmul_with(x.x, matrix, false, transposed);
}

/* A tensor without rows, repeated for each row: its first dimension is the batch then. */
static iso_labelled repeat_for_rows(const iso_labelled *a, char label, char *why)
{
    iso_labelled b = {.label = {label}};
    if (rank_of(a) == ISO_MAX_RANK)
        refuse(why, "it has too many dimensions");
    if (*why)
        return *a;
    strcat(b.label, a->label);
    iso_tensor *x = in_shape(a, a, b.label, a->x); /* 1 for the new label */
    iso_shape shape = *iso_tensor_shape(x);
    shape.dim[0] = ISO_BATCH;
    b.x = iso_broadcast_to(x, shape);
    return b;
}

static void check_extents(const iso_labelled *a, const iso_labelled *b, char *why)
{
    for (const char *at = a->label; *at; at++)
        if (iso_labels_have(b->label, *at) && iso_labelled_extent(a, *at) != iso_labelled_extent(b, *at))
            refuse(why, "dimensions that must be equal have %lld and %lld elements",
                   (long long)iso_labelled_extent(a, *at), (long long)iso_labelled_extent(b, *at));
}

/* What a product does with the rows of the batch. */
static void check_rows(const iso_labelled *a, const iso_labelled *b, const roles *r, char *why)
{
    const char rows = batch_label(a);
    if (rows && iso_labels_have(r->summed, rows))
        refuse_batch(why, "it sums over the rows of the batch");
    else if (rows && batch_label(b) && batch_label(b) != rows)
        refuse_batch(why, "it multiplies each row with each other row of the batch");
}

static iso_labelled sum_of_products(const iso_labelled *a, const iso_labelled *b, const char *labels,
                                    const iso_labelled *bias, char *why)
{
    iso_labelled y = {.x = a->x, .label = ""}, rows = *b;
    char made[ISO_MOST_LABELS + 1], front[ISO_MOST_LABELS + 1];
    roles r = find_roles(a, b, labels);
    if (*r.both && iso_labels_have(r.a, batch_label(a))) {
        rows = repeat_for_rows(b, batch_label(a), why);
        r = find_roles(a, &rows, labels);
    }
    y.x = *r.both ? product_of_matrices(a, &rows, &r, why) : product_with_matrix(a, &rows, &r, labels, why);
    join(r.both, r.a, front);
    join(front, r.b, made);
    if (*why)
        return y;
    const bool early = bias && !*r.both && *r.b && strcmp(bias->label, r.b) == 0 && strcmp(made, labels) == 0;
    if (early) /* one sum with the product */
        y.x = iso_add(y.x, iso_reshape_to(bias->x, ISO_SHAPE(elements(&rows, r.b))));
    y.x = in_shape(a, &rows, made, y.x);
    strcpy(y.label, made);
    y = iso_labelled_order(y, labels, why);
    if (bias && !early && !*why)
        y.x = iso_add(y.x, bias->x);
    return y;
}

iso_labelled iso_labelled_product(iso_labelled first, iso_labelled second, const char *out,
                                  const iso_labelled *bias, char *why)
{
    char labels[ISO_MOST_LABELS + 1] = "";
    iso_labelled a = drop_ones(&first, &second, out), b = drop_ones(&second, &a, out);
    check_extents(&a, &b, why);
    a = iso_labelled_sum(a, b.label, out, why);
    b = iso_labelled_sum(b, a.label, out, why);
    if (batch_label(&b) && !batch_label(&a)) { /* the one with rows comes first */
        const iso_labelled swapped = a;
        a = b;
        b = swapped;
    }
    for (; *out; out++)
        if (iso_labels_have(a.label, *out) || iso_labels_have(b.label, *out))
            iso_labels_add(labels, *out);
    if (strlen(labels) > ISO_MAX_RANK)
        refuse(why, "its result would have more than %d dimensions", ISO_MAX_RANK);
    const roles r = find_roles(&a, &b, labels);
    check_rows(&a, &b, &r, why);
    if (*why)
        return a;
    if (*r.summed)
        return sum_of_products(&a, &b, labels, bias, why);
    iso_labelled y = {.x = iso_multiply(align(&a, labels, why), align(&b, labels, why))};
    strcpy(y.label, labels);
    if (bias)
        y.x = iso_add(y.x, bias->x);
    return y;
}
