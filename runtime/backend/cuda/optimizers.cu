/* The update rules of the optimizers (runtime/backend/rules.h). */
#include <cstring>

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/backend/fault.h"
#include "runtime/backend/rules.h"

namespace iso_cuda
{

/* What the kernel of a run takes: the rates are the device's, `faults` the host's. */
struct update {
    const iso_rates *rates;
    const double *faults;
    void *weights;
    void *slots[ISO_MAX_OPTIMIZER_SLOTS];
    const void *gradient;

    __device__ bool is_void() const
    {
        return !rates->apply || (faults && iso_step_faults(*faults) != 0);
    }
};

#define ISO_CUDA_RULE(NAME, RULE)                                                                            \
    template <class T> struct NAME##_update : update {                                                       \
        __device__ void operator()(int64_t i) const                                                          \
        {                                                                                                    \
            if (is_void())                                                                                   \
                return;                                                                                      \
            const double *hyper = rates->hyper;                                                              \
            ISO_##RULE##_SETTINGS(T) ISO_##RULE##_ELEMENT(T, sqrt_of)                                        \
        }                                                                                                    \
    };
ISO_RULES(ISO_CUDA_RULE)
#undef ISO_CUDA_RULE

typedef void run_update(const update &of, int64_t n, const iso_stream *stream);

template <class F> void run(const update &of, int64_t n, const iso_stream *stream)
{
    F f;
    static_cast<update &>(f) = of;
    for_each(stream, n, f);
}

const struct {
    const char *name;
    iso_dtype dtype;
    run_update *run;
} rules[] = {
#define ISO_CUDA_RULE(NAME, RULE)                                                                            \
    {#NAME, ISO_F32, run<NAME##_update<float>>}, {#NAME, ISO_F64, run<NAME##_update<double>>},
    ISO_RULES(ISO_CUDA_RULE)
#undef ISO_CUDA_RULE
};

} // namespace iso_cuda

using namespace iso_cuda;

/* The rule is the address of the function that queues it. */
iso_rule_run iso_cuda_optimizer(const char *rule, iso_dtype dtype)
{
    for (const auto &row : rules)
        if (row.dtype == dtype && std::strcmp(row.name, rule) == 0)
            return reinterpret_cast<iso_rule_run>(reinterpret_cast<void (*)()>(row.run));
    return nullptr;
}

void iso_cuda_optimize(const iso_optimizer_call *call, iso_stream *stream)
{
    run_update *queue = reinterpret_cast<run_update *>(reinterpret_cast<void (*)()>(call->rule));
    for (int i = 0; i < call->n_runs; i++) {
        const iso_optimizer_run *part = &call->runs[i];
        update of = {call->rates, call->faults, part->weights, {}, part->gradient};
        std::memcpy(of.slots, part->slots, sizeof of.slots);
        queue(of, part->count, stream);
    }
}
