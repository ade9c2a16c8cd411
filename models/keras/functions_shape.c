/* Functions of keras.ops that move elements: Python's slices, reshapes, joins and repetitions. */
#include <math.h>
#include <string.h>

#include "models/keras/functions_impl.h"

enum { MOST_PARTS = 1024 };

/* ---- Python's x[key] ---- */

/* What a key does with one dimension. */
typedef struct selection {
    int64_t start, step, count; /* elements start, start + step, ... */
    bool drop;                  /* an index: the dimension goes */
} selection;

static bool is_class(const json_t *value, const char *type)
{
    const char *name = iso_keras_text(value, "class_name");
    return name && strcmp(name, type) == 0;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* A bound of a slice over n elements, between low and high; missing: default_value. False: no whole number. */
static bool bound(const json_t *value, int64_t n, int64_t low, int64_t high, int64_t default_value,
                  int64_t *out)
{
    *out = default_value;
    if (!value || json_is_null(value))
        return true;
    if (!json_is_integer(value))
        return false;
    int64_t at = json_integer_value(value);
    *out = clamp(at < 0 ? at + n : at, low, high);
    return true;
}

/* slice(start, stop, step) over n elements, as Python's slice.indices. */
static bool read_slice(const json_t *config, int64_t n, selection *s)
{
    int64_t stop, step;
    if (!bound(json_object_get(config, "step"), 0, -n - 1, n + 1, 1, &step) || step == 0)
        return false;
    const bool back = step < 0;
    const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    if (!bound(json_object_get(config, "start"), n, low, high, back ? high : low, &s->start) ||
        !bound(json_object_get(config, "stop"), n, low, high, back ? low : high, &stop))
        return false;
    s->step = step;
    s->count = back ? (s->start - stop - step - 1) / -step : (stop - s->start + step - 1) / step;
    s->count = s->count < 0 ? 0 : s->count;
    return true;
}

/* The whole of the batch, as `:`. */
static bool is_all(const json_t *config)
{
    const json_t *start = json_object_get(config, "start"), *stop = json_object_get(config, "stop"),
                 *step = json_object_get(config, "step");
    return (!start || json_is_null(start) || (json_is_integer(start) && json_integer_value(start) == 0)) &&
           (!stop || json_is_null(stop)) &&
           (!step || json_is_null(step) || (json_is_integer(step) && json_integer_value(step) == 1));
}

/* The selection of a key's item from a dimension of n elements. */
static bool select_one(iso_keras_function *f, const json_t *item, int64_t n, selection *s)
{
    char text[160];
    *s = (selection){.step = 1, .count = n};
    bool good = false;
    if (n == ISO_BATCH) {
        good = is_class(item, "__slice__") && is_all(json_object_get(item, "config"));
        if (!good)
            iso_keras_refuse_batch(f, "its key selects among the rows of the batch; supported: `:`");
        return good;
    }
    if (json_is_integer(item)) {
        int64_t at = json_integer_value(item);
        good = at >= -n && at < n;
        *s = (selection){.start = at < 0 ? at + n : at, .step = 1, .count = 1, .drop = true};
    } else if (is_class(item, "__slice__"))
        good = read_slice(json_object_get(item, "config"), n, s) && s->count > 0;
    if (!good)
        iso_keras_refuse_call(
            f,
            "its key has %s for a dimension of %lld elements; supported: an index, a slice that "
            "selects something, None and ...",
            iso_json_shown(item, text, sizeof text), (long long)n);
    return good;
}

/* Elements start, start + step, ... along an axis. */
static iso_tensor *every(iso_tensor *x, int axis, int64_t start, int64_t step, int64_t count)
{
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    if (step == 1 || count == 1)
        return iso_keras_part(x, axis, start, count);
    int64_t whole = count * step, have = n - start < whole ? n - start : whole;
    x = iso_keras_part(x, axis, start, have);
    if (have < whole) {
        int64_t before[ISO_MAX_RANK] = {0}, after[ISO_MAX_RANK] = {0};
        after[axis - iso_keras_is_batch(x, 0)] = whole - have;
        x = iso_pad(x, before, after);
    }
    iso_shape shape = *iso_tensor_shape(x);
    if (shape.rank == ISO_MAX_RANK) {
        iso_graph_fail(iso_tensor_graph(x),
                       "a slice with steps of a tensor of %d dimensions; supported: up to %d", shape.rank,
                       ISO_MAX_RANK - 1);
        return x;
    }
    for (int i = shape.rank++; i > axis + 1; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[axis] = count;
    shape.dim[axis + 1] = step;
    return iso_keras_without(iso_keras_part(iso_reshape_to(x, shape), axis + 1, 0, 1), 1u << (axis + 1));
}

static iso_tensor *take_selection(iso_tensor *x, int axis, const selection *s)
{
    if (iso_keras_is_batch(x, axis))
        return x;
    if (s->step > 0)
        return every(x, axis, s->start, s->step, s->count);
    return every(iso_flip(x, axis), axis, iso_tensor_shape(x)->dim[axis] - 1 - s->start, -s->step, s->count);
}

/* The number of dimensions of x that the items of a key take; *ellipsis: the index of the only one, or -1. */
static bool measure(iso_keras_function *f, const json_t *const *item, int count, int *takes, int *ellipsis)
{
    *takes = 0;
    *ellipsis = -1;
    for (int i = 0; i < count; i++)
        if (is_class(item[i], "__ellipsis__")) {
            if (*ellipsis >= 0) {
                iso_keras_refuse_call(f, "its key has several ...");
                return false;
            }
            *ellipsis = i;
        } else {
            *takes += !json_is_null(item[i]);
        }
    return true;
}

static void get_item(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    const json_t *item[4 * ISO_MAX_RANK];
    const int rank = iso_tensor_shape(x)->rank;
    int count = json_is_array(f->plain) ? (int)json_array_size(f->plain) : 1, takes, ellipsis, d = 0;
    iso_shape shape = {.rank = 0};
    if (!f->plain || count > 4 * ISO_MAX_RANK - 1) {
        iso_keras_refuse_call(f, "its key is missing, or has more than %d items", 4 * ISO_MAX_RANK - 1);
        return;
    }
    for (int i = 0; i < count; i++)
        item[i] = json_is_array(f->plain) ? json_array_get(f->plain, (size_t)i) : f->plain;
    if (!measure(f, item, count, &takes, &ellipsis))
        return;
    if (takes > rank) {
        iso_keras_refuse_call(f, "its key has %d items for a tensor of %d dimensions", takes, rank);
        return;
    }
    for (int i = 0; i <= count && f->status == ISO_OK; i++) {
        selection s;
        int whole = i == count      ? rank - d
                    : i == ellipsis ? rank - takes
                                    : 0; /* dimensions that are taken whole */
        for (; whole > 0 && shape.rank < ISO_MAX_RANK; whole--)
            shape.dim[shape.rank++] = iso_tensor_shape(x)->dim[d++];
        if (i == count || i == ellipsis)
            continue;
        if (shape.rank == ISO_MAX_RANK) {
            iso_keras_refuse_call(f, "its result would have more than %d dimensions", ISO_MAX_RANK);
        } else if (json_is_null(item[i])) {
            if (iso_keras_is_batch(x, d))
                iso_keras_refuse_batch(f, "its key has None before the batch");
            shape.dim[shape.rank++] = 1;
        } else if (select_one(f, item[i], iso_tensor_shape(x)->dim[d], &s)) {
            x = take_selection(x, d, &s);
            if (!s.drop)
                shape.dim[shape.rank++] = iso_tensor_shape(x)->dim[d];
            d++;
        }
    }
    if (f->status == ISO_OK)
        iso_keras_give(f, iso_reshape_to(x, shape));
}

/* ---- shapes ---- */

/* The elements of a row, or of the whole tensor if it has no rows. */
static int64_t row_elements(const iso_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->dim[i] == ISO_BATCH ? 1 : shape->dim[i];
    return count;
}

static void reshape(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    double given[ISO_MAX_RANK];
    char text[160];
    int count = f->settings->numbers(f->settings, "newshape", given, ISO_MAX_RANK);
    iso_shape shape = {.rank = count};
    const bool batch = iso_keras_is_batch(x, 0);
    int64_t rest = 1;
    int open = 0;
    if (count > ISO_MAX_RANK) {
        iso_config_refuse(f->settings, "newshape", "at most 8 dimensions");
        return;
    }
    for (int i = 0; i < count; i++) { /* null stands for the batch, as ops.shape() gives it */
        if (given[i] < -1 || given[i] > 1e15) {
            iso_config_refuse(f->settings, "newshape", "sizes, one -1, null for the batch");
            return;
        }
        shape.dim[i] = isnan(given[i]) ? ISO_BATCH : (int64_t)given[i];
        if (i >= batch && shape.dim[i] >= 0 && __builtin_mul_overflow(rest, shape.dim[i], &rest))
            rest = 0;
        open += i >= batch && shape.dim[i] < 0;
    }
    if (batch &&
        (count == 0 || shape.dim[0] != ISO_BATCH || (open == 0 && rest != row_elements(iso_tensor_shape(x)))))
        iso_keras_refuse_call(
            f,
            "newshape is %s for a tensor of the shape %s: that changes the number of rows of a "
            "batch; supported: the same rows, as [-1, ...] with the elements of a row",
            iso_json_shown(json_object_get(f->layer->config, "newshape"), text, sizeof text),
            iso_shape_text(iso_tensor_shape(x), (char[160]){0}, 160));
    else
        iso_keras_give(f, iso_reshape_to(x, shape));
}

/* A permutation that may move the batch not. */
static void give_transposed(iso_keras_function *f, iso_tensor *x, const int *permutation)
{
    if (iso_keras_is_batch(x, 0) && permutation[0] != 0)
        iso_keras_refuse_batch(f, "it moves the batch to another dimension");
    else
        iso_keras_give(f, iso_transpose(x, permutation));
}

static void transpose(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    const int rank = iso_tensor_shape(x)->rank;
    int axes[ISO_MAX_RANK], count;
    if (!iso_keras_axes(f, "axes", x, 0, axes, &count))
        return;
    for (int i = 0; count == 0 && i < rank; i++)
        axes[i] = rank - 1 - i;
    if (count != 0 && count != rank)
        iso_keras_refuse_call(f, "axes has %d dimensions, its input has %d", count, rank);
    else
        give_transposed(f, x, axes);
}

static void swap_axes(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int a = iso_keras_axis(f, "axis1", x, 0), b = iso_keras_axis(f, "axis2", x, 0), order[ISO_MAX_RANK];
    for (int i = 0; i < ISO_MAX_RANK; i++)
        order[i] = i == a ? b : i == b ? a : i;
    if (f->status == ISO_OK)
        give_transposed(f, x, order);
}

static void move_axis(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int from[ISO_MAX_RANK], to[ISO_MAX_RANK], order[ISO_MAX_RANK], count, others;
    const int rank = iso_tensor_shape(x)->rank;
    if (!iso_keras_axes(f, "source", x, 0, from, &count) ||
        !iso_keras_axes(f, "destination", x, 0, to, &others))
        return;
    if (count != others) {
        iso_keras_refuse_call(f, "source has %d dimensions, destination has %d", count, others);
        return;
    }
    uint32_t moved = 0, taken = 0;
    for (int i = 0; i < count; i++) {
        order[to[i]] = from[i];
        moved |= 1u << from[i];
        taken |= 1u << to[i];
    }
    for (int i = 0, at = 0; i < rank; i++) {
        if (moved >> i & 1)
            continue;
        while (taken >> at & 1)
            at++;
        order[at++] = i;
    }
    give_transposed(f, x, order);
}

static void expand_dims(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int axes[ISO_MAX_RANK], count;
    uint32_t set = 0;
    if (!iso_keras_axes(f, "axis", x, 1, axes, &count))
        return;
    for (int i = 0; i < count; i++)
        set |= 1u << axes[i];
    if (iso_keras_is_batch(x, 0) && (set & 1u)) {
        iso_keras_refuse_batch(f, "it inserts a dimension before the batch");
        return;
    }
    for (int i = 0; i < 31; i++)
        if (set >> i & 1)
            x = iso_keras_with_axis(x, i);
    iso_keras_give(f, x);
}

static void squeeze(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    const iso_shape *shape = iso_tensor_shape(x);
    int axes[ISO_MAX_RANK], count;
    uint32_t set = 0;
    if (!iso_keras_axes(f, "axis", x, 0, axes, &count))
        return;
    for (int i = 0; i < count; i++) {
        if (shape->dim[axes[i]] != 1) {
            iso_keras_refuse_call(f, "axis %d has more than one element", axes[i]);
            return;
        }
        set |= 1u << axes[i];
    }
    for (int i = 0; count == 0 && i < shape->rank; i++)
        set |= (uint32_t)(shape->dim[i] == 1) << i;
    iso_keras_give(f, iso_keras_without(x, set));
}

/* ---- joins and parts ---- */

/* The operands in one type, with one rank; those without rows are repeated for each row. */
static iso_tensor **joined_operands(iso_keras_function *f)
{
    bool batch = false;
    iso_keras_promote(f, 0, f->count, false);
    if (f->status != ISO_OK || f->count == 0)
        return NULL;
    iso_tensor **x = f->scratch;
    for (int i = 0; i < f->count; i++) {
        x[i] = f->operand[i].tensor;
        batch = batch || iso_keras_is_batch(x[i], 0);
        if (iso_tensor_shape(x[i])->rank != iso_tensor_shape(x[0])->rank) {
            iso_keras_refuse_call(f, "its tensors have different numbers of dimensions");
            return NULL;
        }
    }
    for (int i = 0; batch && i < f->count; i++) {
        iso_shape shape = *iso_tensor_shape(x[i]);
        if (shape.dim[0] == 1)
            shape.dim[0] = ISO_BATCH;
        x[i] = iso_broadcast_to(x[i], shape);
    }
    return x;
}

static void join(iso_keras_function *f, iso_tensor **x, int axis)
{
    if (iso_keras_is_batch(x[0], axis))
        iso_keras_refuse_batch(f, "it joins the rows of several batches");
    else
        iso_keras_give(f, iso_keras_join(x, f->count, axis));
}

static void concatenate(iso_keras_function *f)
{
    iso_tensor **x = joined_operands(f);
    int axis = x ? iso_keras_axis(f, "axis", x[0], 0) : -1;
    if (axis >= 0)
        join(f, x, axis);
}

static void stack(iso_keras_function *f)
{
    iso_tensor **x = joined_operands(f);
    if (!x)
        return;
    const int rank = iso_tensor_shape(x[0])->rank;
    int64_t axis = iso_config_count(f->settings, "axis", 0);
    axis = axis < 0 ? axis + rank + 1 : axis;
    if (axis < 0 || axis > rank)
        iso_keras_refuse_call(f, "axis %lld is out of %d dimensions", (long long)axis, rank + 1);
    else if (axis == 0 && iso_keras_is_batch(x[0], 0))
        iso_keras_refuse_batch(f, "it inserts a dimension before the batch");
    for (int i = 0; f->status == ISO_OK && i < f->count; i++)
        x[i] = iso_keras_with_axis(x[i], (int)axis);
    if (f->status == ISO_OK)
        join(f, x, (int)axis);
}

static void split(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int axis = iso_keras_axis(f, "axis", x, 0);
    double given[ISO_MAX_RANK * 8];
    const int most = ISO_MAX_RANK * 8;
    int count = f->settings->numbers(f->settings, "indices_or_sections", given, most);
    const bool sections = !json_is_array(json_object_get(f->layer->config, "indices_or_sections"));
    if (axis < 0)
        return;
    if (iso_keras_is_batch(x, axis)) {
        iso_keras_refuse_batch(f, "it splits the batch");
        return;
    }
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    const int64_t parts =
        sections && count == 1 && given[0] >= 1 && given[0] <= MOST_PARTS ? (int64_t)given[0] : 0;
    if (count > most || (sections && (parts == 0 || n % parts != 0))) {
        iso_config_refuse(f->settings, "indices_or_sections",
                          "a divisor of the elements, or up to 64 indices");
        return;
    }
    for (int64_t i = 0; sections && i < parts; i++)
        iso_keras_give(f, iso_keras_part(x, axis, i * (n / parts), n / parts));
    int64_t begin = 0;
    for (int i = 0; !sections && i <= count; i++) {
        int64_t end = i == count ? n : given[i] < 0 ? (int64_t)given[i] + n : (int64_t)given[i];
        if (end <= begin || end > n) {
            iso_config_refuse(f->settings, "indices_or_sections", "indices that grow, within the dimension");
            return;
        }
        iso_keras_give(f, iso_keras_part(x, axis, begin, end - begin));
        begin = end;
    }
}

static void unstack(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int axis = iso_keras_axis(f, "axis", x, 0);
    int64_t num = iso_config_count(f->settings, "num", 0);
    if (axis < 0)
        return;
    if (iso_keras_is_batch(x, axis)) {
        iso_keras_refuse_batch(f, "it splits the batch");
        return;
    }
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    if (n > MOST_PARTS || (iso_keras_has(f, "num") && num != n))
        iso_keras_refuse_call(f, "it would have %lld results; supported: up to %d, num of them", (long long)n,
                              MOST_PARTS);
    for (int64_t i = 0; f->status == ISO_OK && i < n; i++)
        iso_keras_give(f, iso_keras_without(iso_keras_part(x, axis, i, 1), 1u << axis));
}

/* ---- repetitions ---- */

/* x with each element (inner) or the whole (not inner) `times` times along an axis. */
static iso_tensor *repeated(iso_tensor *x, int axis, int64_t times, bool inner)
{
    if (times == 1)
        return x;
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    const int at = axis + inner;
    iso_tensor *y = iso_keras_with_axis(x, at);
    iso_shape shape = *iso_tensor_shape(y);
    if (!iso_tensor_good(y))
        return y;
    shape.dim[at] = times;
    y = iso_broadcast_to(y, shape);
    shape = *iso_tensor_shape(x);
    shape.dim[axis] = n * times;
    return iso_reshape_to(y, shape);
}

enum { MOST_TIMES = 1 << 20 };

static void repeat(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int64_t times = iso_config_size(f->settings, "repeats", ISO_REQUIRED);
    int axis = iso_keras_axis(f, "axis", x, 0);
    if (!iso_keras_has(f, "axis") && iso_tensor_shape(x)->rank != 1) {
        iso_config_refuse(f->settings, "axis", "a dimension");
        return;
    }
    if (axis < 0 || times < 1)
        return;
    if (iso_keras_is_batch(x, axis))
        iso_keras_refuse_batch(f, "it repeats the rows of the batch");
    else if (times > MOST_TIMES)
        iso_config_refuse(f->settings, "repeats", "up to 1048576");
    else
        iso_keras_give(f, repeated(x, axis, times, true));
}

static void tile(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int64_t times[ISO_MAX_RANK];
    const int rank = iso_tensor_shape(x)->rank;
    int count = iso_config_counts(f->settings, "repeats", times, ISO_MAX_RANK);
    if (count > rank) {
        iso_keras_refuse_call(f, "repeats has %d dimensions, its input has %d", count, rank);
        return;
    }
    for (int i = 0; i < count; i++) {
        int axis = i + rank - count;
        if (times[i] < 1 || times[i] > MOST_TIMES)
            iso_config_refuse(f->settings, "repeats", "1 to 1048576");
        else if (iso_keras_is_batch(x, axis) && times[i] != 1)
            iso_keras_refuse_batch(f, "it repeats the rows of the batch");
        else
            x = repeated(x, axis, times[i], false);
        if (f->status != ISO_OK)
            return;
    }
    iso_keras_give(f, x);
}

static void broadcast_to(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    double given[ISO_MAX_RANK];
    int count = f->settings->numbers(f->settings, "shape", given, ISO_MAX_RANK);
    iso_shape shape = {.rank = count};
    if (count > ISO_MAX_RANK || count < iso_tensor_shape(x)->rank) {
        iso_config_refuse(f->settings, "shape", "as many dimensions as the input has, or more");
        return;
    }
    for (int i = 0; i < count; i++)
        shape.dim[i] = given[i] >= 0 && given[i] < 1e15 ? (int64_t)given[i] : ISO_BATCH;
    if (iso_keras_is_batch(x, 0) && (shape.dim[0] != ISO_BATCH || count != iso_tensor_shape(x)->rank))
        iso_keras_refuse_batch(f, "its shape has a number instead of the batch");
    else
        iso_keras_give(f, iso_broadcast_to(x, shape));
}

static void flip(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int axes[ISO_MAX_RANK], count;
    if (!iso_keras_axes(f, "axis", x, 0, axes, &count))
        return;
    for (int i = 0; count == 0 && i < iso_tensor_shape(x)->rank; i++)
        axes[i] = i;
    count = count ? count : iso_tensor_shape(x)->rank;
    for (int i = 0; i < count && f->status == ISO_OK; i++)
        x = iso_keras_is_batch(x, axes[i]) ? iso_keras_refuse_batch(f, "it turns the batch around")
                                           : iso_flip(x, axes[i]);
    iso_keras_give(f, x);
}

static void roll(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    int axes[ISO_MAX_RANK], count;
    int64_t shift[ISO_MAX_RANK];
    int shifts = iso_config_counts(f->settings, "shift", shift, ISO_MAX_RANK);
    if (!iso_keras_axes(f, "axis", x, 0, axes, &count))
        return;
    if (count == 0 || (shifts != count && shifts != 1)) {
        iso_config_refuse(f->settings, "axis", "a dimension for each shift");
        return;
    }
    for (int i = 0; i < count && f->status == ISO_OK; i++) {
        if (iso_keras_is_batch(x, axes[i])) {
            iso_keras_refuse_batch(f, "it rolls the batch");
            return;
        }
        const int64_t n = iso_tensor_shape(x)->dim[axes[i]];
        const int64_t by = ((shift[shifts == 1 ? 0 : i] % n) + n) % n;
        if (by != 0)
            x = iso_concat((iso_tensor *[]){iso_keras_part(x, axes[i], n - by, by),
                                            iso_keras_part(x, axes[i], 0, n - by)},
                           2, axes[i]);
    }
    iso_keras_give(f, x);
}

/* ---- padding ---- */

/* pad_width: one number, one pair, or a pair for each dimension. */
static bool read_widths(iso_keras_function *f, int rank, int64_t before[], int64_t after[])
{
    int64_t given[2 * ISO_MAX_RANK];
    int count = iso_config_counts(f->settings, "pad_width", given, 2 * ISO_MAX_RANK);
    bool good = count == 1 || count == 2 || count == 2 * rank;
    for (int i = 0; good && i < rank; i++) {
        before[i] = count == 2 * rank ? given[2 * i] : given[0];
        after[i] = count == 2 * rank ? given[2 * i + 1] : given[count - 1];
        good = before[i] >= 0 && after[i] >= 0 && before[i] < MOST_TIMES && after[i] < MOST_TIMES;
    }
    if (!good)
        iso_config_refuse(f->settings, "pad_width",
                          "a number, a pair, or a pair for each dimension, not negative");
    return good;
}

static void pad(iso_keras_function *f)
{
    iso_tensor *x = iso_keras_operand_of(f, 0);
    const int rank = iso_tensor_shape(x)->rank;
    const bool batch = iso_keras_is_batch(x, 0);
    int64_t before[ISO_MAX_RANK], after[ISO_MAX_RANK];
    const char *mode = f->settings->text(f->settings, "mode");
    const iso_keras_operand *value = &f->operand[1];
    if (mode && strcmp(mode, "constant") != 0)
        iso_config_refuse(f->settings, "mode", "\"constant\"");
    if (!read_widths(f, rank, before, after))
        return;
    if (batch && (before[0] != 0 || after[0] != 0)) {
        iso_keras_refuse_batch(f, "it adds rows to the batch");
        return;
    }
    if (value->tensor) {
        iso_keras_refuse_call(f, "constant_values is a tensor; supported: a number");
        return;
    }
    double fill = value->number ? value->value : 0;
    iso_tensor *y = iso_pad(x, before + batch, after + batch);
    if (fill != 0) { /* where the padded ones are 0 */
        iso_graph *graph = f->net->graph;
        iso_shape row = *iso_tensor_shape(x);
        if (batch)
            row.dim[0] = 1;
        iso_tensor *one = iso_broadcast_to(iso_number(graph, iso_graph_precision(graph), 1), row);
        iso_tensor *inside = iso_pad(one, before, after);
        y = iso_where(iso_not_equal(inside, iso_number(graph, iso_graph_precision(graph), 0)), y,
                      iso_number(graph, iso_tensor_dtype(x), fill));
    }
    iso_keras_give(f, y);
}

const iso_keras_function_type iso_keras_shape_functions[] = {{"GetItem", "x =key", get_item},
                                                             {"Reshape", "x", reshape},
                                                             {"Transpose", "x", transpose},
                                                             {"Swapaxes", "x", swap_axes},
                                                             {"Moveaxis", "x", move_axis},
                                                             {"ExpandDims", "x", expand_dims},
                                                             {"Squeeze", "x", squeeze},
                                                             {"Concatenate", "*xs", concatenate},
                                                             {"Stack", "*x", stack},
                                                             {"Split", "x", split},
                                                             {"Unstack", "x", unstack},
                                                             {"Repeat", "x", repeat},
                                                             {"Tile", "x", tile},
                                                             {"BroadcastTo", "x", broadcast_to},
                                                             {"Flip", "x", flip},
                                                             {"Roll", "x", roll},
                                                             {"Pad", "x ?constant_values", pad},
                                                             {0}};
