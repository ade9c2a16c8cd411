/* Cases of the ops whose kernels on the CPU are the reference ones, for other backends. */
#ifndef ISO_TESTS_BACKEND_CASES_MORE_H
#define ISO_TESTS_BACKEND_CASES_MORE_H

#include "tests/backend/cases.h"

static const iso_dtype number_types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8};
enum { NUMBER_TYPES = sizeof number_types / sizeof *number_types };
static const uint32_t ALL_INPUTS = ~0u; /* of trial.whole */
enum { BROADCASTS = sizeof broadcasts / sizeof *broadcasts };

static bool is_op(const trial *t, const char *op)
{
    return strcmp(t->op, op) == 0;
}

/* ---- element by element ---- */

static bool power(trial *t, int index)
{
    if (index == BROADCASTS)
        return false;
    input(t, ISO_F32, 0.1, 3, broadcasts[index].rank_a, broadcasts[index].a);
    input(t, ISO_F32, -2, 2, broadcasts[index].rank_b, broadcasts[index].b);
    output(t, ISO_F32, broadcasts[index].rank, broadcasts[index].out);
    return true;
}

/* Of few values, so that some are equal; floating-point types make NaN of what is beyond them. */
static bool numbers(trial *t, int index)
{
    bool compares = !is_op(t, "add") && !is_op(t, "subtract") && !is_op(t, "multiply") &&
                    !is_op(t, "maximum") && !is_op(t, "minimum");
    if (index == BROADCASTS * NUMBER_TYPES)
        return false;
    int which = index / NUMBER_TYPES;
    iso_dtype dtype = number_types[index % NUMBER_TYPES];
    input(t, dtype, dtype == ISO_U8 ? 0 : -4, 4, broadcasts[which].rank_a, broadcasts[which].a);
    input(t, dtype, dtype == ISO_U8 ? 0 : -4, 4, broadcasts[which].rank_b, broadcasts[which].b);
    output(t, compares ? ISO_BOOL : dtype, broadcasts[which].rank, broadcasts[which].out);
    t->whole = compares ? ALL_INPUTS : 0;
    return true;
}

static bool logical(trial *t, int index)
{
    if (index == BROADCASTS)
        return false;
    input(t, ISO_BOOL, 0, 2, broadcasts[index].rank_a, broadcasts[index].a);
    if (is_op(t, "logical_not")) {
        output(t, ISO_BOOL, broadcasts[index].rank_a, broadcasts[index].a);
        return true;
    }
    input(t, ISO_BOOL, 0, 2, broadcasts[index].rank_b, broadcasts[index].b);
    output(t, ISO_BOOL, broadcasts[index].rank, broadcasts[index].out);
    return true;
}

static bool where(trial *t, int index)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_U8};
    if (index == 3 * BROADCASTS)
        return false;
    int which = index / 3;
    input(t, ISO_BOOL, 0, 2, broadcasts[which].rank_b, broadcasts[which].b);
    input(t, types[index % 3], 0, 9, broadcasts[which].rank_a, broadcasts[which].a);
    input(t, types[index % 3], 0, 9, broadcasts[which].rank_b, broadcasts[which].b);
    output(t, types[index % 3], broadcasts[which].rank, broadcasts[which].out);
    return true;
}

/* From each type to each; some values are not in the range of the other. */
static bool cast(trial *t, int index)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL, ISO_BF16};
    enum { TYPES = sizeof types / sizeof *types };
    static const double ranges[] = {3, 300, 1e20};
    if (index == TYPES * TYPES * 3)
        return false;
    iso_dtype from = types[index / 3 / TYPES], to = types[index / 3 % TYPES];
    double range = ranges[index % 3];
    if (from == ISO_I32 || from == ISO_I64)
        range = index % 3 == 2 ? (from == ISO_I32 ? 2e9 : 9e18) : range;
    else if (from == ISO_U8 || from == ISO_BOOL)
        range = from == ISO_U8 ? 256 : 2;
    t->attrs.cast.dtype = to;
    input(t, from, from == ISO_U8 || from == ISO_BOOL ? 0 : -range, range, DIMS(index % 2 ? 131 : 1000));
    output(t, to, DIMS(index % 2 ? 131 : 1000));
    t->fixed_types = true;
    return true;
}

static bool copy(trial *t, int index)
{
    if (index == LENGTHS)
        return false;
    input(t, ISO_F32, -1, 1, DIMS(lengths[index]));
    output(t, ISO_F32, DIMS(lengths[index]));
    return true;
}

/* ---- reductions ---- */
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

static bool reduce_any(trial *t, int index)
{
    bool sum = is_op(t, "reduce_sum");
    if (index == REDUCTIONS * NUMBER_TYPES * (sum ? 2 : 1))
        return false;
    int which = index / NUMBER_TYPES % REDUCTIONS, rank = 0;
    iso_dtype dtype = number_types[index % NUMBER_TYPES];
    bool square = index >= REDUCTIONS * NUMBER_TYPES && iso_dtype_is_float(dtype);
    int64_t kept[4];
    for (int i = 0; i < reductions[which].rank; i++)
        if (!(reductions[which].axes >> i & 1))
            kept[rank++] = reductions[which].dim[i];
    t->attrs.reduce = (iso_reduce_attrs){reductions[which].axes, false, square, sum ? 0.25 : 1, dtype};
    input(t, dtype, dtype == ISO_U8 ? 0 : -50, 50, reductions[which].rank, reductions[which].dim);
    output(t, sum && dtype == ISO_U8 ? ISO_I64 : dtype, rank, kept);
    return true;
}

/* Lines of [outer, count, inner]; along an axis that is the last or not. */
static const int64_t line_shapes[][3] = {{1, 1, 1},   {3, 10, 1}, {4, 33, 1}, {7, 5, 6},    {2, 3000, 1},
                                         {1, 70, 40}, {0, 9, 1},  {5, 9, 0},  {1, 2500, 2}, {300, 8, 1}};
enum { LINES = sizeof line_shapes / sizeof *line_shapes };

static bool argmax(trial *t, int index)
{
    if (index == LINES * NUMBER_TYPES)
        return false;
    const int64_t *n = line_shapes[index / NUMBER_TYPES];
    t->attrs.axis.axis = 1;
    input(t, number_types[index % NUMBER_TYPES], 0, 40, DIMS(n[0], n[1], n[2]));
    output(t, ISO_I32, DIMS(n[0], n[2]));
    t->whole = ALL_INPUTS; /* equal values, of which the first counts */
    return true;
}

static bool in_top_k(trial *t, int index)
{
    if (index == LINES)
        return false;
    int64_t rows = line_shapes[index][0] * line_shapes[index][2], classes = line_shapes[index][1];
    t->attrs.top_k.k = 1 + index % 4;
    input(t, ISO_F32, 0, 9, DIMS(rows, classes));
    input(t, index % 2 ? ISO_I32 : ISO_I64, -1, (double)classes + 1, DIMS(rows));
    output(t, ISO_BOOL, DIMS(rows));
    t->whole = ALL_INPUTS;
    return true;
}

/* ---- moves ---- */

static bool transpose(trial *t, int index)
{
    static const struct {
        int rank, permutation[4];
        int64_t dim[4];
    } cases[] = {{2, {1, 0}, {33, 70}},
                 {3, {0, 2, 1}, {4, 5, 6}},
                 {4, {2, 0, 3, 1}, {2, 3, 4, 5}},
                 {4, {0, 2, 1, 3}, {2, 7, 3, 8}},
                 {2, {1, 0}, {0, 5}},
                 {1, {0}, {9}},
                 {4, {2, 0, 3, 1}, {2, 40, 3, 35}},
                 {3, {1, 2, 0}, {33, 2, 9}}};
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_U8};
    if (index == 3 * (int)(sizeof cases / sizeof *cases))
        return false;
    int which = index / 3;
    int64_t to[4];
    for (int d = 0; d < cases[which].rank; d++) {
        t->attrs.transpose.permutation[d] = cases[which].permutation[d];
        to[d] = cases[which].dim[cases[which].permutation[d]];
    }
    input(t, types[index % 3], 0, 200, cases[which].rank, cases[which].dim);
    output(t, types[index % 3], cases[which].rank, to);
    return true;
}

static bool flip(trial *t, int index)
{
    static const struct {
        int rank, axis;
        int64_t dim[4];
    } cases[] = {{2, 0, {33, 70}}, {3, 1, {4, 5, 16}},   {3, 2, {4, 6, 5}},
                 {1, 0, {9}},      {4, 1, {2, 1, 3, 8}}, {2, 1, {3, 0}}};
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_U8};
    if (index == 3 * (int)(sizeof cases / sizeof *cases))
        return false;
    const int which = index / 3;
    t->attrs.axis = (iso_axis_attrs){cases[which].axis};
    input(t, types[index % 3], 0, 200, cases[which].rank, cases[which].dim);
    output(t, types[index % 3], cases[which].rank, cases[which].dim);
    return true;
}

/* A slice of x [9, 20], of [9, 40] in whole units of 16 bytes, or its gradient; parts of x or y that other slots
 * have: some of them share nothing. */
static bool slice(trial *t, int index)
{
    static const struct {
        int64_t begin[2], small[2], of_small[2], large[2], of_large[2]; /* local extents and offsets */
    } cases[] = {
        {{0, 3}, {9, 10}, {0, 0}, {9, 20}, {0, 0}}, {{2, 0}, {4, 20}, {0, 0}, {9, 20}, {0, 0}},
        {{0, 3}, {5, 10}, {4, 0}, {5, 20}, {4, 0}}, {{0, 3}, {9, 5}, {0, 5}, {9, 10}, {0, 10}},
        {{0, 3}, {9, 5}, {0, 0}, {9, 8}, {0, 12}},  {{0, 5}, {0, 10}, {0, 0}, {0, 20}, {0, 0}},
        {{0, 15}, {9, 5}, {0, 0}, {9, 10}, {0, 0}}, {{3, 8}, {5, 24}, {0, 0}, {9, 40}, {0, 0}},
        {{0, 3}, {9, 8}, {0, 0}, {9, 8}, {0, 0}},
    };
    if (index == sizeof cases / sizeof *cases)
        return false;
    bool pads = is_op(t, "pad");
    for (int d = 0; d < 2; d++)
        t->attrs.slice.begin[d] = cases[index].begin[d];
    input(t, ISO_F32, -1, 1, 2, pads ? cases[index].small : cases[index].large);
    output(t, ISO_F32, 2, pads ? cases[index].large : cases[index].small);
    iso_array *small = pads ? &t->in[0] : &t->out[0], *large = pads ? &t->out[0] : &t->in[0];
    for (int d = 0; d < 2; d++) {
        small->offset[d] = cases[index].of_small[d];
        large->offset[d] = cases[index].of_large[d];
    }
    return true;
}

static bool concat(trial *t, int index)
{
    static const int64_t all_widths[2][4] = {{5, 0, 17, 1},
                                             {8, 0, 24, 16}}; /* the second: units of 16 bytes */
    if (index == 8)
        return false;
    const int64_t *widths = all_widths[index / 4];
    int64_t sum = 0;
    bool last = index % 4 < 2;
    t->attrs.axis.axis = last;
    for (int i = 0; i < 4; i++) {
        sum += widths[i];
        input(t, index % 2 ? ISO_I64 : ISO_F32, -9, 9, DIMS(last ? 6 : widths[i], last ? widths[i] : 7));
    }
    output(t, index % 2 ? ISO_I64 : ISO_F32, DIMS(last ? 6 : sum, last ? sum : 7));
    return true;
}

static bool broadcast_to(trial *t, int index)
{
    if (index == 2 * BROADCASTS)
        return false;
    iso_dtype dtype = index % 2 ? ISO_I32 : ISO_F32;
    input(t, dtype, -9, 9, broadcasts[index / 2].rank_b, broadcasts[index / 2].b);
    output(t, dtype, broadcasts[index / 2].rank, broadcasts[index / 2].out);
    return true;
}

/* Some labels are no class of this part, or none at all. */
static bool one_hot(trial *t, int index)
{
    static const iso_dtype types[] = {ISO_I32, ISO_U8, ISO_I64, ISO_F32};
    if (index == 8)
        return false;
    int64_t classes = index < 4 ? 10 : 4;
    t->attrs.one_hot = (iso_one_hot_attrs){10, ISO_F32};
    input(t, types[index % 4], 0, 12, DIMS(3, 7));
    output(t, ISO_F32, DIMS(3, 7, classes));
    t->out[0].offset[2] = index < 4 ? 0 : 3;
    t->whole = ALL_INPUTS;
    return true;
}

static bool band(trial *t, int index)
{
    static const iso_band_attrs bands[] = {{-1e9, 0, 1}, {0, 3, 0}, {-7, 4, 1}, {5, 0, 0}};
    if (index == 8)
        return false;
    t->attrs.band = bands[index % 4];
    input(t, ISO_F32, -1, 1, DIMS(2, 9, 13));
    output(t, ISO_F32, DIMS(2, 9, 13));
    t->in[0].offset[1] = index < 4 ? 0 : 6;
    t->in[0].offset[2] = index < 4 ? 0 : 3;
    return true;
}

/* ---- networks ---- */

static bool upsample(trial *t, int index)
{
    static const int64_t cases[][6] = {
        {2, 3, 4, 5, 2, 2}, {1, 1, 1, 1, 3, 4}, {1, 5, 2, 3, 1, 3}, {2, 4, 6, 8, 4, 2}, {0, 2, 2, 2, 2, 2}};
    if (index == sizeof cases / sizeof *cases + 1)
        return false;
    bool part = index == sizeof cases / sizeof *cases; /* rows 2 to 4 of 6, enlarged, need rows 1 to 5 */
    const int64_t *n = part ? (const int64_t[]){2, 5, 3, 2, 2, 2} : cases[index];
    const int64_t x[] = {n[0], n[1], n[2], n[3]}, y[] = {n[0], part ? 3 : n[1], n[4], n[2], n[5], n[3]};
    bool gradient = is_op(t, "upsample_linear_grad");
    t->attrs.upsample = (iso_upsample_attrs){{n[4], n[5]}};
    input(t, ISO_F32, -1, 1, gradient ? 6 : 4, gradient ? y : x);
    output(t, ISO_F32, gradient ? 4 : 6, gradient ? x : y);
    iso_array *small = gradient ? &t->out[0] : &t->in[0], *large = gradient ? &t->in[0] : &t->out[0];
    if (part) {
        small->offset[1] = 1;
        small->global[1] = 6;
        large->offset[1] = 2;
        large->global[1] = 6;
    }
    return true;
}

/* Rows that a block of a GPU has in several parts. */
static bool long_rows(trial *t, int index)
{
    static const int64_t shapes[][2] = {{2, 9000}, {3, 5001}};
    return layer_norm_of(t, index / 2, shapes[index % 2]);
}

static bool class_first(trial *t, int index)
{
    if (index == LINES * NUMBER_TYPES)
        return false;
    const int64_t *n = line_shapes[index / NUMBER_TYPES];
    iso_dtype dtype = number_types[index % NUMBER_TYPES];
    t->attrs.classes.axis = 1;
    input(t, dtype, 0, 30, DIMS(n[0], n[1], n[2]));
    input(t, dtype, 25, 30, DIMS(n[0], 1, n[2])); /* may be in no class of the part */
    t->in[0].offset[1] = index % 2 ? 100 : 0;
    output(t, ISO_I32, DIMS(n[0], 1, n[2]));
    t->whole = ALL_INPUTS;
    return true;
}

static bool class_above(trial *t, int index)
{
    if (index == LINES)
        return false;
    const int64_t *n = line_shapes[index];
    t->attrs.classes.axis = 1;
    input(t, ISO_F32, 0, 9, DIMS(n[0], n[1], n[2]));
    input(t, ISO_F32, 0, 9, DIMS(n[0], 1, n[2]));
    output(t, ISO_F64, DIMS(n[0], 1, n[2]));
    t->whole = ALL_INPUTS;
    return true;
}

static bool class_pick(trial *t, int index)
{
    static const iso_dtype types[] = {ISO_I32, ISO_U8, ISO_I64, ISO_F32};
    if (index == 8)
        return false;
    t->attrs.classes = (iso_class_attrs){1, index >= 4};
    input(t, types[index % 4], 0, index >= 4 ? 120 : 100, DIMS(60));
    t->in[0].dtype = types[index % 4];
    input(t, ISO_F32, -1, 1, DIMS(60, 30));
    t->in[1].offset[1] = 20;
    t->in[1].global[1] = 100;
    output(t, ISO_F32, DIMS(60, 1));
    t->whole = ALL_INPUTS;
    return true;
}

static bool moments_finish(trial *t, int index)
{
    static const int64_t channels[] = {1, 5, 300, 0};
    if (index == 8)
        return false;
    int64_t c = channels[index / 2];
    t->attrs.moments = (iso_moments_attrs){7, index % 2};
    bool gradient = is_op(t, "moments_finish_grad");
    for (int i = 0; i < (gradient ? 3 : 2); i++)
        input(t, ISO_F64, i == 1 && !gradient ? 60 : 1, i == 1 && !gradient ? 90 : 20, DIMS(c));
    for (int i = 0; i < 2; i++)
        output(t, ISO_F64, DIMS(c));
    t->fixed_types = true;
    return true;
}

/* ---- experts ---- */

/* Several tiles of rows, of columns and of the depth, with rests and without, at addresses that are multiples of 16
 * and that are not; all rows of one expert, more experts than a block has threads, more rows than as many blocks. */
static bool experts_in_tiles(trial *t, int index)
{
    static const experts_case cases[] = {
        {150, 136, 264, 1, 3, 0, 3, ISO_UNARY_SILU, 2}, {131, 129, 67, 2, 2, 0, 2, ISO_UNARY_GELU, 0},
        {40, 32, 1032, 1, 5, 0, 5, ISO_UNARY_SILU, 1},  {37, 24, 72, 3, 300, 20, 270, ISO_UNARY_RELU, 0},
        {66000, 1, 2, 1, 2, 0, 2, ISO_UNARY_RELU, 0},
    };
    const int count = (int)(sizeof cases / sizeof *cases);
    if (index == 2 * count - 1 || (index == 2 * count - 2 && strcmp(t->op, "experts_grad") == 0))
        return false; /* the last case once, without long sums */
    make_experts(t, &cases[index / 2], index % 2 == 0);
    return true;
}

static const struct {
    const char *op;
    maker *make;
} more_makers[] = {
    {"power", power},
    {"add", numbers},
    {"subtract", numbers},
    {"multiply", numbers},
    {"maximum", numbers},
    {"minimum", numbers},
    {"equal", numbers},
    {"not_equal", numbers},
    {"less", numbers},
    {"less_equal", numbers},
    {"greater", numbers},
    {"greater_equal", numbers},
    {"logical_and", logical},
    {"logical_or", logical},
    {"logical_not", logical},
    {"where", where},
    {"cast", cast},
    {"stop_gradient", copy},
    {"reduce_sum", reduce_any},
    {"reduce_max", reduce_any},
    {"reduce_min", reduce_any},
    {"argmax", argmax},
    {"in_top_k", in_top_k},
    {"transpose", transpose},
    {"flip", flip},
    {"slice", slice},
    {"pad", slice},
    {"concat", concat},
    {"broadcast_to", broadcast_to},
    {"one_hot", one_hot},
    {"band", band},
    {"upsample_linear", upsample},
    {"upsample_linear_grad", upsample},
    {"layer_norm", long_rows},
    {"layer_norm_grad", long_rows},
    {"layer_norm_grad_sums", long_rows},
    {"class_first", class_first},
    {"class_above", class_above},
    {"class_pick", class_pick},
    {"moments_finish", moments_finish},
    {"moments_finish_grad", moments_finish},
    {"experts", experts_in_tiles},
    {"experts_grad", experts_in_tiles},
};

static maker *more_of(const char *op)
{
    for (size_t i = 0; i < sizeof more_makers / sizeof *more_makers; i++)
        if (strcmp(more_makers[i].op, op) == 0)
            return more_makers[i].make;
    return NULL;
}

#endif
