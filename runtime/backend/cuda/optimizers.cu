/* The updates of the optimizers: one kernel for all variables of a bucket. The rules are those of
 * runtime/backend/rules.h, with the same bits as the reference kernels. */
#include <cstring>

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/backend/fault.h"
#include "runtime/backend/rules.h"

namespace
{

using namespace iso_cuda;

enum { MOST_RUNS = 64, MOST_SLOTS = ISO_MAX_OPTIMIZER_SLOTS, PACKS_OF_A_THREAD = 4 };

/* An argument of a kernel has up to 4096 bytes. */
struct bucket {
    const iso_rates *rates; /* NULL: of no step; `hyper` counts */
    const double *faults, *hyper;
    int n_runs;
    unsigned first_block[MOST_RUNS + 1];
    iso_optimizer_run runs[MOST_RUNS];
};

enum rule {
#define RULE(name, NAME) RULE_##name,
    ISO_RULES(RULE)
#undef RULE
};

/* `count` elements at the addresses, with numbers of a step. */
#define UPDATE_CASE(name, NAME)                                                                              \
    case RULE_##name: {                                                                                      \
        ISO_##NAME##_SETTINGS(T) for (int i = 0; i < count; i++) ISO_##NAME##_ELEMENT(T, sqrt_of)            \
    } break;

template <class T>
__device__ __forceinline__ void update(rule of, int count, T *weights, T *const *slots, const T *gradient,
                                       const double *hyper)
{
    switch (of) {
        ISO_RULES(UPDATE_CASE)
    }
}

template <class T, int WIDTH>
__device__ void update_pack(rule of, const iso_optimizer_run &run, int64_t first, const double *hyper)
{
    typedef pack<T, WIDTH> pack_type;
    T *weights = static_cast<T *>(run.weights) + first, *places[MOST_SLOTS];
    pack_type w = *reinterpret_cast<pack_type *>(weights), slot[MOST_SLOTS];
    pack_type g = *reinterpret_cast<const pack_type *>(static_cast<const T *>(run.gradient) + first);
    for (int k = 0; k < MOST_SLOTS; k++) {
        places[k] = slot[k].at;
        if (run.slots[k])
            slot[k] = *reinterpret_cast<const pack_type *>(static_cast<const T *>(run.slots[k]) + first);
    }
    update(of, WIDTH, w.at, places, g.at, hyper);
    *reinterpret_cast<pack_type *>(weights) = w;
    for (int k = 0; k < MOST_SLOTS; k++)
        if (run.slots[k])
            *reinterpret_cast<pack_type *>(static_cast<T *>(run.slots[k]) + first) = slot[k];
}

__device__ bool aligned_run(const iso_optimizer_run &run)
{
    uintptr_t all = reinterpret_cast<uintptr_t>(run.weights) | reinterpret_cast<uintptr_t>(run.gradient);
    for (int k = 0; k < MOST_SLOTS; k++)
        all |= reinterpret_cast<uintptr_t>(run.slots[k]);
    return all % 16 == 0;
}

template <class T> __host__ __device__ constexpr int64_t elements_of_block()
{
    return static_cast<int64_t>(BLOCK) * PACKS_OF_A_THREAD * (16 / sizeof(T));
}

template <class T> __global__ void __launch_bounds__(BLOCK) update_kernel(rule of, bucket b)
{
    enum { WIDTH = 16 / sizeof(T) };
    if (b.rates && (!b.rates->apply || (b.faults && iso_step_faults(*b.faults) != 0)))
        return;
    const double *hyper = b.rates ? b.rates->hyper : b.hyper;
    int number = 0;
    while (blockIdx.x >= b.first_block[number + 1])
        number++;
    const iso_optimizer_run run = b.runs[number];
    const bool packs = aligned_run(run);
    const int64_t begin = (blockIdx.x - b.first_block[number]) * elements_of_block<T>();
    for (int part = 0; part < PACKS_OF_A_THREAD; part++) {
        int64_t first = begin + (static_cast<int64_t>(part) * BLOCK + threadIdx.x) * WIDTH;
        if (packs && first + WIDTH <= run.count)
            update_pack<T, WIDTH>(of, run, first, hyper);
        else
            for (int64_t i = first; i < run.count && i < first + WIDTH; i++)
                update_pack<T, 1>(of, run, i, hyper);
    }
}

template <class T>
void queue_runs(rule of, bucket *b, const iso_optimizer_run *runs, int n_runs, const iso_stream *stream)
{
    for (int done = 0; done < n_runs; done += b->n_runs) {
        b->n_runs = n_runs - done < MOST_RUNS ? n_runs - done : static_cast<int>(MOST_RUNS);
        b->first_block[0] = 0;
        for (int i = 0; i < b->n_runs; i++) {
            b->runs[i] = runs[done + i];
            int64_t blocks = ceil_of(b->runs[i].count, elements_of_block<T>());
            b->first_block[i + 1] = b->first_block[i] + static_cast<unsigned>(blocks);
        }
        launch(update_kernel<T>, b->first_block[b->n_runs], BLOCK, 0, iso_cuda_stream_of(stream), of, *b);
    }
}

/* What stands for a rule in an iso_optimizer_call. As a function it updates in the default stream; hyper is
 * memory of the device. */
template <class T, rule OF>
void run_alone(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    iso_optimizer_run run = {n, w, {}, g};
    memcpy(run.slots, slots, sizeof run.slots);
    bucket b = {};
    b.hyper = hyper;
    queue_runs<T>(OF, &b, &run, 1, nullptr);
}

struct rule_entry {
    const char *name;
    rule of;
    iso_rule_run f32, f64;
};

const rule_entry entries[] = {
#define RULE(name, NAME) {#name, RULE_##name, run_alone<float, RULE_##name>, run_alone<double, RULE_##name>},
    ISO_RULES(RULE)
#undef RULE
};

} // namespace

iso_rule_run iso_cuda_optimizer(const char *rule, iso_dtype dtype)
{
    for (const rule_entry &entry : entries)
        if (strcmp(entry.name, rule) == 0)
            return dtype == ISO_F32 ? entry.f32 : dtype == ISO_F64 ? entry.f64 : nullptr;
    return nullptr;
}

void iso_cuda_optimize(const iso_optimizer_call *call, iso_stream *stream)
{
    bucket b = {};
    b.rates = call->rates;
    b.faults = call->faults;
    for (const rule_entry &entry : entries) {
        if (call->rule == entry.f32)
            queue_runs<float>(entry.of, &b, call->runs, call->n_runs, stream);
        else if (call->rule == entry.f64)
            queue_runs<double>(entry.of, &b, call->runs, call->n_runs, stream);
    }
}
