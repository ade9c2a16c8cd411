/* Rows of scores: a warp has one, or a block if it is long. It is read twice: for its largest score and its sums, and
 * for the weights. */
#include "runtime/backend/cuda/attention_rows.h"

#include "runtime/backend/cuda/lines.h"
#include "runtime/base/random.h"

namespace
{

using namespace iso_cuda;

enum { WIDTH = 4 /* keys of a thread at a time: a block of random numbers */ };

template <class C> using four = pack<C, WIDTH>;

/* A query, and the keys of the block that its band has. */
struct query_at {
    int64_t group, head, row, begin, end;
    iso_attention_mask_row mask; /* of the block's keys */
    uint64_t number;             /* of the first weight's random number */
};

/* Stores numbers of the compute type. */
template <class T> __device__ __forceinline__ void store(T *to, int64_t, const four<T> &x)
{
    *reinterpret_cast<four<T> *>(to) = x;
}
__device__ __forceinline__ void store(bf16 *to, int64_t part_step, const four<float> &x)
{
    four<bf16> high, low;
    for (int i = 0; i < WIDTH; i++) {
        narrow(&high.at[i], x.at[i]);
        narrow(&low.at[i], x.at[i] - wide(high.at[i]));
    }
    *reinterpret_cast<four<bf16> *>(to) = high;
    *reinterpret_cast<four<bf16> *>(to + part_step) = low;
}

/* Sums of exp(score - largest), and of these times the gradients of the weights; the largest score so far. */
template <class C> struct row_sums {
    C largest;
    double sum, mean;
    __device__ static C relative(C score, C largest)
    {
        return score == -INFINITY ? C(0) : exp_of(score - largest);
    }
    __device__ void rise(C to)
    {
        const double factor = relative(largest, to);
        sum *= factor, mean *= factor;
        largest = to;
    }
};

/* DROPS: whether weights are changed after the softmax. */
template <class T, bool GRADIENT, bool DROPS> struct weigh {
    typedef compute<T> C;
    attention_block block;
    iso_attention_attrs attrs;
    iso_array query; /* for the numbers of weights */
    iso_attention_mask mask, query_mask;
    int64_t keys, stride, part_step;
    const iso_step_info *info;
    const C *scores, *dweights;
    T *weights, *dscores;

    __device__ query_at query_of(int64_t line) const
    {
        const int64_t matrix = line / block.rows, loop = matrix / block.batch;
        const int64_t inner = block.first_batch + matrix - loop * block.batch,
                      outer = block.first_loop + loop;
        const int at = query.rank - 3;
        query_at q = {};
        q.group = block.over_heads ? outer : inner;
        q.head = block.over_heads ? inner : outer;
        q.row = block.row + line - matrix * block.rows;
        iso_band_columns(&attrs.band, query.offset[at] + q.row, keys, &q.begin, &q.end);
        q.begin -= block.begin, q.end -= block.begin;
        q.mask = iso_attention_join_masks(&mask, &query_mask, q.group, q.head, q.row);
        if (q.mask.at)
            q.mask.at += block.begin * q.mask.step;
        if (attrs.dropout.threshold > 0)
            q.number = iso_attention_number(&query, keys, q.group, q.head, q.row) +
                       static_cast<uint64_t>(block.begin);
        return q;
    }
    /* Which of the keys it attends to, as bits. */
    __device__ unsigned seen_of(const query_at &q, int64_t key) const
    {
        unsigned seen = 0;
        if (!q.mask.at && key >= q.begin && key + WIDTH <= q.end)
            return (1u << WIDTH) - 1;
        for (int i = 0; i < WIDTH; i++)
            seen |=
                key + i >= q.begin && key + i < q.end && iso_attention_counts(q.mask, key + i) ? 1u << i : 0;
        return seen;
    }
    /* x: of a query and a key */
    __device__ C score_of(C x) const
    {
        const C cap = static_cast<C>(attrs.cap), scaled = static_cast<C>(attrs.scale) * x;
        return cap != 0 ? cap * tanh_of(scaled / cap) : scaled;
    }
    __device__ C unseen_of(C x) const
    {
        const C fill = static_cast<C>(attrs.band.fill);
        return attrs.adds ? score_of(x) + fill : fill;
    }
    /* Of a score, by what it is without the cap. */
    __device__ C slope_of(C score) const
    {
        const C cap = static_cast<C>(attrs.cap), bounded = cap != 0 ? score / cap : C(0);
        return C(1) - bounded * bounded;
    }
    /* Beyond the last key they are -INFINITY. */
    __device__ four<C> scores_of(int64_t first, int64_t key, unsigned seen) const
    {
        four<C> x = *reinterpret_cast<const four<C> *>(scores + first + key);
        for (int i = 0; i < WIDTH; i++)
            x.at[i] = seen >> i & 1             ? score_of(x.at[i])
                      : key + i < block.columns ? unseen_of(x.at[i])
                                                : static_cast<C>(-INFINITY);
        return x;
    }
    /* Factors of dropout, 0 where the mask is 0 if so wanted. */
    __device__ four<C> factors_of(const query_at &q, int64_t key) const
    {
        const uint64_t number = q.number + static_cast<uint64_t>(key);
        four<C> x;
        for (int i = 0; i < WIDTH; i++)
            x.at[i] = !DROPS || !attrs.zero_masked ||
                              (key + i < block.columns && iso_attention_counts(q.mask, key + i))
                          ? C(1)
                          : C(0);
        if (!DROPS || attrs.dropout.threshold == 0)
            return x;
        const bool whole = number % WIDTH == 0;
        const iso_philox draw = iso_philox_draw(attrs.dropout.key, number / WIDTH, info->step);
        for (int i = 0; i < WIDTH; i++) {
            uint32_t word =
                whole ? draw.word[i]
                      : iso_random_word(attrs.dropout.key, info->step, number + static_cast<uint64_t>(i));
            x.at[i] *= word >> 8 >= attrs.dropout.threshold ? static_cast<C>(attrs.dropout.scale) : C(0);
        }
        return x;
    }
    __device__ four<C> dweights_of(int64_t first, int64_t key, const four<C> &factors) const
    {
        four<C> x = *reinterpret_cast<const four<C> *>(dweights + first + key);
        for (int i = 0; i < WIDTH; i++)
            x.at[i] = key + i < block.columns && factors.at[i] != 0 ? x.at[i] * factors.at[i] : C(0);
        return x;
    }
    template <int L> __device__ row_sums<C> sums_of(const query_at &q, int64_t first) const
    {
        row_sums<C> s = {static_cast<C>(-INFINITY), 0, 0};
        for (int64_t key = member<L>() * WIDTH; key < block.columns; key += L * WIDTH) {
            const four<C> x = scores_of(first, key, seen_of(q, key));
            four<C> slopes = {};
            C largest = s.largest;
            for (int i = 0; i < WIDTH; i++)
                largest = max_of::join(largest, x.at[i]);
            if (largest > s.largest)
                s.rise(largest);
            if (GRADIENT)
                slopes = dweights_of(first, key, factors_of(q, key));
            for (int i = 0; i < WIDTH; i++) {
                const double e = s.relative(x.at[i], s.largest);
                s.sum += e;
                s.mean += e * slopes.at[i];
            }
        }
        s.rise(join<L, max_of>(s.largest));
        s.sum = join<L, sum_of>(s.sum);
        s.mean = GRADIENT ? join<L, sum_of>(s.mean) / s.sum : 0;
        return s;
    }
    template <int L> __device__ void run(line of) const
    {
        const query_at q = query_of(of.row);
        const int64_t first = of.row * stride;
        const row_sums<C> s = sums_of<L>(q, first);
        const C over = static_cast<C>(1 / s.sum), mean = static_cast<C>(s.mean);
        for (int64_t key = member<L>() * WIDTH; key < block.columns; key += L * WIDTH) {
            const unsigned seen = seen_of(q, key);
            four<C> x = scores_of(first, key, seen), slopes = {};
            const four<C> factors = factors_of(q, key);
            if (GRADIENT)
                slopes = dweights_of(first, key, factors);
            for (int i = 0; i < WIDTH; i++) {
                const C weight = exp_of(x.at[i] - s.largest) * over,
                        slope = slope_of(x.at[i]) * static_cast<C>(attrs.scale);
                x.at[i] = factors.at[i] != 0 ? weight * factors.at[i] : C(0);
                slopes.at[i] = attrs.adds || seen >> i & 1 ? weight * (slopes.at[i] - mean) * slope : C(0);
            }
            store(weights + first + key, part_step, x);
            if (GRADIENT)
                store(dscores + first + key, part_step, slopes);
        }
    }
};

template <class T, bool GRADIENT, bool DROPS>
void launch_weigh(const iso_kernel_call *call, const attention_block &block, const attention_matrices &of)
{
    typedef compute<T> C;
    const iso_attention a = iso_attention_of(call);
    weigh<T, GRADIENT, DROPS> f = {};
    f.block = block;
    f.attrs = *a.attrs;
    f.query = call->in[ISO_ATTENTION_QUERY];
    f.mask = a.mask, f.query_mask = a.query_mask;
    f.keys = a.keys, f.stride = of.stride, f.part_step = of.part_step;
    f.info = call->info;
    f.scores = static_cast<const C *>(of.scores), f.dweights = static_cast<const C *>(of.dweights);
    f.weights = static_cast<T *>(of.weights), f.dscores = static_cast<T *>(of.dscores);
    const lines rows = {block.loops * block.batch * block.rows, block.columns, 1};
    if (block.columns < LONG_LINE)
        launch_lines<WARP>(call->stream, rows, f);
    else
        launch_lines<BLOCK>(call->stream, rows, f);
}

template <class T, bool GRADIENT>
void find_weigh(const iso_kernel_call *call, const attention_block &block, const attention_matrices &of)
{
    const iso_attention_attrs *attrs = static_cast<const iso_attention_attrs *>(call->attrs);
    if (attrs->zero_masked || attrs->dropout.threshold > 0)
        launch_weigh<T, GRADIENT, true>(call, block, of);
    else
        launch_weigh<T, GRADIENT, false>(call, block, of);
}

template <class T> struct round_sums {
    attention_sums of;
    const float *from;
    T *to;
    template <int L> __device__ void run(line at) const
    {
        const int64_t matrix = at.row / of.rows, loop = matrix / of.batch;
        T *row = to + loop * of.loop_step + (matrix - loop * of.batch) * of.batch_step +
                 (at.row - matrix * of.rows) * of.row_step;
        for (int64_t i = member<L>(); i < of.features; i += L)
            narrow(&row[i], from[at.row * of.features + i]);
    }
};

} // namespace

namespace iso_cuda
{

void attention_weigh(const iso_kernel_call *call, const attention_block &block, const attention_matrices &of)
{
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        if (of.dweights)
            find_weigh<T, true>(call, block, of);
        else
            find_weigh<T, false>(call, block, of);
    });
}

void attention_round(const attention_sums &of, const void *from, void *to, const iso_stream *stream)
{
    with_float(of.to, [&](auto zero) {
        typedef decltype(zero) T;
        launch_lines<WARP>(stream, lines{of.loops * of.batch * of.rows, of.features, 1},
                           round_sums<T>{of, static_cast<const float *>(from), static_cast<T *>(to)});
    });
}

} // namespace iso_cuda
