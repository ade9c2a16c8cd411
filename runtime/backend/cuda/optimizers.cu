/* The updates of the optimizers: one kernel for all variables of a step, from a table in the device's memory. The rules
 * are those of runtime/backend/update_rules.h, with the same bits as the reference kernels. */
#include <cstring>

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/backend/fault.h"
#include "runtime/backend/update_rules.h"

namespace
{

using namespace iso_cuda;

enum { MOST_SLOTS = ISO_MAX_OPTIMIZER_SLOTS, PACKS_OF_A_THREAD = 4 };

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

template <rule OF, class T>
__device__ __forceinline__ void update(int count, T *weights, T *const *slots, const T *gradient,
                                       const double *hyper)
{
    switch (OF) {
        ISO_RULES(UPDATE_CASE)
    }
}

template <rule OF, class T, int WIDTH>
__device__ __forceinline__ void update_pack(const iso_optimizer_run &run, int64_t first, const double *hyper)
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
    update<OF>(WIDTH, w.at, places, g.at, hyper);
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

/* A run, and where its blocks begin among those of the kernel. */
struct entry {
    unsigned first_block;
    rule of;
    const iso_rates *rates;
    const double *faults; /* NULL: there are none */
    iso_optimizer_run run;
};
static_assert(sizeof(entry) == ISO_CUDA_TABLE_ENTRY, "the size of an entry");

/* The elements of one block. hyper is read once: for the compiler, each store might change it. */
template <rule OF, class T>
__device__ __forceinline__ void update_elements(const iso_optimizer_run &run, int64_t block,
                                                const double *hyper)
{
    enum { WIDTH = 16 / sizeof(T) };
    const bool packs = aligned_run(run);
    const int64_t begin = block * elements_of_block<T>();
    double kept[ISO_MAX_HYPER];
    for (int i = 0; i < ISO_MAX_HYPER; i++)
        kept[i] = hyper[i];
    for (int part = 0; part < PACKS_OF_A_THREAD; part++) {
        int64_t first = begin + (static_cast<int64_t>(part) * BLOCK + threadIdx.x) * WIDTH;
        if (packs && first + WIDTH <= run.count)
            update_pack<OF, T, WIDTH>(run, first, kept);
        else
            for (int64_t i = first; i < run.count && i < first + WIDTH; i++)
                update_pack<OF, T, 1>(run, i, kept);
    }
}

template <class T>
__device__ void update_block(rule of, const iso_optimizer_run &run, int64_t block, const double *hyper)
{
    switch (of) {
#define RULE(name, NAME)                                                                                     \
    case RULE_##name:                                                                                        \
        update_elements<RULE_##name, T>(run, block, hyper);                                                  \
        break;
        ISO_RULES(RULE)
#undef RULE
    }
}

/* The last entry of `count` that begins at this block or before it: entries without blocks are passed over. */
__device__ int find_entry(const entry *table, int count)
{
    int first = 0;
    for (int left = count; left > 1;) {
        int half = left / 2;
        if (table[first + half].first_block <= blockIdx.x)
            first += half, left -= half;
        else
            left = half;
    }
    return first;
}

/* 0: no bound. With double the compiler would otherwise spill registers, to have room for 3 blocks. */
template <class T>
__global__ void __launch_bounds__(BLOCK, sizeof(T) == sizeof(float) ? 0 : 2)
    update_kernel(const entry *table, int count)
{
    const entry found = table[find_entry(table, count)];
    if (!found.rates->apply || (found.faults && iso_step_faults(*found.faults) != 0))
        return;
    update_block<T>(found.of, found.run, blockIdx.x - found.first_block, found.rates->hyper);
}

template <class T>
__global__ void __launch_bounds__(BLOCK)
    update_alone_kernel(rule of, iso_optimizer_run run, const double *hyper)
{
    update_block<T>(of, run, blockIdx.x, hyper);
}

template <class T> unsigned blocks_of_run(const iso_optimizer_run &run)
{
    return static_cast<unsigned>(ceil_of(run.count, elements_of_block<T>()));
}

/* The function that stands for a rule in an iso_optimizer_call. As a function it updates in the default stream;
 * hyper is memory of the device. */
template <class T, rule OF>
void run_alone(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    iso_optimizer_run run = {n, w, {}, g};
    memcpy(run.slots, slots, sizeof run.slots);
    launch(update_alone_kernel<T>, blocks_of_run<T>(run), BLOCK, 0, nullptr, OF, run, hyper);
}

struct rule_entry {
    const char *name;
    rule of;
    iso_rule_run f32, f64;
};

const rule_entry rules[] = {
#define RULE(name, NAME) {#name, RULE_##name, run_alone<float, RULE_##name>, run_alone<double, RULE_##name>},
    ISO_RULES(RULE)
#undef RULE
};

const rule_entry *find_rule(iso_rule_run run)
{
    for (const rule_entry &of : rules)
        if (run == of.f32 || run == of.f64)
            return &of;
    return nullptr;
}

/* ---- the table of a step ---- */

/* Adds the runs of the calls whose elements are T. Returns the number of blocks. */
template <class T> unsigned fill_table(const iso_optimizer_call *calls, int n_calls, entry *table, int *count)
{
    unsigned blocks = 0;
    *count = 0;
    for (int i = 0; i < n_calls; i++) {
        const rule_entry *of = find_rule(calls[i].rule);
        if (!of || calls[i].rule != (sizeof(T) == sizeof(float) ? of->f32 : of->f64))
            continue;
        for (int r = 0; r < calls[i].n_runs; r++) {
            table[(*count)++] = {blocks, of->of, calls[i].rates, calls[i].faults, calls[i].runs[r]};
            blocks += blocks_of_run<T>(calls[i].runs[r]);
        }
    }
    return blocks;
}

/* Copies a table to the device. One that the stream has not taken is forgotten, so the next step sends it again. */
bool send_table(iso_stream *stream, entry *there, entry *sent, size_t bytes)
{
    if (!stream)
        return true;
    stream->device->copy(stream, there, sent, bytes);
    bool taken = stream->device->check(stream) == ISO_OK;
    if (!taken)
        memset(sent, 0, bytes);
    return taken;
}

/* Without its table a kernel would read addresses that are none. */
template <class T>
void queue_table(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table, iso_stream *stream,
                 size_t *used)
{
    entry *sent = static_cast<entry *>(table->host) + *used, *fresh = sent + table->bytes / sizeof(entry),
          *there = static_cast<entry *>(table->device) + *used;
    int count;
    unsigned blocks = fill_table<T>(calls, n_calls, fresh, &count);
    *used += static_cast<size_t>(count);
    size_t bytes = static_cast<size_t>(count) * sizeof(entry);
    if (count > 0 && memcmp(sent, fresh, bytes) != 0) {
        memcpy(sent, fresh, bytes);
        if (!send_table(stream, there, sent, bytes))
            return;
    }
    launch(update_kernel<T>, blocks, BLOCK, 0, iso_cuda_stream_of(stream), stream ? there : sent, count);
}

} // namespace

iso_rule_run iso_cuda_optimizer(const char *rule, iso_dtype dtype)
{
    for (const rule_entry &of : rules)
        if (strcmp(of.name, rule) == 0)
            return dtype == ISO_F32 ? of.f32 : dtype == ISO_F64 ? of.f64 : nullptr;
    return nullptr;
}

/* The table is the same in each step, so it is seldom copied to the device. */
void iso_cuda_optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                       iso_stream *stream)
{
    size_t used = 0;
    queue_table<float>(calls, n_calls, table, stream, &used);
    queue_table<double>(calls, n_calls, table, stream, &used);
}
