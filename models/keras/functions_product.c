/* Functions of keras.ops that are products: of matrices, by Einstein's notation, attention; and look-ups. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "models/keras/functions_impl.h"
#include "models/layers/einsum.h"

/* ---- keras.ops.einsum ---- */

enum { MOST_OPERANDS = 8 };

/* The labels of a part of a formula; those of "..." are from ISO_ELLIPSIS on. False: not that of a
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
                labels[count++] = (char)(ISO_ELLIPSIS + k - 1);
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
static bool default_result(const iso_labelled *operand, int count, int dots, char *out)
{
    int length = 0;
    for (int k = dots; k > 0; k--)
        out[length++] = (char)(ISO_ELLIPSIS + k - 1);
    for (int c = 'A'; c <= 'z'; c++) {
        int times = 0;
        for (int i = 0; i < count; i++)
            times += iso_labels_have(operand[i].label, (char)c);
        if (times == 1 && length < ISO_MAX_RANK)
            out[length++] = (char)c;
    }
    out[length] = 0;
    return true;
}

static bool read_formula(iso_keras_function *f, const char *formula, iso_labelled *operand, char *out)
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
            found = found || iso_labels_have(operand[i].label, *label);
        if (!found)
            return false;
    }
    return true;
}

/* The labels that the result or an operand from `first` on has. */
static void needed_labels(const iso_labelled *operand, int count, int first, const char *out, char *needed)
{
    strcpy(needed, out);
    for (int i = first; i < count; i++)
        for (const char *at = operand[i].label; *at; at++)
            if (!iso_labels_have(needed, *at))
                iso_labels_add(needed, *at);
}

/* The products from the left to the right. */
static void contract(iso_keras_function *f, iso_labelled *operand, int count, const char *out)
{
    char needed[(MOST_OPERANDS + 1) * (ISO_MAX_RANK + 1) + 1], why[ISO_EINSUM_WHY] = "";
    iso_labelled y = operand[0];
    for (int i = 1; !*why && i < count; i++) {
        needed_labels(operand, count, i + 1, out, needed);
        y = iso_labelled_product(y, operand[i], needed, NULL, why);
    }
    y = iso_labelled_order(iso_labelled_sum(y, out, "", why), out, why);
    if (*why)
        iso_keras_refuse_call(f, "%s", why);
    else
        iso_keras_give(f, y.x);
}

static void einsum(iso_keras_function *f)
{
    iso_labelled operand[MOST_OPERANDS] = {{0}};
    char out[ISO_MOST_LABELS + 1] = "";
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
static iso_labelled label(iso_keras_function *f, int i, char first)
{
    iso_labelled a = {.x = f->operand[i].tensor};
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
static void give_product(iso_keras_function *f, iso_labelled a, iso_labelled b, const char *both)
{
    char out[4 * ISO_MAX_RANK + 1] = "";
    strcat(out, both);
    for (const char *at = a.label; *at; at++)
        if (!iso_labels_have(b.label, *at) && !iso_labels_have(out, *at))
            iso_labels_add(out, *at);
    for (const char *at = b.label; *at; at++)
        if (!iso_labels_have(a.label, *at) && !iso_labels_have(out, *at))
            iso_labels_add(out, *at);
    if (strlen(out) > ISO_MAX_RANK) {
        iso_keras_refuse_call(f, "its result would have more than %d dimensions", ISO_MAX_RANK);
        return;
    }
    contract(f, (iso_labelled[]){a, b}, 2, out);
}

/* [..., m, k] and [..., k, n]; leading dimensions are counted from the end. */
static void matmul(iso_keras_function *f)
{
    if (!take_two(f))
        return;
    iso_labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = iso_tensor_shape(a.x)->rank, rb = iso_tensor_shape(b.x)->rank,
              lead_a = ra > 2 ? ra - 2 : 0, lead_b = rb > 2 ? rb - 2 : 0;
    const int lead = lead_a > lead_b ? lead_a : lead_b;
    char both[ISO_MAX_RANK + 1] = "";
    for (int i = 0; i < lead_a; i++)
        a.label[i] = (char)('0' + lead - lead_a + i);
    for (int i = 0; i < lead_b; i++)
        b.label[i] = (char)('0' + lead - lead_b + i);
    for (int i = 0; i < lead; i++)
        iso_labels_add(both, (char)('0' + i));
    b.label[rb > 1 ? rb - 2 : 0] = a.label[ra - 1];
    give_product(f, a, b, both);
}

/* The last dimension of the first with the last but one of the second, or its only one. */
static void dot(iso_keras_function *f)
{
    iso_keras_promote(f, 0, 2, true);
    if (f->status != ISO_OK)
        return;
    iso_labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = iso_tensor_shape(a.x)->rank, rb = iso_tensor_shape(b.x)->rank;
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
    iso_labelled a = label(f, 0, 'A'), b = label(f, 1, 'a');
    const int ra = iso_tensor_shape(a.x)->rank, rb = iso_tensor_shape(b.x)->rank;
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
    while (mask && iso_tensor_good(mask) && iso_tensor_shape(mask)->rank < 4)
        mask = iso_keras_with_axis(mask, 0);
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
