/* Limits of graphs, functions, batches and models. Exceeding one is an error; its message names the limit and
 * the requested number. The assertions below state how the limits depend on each other. */
#ifndef ISO_BASE_LIMITS_H
#define ISO_BASE_LIMITS_H

enum {
    /* tensors and meshes */
    ISO_MAX_RANK = 8,         /* dimensions of a tensor, including the batch */
    ISO_MAX_AXES = 6,         /* of a mesh */
    ISO_MAX_AXIS_NAME = 32,   /* bytes of an axis's name, including the terminating zero */
    ISO_MOST_SLOTS = 1 << 24, /* of a mesh */

    /* ops */
    ISO_MAX_INPUTS = 16,
    ISO_MAX_OUTPUTS = 5,
    ISO_MAX_FACTORS = 16, /* of a sharding rule */

    /* graphs */
    ISO_MAX_SCOPES = 32,      /* nesting depth of blocks */
    ISO_MAX_PATH = 1024,      /* bytes of a variable's path, including the terminating zero */
    ISO_MAX_SLOT_PATH = 1152, /* bytes of "optimizer/<rule>/<path of the variable>/<slot>" */

    /* optimizers */
    ISO_MAX_PIECES = 16, /* boundaries of a piecewise constant schedule */
    ISO_MAX_OPTIMIZER_SLOTS = 4,
    ISO_MAX_HYPER = 16, /* settings of a rule */

    /* models and data sets */
    ISO_MAX_MODEL_INPUTS = 64,
    ISO_MAX_MODEL_OUTPUTS = 8,
    ISO_MAX_COMPONENTS = 80, /* of a batch: inputs, targets and sample weights */
    ISO_MAX_METRICS = 8,     /* of one output, of each kind: plain, weighted, custom */
    ISO_MAX_VALUES = 64,     /* losses and metrics of all outputs together */
    ISO_MAX_LOGGED = 16,     /* values that callbacks add to the logs of an epoch */
    ISO_MAX_PROGRESS = 64,   /* values of an iso_progress line */
    ISO_MAX_NAME = 128,      /* bytes of a reported value's name, including the terminating zero */

    /* functions */
    ISO_MAX_FUNCTION_INPUTS = 80,
    ISO_MAX_FUNCTION_OUTPUTS = 128,
    ISO_MAX_FUNCTION_UPDATES = 16, /* in its options; an update may change any number of variables */
    ISO_MAX_BUCKETS = 64,          /* of one function: groups of variables that one kernel updates */
};

/* Elements of a tensor, or of one row of it if it has a batch: counts of elements and of bytes fit 64 bits. */
#define ISO_MAX_ELEMENTS (1LL << 48)

#ifdef __cplusplus
#define ISO_LIMIT(condition, text) static_assert(condition, text)
#else
#define ISO_LIMIT(condition, text) _Static_assert(condition, text)
#endif
ISO_LIMIT((int)ISO_MAX_COMPONENTS >= (int)ISO_MAX_MODEL_INPUTS + 2 * (int)ISO_MAX_MODEL_OUTPUTS,
          "a batch has the inputs of a model, and a target and a sample weight for each output");
ISO_LIMIT((int)ISO_MAX_FUNCTION_INPUTS == (int)ISO_MAX_COMPONENTS,
          "a function takes a batch: each of its inputs is a component");
ISO_LIMIT((int)ISO_MAX_FUNCTION_OUTPUTS >= 2 * (int)ISO_MAX_VALUES,
          "a reported value is a quotient of at most two outputs of a function");
ISO_LIMIT((int)ISO_MAX_FUNCTION_OUTPUTS >= (int)ISO_MAX_MODEL_OUTPUTS,
          "the prediction function of a model gives all of its outputs");
ISO_LIMIT((int)ISO_MAX_VALUES > (int)ISO_MAX_MODEL_OUTPUTS,
          "every output may have a loss, and the total is a value of its own");
ISO_LIMIT((int)ISO_MAX_FACTORS >= 2 * (int)ISO_MAX_RANK,
          "the rule of a product of two tensors has at most the dimensions of both");
ISO_LIMIT((int)ISO_MAX_RANK <= 8, "the window dimensions of an op are bits of one byte");
ISO_LIMIT((int)ISO_MAX_INPUTS <= 32, "a set of an op's inputs is the bits of one word");
ISO_LIMIT((int)ISO_MAX_SLOT_PATH >= (int)ISO_MAX_PATH + 64,
          "the path of an optimizer slot holds that of its variable");
#undef ISO_LIMIT

#endif
