/* Cases of the kernels that go row by row: softmax, cross-entropy, layer normalisation, their shards, and look-ups. A
 * function makes case `index` of t->op; false behind the last. */
#ifndef ISO_TESTS_BACKEND_CASES_ROWS_H
#define ISO_TESTS_BACKEND_CASES_ROWS_H

#include "tests/backend/harness.h"

/* rows, channels */
static const int64_t channel_shapes[][2] = {{1, 1},    {5, 3}, {1000, 12}, {777, 24}, {300, 32},
                                            {64, 16},  {0, 8}, {129, 64},  {50, 129}, {33, 200},
                                            {9, 1000}, {7, 7}, {4096, 10}, {700, 300}};
enum { CHANNELS = sizeof channel_shapes / sizeof *channel_shapes };

/* So many rows that a thread of a GPU has several packs of channels. */
static const int64_t many_rows[] = {16390, 33};

/* ---- layer normalisation ---- */
static bool layer_norm_of(trial *t, int index, const int64_t *shape)
{
    enum { GAMMA = 1, BETA = 2, RESIDUAL = 4, RMS = 8 };
    static const int forms[] = {0, 1, 2, 3, 4, 5, 6, 7, RMS, RMS | GAMMA, RMS | GAMMA | RESIDUAL};
    static const int forms_of_sums[] = {0, 1, 2, 3, RMS | GAMMA};
    bool sums_of = strstr(t->op, "sums"), gradient = strstr(t->op, "grad");
    if (index == (int)(sums_of ? sizeof forms_of_sums / sizeof *forms_of_sums : sizeof forms / sizeof *forms))
        return false;
    int64_t rows = shape[0], c = shape[1];
    int form = (sums_of ? forms_of_sums : forms)[index];
    bool gamma = form & GAMMA, beta = form & BETA, residual = form & RESIDUAL;
    t->attrs.layer_norm = (iso_layer_norm_attrs){
        .epsilon = 1e-3, .has_gamma = gamma, .has_beta = beta, .rms = form & RMS, .residual = residual};
    input(t, ISO_F32, 1, 3, DIMS(rows, c));
    if (gradient)
        input(t, ISO_F32, -1, 1, DIMS(rows, c));
    if (gamma && !sums_of)
        input(t, ISO_F32, 0.5, 2, DIMS(c));
    if (beta && !gradient)
        input(t, ISO_F32, -1, 1, DIMS(c));
    if (residual)
        input(t, ISO_F32, -1, 1, DIMS(rows, c));
    output(t, ISO_F32, sums_of ? 1 : 2, sums_of ? shape + 1 : shape);
    if (sums_of)
        output(t, ISO_F32, DIMS(c));
    if (residual && !gradient)
        output(t, ISO_F32, 2, shape);
    t->cancels = gradient && c < 8;
    return true;
}

static bool layer_norm(trial *t, int index)
{
    return layer_norm_of(t, index / CHANNELS, channel_shapes[index % CHANNELS]);
}

/* The channels of one slot, of 1000 with a mean of about 2 and a variance of about 0.7. */
static bool layer_parts(trial *t, int index)
{
    static const int64_t counts[] = {1, 16, 17, 0, 250, 33, 5, 300};
    enum { COUNTS = sizeof counts / sizeof *counts };
    if (index == 3 * COUNTS)
        return false;
    int64_t c = counts[index % COUNTS], rows = c == 300 ? 700 : 1 + 13 * (index % COUNTS);
    bool scaled = index / COUNTS > 0, rms = index / COUNTS > 1, moments = strstr(t->op, "moments"),
         gradient = strstr(t->op, "grad"), weights = strstr(t->op, "weight"),
         of_rows = strcmp(t->op, "layer_grad_sums") == 0;
    if (!moments)
        t->attrs.layer_norm =
            (iso_layer_norm_attrs){.epsilon = 1e-3, .has_gamma = scaled, .has_beta = scaled, .rms = rms};
    input(t, ISO_F32, 1, 3, DIMS(rows, c));
    t->in[0].global[1] = 1000;
    if (gradient || weights)
        input(t, ISO_F32, -1, 1, DIMS(rows, c));
    for (int i = 0; i < 2 && !moments; i++)
        input(t, ISO_F64, i ? 4600 : 1900, i ? 5000 : 2100, DIMS(rows, 1));
    for (int i = 0; i < 2 && strcmp(t->op, "layer_grad") == 0; i++)
        input(t, ISO_F64, -500, 500, DIMS(rows, 1));
    if (scaled && !moments && !weights)
        input(t, ISO_F32, 0.5, 2, DIMS(c));
    if (scaled && strcmp(t->op, "layer_scale") == 0)
        input(t, ISO_F32, -1, 1, DIMS(c));
    for (int o = 0; o < (moments || of_rows || weights ? 2 : 1); o++)
        if (weights)
            output(t, ISO_F32, DIMS(c));
        else
            output(t, moments || of_rows ? ISO_F64 : ISO_F32, DIMS(rows, moments || of_rows ? 1 : c));
    return true;
}

/* ---- softmax, cross-entropy, dropout ---- */
/* The last two: many rows of few classes, which are computed several at once, with a rest. */
static const int64_t class_shapes[][2] = {{1, 1},  {16, 10}, {3, 16},   {5, 17},  {0, 10},  {2, 1000},
                                          {7, 33}, {4, 5},   {2, 5003}, {37, 10}, {150, 32}};
enum { CLASSES = sizeof class_shapes / sizeof *class_shapes };

static bool softmax(trial *t, int index)
{
    if (index == CLASSES)
        return false;
    int64_t rows = class_shapes[index][0], classes = class_shapes[index][1];
    bool gradient = strstr(t->op, "grad"), logs = strstr(t->op, "log");
    t->attrs.softmax.axis = 1;
    input(t, ISO_F32,
          gradient && logs ? -5
          : gradient       ? 0
                           : -8,
          gradient && logs ? 0 : 8, DIMS(rows, classes));
    if (gradient)
        input(t, ISO_F32, -1, 1, DIMS(rows, classes));
    output(t, ISO_F32, DIMS(rows, classes));
    t->by_rows = gradient ? 3 : 1;
    return true;
}

/* A part of the rows, queries and heads of one that is larger; blocks of queries that are not full; masks that
 * leave some queries without a key. */
static bool attention(trial *t, int index)
{
    /* batch, t, s, heads, k, v */
    static const int64_t shapes[][6] = {
        {2, 5, 5, 3, 8, 8},      {1, 1, 1, 1, 1, 1}, {1, 130, 130, 2, 16, 16}, {2, 33, 70, 1, 5, 7},
        {1, 100, 700, 1, 32, 3}, {0, 4, 4, 2, 8, 8}, {2, 0, 4, 2, 8, 8},       {1, 9, 2000, 1, 4, 64},
        {1, 77, 40, 2, 64, 64},  {2, 7, 1, 2, 3, 4}};
    /* Of bfloat16: tiles of 64 queries or keys that are whole, not full, or left out, and more features than they
     * have; with its form. */
    static const int64_t tiles[][7] = {
        {2, 150, 136, 2, 64, 64, 1},  {1, 150, 65, 2, 64, 24, 2}, {1, 140, 130, 2, 24, 24, 4},
        {1, 70, 132, 2, 64, 64, 7},   {1, 70, 65, 1, 24, 40, 6},  {1, 140, 132, 1, 96, 80, 1},
        {1, 70, 130, 2, 128, 128, 5}, {1, 70, 68, 1, 128, 72, 6}, {1, 200, 200, 1, 64, 64, 9},
        {1, 20, 30, 2, 136, 16, 5},   {1, 70, 65, 1, 36, 42, 5},  {1, 140, 132, 2, 80, 72, 1},
        {1, 70, 130, 1, 66, 77, 6},   {1, 70, 68, 2, 89, 96, 5},  {2, 150, 65, 2, 64, 64, 10},
        {2, 70, 132, 2, 64, 24, 11},  {2, 70, 130, 2, 24, 24, 13}};
    enum { SHAPES = sizeof shapes / sizeof *shapes, FORMS = 13, TILES = sizeof tiles / sizeof *tiles };
    enum { WIDE = 2 * SHAPES * FORMS, NARROW = 2 * SHAPES }; /* of bfloat16 two forms of each shape */
    const bool gradient = strstr(t->op, "grad"), narrow = index >= WIDE;
    const int tile = index - WIDE - (gradient ? 2 : 1) * NARROW;
    if (tile == TILES)
        return false;
    const int shape = narrow ? (index - WIDE) / 2 % SHAPES : index / FORMS % SHAPES;
    const int64_t *n = tile >= 0 ? tiles[tile] : shapes[shape];
    const int turn = narrow ? (3 * shape + 4 * (index % 2)) % FORMS : index % FORMS;
    const int form = tile >= 0 ? (int)n[6] : turn < 9 ? turn : turn + 1; /* 9: of tiles */
    const iso_dtype dtype = narrow ? ISO_BF16 : index < WIDE / 2 ? ISO_F32 : ISO_F64;
    /* Gradients that are not complete are float32. */
    const iso_dtype to = !gradient || index < WIDE + NARROW ? dtype : ISO_F32;
    const bool mask = form == 3 || form == 4 || form == 6 || form >= 10,
               dropout = (form >= 5 && form < 9) || form == 11;
    const int64_t causal = form == 1 || form == 4 || form == 8 || form == 9 || form == 12;
    const int64_t window = form == 2 || form == 6 ? 11 : form == 9 ? 70 : 0;
    t->attrs.attention = (iso_attention_attrs){.scale = 0.3,
                                               .band = {form == 12 ? -3 : -1e9, window, causal},
                                               .has_mask = mask,
                                               .has_query_mask = form == 11,
                                               .adds = form == 12,
                                               .zero_masked = form == 6 || form == 11,
                                               .cap = form == 8 || (form == 4 && !narrow) ? 0.7 : 0};
    if (dropout)
        t->attrs.attention.dropout =
            (iso_dropout_attrs){.key = 12345, .threshold = 1u << 22, .scale = 4.0 / 3};
    input(t, dtype, -2, 2, DIMS(n[0], n[1], n[3], n[4]));
    t->in[0].offset[1] = form == 7 ? 6 : 0;
    t->in[0].global[1] = n[1] + 9;
    t->in[0].offset[2] = form == 7 ? 1 : 0;
    t->in[0].global[2] = n[3] + 2;
    input(t, dtype, -2, 2, DIMS(n[0], n[2], n[3], n[4]));
    input(t, dtype, -1, 1, DIMS(n[0], n[2], n[3], n[5]));
    if (mask)
        input(t, ISO_BOOL, 0, 2,
              DIMS(form == 11 ? 1 : n[0], form == 4 || form == 11 ? n[3] : 1,
                   form == 10 || form == 11 || form == 12 ? 1 : n[1], form == 13 ? 1 : n[2]));
    if (t->attrs.attention.has_query_mask)
        input(t, ISO_BOOL, 0, 2, DIMS(n[0], 1, n[1], 1));
    if (gradient)
        input(t, dtype, -1, 1, DIMS(n[0], n[1], n[3], n[5]));
    output(t, to, DIMS(n[0], n[1], n[3], gradient ? n[4] : n[5]));
    if (gradient) {
        output(t, to, DIMS(n[0], n[2], n[3], n[4]));
        output(t, to, DIMS(n[0], n[2], n[3], n[5]));
    }
    return true;
}

static bool crossentropy(trial *t, int index)
{
    if (index == CLASSES)
        return false;
    int64_t rows = class_shapes[index][0], classes = class_shapes[index][1];
    static const iso_dtype types[] = {ISO_I32, ISO_I64, ISO_U8};
    bool sparse = strstr(t->op, "sparse"), gradient = strstr(t->op, "grad");
    if (sparse)
        input(t, classes > 255 ? ISO_I32 : types[index % 3], 0, (double)classes, DIMS(rows));
    else
        input(t, ISO_F32, 0, 1, DIMS(rows, classes));
    input(t, ISO_F32, -8, 8, DIMS(rows, classes));
    if (gradient)
        input(t, ISO_F32, -1, 1, DIMS(rows));
    output(t, ISO_F32, gradient ? 2 : 1, (int64_t[]){rows, classes});
    t->by_rows = gradient ? 7 : 3;
    return true;
}

/* Parts of [rows, 3000] classes, some of them empty. */
static bool class_parts(trial *t, int index)
{
    static const int64_t counts[] = {1, 10, 16, 17, 0, 1000, 33, 5};
    if (index == sizeof counts / sizeof *counts)
        return false;
    int64_t rows = 1 + index * 3, classes = counts[index];
    bool sparse = strstr(t->op, "sparse"),
         labelled = sparse || strstr(t->op, "loss") || strcmp(t->op, "class_grad") == 0;
    t->attrs.classes.axis = 1;
    if (sparse)
        input(t, index % 2 ? ISO_I32 : ISO_F32, 0, index % 2 ? 3000 : 1, DIMS(rows));
    else if (labelled)
        input(t, ISO_F32, 0, 1, DIMS(rows, classes));
    if (sparse && index % 2 == 0)
        t->low[0] = t->high[0] = 990; /* a whole number */
    input(t, ISO_F32, -8, 8, DIMS(rows, classes));
    t->in[labelled].offset[1] = 977;
    t->in[labelled].global[1] = 3000;
    if (strcmp(t->op, "class_max") != 0)
        input(t, ISO_F32, 7, 8, DIMS(rows, 1)); /* the largest */
    if (strcmp(t->op, "class_max") != 0 && strcmp(t->op, "class_sum_exp") != 0)
        input(t, ISO_F32, 1, 50, DIMS(rows, 1)); /* the sum */
    if (strcmp(t->op, "class_grad") == 0)
        input(t, ISO_F32, 0.5, 1, DIMS(rows, 1));
    if (labelled && strstr(t->op, "grad"))
        input(t, ISO_F32, -1, 1, DIMS(rows));
    bool reduces = strcmp(t->op, "class_max") == 0 || strcmp(t->op, "class_sum_exp") == 0 ||
                   strcmp(t->op, "class_loss") == 0;
    output(t, ISO_F32, DIMS(rows, reduces ? 1 : classes));
    return true;
}

/* ---- look-ups ---- */
static bool embedding(trial *t, int index)
{
    static const iso_dtype types[] = {ISO_I32, ISO_U8, ISO_I64, ISO_F32};
    static const int64_t shapes[][4] = {
        {10, 7, 3, 5},     {40, 1, 1, 1},  {100, 32, 40, 9}, {9, 4, 0, 3}, {3, 600, 70, 9},
        {8449, 1, 100, 3}, {2, 1, 900, 3}, {250, 900, 20, 9}}; /* many rows; long lists; several parts */
    if (index == 2 * 4 * (int)(sizeof shapes / sizeof *shapes))
        return false;
    const int64_t *n = shapes[index / 8];
    bool added = strcmp(t->op, "embedding_grad_add") == 0, gradient = strcmp(t->op, "embedding") != 0;
    bool part = index % 2;
    const int64_t rows = part ? (n[0] + 1) / 2 : n[0];
    t->attrs.embedding.rows = n[0];
    iso_dtype type = types[index / 2 % 4];
    if (!gradient || added)
        input(t, ISO_F32, -1, 1, DIMS(rows, n[1]));
    input(t, type, 0, type == ISO_U8 ? fmin((double)n[0], UINT8_MAX) : (double)n[0], DIMS(n[2], n[3]));
    if (gradient)
        input(t, ISO_F32, -1, 1, DIMS(n[2], n[3], n[1]));
    output(t, ISO_F32, 3, (int64_t[]){n[2], n[3], n[1]});
    if (gradient)
        t->out[0] = make_array(ISO_F32, 2, (int64_t[]){rows, n[1]});
    for (int i = 0; i < 2; i++) {
        iso_array *table = i ? &t->out[0] : &t->in[0];
        if (i ? gradient : !gradient || added) {
            table->offset[0] = part ? n[0] - rows : 0;
            table->global[0] = n[0];
        }
    }
    t->whole = gradient && !added ? 1 : 2;
    return true;
}

/* Vectors with a rest, more pairs than are turned at a time, parts of the positions, angles that are large, a longer
 * angle for each further pair, no element; every other case with stretched positions,
 * in one of them as YaRN does. */
static bool rotary(trial *t, int index)
{
    static const struct {
        int64_t dim[4], axis, offset;
        double wavelength, scaling;
    } cases[] = {{{2, 5, 3, 8}, 1, 0, 10000, 1},     {{2, 3, 5, 6}, 2, 4, 10000, 1},
                 {{3, 4, 2, 64}, 1, 1000, 1e4, -1},  {{1, 2, 1, 1030}, 1, 3, 500000, 8},
                 {{2, 3, 2, 34}, 1, 100000, 100, 1}, {{1, 3, 2, 22}, 1, 1 << 30, 10000, -0.25},
                 {{1, 3, 2, 128}, 2, 7, 1e-6, 1},    {{2, 0, 3, 8}, 1, 5, 10000, 1}};
    if (index == sizeof cases / sizeof *cases)
        return false;
    const int64_t *dim = cases[index].dim;
    t->attrs.rotary = (iso_rotary_attrs){.wavelength = cases[index].wavelength,
                                         .scaling = cases[index].scaling,
                                         .axis = cases[index].axis,
                                         .stretch = {index % 2 ? 8 : 0, 1, 4, 8192, index == 3}};
    input(t, ISO_F32, -2, 2, 4, dim);
    output(t, ISO_F32, 4, dim);
    t->in[0].offset[cases[index].axis] = t->out[0].offset[cases[index].axis] = cases[index].offset;
    return true;
}

/* ---- recurrences ---- */

/* Every cell; a state before the first step, the bias of r and the gradient of c, or none of them; both directions;
 * no row, one unit, vectors with a rest, more than one panel of a product; each activation. Then convolutions of
 * images, some of them by Winograd's algorithm, of one row, with windows of even sizes. */
typedef struct recurrence_case {
    int64_t rows, steps, units;
    iso_cell_activation activation, recurrent;
    bool more, backwards, masked;
    int64_t size[2], window[2]; /* of images; 0: there are none */
} recurrence_case;
static const recurrence_case recurrence_cases[] = {
    {3, 4, 5, ISO_CELL_TANH, ISO_CELL_SIGMOID, false, false, false, {0}, {0}},
    {17, 3, 16, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, true, false, {0}, {0}},
    {5, 6, 17, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, true, true, {0}, {0}},
    {3, 4, 5, ISO_CELL_RELU, ISO_CELL_SIGMOID, false, false, true, {0}, {0}},
    {1, 6, 33, ISO_CELL_RELU, ISO_CELL_HARD_SIGMOID, true, false, false, {0}, {0}},
    {2, 1, 1, ISO_CELL_SIGMOID, ISO_CELL_TANH, false, true, false, {0}, {0}},
    {2, 1, 7, ISO_CELL_LINEAR, ISO_CELL_LINEAR, true, false, false, {0}, {0}},
    {0, 3, 5, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, false, false, {0}, {0}},
    {65, 2, 40, ISO_CELL_HARD_SIGMOID, ISO_CELL_RELU, false, false, false, {0}, {0}},
    {13, 6, 60, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, true, true, {0}, {0}}, /* divided between threads */
    {3, 4, 5, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, true, true, {5, 6}, {3, 3}},
    {2, 3, 16, ISO_CELL_TANH, ISO_CELL_SIGMOID, false, false, false, {8, 4}, {3, 3}},
    {2, 2, 3, ISO_CELL_RELU, ISO_CELL_HARD_SIGMOID, true, false, false, {1, 7}, {1, 4}},
    {0, 2, 3, ISO_CELL_TANH, ISO_CELL_SIGMOID, true, false, false, {4, 4}, {2, 1}},
};
enum { RECURRENCE_CASES = sizeof recurrence_cases / sizeof *recurrence_cases, CELLS = ISO_CELL_SIMPLE + 1 };

/* Dimensions of a sequence: rows, steps, those of an image, features; without steps, of a state. */
static int recurrence_dims(const recurrence_case *c, bool steps, int64_t features, int64_t dim[5])
{
    int rank = 0;
    dim[rank++] = c->rows;
    if (steps)
        dim[rank++] = c->steps;
    for (int i = 0; i < 2 && c->size[0] > 0; i++)
        dim[rank++] = c->size[i];
    dim[rank++] = features;
    return rank;
}

static void recurrence_in(trial *t, const recurrence_case *c, bool steps, double low, double high,
                          int64_t features)
{
    int64_t dim[5];
    const int rank = recurrence_dims(c, steps, features, dim);
    input(t, ISO_F32, low, high, rank, dim);
    t->by_rows |= 1u << (t->inputs - 1);
}

static void recurrence_out(trial *t, const recurrence_case *c, bool steps, int64_t features)
{
    int64_t dim[5];
    const int rank = recurrence_dims(c, steps, features, dim);
    output(t, ISO_F32, rank, dim);
}

/* The op's results. */
static void recurrence_results(trial *t, const recurrence_case *c, iso_cell cell,
                               void (*add)(trial *t, int64_t features, const recurrence_case *c))
{
    add(t, c->units, c);
    if (cell != ISO_CELL_SIMPLE)
        add(t, 4 * c->units, c);
    if (cell == ISO_CELL_LSTM)
        add(t, c->units, c);
}

static void recurrence_result_in(trial *t, int64_t features, const recurrence_case *c)
{
    recurrence_in(t, c, true, 0, 1, features);
}
static void recurrence_result_out(trial *t, int64_t features, const recurrence_case *c)
{
    recurrence_out(t, c, true, features);
}

static void recurrence_state_in(trial *t, const recurrence_case *c)
{
    recurrence_in(t, c, false, -1, 1, c->units);
}

static void recurrence_mask_in(trial *t, const recurrence_case *c)
{
    if (!c->masked)
        return;
    input(t, ISO_BOOL, 0, 2, DIMS(c->rows, c->steps));
    t->by_rows |= 1u << (t->inputs - 1);
}

/* kernel, small enough that long sums do not saturate the gates */
static void recurrence_kernel(trial *t, const recurrence_case *c, int64_t columns)
{
    if (c->size[0] > 0)
        input(t, ISO_F32, -0.2, 0.2, DIMS(c->window[0], c->window[1], c->units, columns));
    else
        input(t, ISO_F32, -0.5, 0.5, DIMS(c->units, columns));
}

static void recurrence_forward(trial *t, const recurrence_case *c, iso_cell cell, int64_t columns)
{
    recurrence_in(t, c, true, -2, 2, columns);
    recurrence_kernel(t, c, columns);
    if (c->more)
        input(t, ISO_F32, -1, 1, DIMS(columns));
    for (int i = 0; c->more && i < (cell == ISO_CELL_LSTM ? 2 : 1); i++)
        recurrence_state_in(t, c);
    recurrence_mask_in(t, c);
    recurrence_results(t, c, cell, recurrence_result_out);
}

static void recurrence_backward(trial *t, const recurrence_case *c, iso_cell cell, int64_t columns)
{
    const int states = !c->more ? 0 : cell == ISO_CELL_LSTM ? 2 : 1;
    recurrence_kernel(t, c, columns);
    for (int i = 0; i < states; i++)
        recurrence_state_in(t, c);
    recurrence_mask_in(t, c);
    recurrence_results(t, c, cell, recurrence_result_in);
    for (int i = 0; i < (t->attrs.recurrence.has_dc ? 2 : 1); i++)
        recurrence_result_in(t, c->units, c);
    for (int i = 0; i < (cell == ISO_CELL_GRU ? 2 : 1); i++)
        recurrence_result_out(t, columns, c);
    for (int i = 0; i < states; i++)
        recurrence_out(t, c, false, c->units);
}

static bool recurrence(trial *t, int index)
{
    if (index == CELLS * RECURRENCE_CASES)
        return false;
    const recurrence_case *c = &recurrence_cases[index / CELLS];
    const iso_cell cell = (iso_cell)(index % CELLS);
    const bool gradient = strcmp(t->op, "recurrence_grad") == 0;
    const int64_t columns = iso_cell_gates(cell) * c->units;
    t->attrs.recurrence = (iso_recurrence_attrs){.form = {.cell = cell,
                                                          .activation = c->activation,
                                                          .recurrent = c->recurrent,
                                                          .backwards = c->backwards},
                                                 .has_bias = c->more,
                                                 .has_state = c->more,
                                                 .has_dc = gradient && c->more && cell == ISO_CELL_LSTM,
                                                 .has_mask = c->masked};
    (gradient ? recurrence_backward : recurrence_forward)(t, c, cell, columns);
    return true;
}

/* ---- experts ---- */

typedef struct experts_case {
    int64_t rows, d, hidden, k, experts, first, locally;
    iso_unary_kind activation;
    int64_t chosen; /* rows choose among the first ones; 0: among all */
} experts_case;

static void make_experts(trial *t, const experts_case *c, bool gated)
{
    const int64_t local = c->locally;
    t->attrs.experts = (iso_experts_attrs){.activation = c->activation, .gated = gated};
    input(t, ISO_F32, -1, 1, DIMS(c->rows, c->d));
    input(t, ISO_I32, 0, (double)(c->chosen ? c->chosen : c->experts), DIMS(c->rows, c->k));
    input(t, ISO_F32, 0, 1, DIMS(c->rows, c->k));
    for (int i = 0; i < 1 + gated; i++)
        input(t, ISO_F32, -1, 1, DIMS(local, c->d, c->hidden));
    input(t, ISO_F32, -1, 1, DIMS(local, c->hidden, c->d));
    for (int i = 3; i < t->inputs; i++) {
        t->in[i].offset[0] = c->first;
        t->in[i].global[0] = c->experts;
    }
    output(t, ISO_F32, DIMS(c->rows, c->d));
    if (strcmp(t->op, "experts_grad") != 0)
        return;
    for (int i = 2; i < t->inputs; i++)
        t->out[t->outputs++] = t->in[i];
    input(t, ISO_F32, -1, 1, DIMS(c->rows, c->d));
}

/* Gated and not, each activation; some of the experts and of the rows; no row, no hidden feature; more rows of an
 * expert than a block has, and products that a library computes. */
static bool experts(trial *t, int index)
{
    static const experts_case cases[] = {
        {11, 5, 7, 2, 4, 0, 4, ISO_UNARY_SILU, 0},   {9, 16, 8, 1, 3, 0, 3, ISO_UNARY_GELU, 0},
        {20, 9, 33, 3, 7, 4, 2, ISO_UNARY_RELU, 0},  {1, 3, 1, 2, 2, 1, 1, ISO_UNARY_GELU_APPROXIMATE, 0},
        {0, 4, 4, 2, 3, 0, 3, ISO_UNARY_SILU, 0},    {6, 4, 0, 2, 3, 0, 3, ISO_UNARY_SILU, 0},
        {45, 48, 56, 2, 2, 0, 2, ISO_UNARY_SILU, 0}, {700, 3, 5, 2, 2, 0, 2, ISO_UNARY_GELU_APPROXIMATE, 0},
        {5, 4, 6, 2, 9, 9, 0, ISO_UNARY_SILU, 0},    {600, 30, 50, 3, 5, 1, 4, ISO_UNARY_SILU, 3},
    };
    if (index == 2 * (int)(sizeof cases / sizeof *cases))
        return false;
    make_experts(t, &cases[index / 2], index % 2 == 0);
    return true;
}

/* Equal elements, all elements, one, none; rows of one thread, of a warp and of a block. */
static bool top_k(trial *t, int index)
{
    static const int64_t cases[][3] = {{7, 9, 2},   {40, 5, 5}, {3, 130, 8},
                                       {300, 4, 1}, {0, 3, 2},  {2, 3001, 5}};
    if (index == 2 * (int)(sizeof cases / sizeof *cases))
        return false;
    const int64_t rows = cases[index / 2][0], classes = cases[index / 2][1], k = cases[index / 2][2];
    const bool gradient = strcmp(t->op, "top_k_grad") == 0;
    t->attrs.top_k = (iso_top_k_attrs){.k = (int)k, .classes = classes};
    if (gradient)
        input(t, ISO_I32, 0, (double)classes, DIMS(rows, k));
    input(t, ISO_F32, -4, 4, DIMS(rows, gradient ? k : classes));
    t->whole = index % 2 && !gradient; /* some elements are equal */
    output(t, ISO_F32, DIMS(rows, gradient ? classes : k));
    if (!gradient)
        output(t, ISO_I32, DIMS(rows, k));
    return true;
}

#endif
