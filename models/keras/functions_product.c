/* Functions of keras.ops that are products: of matrices, by Einstein's notation, attention; and look-ups. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "models/keras/functions_impl.h"

/* ---- products of labelled dimensions ---- */

/* A tensor with a letter for each dimension. */
typedef struct labelled {
    iso_tensor *x;
    char label[2 * ISO_MAX_RANK + 1];
} labelled;

static bool has(const char *labels, char label)
{
    return label && strchr(labels, label);
}

static int rank_of(const labelled *a)
{
    return (int)strlen(a->label);
}

static int64_t extent(const labelled *a, char label)
{
    const char *at = strchr(a->label, label);
    return at ? iso_tensor_shape(a->x)->dim[at - a->label] : 1;
}

/* Appends a label. */
static void append(char *labels, char label)
{
    size_t length = strlen(labels);
    labels[length] = label;
    labels[length + 1] = 0;
}

/* Whether a dimension is one of the batch. */
static char batch_label(const labelled *a)
{
    return rank_of(a) > 0 && iso_keras_is_batch(a->x, 0) ? a->label[0] : 0;
}

/* Sums the dimensions away that are in neither of two lists. False after a refusal. */
static bool sum_others(iso_keras_function *f, labelled *a, const char *kept, const char *also)
{
    int axes[ISO_MAX_RANK], count = 0;
    labelled b = {.label = ""};
    for (int i = 0; i < rank_of(a); i++)
        if (has(kept, a->label[i]) || has(also, a->label[i]))
            append(b.label, a->label[i]);
        else
            axes[count++] = i;
    if (batch_label(a) && !has(b.label, batch_label(a)))
        iso_keras_refuse_batch(f, "it sums over the rows of the batch");
    if (f->status != ISO_OK)
        return false;
    b.x = count ? iso_reduce_sum(a->x, axes, count, false) : a->x;
    *a = b;
    return true;
}

/* The dimensions of `a` in the order of a list, which has all of them. False: the batch would move. */
static bool order(iso_keras_function *f, labelled *a, const char *labels)
{
    int permutation[ISO_MAX_RANK], count = 0;
    labelled b = {.label = ""};
    bool same = true;
    for (const char *at = labels; *at; at++)
        if (has(a->label, *at)) {
            permutation[count] = (int)(strchr(a->label, *at) - a->label);
            same = same && permutation[count] == count;
            append(b.label, *at);
            count++;
        }
    if (count && iso_keras_is_batch(a->x, 0) && permutation[0] != 0)
        iso_keras_refuse_batch(f, "it moves the batch to another dimension");
    if (f->status != ISO_OK)
        return false;
    b.x = same ? a->x : iso_transpose(a->x, permutation);
    *a = b;
    return true;
}

/* A dimension of one element that the other tensor has with more: it goes, as broadcasting has it, unless it is
 * summed. */
static void drop_ones(labelled *a, const labelled *b, const char *out)
{
    labelled c = {.label = ""};
    uint32_t ones = 0;
    for (int i = 0; i < rank_of(a); i++)
        if (iso_tensor_shape(a->x)->dim[i] == 1 && has(out, a->label[i]) && has(b->label, a->label[i]) &&
            extent(b, a->label[i]) != 1)
            ones |= 1u << i;
        else
            append(c.label, a->label[i]);
    c.x = ones ? iso_keras_without(a->x, ones) : a->x;
    *a = c;
}

/* x with the dimensions of `labels` in this order, and 1 for those that it does not have. */
static bool align(iso_keras_function *f, labelled *a, const char *labels)
{
    iso_shape shape = {.rank = 0};
    if (!order(f, a, labels))
        return false;
    for (const char *at = labels; *at; at++)
        shape.dim[shape.rank++] = extent(a, *at);
    a->x = iso_reshape_to(a->x, shape);
    return true;
}

/* The labels of two tensors by where they are: in both and the result, in one and the result, summed. */
typedef struct roles {
    char both[ISO_MAX_RANK + 1], a[ISO_MAX_RANK + 1], b[ISO_MAX_RANK + 1], summed[ISO_MAX_RANK + 1];
} roles;

static roles find_roles(const labelled *a, const labelled *b, const char *out)
{
    roles r = {.both = ""};
    for (const char *at = a->label; *at; at++)
        append(!has(b->label, *at) ? r.a : has(out, *at) ? r.both : r.summed, *at);
    for (const char *at = b->label; *at; at++)
        if (!has(a->label, *at))
            append(r.b, *at);
    return r;
}

/* The elements of some dimensions. */
static int64_t elements(const labelled *a, const char *labels)
{
    int64_t count = 1;
    for (; *labels; labels++)
        count *= extent(a, *labels);
    return count;
}

/* x as [both..., rows, columns]; rows and columns are lists of dimensions. */
static iso_tensor *as_matrices(iso_keras_function *f, labelled *a, const char *both, const char *rows,
                               const char *columns)
{
    char labels[2 * ISO_MAX_RANK + 2] = "";
    iso_shape shape = {.rank = 0};
    strcat(strcat(strcat(labels, both), rows), columns);
    if (!order(f, a, labels))
        return a->x;
    if (strlen(both) + 2 > ISO_MAX_RANK)
        return iso_keras_refuse_call(f, "it has too many dimensions");
    for (const char *at = both; *at; at++)
        shape.dim[shape.rank++] = extent(a, *at);
    shape.dim[shape.rank++] = elements(a, rows);
    shape.dim[shape.rank++] = elements(a, columns);
    return iso_reshape_to(a->x, shape);
}

/* Whether the dimensions of `a` are these, in this order. */
static bool is_ordered(const labelled *a, const char *first, const char *second, const char *third)
{
    char labels[3 * ISO_MAX_RANK + 3] = "";
    strcat(strcat(strcat(labels, first), second), third);
    return strcmp(a->label, labels) == 0;
}

/* The product with matrices for each index of r->both. */
static iso_tensor *product_of_matrices(iso_keras_function *f, labelled *a, labelled *b, const roles *r)
{
    const bool b_turned = is_ordered(b, r->both, r->b, r->summed);
    iso_tensor *x = as_matrices(f, a, r->both, r->a, r->summed);
    iso_tensor *z =
        b_turned ? as_matrices(f, b, r->both, r->b, r->summed) : as_matrices(f, b, r->both, r->summed, r->b);
    return f->status == ISO_OK ? iso_matmul_with(x, z, false, b_turned) : x;
}

/* The product of x, whose dimensions stay as they are, with one matrix. */
static iso_tensor *product_with_matrix(iso_keras_function *f, labelled *a, labelled *b, const roles *r)
{
    char labels[2 * ISO_MAX_RANK + 2] = "";
    iso_shape shape = {.rank = 0};
    strcat(strcat(labels, r->a), r->summed);
    if (!order(f, a, labels))
        return a->x;
    for (const char *at = r->a; *at; at++)
        shape.dim[shape.rank++] = extent(a, *at);
    if (shape.rank == ISO_MAX_RANK)
        return iso_keras_refuse_call(f, "it has too many dimensions");
    shape.dim[shape.rank++] = elements(a, r->summed);
    iso_tensor *matrix = as_matrices(f, b, "", r->summed, r->b);
    return f->status == ISO_OK ? iso_matmul(iso_reshape_to(a->x, shape), matrix) : matrix;
}

/* A tensor without rows, repeated for each row: its first dimension is the batch then. */
static void repeat_for_rows(labelled *a, char label)
{
    labelled b = {.x = iso_keras_with_axis(a->x, 0), .label = {label}};
    iso_shape shape = *iso_tensor_shape(b.x);
    strcat(b.label, a->label);
    shape.dim[0] = ISO_BATCH;
    b.x = iso_broadcast_to(b.x, shape);
    *a = b;
}

static bool check_extents(iso_keras_function *f, const labelled *a, const labelled *b)
{
    for (const char *at = a->label; *at; at++)
        if (has(b->label, *at) && extent(a, *at) != extent(b, *at)) {
            iso_keras_refuse_call(f, "dimensions that must be equal have %lld and %lld elements",
                                  (long long)extent(a, *at), (long long)extent(b, *at));
            return false;
        }
    return true;
}

/* The labels of both in the order of `out`, which may have more. */
static void result_labels(const labelled *a, const labelled *b, const char *out, char *labels)
{
    *labels = 0;
    for (; *out; out++)
        if (has(a->label, *out) || has(b->label, *out))
            append(labels, *out);
}

/* Of a product: a's and b's dimensions in r, with those of the batch first. */
static labelled split_result(const labelled *a, const labelled *b, const roles *r, iso_tensor *y)
{
    labelled c = {.label = ""};
    iso_shape shape = {.rank = 0};
    strcat(strcat(strcat(c.label, r->both), r->a), r->b);
    for (const char *at = c.label; *at && shape.rank < ISO_MAX_RANK; at++)
        shape.dim[shape.rank++] = has(a->label, *at) ? extent(a, *at) : extent(b, *at);
    c.x = iso_reshape_to(y, shape);
    return c;
}

/* The sum over the dimensions that are not in `out` of the products of two tensors, in the order of `out`. */
static labelled multiply_two(iso_keras_function *f, labelled a, labelled b, const char *out)
{
    char labels[4 * ISO_MAX_RANK + 1];
    drop_ones(&a, &b, out);
    drop_ones(&b, &a, out);
    if (!check_extents(f, &a, &b) || !sum_others(f, &a, b.label, out) || !sum_others(f, &b, a.label, out))
        return a;
    if (batch_label(&b) && !batch_label(&a)) { /* the one with rows comes first */
        labelled swapped = a;
        a = b;
        b = swapped;
    }
    result_labels(&a, &b, out, labels);
    if (strlen(labels) > ISO_MAX_RANK) {
        iso_keras_refuse_call(f, "its result would have more than %d dimensions", ISO_MAX_RANK);
        return a;
    }
    roles r = find_roles(&a, &b, out);
    if (batch_label(&a) && has(r.summed, batch_label(&a))) {
        iso_keras_refuse_batch(f, "it sums over the rows of the batch");
    } else if (batch_label(&a) && batch_label(&b) && batch_label(&a) != batch_label(&b)) {
        iso_keras_refuse_batch(f, "it multiplies each row with each other row of the batch");
    } else if (!*r.summed) { /* no sum */
        if (align(f, &a, labels) && align(f, &b, labels)) {
            a.x = iso_multiply(a.x, b.x);
            strcpy(a.label, labels);
        }
        return a;
    }
    if (f->status == ISO_OK && *r.both && has(r.a, batch_label(&a))) {
        repeat_for_rows(&b, batch_label(&a));
        r = find_roles(&a, &b, out);
    }
    if (f->status != ISO_OK)
        return a;
    iso_tensor *y = *r.both ? product_of_matrices(f, &a, &b, &r) : product_with_matrix(f, &a, &b, &r);
    if (f->status != ISO_OK)
        return a;
    a = split_result(&a, &b, &r, y);
    order(f, &a, labels);
    return a;
}

/* ---- keras.ops.einsum ---- */

enum { MOST_OPERANDS = 8, FIRST_OF_ELLIPSIS = 1 };

/* The labels of a part of a formula; those of "..." are from 1 on, the last dimension has 1. False: not that of a
 * tensor of `rank` dimensions (-1: any; then "..." has `dots`). */
static bool read_labels(const char *from, size_t length, int rank, int *dots, char *labels)
{
    int letters = 0, count = 0;
    bool ellipsis = false;
    for (size_t i = 0; i < length; i++)
        letters += (from[i] >= 'a' && from[i] <= 'z') || (from[i] >= 'A' && from[i] <= 'Z');
    if (letters > ISO_MAX_RANK || (rank >= 0 && letters > rank))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (from[i] == ' ')
            continue;
        if (strncmp(from + i, "...", 3) == 0 && !ellipsis) {
            int more = rank >= 0 ? rank - letters : *dots;
            if (letters + more > ISO_MAX_RANK)
                return false;
            *dots = rank >= 0 && more > *dots ? more : *dots;
            for (int k = more; k > 0; k--)
                labels[count++] = (char)(FIRST_OF_ELLIPSIS + k - 1);
            ellipsis = true;
            i += 2;
        } else if ((from[i] >= 'a' && from[i] <= 'z') || (from[i] >= 'A' && from[i] <= 'Z')) {
            if (memchr(labels, from[i], (size_t)count)) /* a diagonal */
                return false;
            labels[count++] = from[i];
        } else {
            return false;
        }
    }
    labels[count] = 0;
    return rank < 0 || count == rank;
}

/* Without "->" the result has the letters that occur once, in alphabetical order, after "...". */
static bool default_result(const labelled *operand, int count, int dots, char *out)
{
    int length = 0;
    for (int k = dots; k > 0; k--)
        out[length++] = (char)(FIRST_OF_ELLIPSIS + k - 1);
    for (int c = 'A'; c <= 'z'; c++) {
        int times = 0;
        for (int i = 0; i < count; i++)
            times += has(operand[i].label, (char)c);
        if (times == 1 && length < ISO_MAX_RANK)
            out[length++] = (char)c;
    }
    out[length] = 0;
    return true;
}

static bool read_formula(iso_keras_function *f, const char *formula, labelled *operand, char *out)
{
    const char *arrow = strstr(formula, "->"), *end = arrow ? arrow : formula + strlen(formula),
               *at = formula;
    int dots = 0;
    for (int i = 0; i < f->count; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        operand[i].x = f->operand[i].tensor;
        if ((i + 1 < f->count) != (comma != NULL) ||
            !read_labels(at, (size_t)(stop - at), iso_tensor_shape(operand[i].x)->rank, &dots,
                         operand[i].label))
            return false;
        at = comma ? comma + 1 : end;
    }
    if (!arrow)
        return default_result(operand, f->count, dots, out);
    if (!read_labels(arrow + 2, strlen(arrow + 2), -1, &dots, out))
        return false;
    for (const char *label = out; *label; label++) {
        bool found = false;
        for (int i = 0; i < f->count; i++)
            found = found || has(operand[i].label, *label);
        if (!found)
            return false;
    }
    return true;
}

/* The labels that the result or an operand from `first` on has. */
static void needed_labels(const labelled *operand, int count, int first, const char *out, char *needed)
{
    strcpy(needed, out);
    for (int i = first; i < count; i++)
        for (const char *at = operand[i].label; *at; at++)
            if (!has(needed, *at))
                append(needed, *at);
}

/* The products from the left to the right. */
static void contract(iso_keras_function *f, labelled *operand, int count, const char *out)
{
    char needed[(MOST_OPERANDS + 1) * (ISO_MAX_RANK + 1) + 1];
    labelled y = operand[0];
    for (int i = 1; f->status == ISO_OK && i < count; i++) {
        needed_labels(operand, count, i + 1, out, needed);
        y = multiply_two(f, y, operand[i], needed);
    }
    if (f->status == ISO_OK && sum_others(f, &y, out, "") && order(f, &y, out))
        iso_keras_give(f, y.x);
}

static void einsum(iso_keras_function *f)
{
    labelled operand[MOST_OPERANDS] = {{0}};
    char out[2 * ISO_MAX_RANK + 1] = "";
    const char *formula = f->settings->text(f->settings, "subscripts");
    iso_keras_promote(f, 0, f->count, true);
    if (f->status != ISO_OK)
        return;
    if (!formula || f->count > MOST_OPERANDS || !read_formula(f, formula, operand, out))
        iso_config_refuse(
            f->settings, "subscripts",
            "a letter for each dimension of up to 8 tensors, no letter twice in one, and \"...\"");
    else
        contract(f, operand, f->count, out);
}

/* ---- products by position ---- */

/* Labels from `first` on for the dimensions of operand i. */
static labelled label(iso_keras_function *f, int i, char first)
{
    labelled a = {.x = f->operand[i].tensor};
    for (int d = 0; d < iso_tensor_shape(a.x)->rank; d++)
        a.label[d] = (char)(first + d);
    return a;
}

/* Both operands as real numbers. False: one has no dimensions. */
static bool take_two(iso_keras_function *f)
{
    iso_keras_promote(f, 0, 2, true);
    for (int i = 0; f->status == ISO_OK && i < 2; i++)
        if (iso_tensor_shape(f->operand[i].tensor)->rank == 0)
            iso_keras_refuse_call(f, "it is called with a number");
    return f->status == ISO_OK;
}

/* The result of a product of two, whose common labels are summed unless they are in `both`. */
static void give_product(iso_keras_function *f, labelled a, labelled b, const char *both)
{
    char out[4 * ISO_MAX_RANK + 1] = "";
    strcat(out, both);
    for (const char *at = a.label; *at; at++)
        if (!has(b.label, *at) && !has(out, *at))
            append(out, *at);
    for (const char *at = b.label; *at; at++)
        if (!has(a.label, *at) && !has(out, *at))
            append(out, *at);
    if (strlen(out) > ISO_MAX_RANK) {
        iso_keras_refuse_call(f, "its result would have more than %d dimensions", ISO_MAX_RANK);
        return;
    }
    contract(f, (labelled[]){a, b}, 2, out);
}

/* [..., m, k] and [..., k, n]; leading dimensions are counted from the end. */
static void matmul(iso_keras_function *f)
{
    if (!take_two(f))
        return;
    labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = rank_of(&a), rb = rank_of(&b), lead_a = ra > 2 ? ra - 2 : 0, lead_b = rb > 2 ? rb - 2 : 0;
    const int lead = lead_a > lead_b ? lead_a : lead_b;
    char both[ISO_MAX_RANK + 1] = "";
    for (int i = 0; i < lead_a; i++)
        a.label[i] = (char)('0' + lead - lead_a + i);
    for (int i = 0; i < lead_b; i++)
        b.label[i] = (char)('0' + lead - lead_b + i);
    for (int i = 0; i < lead; i++)
        append(both, (char)('0' + i));
    b.label[rb > 1 ? rb - 2 : 0] = a.label[ra - 1];
    give_product(f, a, b, both);
}

/* The last dimension of the first with the last but one of the second, or its only one. */
static void dot(iso_keras_function *f)
{
    iso_keras_promote(f, 0, 2, true);
    if (f->status != ISO_OK)
        return;
    labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = rank_of(&a), rb = rank_of(&b);
    if (ra == 0 || rb == 0) {
        iso_keras_give(f, iso_multiply(a.x, b.x));
        return;
    }
    b.label[rb > 1 ? rb - 2 : 0] = a.label[ra - 1];
    give_product(f, a, b, "");
}

/* axes: how many of the last of the first go with the first of the second, or two lists. */
static void tensordot(iso_keras_function *f)
{
    const json_t *axes = json_object_get(f->layer->config, "axes");
    double given[2 * ISO_MAX_RANK];
    if (!take_two(f))
        return;
    labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = rank_of(&a), rb = rank_of(&b);
    int count = f->settings->numbers(f->settings, "axes", given, 2 * ISO_MAX_RANK);
    const bool lists = json_is_array(axes);
    int pairs = lists                                                     ? count / 2
                : count == 1 && given[0] >= 0 && given[0] <= ISO_MAX_RANK ? (int)given[0]
                                                                          : -1;
    bool good =
        count <= 2 * ISO_MAX_RANK && pairs >= 0 && pairs <= ra && pairs <= rb && (!lists || count % 2 == 0);
    for (int i = 0; good && i < pairs; i++) {
        double at_a = lists ? given[i] : ra - pairs + i, at_b = lists ? given[pairs + i] : i;
        at_a += at_a < 0 ? ra : 0;
        at_b += at_b < 0 ? rb : 0;
        good = at_a >= 0 && at_a < ra && at_b >= 0 && at_b < rb && b.label[(int)at_b] >= 'a';
        if (good)
            b.label[(int)at_b] = a.label[(int)at_a];
    }
    if (!good)
        iso_config_refuse(f->settings, "axes", "a number of dimensions, or two lists of equal lengths");
    else
        give_product(f, a, b, "");
}

/* ---- keras.ops.dot_product_attention ---- */

/* A mask or bias with all dimensions, of which the batch may be one element. */
static iso_tensor *for_rows(iso_tensor *mask)
{
    iso_shape shape = *iso_tensor_shape(mask);
    while (shape.rank < 4) {
        mask = iso_keras_with_axis(mask, 0);
        shape = *iso_tensor_shape(mask);
    }
    if (shape.dim[0] == 1)
        shape.dim[0] = ISO_BATCH;
    return iso_broadcast_to(mask, shape);
}

static bool check_attention(iso_keras_function *f)
{
    const iso_shape *q = iso_tensor_shape(f->operand[0].tensor), *k = iso_tensor_shape(f->operand[1].tensor),
                    *v = iso_tensor_shape(f->operand[2].tensor);
    bool good = q->rank == 4 && k->rank == 4 && v->rank == 4 && q->dim[2] == k->dim[2] &&
                k->dim[2] == v->dim[2] && q->dim[3] == k->dim[3] && k->dim[1] == v->dim[1] &&
                q->dim[0] == ISO_BATCH && k->dim[0] == ISO_BATCH && v->dim[0] == ISO_BATCH;
    char text[3][160];
    if (!good)
        iso_keras_refuse_call(
            f,
            "its query, key and value have the shapes %s, %s and %s; supported: [batch, time, "
            "heads, depth], with one number of heads",
            iso_shape_text(q, text[0], 160), iso_shape_text(k, text[1], 160),
            iso_shape_text(v, text[2], 160));
    return good;
}

static void attention(iso_keras_function *f)
{
    iso_keras_promote(f, 0, 3, true);
    if (f->status != ISO_OK || !check_attention(f))
        return;
    iso_tensor *q = f->operand[0].tensor, *mask = f->operand[4].tensor;
    const double depth = (double)iso_tensor_shape(q)->dim[3];
    iso_attention_form form = {.scale = f->operand[5].number ? f->operand[5].value : 1 / sqrt(depth),
                               .masked = -0.7 * FLT_MAX,
                               .causal = iso_config_flag(f->settings, "is_causal", false)};
    iso_keras_arguments_take(&f->arguments, "flash_attention"); /* says how, not what is computed */
    if (f->operand[3].tensor || f->operand[3].number)
        iso_keras_refuse_call(f, "it has a bias, which is not supported");
    if (f->operand[5].tensor)
        iso_keras_refuse_call(f, "scale is a tensor; supported: a number");
    if (f->operand[4].number || (mask && iso_tensor_shape(mask)->rank > 4))
        iso_keras_refuse_call(f, "its mask is not [batch, heads, query, key]");
    if (f->status != ISO_OK)
        return;
    if (mask && iso_tensor_dtype(mask) != ISO_BOOL)
        mask = iso_not_equal(mask, iso_number(f->net->graph, iso_tensor_dtype(mask), 0));
    if (mask) {
        mask = for_rows(mask);
        iso_shape shape = *iso_tensor_shape(mask);
        shape.dim[2] = iso_tensor_shape(q)->dim[1];
        shape.dim[3] = iso_tensor_shape(f->operand[1].tensor)->dim[1];
        mask = iso_broadcast_to(mask, shape);
    }
    iso_keras_give(f, iso_attention_op(q, f->operand[1].tensor, f->operand[2].tensor, mask, &form));
}

/* ---- look-ups ---- */

enum { MOST_INDICES = 1024 };

/* The place of an index, which may count from the end, among n elements; -1: none. */
static int64_t place_of(double index, int64_t n)
{
    const double at = index + (index < 0 ? (double)n : 0);
    return at >= 0 && at < (double)n ? (int64_t)at : -1;
}

/* The elements of x along an axis at constant indices: parts that lie side by side, joined. */
static iso_tensor *gather_parts(iso_keras_function *f, iso_tensor *x, int axis, const double *index,
                                int64_t count)
{
    iso_tensor *part[MOST_INDICES];
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    int parts = 0;
    for (int64_t i = 0, end; i < count; i = end) {
        const int64_t at = place_of(index[i], n);
        if (at < 0)
            return iso_keras_refuse_call(f, "index %.17g is out of a dimension of %lld elements", index[i],
                                         (long long)n);
        for (end = i + 1; end < count && place_of(index[end], n) == at + end - i;)
            end++;
        part[parts++] = iso_keras_part(x, axis, at, end - i);
    }
    return iso_keras_join(part, parts, axis);
}

/* The numbers of nested lists, at most MOST_INDICES; returns how many there are. */
static int read_indices(const json_t *value, double *index, int count)
{
    if (!json_is_array(value)) {
        if (count < MOST_INDICES)
            index[count] = json_number_value(value);
        return count + 1;
    }
    for (size_t i = 0; i < json_array_size(value) && count <= MOST_INDICES; i++)
        count = read_indices(json_array_get(value, i), index, count);
    return count;
}

/* Constant indices of the shape of a tensor. */
static void take_constant(iso_keras_function *f, iso_tensor *x, int axis, const iso_keras_operand *indices)
{
    double index[MOST_INDICES];
    const iso_shape *shape = iso_tensor_shape(indices->tensor);
    int count = indices->array ? read_indices(indices->array, index, 0) : 1;
    if (!indices->array)
        index[0] = indices->value;
    if (count > MOST_INDICES || iso_tensor_shape(x)->rank - 1 + shape->rank > ISO_MAX_RANK) {
        iso_keras_refuse_call(f,
                              "supported are up to %d constant indices, and results of up to %d dimensions",
                              MOST_INDICES, ISO_MAX_RANK);
        return;
    }
    iso_tensor *y = gather_parts(f, x, axis, index, count);
    if (f->status != ISO_OK)
        return;
    iso_shape to = {.rank = 0};
    for (int i = 0; i < iso_tensor_shape(x)->rank; i++) {
        for (int k = 0; i == axis && k < shape->rank; k++)
            to.dim[to.rank++] = shape->dim[k];
        if (i != axis)
            to.dim[to.rank++] = iso_tensor_shape(x)->dim[i];
    }
    iso_keras_give(f, iso_reshape_to(y, to));
}

/* Rows of a table, by indices that are tensors of the network. */
static void take_rows(iso_keras_function *f, iso_tensor *table, iso_tensor *indices)
{
    iso_shape shape = *iso_tensor_shape(table), to = *iso_tensor_shape(indices);
    iso_tensor *flat = iso_reshape_to(table, ISO_SHAPE(shape.dim[0], -1));
    iso_tensor *y = iso_embedding_op(flat, indices);
    if (to.rank + shape.rank - 1 > ISO_MAX_RANK) {
        iso_keras_refuse_call(f, "its result would have more than %d dimensions", ISO_MAX_RANK);
        return;
    }
    for (int i = 1; i < shape.rank; i++)
        to.dim[to.rank++] = shape.dim[i];
    iso_keras_give(f, iso_reshape_to(y, to));
}

static void take(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0), *indices = iso_keras_operand_of(f, 1);
    int axis = iso_keras_axis(f, "axis", x, 0);
    if (axis < 0 || f->status != ISO_OK)
        return;
    if (!iso_keras_has(f, "axis") && iso_tensor_shape(x)->rank != 1)
        iso_config_refuse(f->settings, "axis", "a dimension");
    else if (iso_dtype_is_float(iso_tensor_dtype(indices)) || iso_tensor_dtype(indices) == ISO_BOOL)
        iso_keras_refuse_call(f, "its indices are not of an integer type");
    else if (iso_keras_is_batch(x, axis))
        iso_keras_refuse_batch(f, "it takes rows of the batch");
    else if (f->operand[1].array || f->operand[1].number)
        take_constant(f, x, axis, &f->operand[1]);
    else if (!iso_keras_is_batch(x, 0) && axis == 0 && iso_dtype_is_float(iso_tensor_dtype(x)))
        take_rows(f, x, indices);
    else
        iso_keras_refuse_call(
            f, "indices that are tensors of the network are supported for axis 0 of a tensor of "
               "real numbers without a batch; others must be constants");
}

static void one_hot(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    const int64_t classes = iso_config_size(f->settings, "num_classes", ISO_REQUIRED);
    const char *name = f->settings->text(f->settings, "dtype");
    iso_dtype type = name ? iso_dtype_named(name) : ISO_F32;
    const int rank = iso_tensor_shape(x)->rank;
    int64_t axis = iso_config_count(f->settings, "axis", -1);
    axis = axis < 0 ? axis + rank + 1 : axis;
    if (type == ISO_DTYPE_NONE || (type == ISO_F64 && iso_graph_precision(f->net->graph) != ISO_F64))
        iso_config_refuse(f->settings, "dtype", "float32, bfloat16, int32, int64, uint8, bool");
    else if (axis < 0 || axis > rank)
        iso_config_refuse(f->settings, "axis", "a dimension");
    else if (axis == 0 && iso_keras_is_batch(x, 0))
        iso_keras_refuse_batch(f, "it inserts a dimension before the batch");
    else if (iso_dtype_is_float(iso_tensor_dtype(x)))
        iso_keras_refuse_call(f, "its input is not of an integer type");
    else if (classes >= 1) {
        int order[ISO_MAX_RANK];
        iso_tensor *y = iso_one_hot(iso_cast(x, ISO_I32), classes, ISO_F32);
        for (int i = 0; i <= rank && i < ISO_MAX_RANK; i++)
            order[i] = i < axis ? i : i == axis ? rank : i - 1;
        y = axis == rank ? y : iso_transpose(y, order);
        iso_keras_give(f, type == ISO_F32 ? y : iso_cast(y, type));
    }
}

const iso_keras_function_type iso_keras_product_functions[] = {
    {"Matmul", "x1 x2", matmul},
    {"Dot", "x1 x2", dot},
    {"Tensordot", "x1 x2", tensordot},
    {"Einsum", "", einsum},
    {"DotProductAttention", "query key value ?bias ?mask ?scale", attention},
    {"Take", "x indices", take},
    {"OneHot", "x", one_hot},
    {0}};
