/* Optimizers: their rules, as Keras 3.15 has them (keras/src/optimizers), and learning-rate schedules. */
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/optimizer.h"

static int64_t steps_per_update(const iso_optimizer *optimizer)
{
    return optimizer->accumulation > 1 ? optimizer->accumulation : 1;
}

/* What all rules have in front. */
static void prepare_common(const iso_optimizer *optimizer, double rate, double *hyper)
{
    hyper[ISO_HYPER_RATE] = rate;
    hyper[ISO_HYPER_DECAY] = optimizer->weight_decay * rate;
}

/* ---- sgd. hyper: rate, decay, momentum, nesterov. slots: momentum m (where momentum is not 0).
 * m = m * momentum - g * rate; w += m, or for Nesterov m * momentum - g * rate. Without m: w -= g * rate.
 * ---- */
static int sgd_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    if (optimizer->hyper[ISO_SGD_MOMENTUM] == 0)
        return 0;
    names[0] = "momentum";
    initial[0] = 0;
    return 1;
}

static void sgd_prepare(const iso_optimizer *optimizer, iso_dtype dtype, int64_t updates, double rate,
                        double *hyper)
{
    (void)updates;
    (void)dtype;
    prepare_common(optimizer, rate, hyper);
    hyper[ISO_HYPER_OWN] = optimizer->hyper[ISO_SGD_MOMENTUM];
    hyper[ISO_HYPER_OWN + 1] = optimizer->hyper[ISO_SGD_NESTEROV];
}

/* ---- rmsprop. hyper: rate, decay, rho, momentum, epsilon, centered. slots: velocity v, momentum m (where
 * momentum is above 0), average_gradient a (where centered). v = rho v + (1 - rho) g^2; a = rho a + (1 - rho)
 * g; step = rate g / sqrt(v [- a^2] + epsilon); m = momentum m + step; w -= m, or step where there is no m.
 * ---- */
static int rmsprop_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    int count = 0;
    names[count++] = "velocity";
    if (optimizer->hyper[ISO_RMSPROP_MOMENTUM] > 0)
        names[count++] = "momentum";
    if (optimizer->hyper[ISO_RMSPROP_CENTERED] != 0)
        names[count++] = "average_gradient";
    for (int i = 0; i < count; i++)
        initial[i] = 0;
    return count;
}

static void rmsprop_prepare(const iso_optimizer *optimizer, iso_dtype dtype, int64_t updates, double rate,
                            double *hyper)
{
    (void)updates;
    (void)dtype;
    prepare_common(optimizer, rate, hyper);
    hyper[ISO_HYPER_OWN] = optimizer->hyper[ISO_RMSPROP_RHO];
    hyper[ISO_HYPER_OWN + 1] = optimizer->hyper[ISO_RMSPROP_MOMENTUM];
    hyper[ISO_HYPER_OWN + 2] = optimizer->hyper[ISO_RMSPROP_EPSILON];
    hyper[ISO_HYPER_OWN + 3] = optimizer->hyper[ISO_RMSPROP_CENTERED];
}

/* ---- adam, adamw. hyper: alpha, decay, 1 - beta_1, 1 - beta_2, epsilon, amsgrad, where for the t-th update
 * alpha = rate sqrt(1 - beta_2^t) / (1 - beta_1^t). slots: momentum m, velocity v, velocity_hat u (with
 * amsgrad). m += (g - m) (1 - beta_1); v += (g^2 - v) (1 - beta_2); u = max(u, v); w -= m alpha / (sqrt(v or
 * u) + epsilon). ---- */
static int adam_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    names[0] = "momentum";
    names[1] = "velocity";
    names[2] = "velocity_hat";
    initial[0] = initial[1] = initial[2] = 0;
    return optimizer->hyper[ISO_ADAM_AMSGRAD] != 0 ? 3 : 2;
}

/* Keras computes in the variables' type. In float32 0.999 is not 0.999, 1 - 0.999^t comes out 1.3e-5 off at
 * first, and the rate by half of that: to follow Keras step by step these powers must be float's. */
static double adam_alpha(double rate, double beta_1, double beta_2, double t, bool narrow)
{
    if (!narrow)
        return rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    float power_1 = (float)pow((double)(float)beta_1, t), power_2 = (float)pow((double)(float)beta_2, t);
    return (float)rate * sqrtf(1 - power_2) / (1 - power_1);
}

static void adam_prepare(const iso_optimizer *optimizer, iso_dtype dtype, int64_t updates, double rate,
                         double *hyper)
{
    double beta_1 = optimizer->hyper[ISO_ADAM_BETA_1], beta_2 = optimizer->hyper[ISO_ADAM_BETA_2];
    double t = (double)updates + 1;
    prepare_common(optimizer, rate, hyper);
    hyper[ISO_HYPER_RATE] = adam_alpha(rate, beta_1, beta_2, t, dtype == ISO_F32);
    hyper[ISO_HYPER_OWN] = 1 - beta_1;
    hyper[ISO_HYPER_OWN + 1] = 1 - beta_2;
    hyper[ISO_HYPER_OWN + 2] = optimizer->hyper[ISO_ADAM_EPSILON];
    hyper[ISO_HYPER_OWN + 3] = optimizer->hyper[ISO_ADAM_AMSGRAD];
}

/* ---- adagrad. hyper: rate, decay, epsilon. slots: accumulator a. a += g^2; w -= rate g / sqrt(a + epsilon).
 * ---- */
static int adagrad_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    names[0] = "accumulator";
    initial[0] = optimizer->hyper[ISO_ADAGRAD_INITIAL];
    return 1;
}

static void adagrad_prepare(const iso_optimizer *optimizer, iso_dtype dtype, int64_t updates, double rate,
                            double *hyper)
{
    (void)updates;
    (void)dtype;
    prepare_common(optimizer, rate, hyper);
    hyper[ISO_HYPER_OWN] = optimizer->hyper[ISO_ADAGRAD_EPSILON];
}

static const iso_optimizer_rule rules[] = {
    {"sgd", sgd_slots, sgd_prepare},
    {"rmsprop", rmsprop_slots, rmsprop_prepare},
    {"adam", adam_slots, adam_prepare},
    {"adamw", adam_slots, adam_prepare},
    {"adagrad", adagrad_slots, adagrad_prepare},
};

const iso_optimizer_rule *iso_optimizer_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name ? name : "rmsprop") == 0)
            return &rules[i];
    return NULL;
}

/* ---- schedules: keras/src/optimizers/schedules/learning_rate_schedule.py ---- */
static double exponential(const iso_schedule *s, double iterations)
{
    double exponent = iterations / (double)s->decay_steps;
    return s->initial * pow(s->rate, s->staircase ? floor(exponent) : exponent);
}

static double half_cosine(const iso_schedule *s, double from, double iterations)
{
    double done = fmin(iterations / (double)s->decay_steps, 1);
    double decayed = 0.5 * (1 + cos(3.14159265358979323846 * done));
    return from * ((1 - s->alpha) * decayed + s->alpha);
}

static double cosine(const iso_schedule *s, double iterations)
{
    double warmup = (double)s->warmup_steps;
    if (s->warmup_target == 0)
        return half_cosine(s, s->initial, iterations);
    if (iterations < warmup)
        return s->initial + (s->warmup_target - s->initial) * (iterations / warmup);
    return half_cosine(s, s->warmup_target, iterations - warmup);
}

static double piecewise(const iso_schedule *s, int64_t iterations)
{
    int i = 0;
    while (i < s->n_boundaries && iterations > s->boundaries[i])
        i++;
    return s->value[i];
}

double iso_schedule_rate(const iso_optimizer *optimizer, int64_t iterations, double learning_rate)
{
    if (ISO_ANY_NULL(optimizer))
        return 0;
    const iso_schedule *schedule = &optimizer->schedule;
    switch (schedule->kind) {
    case ISO_SCHEDULE_EXPONENTIAL:
        return exponential(schedule, (double)iterations);
    case ISO_SCHEDULE_COSINE:
        return cosine(schedule, (double)iterations);
    case ISO_SCHEDULE_PIECEWISE:
        return piecewise(schedule, iterations);
    case ISO_SCHEDULE_CONSTANT:
        break;
    }
    return learning_rate;
}

/* Schedules look at all iterations; what depends on updates (Adam's powers) counts these only. */
bool iso_optimizer_prepare(const iso_optimizer_rule *rule, const iso_optimizer *optimizer, iso_dtype dtype,
                           int64_t iterations, double learning_rate, double *hyper)
{
    if (ISO_ANY_NULL(rule, optimizer, hyper))
        return false;
    int64_t steps = steps_per_update(optimizer);
    double rate = iso_schedule_rate(optimizer, iterations, learning_rate);
    memset(hyper, 0, ISO_MAX_HYPER * sizeof *hyper);
    rule->prepare(optimizer, dtype, iterations / steps, rate, hyper);
    return (iterations + 1) % steps == 0;
}
