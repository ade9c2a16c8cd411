/* Attention: a warp has a query, or in a part of the gradient a key. Its lanes compute the weights of 32
 * keys (or queries) at a time, which they then take in turn, each lane adding to features of its own. Scores
 * are computed again where they are needed. */
#include "runtime/backend/attention.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/base/random.h"

namespace
{

using namespace iso_cuda;

enum { FEATURES = 4 /* of a lane, in one pass */, PASS = FEATURES * WARP };

/* The sums of a query, once its weights have been computed. */
template <class C> struct query_sums {
    C largest, sum; /* of the scores; of exp(score - largest) */
    C mean;         /* of the gradients of the weights, weighted */
};

/* Rows of features in memory: of `count` keys or queries, `step` elements apart. */
struct rows_at {
    reals x;
    int64_t first, step;
};

template <class C> struct attention {
    iso_array query; /* for the numbers of weights */
    reals q, k, v, dy;
    const uint8_t *mask;
    int64_t mask_heads, groups, heads, rows, keys, k_features, v_features, first_row;
    iso_attention_attrs attrs;
    const iso_step_info *info;

    /* The first feature of a row of a head, in an array [groups, n, heads, features]. */
    __device__ int64_t place(int64_t group, int64_t n, int64_t row, int64_t head, int64_t features) const
    {
        return ((group * n + row) * heads + head) * features;
    }
    /* The rows of a head in such an array. */
    __device__ rows_at rows_of(const reals &x, int64_t group, int64_t n, int64_t head, int64_t features) const
    {
        return {x, place(group, n, 0, head, features), heads * features};
    }
    __device__ static C product(const reals &a, int64_t i, const reals &b, int64_t j, int64_t count)
    {
        C sum = 0;
        for (int64_t c = 0; c < count; c++)
            sum = fused(a.get<C>(i + c), b.get<C>(j + c), sum);
        return sum;
    }
    __device__ bool unmasked(int64_t group, int64_t head, int64_t row, int64_t key) const
    {
        int64_t own = mask_heads == 1 ? 0 : head;
        return !mask || mask[((group * mask_heads + own) * rows + row) * keys + key];
    }
    __device__ bool sees(int64_t group, int64_t head, int64_t row, int64_t key) const
    {
        int64_t begin, end;
        iso_band_columns(&attrs.band, first_row + row, keys, &begin, &end);
        return key >= begin && key < end && unmasked(group, head, row, key);
    }
    __device__ C score(int64_t group, int64_t head, int64_t row, int64_t key) const
    {
        if (!sees(group, head, row, key))
            return static_cast<C>(attrs.band.fill);
        return static_cast<C>(attrs.scale) * product(q, place(group, rows, row, head, k_features), k,
                                                     place(group, keys, key, head, k_features), k_features);
    }
    /* A weight, or the gradient of one, after dropout. */
    __device__ C drop(int64_t group, int64_t head, int64_t row, int64_t key, C x) const
    {
        if (attrs.zero_masked && !unmasked(group, head, row, key))
            return 0;
        if (attrs.dropout.threshold == 0)
            return x;
        uint64_t number = iso_attention_number(&query, keys, group, head, row) + static_cast<uint64_t>(key);
        uint32_t word = iso_random_word(attrs.dropout.key, info->step, number);
        return word >> 8 >= attrs.dropout.threshold ? x * static_cast<C>(attrs.dropout.scale) : C(0);
    }
    /* The gradient of a weight. */
    __device__ C weight_gradient(int64_t group, int64_t head, int64_t row, int64_t key) const
    {
        C slope = product(dy, place(group, rows, row, head, v_features), v,
                          place(group, keys, key, head, v_features), v_features);
        return drop(group, head, row, key, slope);
    }
};

/* The place of a line: [groups, heads, rows or keys]. */
struct position {
    int64_t group, head, row;
};
__device__ position position_of(int64_t number, int64_t heads, int64_t rows)
{
    int64_t rest = number / rows;
    return {rest / heads, rest % heads, number - rest * rows};
}

/* Adds to each lane's sums the features [first, first + PASS) of `count` rows of x from row `begin` on, times the
 * factor that the lane of the row gives. */
template <class C>
__device__ void add_rows(C *sum, C factor, const rows_at &of, int64_t begin, int64_t count, int64_t first,
                         int64_t features)
{
    __shared__ C factors[BLOCK];
    const C *own = factors + threadIdx.x / WARP * WARP;
    factors[threadIdx.x] = factor;
    __syncwarp();
    for (int64_t n = 0; n < WARP && begin + n < count; n++)
        for (int f = 0; f < FEATURES; f++) {
            int64_t c = first + f * WARP + member<WARP>();
            if (c < features)
                sum[f] = fused(own[n], of.x.template get<C>(of.first + (begin + n) * of.step + c), sum[f]);
        }
    __syncwarp(); /* the factors have been read */
}

template <class C>
__device__ void put_features(const C *sum, const reals &y, int64_t row, int64_t first, int64_t features)
{
    for (int f = 0; f < FEATURES; f++) {
        int64_t c = first + f * WARP + member<WARP>();
        if (c < features)
            y.put(row + c, sum[f]);
    }
}

template <class C> __device__ query_sums<C> look_at(const attention<C> &a, position at, bool gradient)
{
    C largest = -INFINITY;
    double sum = 0, mean = 0;
    for (int64_t key = member<WARP>(); key < a.keys; key += WARP)
        largest = max_of::join(largest, a.score(at.group, at.head, at.row, key));
    largest = join<WARP, max_of>(largest);
    for (int64_t key = member<WARP>(); key < a.keys; key += WARP) {
        C e = exp_of(a.score(at.group, at.head, at.row, key) - largest);
        sum += e;
        if (gradient)
            mean += static_cast<double>(e) * a.weight_gradient(at.group, at.head, at.row, key);
    }
    sum = join<WARP, sum_of>(sum);
    return {largest, static_cast<C>(sum), static_cast<C>(join<WARP, sum_of>(mean) / sum)};
}

/* The weight of a key for a query, and the gradient of its score. */
template <class C>
__device__ C weight_of(const attention<C> &a, const query_sums<C> &s, position at, int64_t key)
{
    return exp_of(a.score(at.group, at.head, at.row, key) - s.largest) / s.sum;
}
template <class C>
__device__ C score_gradient(const attention<C> &a, const query_sums<C> &s, position at, int64_t key)
{
    if (!a.sees(at.group, at.head, at.row, key))
        return 0;
    C slope = a.weight_gradient(at.group, at.head, at.row, key) - s.mean;
    return weight_of(a, s, at, key) * slope * static_cast<C>(a.attrs.scale);
}

template <class C> struct forward {
    attention<C> a;
    reals y;
    template <int L> __device__ void run(line of) const
    {
        position at = position_of(of.row, a.heads, a.rows);
        query_sums<C> s = look_at(a, at, false);
        rows_at values = a.rows_of(a.v, at.group, a.keys, at.head, a.v_features);
        for (int64_t first = 0; first < a.v_features; first += PASS) {
            C sum[FEATURES] = {};
            for (int64_t begin = 0; begin < a.keys; begin += WARP) {
                int64_t key = begin + member<WARP>();
                bool any = key < a.keys;
                C weight = any ? a.drop(at.group, at.head, at.row, key, weight_of(a, s, at, key)) : C(0);
                add_rows(sum, weight, values, begin, a.keys, first, a.v_features);
            }
            put_features(sum, y, a.place(at.group, a.rows, at.row, at.head, a.v_features), first,
                         a.v_features);
        }
    }
};

/* dq; the sums of each query are kept. */
template <class C> struct query_gradient {
    attention<C> a;
    reals dq;
    query_sums<C> *kept;
    template <int L> __device__ void run(line of) const
    {
        position at = position_of(of.row, a.heads, a.rows);
        query_sums<C> s = look_at(a, at, true);
        if (member<WARP>() == 0)
            kept[of.row] = s;
        rows_at key_rows = a.rows_of(a.k, at.group, a.keys, at.head, a.k_features);
        for (int64_t first = 0; first < a.k_features; first += PASS) {
            C sum[FEATURES] = {};
            for (int64_t begin = 0; begin < a.keys; begin += WARP) {
                int64_t key = begin + member<WARP>();
                bool any = key < a.keys;
                C slope = any ? score_gradient(a, s, at, key) : C(0);
                add_rows(sum, slope, key_rows, begin, a.keys, first, a.k_features);
            }
            put_features(sum, dq, a.place(at.group, a.rows, at.row, at.head, a.k_features), first,
                         a.k_features);
        }
    }
};

/* dk from the gradients of the scores, or dv from the weights: sums over the queries. */
template <class C> struct key_gradient {
    attention<C> a;
    reals out, rows_of; /* dk and q, or dv and dy */
    int64_t features;
    const query_sums<C> *kept;
    bool of_values;
    __device__ C factor(position at, int64_t key) const
    {
        const query_sums<C> s = kept[(at.group * a.heads + at.head) * a.rows + at.row];
        if (of_values)
            return a.drop(at.group, at.head, at.row, key, weight_of(a, s, at, key));
        return score_gradient(a, s, at, key);
    }
    template <int L> __device__ void run(line of) const
    {
        position own = position_of(of.row, a.heads, a.keys);
        rows_at others = a.rows_of(rows_of, own.group, a.rows, own.head, features);
        for (int64_t first = 0; first < features; first += PASS) {
            C sum[FEATURES] = {};
            for (int64_t begin = 0; begin < a.rows; begin += WARP) {
                int64_t row = begin + member<WARP>();
                bool any = row < a.rows;
                C of_row = any ? factor({own.group, own.head, row}, own.row) : C(0);
                add_rows(sum, of_row, others, begin, a.rows, first, features);
            }
            put_features(sum, out, a.place(own.group, a.keys, own.row, own.head, features), first, features);
        }
    }
};

template <class C> attention<C> attention_of(const iso_kernel_call *call)
{
    const iso_attention of = iso_attention_of(call);
    const iso_array &q = call->in[ISO_ATTENTION_QUERY], &mask = call->in[ISO_ATTENTION_MASK];
    attention<C> a = {};
    a.query = q;
    a.q = reals_of(q);
    a.k = reals_of(call->in[ISO_ATTENTION_KEY]);
    a.v = reals_of(call->in[ISO_ATTENTION_VALUE]);
    a.dy = reals_of(call->in[call->n_inputs - 1]);
    a.mask = of.attrs->has_mask ? static_cast<const uint8_t *>(mask.data) : nullptr;
    a.mask_heads = of.attrs->has_mask ? mask.dim[1] : 1;
    a.groups = of.groups, a.heads = of.heads, a.rows = of.rows, a.keys = of.keys;
    a.k_features = of.k, a.v_features = of.v, a.first_row = of.first_row;
    a.attrs = *of.attrs;
    a.info = call->info;
    return a;
}

template <class F> void for_warps(const iso_kernel_call *call, int64_t count, F f)
{
    launch_lines<WARP>(call->stream, lines{count, 1, 1}, f);
}

void run_attention(const iso_kernel_call *call)
{
    with_compute(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) C;
        attention<C> a = attention_of<C>(call);
        for_warps(call, a.groups * a.heads * a.rows, forward<C>{a, reals_of(call->out[0])});
    });
}

size_t gradient_scratch(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    return static_cast<size_t>(a.groups * a.heads * a.rows) * sizeof(query_sums<double>);
}

void run_gradient(const iso_kernel_call *call)
{
    with_compute(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) C;
        attention<C> a = attention_of<C>(call);
        query_sums<C> *kept = static_cast<query_sums<C> *>(call->scratch);
        const int64_t queries = a.groups * a.heads * a.rows, keys = a.groups * a.heads * a.keys;
        for_warps(call, queries, query_gradient<C>{a, reals_of(call->out[0]), kept});
        for_warps(call, keys, key_gradient<C>{a, reals_of(call->out[1]), a.q, a.k_features, kept, false});
        for_warps(call, keys, key_gradient<C>{a, reals_of(call->out[2]), a.dy, a.v_features, kept, true});
    });
}

} // namespace

ISO_CUDA_KERNEL(attention, run_attention, false)
ISO_CUDA_KERNEL_WITH(attention_grad, run_gradient, false, gradient_scratch)
