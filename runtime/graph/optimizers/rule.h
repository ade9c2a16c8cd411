/* The descriptor of an optimizer: an entry of the list in list.h. Keras's names are those of
 * keras/src/optimizers, 3.15. */
#ifndef ISO_GRAPH_OPTIMIZERS_RULE_H
#define ISO_GRAPH_OPTIMIZERS_RULE_H

#include "runtime/base/descriptor.h"
#include "runtime/graph/optimizer.h"

/* A number that an optimizer keeps for each element of a variable. */
typedef struct iso_optimizer_slot {
    const char *name;    /* "momentum"; NULL ends a list of slots */
    const char *with;    /* the slot exists only if this setting is not 0; NULL: always */
    const char *initial; /* the setting that is its initial value; NULL: 0 */
    bool beside;         /* Keras lists it after the slot before, variable by variable */
} iso_optimizer_slot;

/* A variable of the optimizer itself that Keras's files have after the slots. */
typedef struct iso_optimizer_scalar {
    const char *name; /* "u_product", with the path "optimizer/u_product"; NULL: there is none */
    double initial;
    /* Returns its value after an update. now: before it; update: number of the update, from 1. Both are
     * scalars of its type. */
    iso_tensor *(*next)(const iso_optimizer *optimizer, iso_tensor *now, iso_tensor *update);
} iso_optimizer_scalar;

/* One variable in an update that is built from ops of the graph. Scalars are ISO_F64. */
typedef struct iso_composed_update {
    const iso_optimizer *optimizer; /* of this variable */
    iso_variable *variable;
    iso_tensor *gradient; /* summed, clipped; the variable's shape and type */
    iso_tensor *number;   /* of the update, from 1: a scalar */
    iso_tensor *kept;     /* the share of the variable that weight decay leaves: a scalar; NULL: all of it */
    /* The slots of the variable, by their place in the rule's list: before the update, and what the rule makes of
     * them. NULL: the variable does not have it. */
    iso_tensor *slot[ISO_MAX_OPTIMIZER_SLOTS];
} iso_composed_update;

typedef struct iso_optimizer_rule {
    iso_descriptor
        row; /* the settings are members of the struct of options; iso_optimizer.hyper has them in their order */
    size_t size;        /* of the struct of options, */
    size_t common;      /* and the offset of ISO_OPTIMIZER_OPTIONS in it: ISO_OPTIMIZER_STRUCT */
    const char *kernel; /* of the backends; NULL: has the row's name */
    double learning_rate, weight_decay; /* defaults */
    const iso_optimizer_slot *slot;     /* in the kernel's order */
    iso_optimizer_scalar scalar;
    /* The first two settings are the decays of averages that are divided by 1 - decay^t: they must be below 1. */
    bool corrects;
    /* Checks the settings (ISO_INVALID). NULL: all values are valid. */
    iso_status (*check)(const iso_optimizer *optimizer);
    /* Converts hyper, which holds the rate, the decay and from ISO_HYPER_OWN on the settings, into what
     * the kernel takes in the step after `updates` completed ones. narrow: variables are float32. NULL:
     * the kernel takes them as they are. */
    void (*prepare)(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper);
    /* Not NULL: the rule is built from ops of the graph, since it needs more than one element at a time. Returns the
     * direction d, in the variable's shape and type, and replaces the slots by their new values. The kernel, which is
     * that of "sgd" without momentum, then does w -= w * decay + rate * d. The slots are variables of the graph. */
    iso_tensor *(*direction)(iso_composed_update *update);
    /* Whether a variable has this slot of the list. *without, which is 0 before the call: the dimension of the
     * variable that the slot lacks, from 1. NULL: all variables have all slots. Only with `direction`. */
    bool (*has_slot)(const iso_optimizer *optimizer, const iso_variable *variable, int slot, int *without);
    bool stand_ins;         /* Keras's files hold a whole number 0 for a slot that a variable does not have */
    const char *empty_list; /* an argument of Keras's class that must be an empty list; NULL: there is none */
    const char
        *not_zero; /* an OPTIONAL setting of which 0 is not null in Keras, and is refused; NULL: none */
    /* The weight decay of a variable. NULL: the optimizer's. */
    double (*decay_of)(const iso_optimizer *optimizer, const iso_variable *variable);
} iso_optimizer_rule;

/* .size and .common of a rule. Every struct of options has the same first and last members. */
#define ISO_OPTIMIZER_STRUCT(type) .size = sizeof(type), .common = offsetof(type, schedule)
typedef struct iso_optimizer_first {
    char begin_;
    double learning_rate;
} iso_optimizer_first;
typedef struct iso_optimizer_common {
    ISO_OPTIMIZER_OPTIONS;
} iso_optimizer_common;
enum { ISO_MAX_OPTIMIZER_OPTIONS = 1024 }; /* bytes of a struct of options */

/* Implements iso_<rule>_with(): the optimizer that a struct of options of `size` bytes describes; NULL:
 * with the defaults. */
iso_optimizer iso_optimizer_make(const iso_optimizer_rule *rule, const void *options, size_t size);

/* The rows in the order of list.h; and those members of iso_optimizer that every rule has. */
extern const iso_descriptor *const iso_optimizer_rows[];
extern const iso_setting iso_optimizer_settings[];
/* NULL if there is none of this name; name NULL: Keras's default, rmsprop. */
const iso_optimizer_rule *iso_optimizer_rule_find(const char *name);
/* The name of its kernel in the backends; the name itself if there is no such optimizer. */
const char *iso_optimizer_kernel(const char *name);
/* The slots of an optimizer of a known rule: their number, and their names and initial values
 * (ISO_MAX_OPTIMIZER_SLOTS). The last one is ISO_AVERAGE_SLOT if it has use_ema. */
#define ISO_AVERAGE_SLOT "average"
int iso_optimizer_slots(const iso_optimizer *optimizer, const char **names, double *initial);
/* Those of them that kernels update: without the slots of a rule that is built from ops. */
int iso_optimizer_kernel_slots(const iso_optimizer *optimizer, const char **names, double *initial);
/* Whether a variable has the slot of this number; then its shape, and the dimension of the variable that it lacks,
 * from 1 (0: none). */
bool iso_optimizer_has_slot(const iso_optimizer *optimizer, const iso_variable *variable, int slot,
                            iso_shape *shape, int *without);

/* For rules that are built from ops. */

/* state += (value - state) * rest, as Keras's moving means. */
iso_tensor *iso_composed_mean(iso_tensor *state, iso_tensor *value, double rest);
/* 1 - base^number as a scalar of the variable's type, computed in it as Keras does. */
iso_tensor *iso_composed_rest(const iso_composed_update *update, double base);
/* The sum of squares of a tensor, in which each element counts once however it is sharded; and that of the variable
 * after its weight decay. */
iso_tensor *iso_composed_squares(iso_tensor *x);
iso_tensor *iso_composed_weight_squares(const iso_composed_update *update);
/* Creates the slots of an update's variable, below "<prefix>/<rule>/", and fills its `slot`. */
typedef struct iso_composed_slots {
    iso_variable *variable[ISO_MAX_OPTIMIZER_SLOTS]; /* NULL: there is none */
} iso_composed_slots;
void iso_composed_make_slots(const char *prefix, iso_composed_update *update, iso_composed_slots *slots);
/* Whether both make the same updates. no_decay, which graphs resolve, is ignored. */
bool iso_optimizer_equal(const iso_optimizer *a, const iso_optimizer *b);

/* iso_minimize, but without an error if the loss depends on no trainable variable: then the update only counts
 * iterations. trains: whether it depends on one. */
iso_update *iso_minimize_trainable(iso_tensor *loss, iso_optimizer optimizer, bool *trains);

/* The first entries of the hyper that kernels get, the same for every rule; its own follow. */
enum { ISO_HYPER_RATE, ISO_HYPER_DECAY /* w -= w * decay, before the step */, ISO_HYPER_OWN };
/* Whether the step after `iterations` completed ones changes weights. False: it only accumulates gradients. */
bool iso_optimizer_updates(const iso_optimizer *optimizer, int64_t iterations);
/* rule: the optimizer's. Fills hyper (ISO_MAX_HYPER) for the kernels of variables of this type, for the
 * step after `iterations` completed ones. Returns whether the rule's kernel is to run: not if the step only
 * accumulates gradients. */
bool iso_optimizer_prepare(const iso_optimizer_rule *rule, const iso_optimizer *optimizer, iso_dtype dtype,
                           int64_t iterations, double learning_rate, double *hyper);

/* The kernel of averages, which backends have beside those of the rules. It runs after the rule's on the same
 * elements: slot = momentum * slot + (1 - momentum) * weight; then, if it overwrites, weight = slot. */
#define ISO_AVERAGE_KERNEL "average"
enum { ISO_HYPER_MOMENTUM, ISO_HYPER_OVERWRITE };
/* Fills its hyper (ISO_MAX_HYPER) for the step after `iterations` completed ones, by BaseOptimizer of
 * keras/src/optimizers/base_optimizer.py. Returns whether it is to run. */
bool iso_optimizer_prepare_average(const iso_optimizer *optimizer, int64_t iterations, double *hyper);

#endif
