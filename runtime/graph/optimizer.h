/* Optimizers and learning-rate schedules with the names, defaults and formulas of Keras 3, as data, and the
 * update of variables by them. iso_compile() and iso_minimize() take them. Zero means Keras's default,
 * ISO_ZERO the number zero.
 *
 * Their rows are in graph/optimizers and graph/schedules. To add one: a file there, a line in list.h, and a
 * struct of options and a macro below.
 * Functions are local unless their comment says otherwise. Pointers that functions return are names, which
 * belong to the library, and updates, which belong to the graph, unless their comment says otherwise. */
#ifndef ISO_GRAPH_OPTIMIZER_H
#define ISO_GRAPH_OPTIMIZER_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ISO_SCHEDULE_CONSTANT, which is 0 and the learning rate itself, ...: the schedules in schedules/list.h. */
typedef enum iso_schedule_kind {
#define SCHEDULE(name, NAME, settings) ISO_SCHEDULE_##NAME,
#include "runtime/graph/schedules/list.h"
} iso_schedule_kind;

/* Keras's schedules over the optimizer's iterations; members that a kind does not use are 0. */
typedef struct iso_schedule {
    iso_schedule_kind kind;
    double initial, rate, alpha, warmup_target; /* warmup_target 0: none */
    int64_t decay_steps, warmup_steps;
    bool staircase;
    int n_boundaries;
    int64_t boundaries[ISO_MAX_PIECES];
    double value[ISO_MAX_PIECES + 1];
    double end, power, t_mul, m_mul;
    bool cycle;
} iso_schedule;

/* Plain data: an optimizer and its settings, all filled in (by iso_adam() and the others). */
typedef struct iso_optimizer {
    const char *rule; /* a name of graph/optimizers/list.h ("adam"); NULL: Keras's default, rmsprop */
    double learning_rate;
    iso_schedule schedule;
    double hyper[ISO_MAX_HYPER]; /* the rule's own, in the order of its options */
    double weight_decay;         /* decoupled, as in Keras 3 for every optimizer; 0: none */
    const char *no_decay; /* names separated by commas: variables whose path contains one are not decayed;
                             lent; NULL: none */
    double clip_norm, global_clip_norm, clip_value; /* 0: off; at most one */
    int accumulation;                               /* gradient accumulation steps; 0 or 1: none */
    bool use_ema; /* keeps the exponential moving average of each variable, a slot named "average" */
    double ema_momentum;
    int ema_overwrite_frequency; /* 0: the weights are overwritten at the end of a fit only */
    double loss_scale_factor;    /* 0: none */
} iso_optimizer;

/* Options of every optimizer.
 *   schedule: instead of a learning rate
 *   weight_decay: decoupled: variable -= variable * weight_decay * learning rate, before the step
 *   no_decay: names separated by commas: variables whose path contains one of them are not decayed
 *     ("bias,gamma"); lent
 *   clip_norm (of each variable's gradient), global_clip_norm (of all together), clip_value (of each
 *     element): at most one
 *   accumulation: the number of steps whose gradients are averaged before each update
 *   use_ema: after each step, average = ema_momentum * average + (1 - ema_momentum) * weight, beginning with the
 *     weight after the first update; ema_momentum: in [0, 1], 0.99
 *   ema_overwrite_frequency: the weights become the averages after every so many updates. iso_fit sets the weights
 *     to the averages when it ends (iso_function_take_averages)
 *   loss_scale_factor: gradients are those of the loss times this factor, and are then divided by it */
#define ISO_OPTIMIZER_OPTIONS                                                                                \
    iso_schedule schedule;                                                                                   \
    double weight_decay;                                                                                     \
    const char *no_decay;                                                                                    \
    double clip_norm, global_clip_norm, clip_value;                                                          \
    int accumulation;                                                                                        \
    bool use_ema;                                                                                            \
    double ema_momentum;                                                                                     \
    int ema_overwrite_frequency;                                                                             \
    double loss_scale_factor

typedef struct iso_sgd_options {
    char begin_;
    double learning_rate; /* 0.01 */
    double momentum;      /* 0 */
    bool nesterov;
    ISO_OPTIMIZER_OPTIONS;
} iso_sgd_options;
ISO_API iso_optimizer iso_sgd_with(const iso_sgd_options *options, size_t size);
#define iso_sgd(...) iso_sgd_with(ISO_OPTIONS(iso_sgd_options, __VA_ARGS__))

typedef struct iso_rmsprop_options {
    char begin_;
    double learning_rate; /* 0.001 */
    double rho;           /* 0.9 */
    double momentum;      /* 0 */
    double epsilon;       /* 1e-7 */
    bool centered;
    ISO_OPTIMIZER_OPTIONS;
} iso_rmsprop_options;
ISO_API iso_optimizer iso_rmsprop_with(const iso_rmsprop_options *options, size_t size);
#define iso_rmsprop(...) iso_rmsprop_with(ISO_OPTIONS(iso_rmsprop_options, __VA_ARGS__))

typedef struct iso_adam_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-7 */
    bool amsgrad;
    ISO_OPTIMIZER_OPTIONS; /* weight_decay of AdamW: 0.004 */
} iso_adam_options;
ISO_API iso_optimizer iso_adam_with(const iso_adam_options *options, size_t size);
ISO_API iso_optimizer iso_adamw_with(const iso_adam_options *options, size_t size);
#define iso_adam(...) iso_adam_with(ISO_OPTIONS(iso_adam_options, __VA_ARGS__))
#define iso_adamw(...) iso_adamw_with(ISO_OPTIONS(iso_adam_options, __VA_ARGS__))

typedef struct iso_adagrad_options {
    char begin_;
    double learning_rate;       /* 0.001 */
    double initial_accumulator; /* 0.1 */
    double epsilon;             /* 1e-7 */
    ISO_OPTIMIZER_OPTIONS;
} iso_adagrad_options;
ISO_API iso_optimizer iso_adagrad_with(const iso_adagrad_options *options, size_t size);
#define iso_adagrad(...) iso_adagrad_with(ISO_OPTIONS(iso_adagrad_options, __VA_ARGS__))

typedef struct iso_nadam_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-7 */
    ISO_OPTIMIZER_OPTIONS;
} iso_nadam_options;
ISO_API iso_optimizer iso_nadam_with(const iso_nadam_options *options, size_t size);
#define iso_nadam(...) iso_nadam_with(ISO_OPTIONS(iso_nadam_options, __VA_ARGS__))

typedef struct iso_lion_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_1, beta_2; /* 0.9, 0.99; beta_1 above 0 and at most 1 */
    ISO_OPTIMIZER_OPTIONS;
} iso_lion_options;
ISO_API iso_optimizer iso_lion_with(const iso_lion_options *options, size_t size);
#define iso_lion(...) iso_lion_with(ISO_OPTIONS(iso_lion_options, __VA_ARGS__))

typedef struct iso_adamax_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-7 */
    ISO_OPTIMIZER_OPTIONS;
} iso_adamax_options;
ISO_API iso_optimizer iso_adamax_with(const iso_adamax_options *options, size_t size);
#define iso_adamax(...) iso_adamax_with(ISO_OPTIONS(iso_adamax_options, __VA_ARGS__))

typedef struct iso_adadelta_options {
    char begin_;
    double learning_rate; /* 0.001 */
    double rho;           /* 0.95 */
    double epsilon;       /* 1e-7 */
    ISO_OPTIMIZER_OPTIONS;
} iso_adadelta_options;
ISO_API iso_optimizer iso_adadelta_with(const iso_adadelta_options *options, size_t size);
#define iso_adadelta(...) iso_adadelta_with(ISO_OPTIONS(iso_adadelta_options, __VA_ARGS__))

typedef struct iso_ftrl_options {
    char begin_;
    double learning_rate;       /* 0.001 */
    double learning_rate_power; /* -0.5; not above 0 */
    double initial_accumulator; /* 0.1; this one and the next three: not negative */
    double l1, l2;              /* 0: strengths of regularization */
    double l2_shrinkage;        /* 0 */
    double beta;                /* 0 */
    ISO_OPTIMIZER_OPTIONS;
} iso_ftrl_options;
ISO_API iso_optimizer iso_ftrl_with(const iso_ftrl_options *options, size_t size);
#define iso_ftrl(...) iso_ftrl_with(ISO_OPTIONS(iso_ftrl_options, __VA_ARGS__))

/* The step of each variable is as long as the variable (times the rate), whatever the gradient. */
typedef struct iso_lamb_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-7 */
    ISO_OPTIMIZER_OPTIONS;
} iso_lamb_options;
ISO_API iso_optimizer iso_lamb_with(const iso_lamb_options *options, size_t size);
#define iso_lamb(...) iso_lamb_with(ISO_OPTIONS(iso_lamb_options, __VA_ARGS__))

/* Of a variable with 2 or more dimensions, the steps come from means of squared gradients over each of the last two.
 * As in Keras, the rate is at most 1 / sqrt(number of the update), with fixed_step too. */
typedef struct iso_adafactor_options {
    char begin_;
    double learning_rate;  /* 0.001 */
    double beta_2_decay;   /* -0.8; not above 0 */
    double epsilon_1;      /* 1e-30 */
    double epsilon_2;      /* 1e-3 */
    double clip_threshold; /* 1; above 0 */
    bool fixed_step;       /* relative_step of Keras is false */
    ISO_OPTIMIZER_OPTIONS;
} iso_adafactor_options;
ISO_API iso_optimizer iso_adafactor_with(const iso_adafactor_options *options, size_t size);
#define iso_adafactor(...) iso_adafactor_with(ISO_OPTIONS(iso_adafactor_options, __VA_ARGS__))

/* Muon for variables with 2 dimensions, except embeddings (unless with_embeddings); Adam for the others, with the
 * rate times adam_lr_ratio. */
typedef struct iso_muon_options {
    char begin_;
    double learning_rate;            /* 0.001 */
    double adam_beta_1, adam_beta_2; /* 0.9, 0.999 */
    double epsilon;                  /* 1e-7: of Adam */
    double muon_a, muon_b, muon_c;   /* 3.4445, -4.775, 2.0315: of a x + b x^3 + c x^5 */
    double adam_lr_ratio;            /* 1 */
    double momentum;                 /* 0.95 */
    int ns_steps;                    /* 5: how often the polynomial is applied, at most 100 */
    bool no_nesterov;
    bool with_embeddings;     /* exclude_embeddings of Keras is false */
    double adam_weight_decay; /* 0.004: of the variables with Adam, as weight_decay of the others */
    double rms_rate; /* 0.2: the step is multiplied by rms_rate sqrt(longer dimension); ISO_ZERO: it is not */
    ISO_OPTIMIZER_OPTIONS; /* weight_decay: 0.004 */
} iso_muon_options;
ISO_API iso_optimizer iso_muon_with(const iso_muon_options *options, size_t size);
#define iso_muon(...) iso_muon_with(ISO_OPTIONS(iso_muon_options, __VA_ARGS__))

/* initial * rate ^ (iteration / decay_steps); with staircase, the exponent is rounded down. */
typedef struct iso_exponential_decay_options {
    char begin_;
    double initial_learning_rate;
    int64_t decay_steps;
    double decay_rate;
    bool staircase;
} iso_exponential_decay_options;
ISO_API iso_schedule iso_exponential_decay_with(const iso_exponential_decay_options *options, size_t size);
#define iso_exponential_decay(...)                                                                           \
    iso_exponential_decay_with(ISO_OPTIONS(iso_exponential_decay_options, __VA_ARGS__))

/* The rate rises linearly from initial_learning_rate to warmup_target in warmup_steps (if these are given), then
 * falls by half a cosine to alpha times that rate in decay_steps. warmup_target 0 or ISO_ZERO: no warmup. */
typedef struct iso_cosine_decay_options {
    char begin_;
    double initial_learning_rate;
    int64_t decay_steps;
    double alpha;
    double warmup_target;
    int64_t warmup_steps;
} iso_cosine_decay_options;
ISO_API iso_schedule iso_cosine_decay_with(const iso_cosine_decay_options *options, size_t size);
#define iso_cosine_decay(...) iso_cosine_decay_with(ISO_OPTIONS(iso_cosine_decay_options, __VA_ARGS__))

/* (initial - end) * (1 - iteration / decay_steps) ^ power + end, and end after decay_steps; with cycle, decay_steps
 * is replaced by its first multiple that is not below the iteration. */
typedef struct iso_polynomial_decay_options {
    char begin_;
    double initial_learning_rate;
    int64_t decay_steps;
    double end_learning_rate; /* 0.0001 */
    double power;             /* 1 */
    bool cycle;
} iso_polynomial_decay_options;
ISO_API iso_schedule iso_polynomial_decay_with(const iso_polynomial_decay_options *options, size_t size);
#define iso_polynomial_decay(...)                                                                            \
    iso_polynomial_decay_with(ISO_OPTIONS(iso_polynomial_decay_options, __VA_ARGS__))

/* initial / (1 + rate * iteration / decay_steps); with staircase, the quotient is rounded down. */
ISO_API iso_schedule iso_inverse_time_decay_with(const iso_exponential_decay_options *options, size_t size);
#define iso_inverse_time_decay(...)                                                                          \
    iso_inverse_time_decay_with(ISO_OPTIONS(iso_exponential_decay_options, __VA_ARGS__))

/* Halves of a cosine from the rate to alpha times the rate, one after the other (Loshchilov and Hutter 2016, arXiv
 * 1608.03983): the first one takes first_decay_steps; each later one takes t_mul times the steps of the one before,
 * and begins at m_mul times its rate. */
typedef struct iso_cosine_decay_restarts_options {
    char begin_;
    double initial_learning_rate;
    int64_t first_decay_steps;
    double t_mul; /* 2; at least 1 */
    double m_mul; /* 1 */
    double alpha;
} iso_cosine_decay_restarts_options;
ISO_API iso_schedule iso_cosine_decay_restarts_with(const iso_cosine_decay_restarts_options *options,
                                                    size_t size);
#define iso_cosine_decay_restarts(...)                                                                       \
    iso_cosine_decay_restarts_with(ISO_OPTIONS(iso_cosine_decay_restarts_options, __VA_ARGS__))

/* values[i] up to and including iteration boundaries[i]; values[count] after the last one. count: at most
 * ISO_MAX_PIECES. */
ISO_API iso_schedule iso_piecewise_constant(int count, const int64_t *boundaries, const double *values);

/* The optimizer of this name ("adam") with Keras's defaults; ISO_INVALID names the existing ones. */
ISO_API iso_status iso_optimizer_find(const char *name, iso_optimizer *optimizer);
ISO_API int iso_optimizer_count(void);
/* NULL outside [0, count). */
ISO_API const char *iso_optimizer_name(int index);
/* ISO_INVALID if a setting is invalid (a negative rate, two kinds of clipping): names it and its value. */
ISO_API iso_status iso_optimizer_check(const iso_optimizer *optimizer);

/* The rate of the step after `iterations` completed ones. learning_rate: the value of the variable of that
 * name. */
ISO_API double iso_schedule_rate(const iso_optimizer *optimizer, int64_t iterations, double learning_rate);

/* The update that minimises loss over all trainable variables it depends on. Adds to the graph the
 * variables "optimizer/iteration" (ISO_I64 scalar) and "optimizer/learning_rate" (ISO_F64 scalar), and the
 * optimizer's slots, named "optimizer/<rule>/<variable path>/<slot>", which are sharded over the holders
 * of each variable. Clipping and the accumulation of gradients (variables "optimizer/<rule>/<variable
 * path>/gradient_accumulator") are ops of the graph. An error in the graph: loss depends on no trainable
 * variable, or a setting is invalid. A second call numbers its variables: "optimizer_1/iteration". */
ISO_API iso_update *iso_minimize(iso_tensor *loss, iso_optimizer optimizer);
/* Whether a variable of this path belongs to an optimizer: "optimizer/iteration",
 * "optimizer_1/adam/d1/kernel/momentum". */
ISO_API bool iso_path_below_optimizer(const char *path);

#ifdef __cplusplus
}
#endif
#endif
