/* The update rules of the optimizers, element by element, in the order of Keras's operations: written once
 * for the backends whose kernels are plain loops. The files of graph/optimizers give the formulas and say
 * what slots and hyper hold.
 *
 * For each rule, SETTINGS declares what is the same for all elements, and ELEMENT updates element i. They
 * take the type T and its square root, and use the arguments of a kernel: weights, slots, gradient, hyper
 * (iso_rule_run). No pointer to a slot depends on hyper: kernels of a GPU have the slots' elements in registers,
 * which have no addresses. */
#ifndef ISO_BACKEND_UPDATE_RULES_H
#define ISO_BACKEND_UPDATE_RULES_H

#include "runtime/graph/optimizers/rule.h"

/* RULE(name, NAME): every rule that has a kernel. */
// clang-format off
#define ISO_RULES(RULE) \
    RULE(sgd, SGD) \
    RULE(rmsprop, RMSPROP) \
    RULE(adam, ADAM) \
    RULE(adagrad, ADAGRAD) \
    RULE(nadam, NADAM) \
    RULE(lion, LION) \
    RULE(adamax, ADAMAX) \
    RULE(adadelta, ADADELTA) \
    RULE(ftrl, FTRL) \
    RULE(average, AVERAGE)
// clang-format on

#define ISO_SGD_SETTINGS(T)                                                                                  \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T momentum = (T)hyper[ISO_HYPER_OWN];                                                              \
    const bool nesterov = hyper[ISO_HYPER_OWN + 1] != 0;                                                     \
    const bool has_m = momentum != 0;                                                                        \
    T *w = (T *)weights, *m = (T *)slots[0];                                                                 \
    const T *g = (const T *)gradient;
#define ISO_SGD_ELEMENT(T, SQRT)                                                                             \
    {                                                                                                        \
        T x = w[i] - w[i] * decay, step = -(g[i] * rate);                                                    \
        if (has_m) {                                                                                         \
            m[i] = m[i] * momentum + step;                                                                   \
            step = nesterov ? m[i] * momentum + step : m[i];                                                 \
        }                                                                                                    \
        w[i] = x + step;                                                                                     \
    }

/* Without momentum, m is the slot of the gradient's mean, which follows v. */
#define ISO_RMSPROP_SETTINGS(T)                                                                              \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T rho = (T)hyper[ISO_HYPER_OWN], rest = (T)(1 - hyper[ISO_HYPER_OWN]);                             \
    const T momentum = (T)hyper[ISO_HYPER_OWN + 1], epsilon = (T)hyper[ISO_HYPER_OWN + 2];                   \
    const bool has_m = momentum > 0, has_a = hyper[ISO_HYPER_OWN + 3] != 0;                                  \
    T *w = (T *)weights, *v = (T *)slots[0], *m = (T *)slots[1], *a = (T *)slots[2];                         \
    const T *g = (const T *)gradient;
#define ISO_RMSPROP_ELEMENT(T, SQRT)                                                                         \
    {                                                                                                        \
        T x = w[i] - w[i] * decay, below;                                                                    \
        v[i] = rho * v[i] + rest * (g[i] * g[i]);                                                            \
        below = v[i];                                                                                        \
        if (has_a) {                                                                                         \
            T mean = rho * (has_m ? a[i] : m[i]) + rest * g[i];                                              \
            if (has_m)                                                                                       \
                a[i] = mean;                                                                                 \
            else                                                                                             \
                m[i] = mean;                                                                                 \
            below -= mean * mean;                                                                            \
        }                                                                                                    \
        T step = rate * g[i] / SQRT(below + epsilon);                                                        \
        if (has_m)                                                                                           \
            step = m[i] = momentum * m[i] + step;                                                            \
        w[i] = x - step;                                                                                     \
    }

#define ISO_ADAM_SETTINGS(T)                                                                                 \
    const T alpha = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                             \
    const T rest_1 = (T)hyper[ISO_HYPER_OWN], rest_2 = (T)hyper[ISO_HYPER_OWN + 1];                          \
    const T epsilon = (T)hyper[ISO_HYPER_OWN + 2];                                                           \
    const bool has_u = hyper[ISO_HYPER_OWN + 3] != 0;                                                        \
    T *w = (T *)weights, *m = (T *)slots[0], *v = (T *)slots[1], *u = (T *)slots[2];                         \
    const T *g = (const T *)gradient;
#define ISO_ADAM_ELEMENT(T, SQRT)                                                                            \
    {                                                                                                        \
        T x = w[i] - w[i] * decay;                                                                           \
        m[i] += (g[i] - m[i]) * rest_1;                                                                      \
        v[i] += (g[i] * g[i] - v[i]) * rest_2;                                                               \
        T size = v[i];                                                                                       \
        if (has_u)                                                                                           \
            size = u[i] = u[i] > size ? u[i] : size;                                                         \
        w[i] = x - m[i] * alpha / (SQRT(size) + epsilon);                                                    \
    }

#define ISO_ADAGRAD_SETTINGS(T)                                                                              \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T epsilon = (T)hyper[ISO_HYPER_OWN + 1];                                                           \
    T *w = (T *)weights, *a = (T *)slots[0];                                                                 \
    const T *g = (const T *)gradient;
#define ISO_ADAGRAD_ELEMENT(T, SQRT)                                                                         \
    {                                                                                                        \
        T x = w[i] - w[i] * decay;                                                                           \
        a[i] += g[i] * g[i];                                                                                 \
        w[i] = x - rate * g[i] / SQRT(a[i] + epsilon);                                                       \
    }

#define ISO_NADAM_SETTINGS(T)                                                                                \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T rest_1 = (T)hyper[ISO_HYPER_OWN], rest_2 = (T)hyper[ISO_HYPER_OWN + 1];                          \
    const T epsilon = (T)hyper[ISO_HYPER_OWN + 2], of_m = (T)hyper[ISO_HYPER_OWN + 3];                       \
    const T of_g = (T)hyper[ISO_HYPER_OWN + 4], of_v = (T)hyper[ISO_HYPER_OWN + 5];                          \
    T *w = (T *)weights, *m = (T *)slots[0], *v = (T *)slots[1];                                             \
    const T *g = (const T *)gradient;
#define ISO_NADAM_ELEMENT(T, SQRT)                                                                           \
    {                                                                                                        \
        T x = w[i] - w[i] * decay;                                                                           \
        m[i] += (g[i] - m[i]) * rest_1;                                                                      \
        v[i] += (g[i] * g[i] - v[i]) * rest_2;                                                               \
        w[i] = x - (m[i] * of_m + g[i] * of_g) * rate / (SQRT(v[i] * of_v) + epsilon);                       \
    }

/* If the sum is NaN, so is the weight. */
#define ISO_LION_SETTINGS(T)                                                                                 \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T beta_1 = (T)hyper[ISO_HYPER_OWN], beta_2 = (T)hyper[ISO_HYPER_OWN + 1];                          \
    const T rest_1 = (T)hyper[ISO_HYPER_OWN + 2], rest_2 = (T)hyper[ISO_HYPER_OWN + 3];                      \
    T *w = (T *)weights, *m = (T *)slots[0];                                                                 \
    const T *g = (const T *)gradient;
#define ISO_LION_ELEMENT(T, SQRT)                                                                            \
    {                                                                                                        \
        T x = w[i] - w[i] * decay, sum = m[i] * beta_1 + g[i] * rest_1;                                      \
        w[i] = x - (sum > 0 ? rate : sum < 0 ? -rate : sum);                                                 \
        m[i] = m[i] * beta_2 + g[i] * rest_2;                                                                \
    }

#define ISO_ADAMAX_SETTINGS(T)                                                                               \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T rest_1 = (T)hyper[ISO_HYPER_OWN], beta_2 = (T)hyper[ISO_HYPER_OWN + 1];                          \
    const T epsilon = (T)hyper[ISO_HYPER_OWN + 2], share = (T)hyper[ISO_HYPER_OWN + 3];                      \
    T *w = (T *)weights, *m = (T *)slots[0], *u = (T *)slots[1];                                             \
    const T *g = (const T *)gradient;
#define ISO_ADAMAX_ELEMENT(T, SQRT)                                                                          \
    {                                                                                                        \
        T x = w[i] - w[i] * decay, size = g[i] < 0 ? -g[i] : g[i];                                           \
        m[i] += (g[i] - m[i]) * rest_1;                                                                      \
        u[i] = u[i] * beta_2 > size ? u[i] * beta_2 : size;                                                  \
        w[i] = x - rate * m[i] / (share * (u[i] + epsilon));                                                 \
    }

#define ISO_ADADELTA_SETTINGS(T)                                                                             \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const T rho = (T)hyper[ISO_HYPER_OWN], rest = (T)(1 - hyper[ISO_HYPER_OWN]);                             \
    const T epsilon = (T)hyper[ISO_HYPER_OWN + 1];                                                           \
    T *w = (T *)weights, *a = (T *)slots[0], *d = (T *)slots[1];                                             \
    const T *g = (const T *)gradient;
#define ISO_ADADELTA_ELEMENT(T, SQRT)                                                                        \
    {                                                                                                        \
        T x = w[i] - w[i] * decay;                                                                           \
        a[i] = rho * a[i] + rest * (g[i] * g[i]);                                                            \
        T step = SQRT(d[i] + epsilon) * g[i] / SQRT(a[i] + epsilon);                                         \
        d[i] = rho * d[i] + rest * (step * step);                                                            \
        w[i] = x - rate * step;                                                                              \
    }

/* The hyper after the power and the initial accumulator: l1, l2, l2 shrinkage, beta. */
#define ISO_FTRL_SETTINGS(T)                                                                                 \
    const T rate = (T)hyper[ISO_HYPER_RATE], decay = (T)hyper[ISO_HYPER_DECAY];                              \
    const double power = -hyper[ISO_HYPER_OWN];                                                              \
    const bool root = power == 0.5;                                                                          \
    const T l1 = (T)hyper[ISO_HYPER_OWN + 2], shrinkage = (T)(2 * hyper[ISO_HYPER_OWN + 4]);                 \
    const T l2 = 2 * ((T)hyper[ISO_HYPER_OWN + 3] + (T)hyper[ISO_HYPER_OWN + 5] / (2 * rate));               \
    T *w = (T *)weights, *a = (T *)slots[0], *l = (T *)slots[1];                                             \
    const T *g = (const T *)gradient;
#define ISO_FTRL_ELEMENT(T, SQRT)                                                                            \
    {                                                                                                        \
        T x = w[i] - w[i] * decay, total = a[i] + g[i] * g[i];                                               \
        T above = root ? SQRT(total) : (T)pow((double)total, power);                                         \
        T below = root ? SQRT(a[i]) : (T)pow((double)a[i], power);                                           \
        T sum = l[i] + (g[i] + shrinkage * x - (above - below) / rate * x);                                  \
        T kept = sum > l1 ? l1 : sum < -l1 ? -l1 : sum;                                                      \
        w[i] = (kept - sum) / (above / rate + l2);                                                           \
        l[i] = sum;                                                                                          \
        a[i] = total;                                                                                        \
    }

/* ISO_AVERAGE_KERNEL, which has no gradient. */
#define ISO_AVERAGE_SETTINGS(T)                                                                              \
    const T momentum = (T)hyper[ISO_HYPER_MOMENTUM], rest = 1 - momentum;                                    \
    const bool overwrites = hyper[ISO_HYPER_OVERWRITE] != 0;                                                 \
    T *w = (T *)weights, *a = (T *)slots[0];                                                                 \
    (void)gradient;
#define ISO_AVERAGE_ELEMENT(T, SQRT)                                                                         \
    {                                                                                                        \
        a[i] = momentum * a[i] + rest * w[i];                                                                \
        if (overwrites)                                                                                      \
            w[i] = a[i];                                                                                     \
    }

#endif
