/* The update rules of the optimizers as plain loops. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/update_rules.h"

#define LOOP(FUNCTION, NAME, T, SQRT)                                                                        \
    static void FUNCTION(int64_t n, void *weights, void *const *slots, const void *gradient,                 \
                         const double *hyper)                                                                \
    {                                                                                                        \
        ISO_##NAME##_SETTINGS(T) for (int64_t i = 0; i < n; i++) ISO_##NAME##_ELEMENT(T, SQRT)               \
    }
#define RULE(name, NAME) LOOP(name##_f32, NAME, float, sqrtf) LOOP(name##_f64, NAME, double, sqrt)
ISO_RULES(RULE)
#undef RULE

iso_rule_run iso_reference_optimizer(const char *rule, iso_dtype dtype)
{
#define RULE(name, NAME) {#name, name##_f32, name##_f64},
    static const struct {
        const char *name;
        iso_rule_run f32, f64;
    } kernels[] = {ISO_RULES(RULE)};
#undef RULE
    const char *name = iso_optimizer_kernel(rule);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return dtype == ISO_F32 ? kernels[i].f32 : dtype == ISO_F64 ? kernels[i].f64 : NULL;
    return NULL;
}
