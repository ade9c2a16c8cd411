/* The update rules of the optimizers, element by element, in the order of Keras's operations. The files
 * of graph/optimizers give the formulas and say what slots and hyper hold. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/optimizers.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/graph/optimizers/rule.h"

#define SGD(T, SQRT)                                                                                         \
    {                                                                                                        \
        const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                          \
        const T momentum = (T)hyper[ISO_HYPER_OWN];                                                          \
        const bool nesterov = hyper[ISO_HYPER_OWN + 1] != 0;                                                 \
        T *w = weights, *m = momentum != 0 ? slots[0] : NULL;                                                \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay, step = -(g[i] * rate);                                                \
            if (m) {                                                                                         \
                m[i] = m[i] * momentum + step;                                                               \
                step = nesterov ? m[i] * momentum + step : m[i];                                             \
            }                                                                                                \
            w[i] = x + step;                                                                                 \
        }                                                                                                    \
    }

#define RMSPROP(T, SQRT)                                                                                     \
    {                                                                                                        \
        const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                          \
        const T rho = (T)hyper[ISO_HYPER_OWN], rest = (T)(1 - hyper[ISO_HYPER_OWN]);                         \
        const T momentum = (T)hyper[ISO_HYPER_OWN + 1], epsilon = (T)hyper[ISO_HYPER_OWN + 2];               \
        T *w = weights, *v = slots[0], *m = momentum > 0 ? slots[1] : NULL;                                  \
        T *a = hyper[ISO_HYPER_OWN + 3] != 0 ? slots[m ? 2 : 1] : NULL;                                      \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay, below;                                                                \
            v[i] = rho * v[i] + rest * (g[i] * g[i]);                                                        \
            below = v[i];                                                                                    \
            if (a) {                                                                                         \
                a[i] = rho * a[i] + rest * g[i];                                                             \
                below -= a[i] * a[i];                                                                        \
            }                                                                                                \
            T step = rate * g[i] / SQRT(below + epsilon);                                                    \
            if (m)                                                                                           \
                step = m[i] = momentum * m[i] + step;                                                        \
            w[i] = x - step;                                                                                 \
        }                                                                                                    \
    }

#define ADAM(T, SQRT)                                                                                        \
    {                                                                                                        \
        const T alpha = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                         \
        const T rest_1 = (T)hyper[ISO_HYPER_OWN], rest_2 = (T)hyper[ISO_HYPER_OWN + 1];                      \
        const T epsilon = (T)hyper[ISO_HYPER_OWN + 2];                                                       \
        T *w = weights, *m = slots[0], *v = slots[1], *u = hyper[ISO_HYPER_OWN + 3] != 0 ? slots[2] : NULL;  \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay;                                                                       \
            m[i] += (g[i] - m[i]) * rest_1;                                                                  \
            v[i] += (g[i] * g[i] - v[i]) * rest_2;                                                           \
            T size = v[i];                                                                                   \
            if (u)                                                                                           \
                size = u[i] = u[i] > size ? u[i] : size;                                                     \
            w[i] = x - m[i] * alpha / (SQRT(size) + epsilon);                                                \
        }                                                                                                    \
    }

#define ADAGRAD(T, SQRT)                                                                                     \
    {                                                                                                        \
        const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                          \
        const T epsilon = (T)hyper[ISO_HYPER_OWN + 1];                                                       \
        T *w = weights, *a = slots[0];                                                                       \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay;                                                                       \
            a[i] += g[i] * g[i];                                                                             \
            w[i] = x - rate * g[i] / SQRT(a[i] + epsilon);                                                   \
        }                                                                                                    \
    }

#define NADAM(T, SQRT)                                                                                       \
    {                                                                                                        \
        const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                          \
        const T rest_1 = (T)hyper[ISO_HYPER_OWN], rest_2 = (T)hyper[ISO_HYPER_OWN + 1];                      \
        const T epsilon = (T)hyper[ISO_HYPER_OWN + 2], of_m = (T)hyper[ISO_HYPER_OWN + 3];                   \
        const T of_g = (T)hyper[ISO_HYPER_OWN + 4], of_v = (T)hyper[ISO_HYPER_OWN + 5];                      \
        T *w = weights, *m = slots[0], *v = slots[1];                                                        \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay;                                                                       \
            m[i] += (g[i] - m[i]) * rest_1;                                                                  \
            v[i] += (g[i] * g[i] - v[i]) * rest_2;                                                           \
            w[i] = x - (m[i] * of_m + g[i] * of_g) * rate / (SQRT(v[i] * of_v) + epsilon);                   \
        }                                                                                                    \
    }

/* If the sum is NaN, so is the weight. */
#define LION(T, SQRT)                                                                                        \
    {                                                                                                        \
        const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                          \
        const T beta_1 = (T)hyper[ISO_HYPER_OWN], beta_2 = (T)hyper[ISO_HYPER_OWN + 1];                      \
        const T rest_1 = (T)hyper[ISO_HYPER_OWN + 2], rest_2 = (T)hyper[ISO_HYPER_OWN + 3];                  \
        T *w = weights, *m = slots[0];                                                                       \
        const T *g = gradient;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = w[i] - w[i] * decay, sum = m[i] * beta_1 + g[i] * rest_1;                                  \
            w[i] = x - (sum > 0 ? rate : sum < 0 ? -rate : sum);                                             \
            m[i] = m[i] * beta_2 + g[i] * rest_2;                                                            \
        }                                                                                                    \
    }

#define RULE(NAME, BODY)                                                                                     \
    static void NAME##_f32(int64_t n, void *weights, void *const *slots, const void *gradient,               \
                           const double *hyper)                                                              \
        BODY(float, sqrtf) static void NAME##_f64(int64_t n, void *weights, void *const *slots,              \
                                                  const void *gradient, const double *hyper)                 \
            BODY(double, sqrt)

RULE(sgd, SGD)
RULE(rmsprop, RMSPROP)
RULE(adam, ADAM)
RULE(adagrad, ADAGRAD)
RULE(nadam, NADAM)
RULE(lion, LION)

iso_rule_run iso_reference_optimizer(const char *rule, iso_dtype dtype)
{
#define KERNEL(with, name) {#name, name##_f32, name##_f64},
    static const struct {
        const char *name;
        iso_rule_run f32, f64;
    } kernels[] = {ISO_OPTIMIZER_KERNELS(KERNEL, )};
#undef KERNEL
    const char *name = iso_optimizer_kernel(rule);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return dtype == ISO_F32 ? kernels[i].f32 : dtype == ISO_F64 ? kernels[i].f64 : NULL;
    return NULL;
}
