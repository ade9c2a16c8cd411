#include "runtime/backend/cuda/attention.h"

#include "runtime/backend/cuda/attention_rows.h"
#include "runtime/backend/cuda/product.h"

namespace
{

using namespace iso_cuda;

/* ---- blocks ---- */

/* The bytes of a block: with more the products are larger, with fewer they stay in a GPU's cache. With a band there
 * are up to so many blocks of queries, each of which leaves out keys, but of no fewer queries than make a large
 * product. */
const int64_t MOST_BYTES = 64 << 20, LEAST_BAND_ROWS = 256, MOST_BAND_BLOCKS = 8;

/* Areas of scratch memory, in their order; the products' workspace follows. Those of float32 and float64 have the
 * weights in place of the scores, their gradients likewise, and no sums. */
enum { SCORES, DWEIGHTS, WEIGHTS, DSCORES, ROW_SUMS, KEY_SUMS, VALUE_SUMS, AREAS };

struct plan {
    const iso_kernel_call *call;
    iso_attention a;
    bool gradient;
    iso_dtype dtype, sums; /* of the operands; of scores and of sums before they are rounded */
    int parts;             /* numbers that store a weight: two of bfloat16 */
    bool over_heads;       /* see attention_block */
    int64_t all_loops, all_batch;
    int64_t loops, batch, rows; /* of a block; the last ones may have less */
    int64_t stride;             /* from one row of scores to the next */
    bool adds;                  /* gradients of keys and values are sums, or 0 where no block has the key */
    size_t bytes[AREAS];
};

int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t round_up(int64_t n, int64_t multiple)
{
    return ceil_of(n, multiple) * multiple;
}

/* The size of parts of [0, all): all have about as much, and none has more than `most`, or the multiple. */
int64_t even_part(int64_t all, int64_t most, int64_t multiple)
{
    if (all <= most)
        return all;
    most = most > multiple ? most / multiple * multiple : multiple;
    return round_up(ceil_of(all, ceil_of(all, most)), multiple);
}

bool leaves_out_keys(const iso_attention &a)
{
    return !iso_attention_has_masks(&a) && (a.attrs->band.causal || a.attrs->band.window > 0);
}

/* Bytes for a query of one head, and for all queries of it. */
void count_bytes(const plan &p, int64_t *of_row, int64_t *of_head)
{
    const int64_t sums = static_cast<int64_t>(iso_dtype_size(p.sums)), both = p.gradient ? 2 : 1;
    const bool rounds = p.parts > 1;
    const int64_t of_weight = rounds ? p.parts * static_cast<int64_t>(iso_dtype_size(p.dtype)) : 0;
    *of_row = p.stride * both * (sums + of_weight) + (rounds ? (p.gradient ? p.a.k : p.a.v) * sums : 0);
    *of_head = rounds && p.gradient ? p.a.keys * (p.a.k + p.a.v) * sums : 0;
}

/* Blocks have as many heads as fit; if not even one does, as many of its queries. */
void divide(plan *p)
{
    int64_t of_row, of_head, most = p->a.rows;
    count_bytes(*p, &of_row, &of_head);
    if (leaves_out_keys(p->a)) {
        most = ceil_of(p->a.rows, MOST_BAND_BLOCKS);
        most = most > LEAST_BAND_ROWS ? most : LEAST_BAND_ROWS;
    }
    if (of_row > 0)
        most = smaller(most, (MOST_BYTES - of_head) / of_row);
    p->rows = even_part(p->a.rows, most, most < LEAST_BAND_ROWS ? 8 : 64);
    const int64_t bytes = p->rows * of_row + of_head, heads = bytes > 0 ? MOST_BYTES / bytes : p->all_batch;
    p->batch = even_part(p->all_batch, heads, 1);
    p->loops =
        p->batch < p->all_batch ? 1 : even_part(p->all_loops, heads / (p->batch > 0 ? p->batch : 1), 1);
}

void lay_out(plan *p)
{
    const int64_t heads = p->loops * p->batch, scores = heads * p->rows * p->stride;
    int64_t elements[AREAS] = {};
    elements[SCORES] = scores;
    elements[DWEIGHTS] = p->gradient ? scores : 0;
    if (p->parts > 1) {
        elements[WEIGHTS] = p->parts * elements[SCORES];
        elements[DSCORES] = p->parts * elements[DWEIGHTS];
        elements[ROW_SUMS] = heads * p->rows * (p->gradient ? p->a.k : p->a.v);
        elements[KEY_SUMS] = p->gradient ? heads * p->a.keys * p->a.k : 0;
        elements[VALUE_SUMS] = p->gradient ? heads * p->a.keys * p->a.v : 0;
    }
    for (int i = 0; i < AREAS; i++) {
        const bool stored = i == WEIGHTS || i == DSCORES;
        const size_t bytes = static_cast<size_t>(elements[i]) * iso_dtype_size(stored ? p->dtype : p->sums);
        p->bytes[i] = (bytes + 255) / 256 * 256;
    }
}

/* The keys to which any of the block's queries attends; all, if one may attend to none, and so weighs all alike. */
void set_columns(const plan &p, attention_block *b)
{
    const iso_attention &a = p.a;
    int64_t begin, end, last_begin, last_end;
    b->begin = 0;
    b->columns = a.keys;
    if (!leaves_out_keys(a))
        return;
    iso_band_columns(&a.attrs->band, a.first_row + b->row, a.keys, &begin, &end);
    iso_band_columns(&a.attrs->band, a.first_row + b->row + b->rows - 1, a.keys, &last_begin, &last_end);
    if (last_begin == last_end) /* the last bands are the first that are empty */
        return;
    b->begin = begin / 8 * 8; /* for addresses */
    b->columns = last_end - b->begin;
}

plan plan_of(const iso_kernel_call *call)
{
    plan p = {};
    p.call = call;
    p.a = iso_attention_of(call);
    p.gradient = call->n_outputs > 1;
    p.dtype = call->in[0].dtype;
    p.sums = p.dtype == ISO_BF16 ? ISO_F32 : p.dtype;
    p.parts = p.dtype == ISO_BF16 ? 2 : 1;
    p.over_heads = p.a.heads >= p.a.groups;
    p.all_loops = p.over_heads ? p.a.groups : p.a.heads;
    p.all_batch = p.over_heads ? p.a.heads : p.a.groups;
    p.stride = round_up(p.a.keys, 8);
    divide(&p);
    lay_out(&p);
    attention_block all = {};
    all.rows = p.rows;
    set_columns(p, &all);
    p.adds = p.rows == 0 || p.rows < p.a.rows || all.columns < p.a.keys;
    return p;
}

/* ---- operands ---- */

struct operand {
    char *data; /* NULL while products are only looked at */
    iso_dtype dtype;
    iso_cuda_layout layout;
    int64_t loop; /* elements from one loop of the block to the next */
};

char *element(void *data, int64_t number, iso_dtype dtype)
{
    const int64_t size = static_cast<int64_t>(iso_dtype_size(dtype));
    return data ? static_cast<char *>(data) + number * size : nullptr;
}

char *area(const plan &p, int number)
{
    char *at = static_cast<char *>(p.call->scratch);
    for (int i = 0; at && i < number; i++)
        at += p.bytes[i];
    return at;
}

/* Rows from `row` on of the block's heads in an array [groups, n, heads, features]. */
operand features_of(const plan &p, const attention_block &b, const iso_array &x, int64_t row)
{
    const int64_t n = x.dim[x.rank - 3], features = x.dim[x.rank - 1], step = p.a.heads * features;
    const int64_t group = n * step, loop = p.over_heads ? group : features,
                  matrix = p.over_heads ? features : group;
    const int64_t first = b.first_loop * loop + b.first_batch * matrix + row * step;
    return {element(x.data, first, x.dtype), x.dtype, {step, matrix, features}, loop};
}

int64_t part_step(const plan &p)
{
    return p.loops * p.batch * p.rows * p.stride;
}

operand scores_of(const plan &p, const attention_block &b, int number, iso_dtype dtype, int part)
{
    const int64_t matrix = b.rows * p.stride;
    return {
        element(area(p, number), part * part_step(p), dtype), dtype, {p.stride, matrix, 8}, b.batch * matrix};
}

/* Sums [loops, batch, n, features] of bfloat16 that are still float32, from `row` on. */
operand sums_of(const plan &p, const attention_block &b, int number, int64_t n, int64_t features, int64_t row)
{
    return {element(area(p, number), row * features, p.sums),
            p.sums,
            {features, n * features, features},
            b.batch * n * features};
}

/* ---- products ---- */

struct walk {
    plan p;
    bool queue;
    iso_cuda_attention_multiply *multiply;
    void *argument;
};

enum { PLAIN, TRANSPOSE_A, TRANSPOSE_B };

/* c [m, n] = a b, or c + a b, for all heads of a block. */
bool multiply(const walk &w, const attention_block &b, const int64_t shape[3], int transposed,
              const operand &of_a, const operand &of_b, const operand &of_c, bool add)
{
    iso_cuda_product product = {};
    product.batch = b.batch, product.m = shape[0], product.n = shape[1], product.k = shape[2];
    product.of_a = of_a.layout, product.of_b = of_b.layout, product.of_c = of_c.layout;
    product.dtype = of_a.dtype, product.out_dtype = of_c.dtype;
    product.transpose_a = transposed == TRANSPOSE_A, product.transpose_b = transposed == TRANSPOSE_B;
    product.epilogue = add ? ISO_CUDA_ADD_TO : 0;
    if (!w.queue)
        return w.multiply(&product, nullptr, w.p.call, w.argument);
    for (int64_t loop = 0; loop < b.loops; loop++) {
        iso_cuda_operands o = {};
        o.a = element(of_a.data, loop * of_a.loop, of_a.dtype);
        o.b = element(of_b.data, loop * of_b.loop, of_b.dtype);
        o.c = element(of_c.data, loop * of_c.loop, of_c.dtype);
        o.workspace = area(w.p, AREAS);
        if (!w.multiply(&product, &o, w.p.call, w.argument))
            return false;
    }
    return true;
}

/* The product with weights, or with the gradients of scores: the sum of those with their parts. */
bool multiply_parts(const walk &w, const attention_block &b, const int64_t shape[3], int transposed,
                    int number, const operand &of_b, const operand &of_c, bool add)
{
    bool done = true;
    for (int part = 0; part < w.p.parts && done; part++)
        done = multiply(w, b, shape, transposed, scores_of(w.p, b, number, w.p.dtype, part), of_b, of_c,
                        add || part > 0);
    return done;
}

void round_to(const walk &w, const attention_block &b, const operand &from, const operand &to, int64_t rows,
              int64_t features)
{
    if (w.queue)
        attention_round(
            {b.loops, b.batch, rows, features, to.loop, to.layout.matrix, to.layout.row, to.dtype}, from.data,
            to.data, w.p.call->stream);
}

/* The result [rows, features] of a block's queries: output 0. */
bool multiply_rows(const walk &w, const attention_block &b, int number, const operand &of_b, int64_t features)
{
    const operand out = features_of(w.p, b, w.p.call->out[0], b.row);
    const operand sums = sums_of(w.p, b, ROW_SUMS, b.rows, features, 0);
    const int64_t shape[] = {b.rows, features, b.columns};
    const bool rounds = w.p.parts > 1;
    if (!multiply_parts(w, b, shape, PLAIN, number, of_b, rounds ? sums : out, false))
        return false;
    if (rounds)
        round_to(w, b, sums, out, b.rows, features);
    return true;
}

/* ---- sums over blocks of queries: the gradients of keys and values ---- */

/* Adds a block's part to output 1 or 2, from the key `begin` on. */
bool multiply_keys(const walk &w, const attention_block &b, int output, int number, const operand &of_b)
{
    const iso_array &out = w.p.call->out[output];
    const int64_t features = out.dim[out.rank - 1], shape[] = {b.columns, features, b.rows};
    const operand c =
        w.p.parts > 1 ? sums_of(w.p, b, output == 1 ? KEY_SUMS : VALUE_SUMS, w.p.a.keys, features, b.begin)
                      : features_of(w.p, b, out, b.begin);
    return multiply_parts(w, b, shape, TRANSPOSE_A, number, of_b, c, w.p.adds);
}

struct clear {
    float *x;
    __device__ void operator()(int64_t i) const
    {
        x[i] = 0;
    }
};

void fill_zeros(const walk &w, void *to, int64_t bytes)
{
    const int64_t word = static_cast<int64_t>(sizeof(float));
    if (w.queue)
        for_each(w.p.call->stream, bytes / word, clear{static_cast<float *>(to)});
}

/* Before the first block. Sums of bfloat16 are cleared for each block's heads. */
void clear_outputs(const walk &w)
{
    for (int output = 1; output < w.p.call->n_outputs && w.p.parts == 1; output++)
        if (w.p.adds)
            fill_zeros(w, w.p.call->out[output].data,
                       static_cast<int64_t>(iso_array_bytes(&w.p.call->out[output])));
}

void clear_sums(const walk &w)
{
    for (int number = KEY_SUMS; number <= VALUE_SUMS; number++)
        if (w.p.adds)
            fill_zeros(w, area(w.p, number), static_cast<int64_t>(w.p.bytes[number]));
}

void round_sums(const walk &w, const attention_block &b)
{
    for (int output = 1; output < w.p.call->n_outputs && w.p.parts > 1; output++) {
        const iso_array &out = w.p.call->out[output];
        const int64_t features = out.dim[out.rank - 1];
        round_to(w, b, sums_of(w.p, b, output == 1 ? KEY_SUMS : VALUE_SUMS, w.p.a.keys, features, 0),
                 features_of(w.p, b, out, 0), w.p.a.keys, features);
    }
}

/* ---- a block ---- */

bool run_block(const walk &w, const attention_block &b)
{
    const plan &p = w.p;
    const iso_array *in = p.call->in, &of_slopes = in[p.call->n_inputs - 1];
    const operand q = features_of(p, b, in[ISO_ATTENTION_QUERY], b.row),
                  k = features_of(p, b, in[ISO_ATTENTION_KEY], b.begin),
                  v = features_of(p, b, in[ISO_ATTENTION_VALUE], b.begin);
    const bool rounds = p.parts > 1;
    const int weights = rounds ? WEIGHTS : SCORES, dscores = rounds ? DSCORES : DWEIGHTS;
    const int64_t by_k[] = {b.rows, b.columns, p.a.k}, by_v[] = {b.rows, b.columns, p.a.v};
    attention_matrices of = {area(p, SCORES),  p.gradient ? area(p, DWEIGHTS) : nullptr,
                             area(p, weights), area(p, dscores),
                             p.stride,         part_step(p)};
    if (!multiply(w, b, by_k, TRANSPOSE_B, q, k, scores_of(p, b, SCORES, p.sums, 0), false))
        return false;
    if (!p.gradient) {
        if (w.queue)
            attention_weigh(p.call, b, of);
        return multiply_rows(w, b, weights, v, p.a.v);
    }
    const operand dy = features_of(p, b, of_slopes, b.row);
    if (!multiply(w, b, by_v, TRANSPOSE_B, dy, v, scores_of(p, b, DWEIGHTS, p.sums, 0), false))
        return false;
    if (w.queue)
        attention_weigh(p.call, b, of);
    return multiply_rows(w, b, dscores, k, p.a.k) && multiply_keys(w, b, 1, dscores, q) &&
           multiply_keys(w, b, 2, weights, dy);
}

/* The next part of [0, all) after the one at `first`. Where products are only looked at, those between the first and
 * the last one are left out: they have the same shapes. */
int64_t next_of(const walk &w, int64_t first, int64_t part, int64_t all)
{
    const int64_t next = first + part, last = (all - 1) / part * part;
    return !w.queue && next < last ? last : next;
}

int64_t next_rows(const walk &w, int64_t first)
{
    const bool all_columns = !leaves_out_keys(w.p.a);
    return all_columns ? next_of(w, first, w.p.rows, w.p.a.rows) : first + w.p.rows;
}

bool run_heads(const walk &w, attention_block b)
{
    const plan &p = w.p;
    if (p.gradient && p.parts > 1)
        clear_sums(w);
    for (b.row = 0; b.row < p.a.rows; b.row = next_rows(w, b.row)) {
        b.rows = smaller(p.rows, p.a.rows - b.row);
        set_columns(p, &b);
        if (!run_block(w, b))
            return false;
    }
    round_sums(w, b);
    return true;
}

/* ---- own products ---- */

steps steps_of(const iso_cuda_layout &at, bool in_runs)
{
    return {at.matrix, in_runs ? at.row : 1, in_runs ? 1 : at.row};
}

template <class C> struct added {
    C *c;
    iso_cuda_layout at;
    bool add;
    __device__ void put(int64_t batch, int64_t row, int64_t column, C value) const
    {
        C *to = c + batch * at.matrix + row * at.row + column;
        *to = add ? *to + value : value;
    }
};

template <class T, bool A_IN_RUNS, bool B_IN_RUNS>
void run_own(const iso_kernel_call *call, const product_shape &shape, const iso_cuda_product &product,
             const iso_cuda_operands &operands)
{
    run_product(
        call, shape,
        strided<T, A_IN_RUNS>{static_cast<const T *>(operands.a), steps_of(product.of_a, A_IN_RUNS)},
        strided<T, B_IN_RUNS>{static_cast<const T *>(operands.b), steps_of(product.of_b, B_IN_RUNS)},
        added<compute<T>>{static_cast<compute<T> *>(operands.c), product.of_c, product.epilogue != 0});
}

/* argument: the bytes of the largest workspace, which it counts. */
bool multiply_own(const iso_cuda_product *product, const iso_cuda_operands *operands,
                  const iso_kernel_call *call, void *argument)
{
    const product_shape shape = shape_of_product(product->batch, product->m, product->n, product->k);
    with_float(static_cast<iso_dtype>(product->dtype), [&](auto zero) {
        typedef decltype(zero) T;
        iso_kernel_call own = *call;
        size_t bytes = product_scratch<compute<T>>(shape), *most = static_cast<size_t *>(argument);
        if (!operands) {
            *most = bytes > *most ? bytes : *most;
            return;
        }
        own.scratch = operands->workspace;
        if (product->transpose_a)
            run_own<T, false, false>(&own, shape, *product, *operands);
        else if (product->transpose_b)
            run_own<T, true, true>(&own, shape, *product, *operands);
        else
            run_own<T, true, false>(&own, shape, *product, *operands);
    });
    return true;
}

void run(const iso_kernel_call *call)
{
    iso_cuda_attention_walk(call, true, multiply_own, nullptr);
}

size_t scratch(const iso_kernel_call *call)
{
    size_t most = 0;
    iso_cuda_attention_walk(call, false, multiply_own, &most);
    return iso_cuda_attention_scratch(call) + most;
}

} // namespace

bool iso_cuda_attention_walk(const iso_kernel_call *call, bool queue, iso_cuda_attention_multiply *multiply,
                             void *argument)
{
    const walk w = {plan_of(call), queue, multiply, argument};
    const plan &p = w.p;
    attention_block b = {};
    b.over_heads = p.over_heads;
    clear_outputs(w);
    for (; b.first_loop < p.all_loops; b.first_loop = next_of(w, b.first_loop, p.loops, p.all_loops))
        for (b.first_batch = 0; b.first_batch < p.all_batch;
             b.first_batch = next_of(w, b.first_batch, p.batch, p.all_batch)) {
            b.loops = smaller(p.loops, p.all_loops - b.first_loop);
            b.batch = smaller(p.batch, p.all_batch - b.first_batch);
            if (!run_heads(w, b))
                return false;
        }
    return true;
}

size_t iso_cuda_attention_scratch(const iso_kernel_call *call)
{
    const plan p = plan_of(call);
    size_t all = 0;
    for (int i = 0; i < AREAS; i++)
        all += p.bytes[i];
    return all;
}

ISO_CUDA_KERNEL_WITH(attention, run, false, scratch)
ISO_CUDA_KERNEL_WITH(attention_grad, run, false, scratch)
