/* Optimizers as data, and the update of variables by them. */
#ifndef ISO_GRAPH_OPTIMIZER_H
#define ISO_GRAPH_OPTIMIZER_H

#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_schedule_kind {
    ISO_SCHEDULE_CONSTANT = 0, /* the learning rate itself */
    ISO_SCHEDULE_EXPONENTIAL,
    ISO_SCHEDULE_COSINE,
    ISO_SCHEDULE_PIECEWISE,
} iso_schedule_kind;

/* Keras's ExponentialDecay, CosineDecay and PiecewiseConstantDecay over the optimizer's iterations. */
typedef struct iso_schedule {
    iso_schedule_kind kind;
    double initial, rate, alpha, warmup_target; /* warmup_target 0: none */
    int64_t decay_steps, warmup_steps;
    bool staircase;
    int n_boundaries;
    int64_t boundaries[ISO_MAX_PIECES];
    double value[ISO_MAX_PIECES + 1];
} iso_schedule;

/* The places of a rule's own settings in iso_optimizer.hyper. */
enum { ISO_SGD_MOMENTUM, ISO_SGD_NESTEROV };
enum { ISO_RMSPROP_RHO, ISO_RMSPROP_MOMENTUM, ISO_RMSPROP_EPSILON, ISO_RMSPROP_CENTERED };
enum { ISO_ADAM_BETA_1, ISO_ADAM_BETA_2, ISO_ADAM_EPSILON, ISO_ADAM_AMSGRAD }; /* of "adam" and "adamw" */
enum { ISO_ADAGRAD_INITIAL, ISO_ADAGRAD_EPSILON };

/* Plain data: an optimizer and its settings, all filled in (iso_adam() and kin in runtime/train do that). */
typedef struct iso_optimizer {
    const char
        *rule; /* "sgd", "rmsprop", "adam", "adamw", "adagrad"; NULL: Keras's default of compile, rmsprop */
    double learning_rate;
    iso_schedule schedule;
    double hyper[ISO_MAX_HYPER]; /* the rule's own: see its row in optimizers.c */
    double weight_decay;         /* decoupled, as Keras 3 has it for every optimizer; 0: none */
    const char *no_decay; /* names separated by commas: variables whose path contains one are not decayed;
                             lent; NULL: none */
    double clip_norm, global_clip_norm, clip_value; /* 0: off; at most one */
    int accumulation;                               /* gradient accumulation steps; 0 or 1: none */
} iso_optimizer;

/* What a rule is. A row of the list in graph/ops/optimizers.c, which says what its slots and hyper hold. */
typedef struct iso_optimizer_rule {
    const char *name;
    /* How many slots; their names ("momentum", "velocity") and initial values, in the kernel's order. */
    int (*slots)(const iso_optimizer *optimizer, const char **names, double *initial);
    /* hyper[0..] for the kernel in the step that follows `updates` completed ones; rate: of this step. */
    void (*prepare)(const iso_optimizer *optimizer, iso_dtype dtype, int64_t updates, double rate,
                    double *hyper);
} iso_optimizer_rule;
/* NULL where there is none of that name; a NULL name is Keras's default, rmsprop. */
ISO_API const iso_optimizer_rule *iso_optimizer_rule_find(const char *name);
/* The rate of the step that follows `iterations` completed ones. learning_rate: what the variable of that
 * name holds. */
ISO_API double iso_schedule_rate(const iso_optimizer *optimizer, int64_t iterations, double learning_rate);

/* The first places of the hyper that kernels get, of every rule; its own follow. */
enum { ISO_HYPER_RATE, ISO_HYPER_DECAY /* w -= w * decay, before the step */, ISO_HYPER_OWN };
/* rule: the optimizer's. Fills hyper (ISO_MAX_HYPER) for the kernels of variables of this type of the step
 * that follows `iterations` completed ones. False where this step only accumulates gradients: then no kernel
 * is to run. */
ISO_API bool iso_optimizer_prepare(const iso_optimizer_rule *rule, const iso_optimizer *optimizer,
                                   iso_dtype dtype, int64_t iterations, double learning_rate, double *hyper);

/* The update that minimises loss over all trainable variables it depends on. The graph then has the variables
 * "optimizer/iteration" (ISO_I64 scalar) and "optimizer/learning_rate" (ISO_F64 scalar), and the optimizer's
 * slots, named "optimizer/<rule>/<variable path>/<slot>", which live split over the holders of each variable.
 * Clipping and the accumulation of gradients (variables "optimizer/<rule>/<variable
 * path>/gradient_accumulator") are ops of the graph. Fails in the graph where no trainable variable is
 * reached or a setting makes no sense. A second call numbers its variables: "optimizer_1/iteration". */
ISO_API iso_update *iso_minimize(iso_tensor *loss, iso_optimizer optimizer);
/* Whether a variable of this path belongs to an optimizer: "optimizer/iteration",
 * "optimizer_1/adam/d1/kernel/momentum". */
ISO_API bool iso_path_below_optimizer(const char *path);

#ifdef __cplusplus
}
#endif
#endif
