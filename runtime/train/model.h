/* Models: a graph with inputs and outputs, its loss and optimizer, and Keras's compile, fit, evaluate and
 * predict. Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_TRAIN_MODEL_H
#define ISO_TRAIN_MODEL_H

#include <stdio.h>

#include "runtime/base/batch.h"
#include "runtime/exec/function/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/callbacks.h"
#include "runtime/train/losses.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_dataset iso_dataset;
typedef struct iso_saved_file iso_saved_file;

/* Creates a model with the input x, an iso_input of g, and the output y. The model owns g from then on: it destroys
 * g, and iso_graph_destroy(g) does nothing. A graph belongs to one model: a second one does not own it, and has an
 * error that says so. All scopes of g (iso_name_scope_begin, iso_share_begin, iso_freeze_begin, iso_recompute_begin,
 * iso_policy_begin) have ended. Never NULL: the first error made while building stays in the model, and iso_compile
 * returns it on every rank. Not collective, but every rank must build the same model. */
ISO_API iso_model *iso_model_create(iso_graph *g, iso_tensor *x, iso_tensor *y);
/* The same with several inputs and outputs (at most ISO_MAX_MODEL_INPUTS and ISO_MAX_MODEL_OUTPUTS). Data
 * sets have their components in this order: inputs, then the targets of the outputs that have a loss or
 * metrics. Inputs have different names. */
ISO_API iso_model *iso_model_create_several(iso_graph *g, iso_tensor *const *inputs, int input_count,
                                            iso_tensor *const *outputs, int output_count);
/* Frees the model and its graph. NULL is ignored. Collective (iso_mesh_destroy). */
ISO_API void iso_model_destroy(iso_model *model);
/* The model's graph, which the model owns. Lent. */
ISO_API iso_graph *iso_model_graph(iso_model *model);
/* The first input and output, and by index; NULL outside the range. Lent. */
ISO_API iso_tensor *iso_model_input(iso_model *model);
ISO_API iso_tensor *iso_model_output(iso_model *model);
ISO_API int iso_model_input_count(const iso_model *model);
ISO_API int iso_model_output_count(const iso_model *model);
ISO_API iso_tensor *iso_model_input_at(iso_model *model, int index);
ISO_API iso_tensor *iso_model_output_at(iso_model *model, int index);
/* The name of an output in reported values ("<name>_loss"). Default: the name of the layer that made it, as
 * in Keras; it can be set before iso_compile. Lent. */
ISO_API const char *iso_model_output_name(iso_model *model, int index);
ISO_API void iso_model_set_output_name(iso_model *model, int index, const char *name);
/* Whether a name was set. */
ISO_API bool iso_model_output_has_name(const iso_model *model, int index);
/* The key of an input in the dictionary with which Keras calls the model. Keras's files have a dictionary of inputs
 * if all have keys, in the order of strcmp. NULL: none. Lent. */
ISO_API const char *iso_model_input_key(const iso_model *model, int index);
ISO_API void iso_model_set_input_key(iso_model *model, int index, const char *key);
/* The type of an output's results: that of its tensor, or that of variables if it is computed in ISO_BF16.
 * ISO_DTYPE_NONE: there is no such output. */
ISO_API iso_dtype iso_model_output_dtype(const iso_model *model, int index);
/* The variable of a path ("d1/kernel"); NULL if there is none. Lent; it can be read and assigned after iso_compile.
 */
ISO_API iso_variable *iso_model_variable(iso_model *model, const char *path);
/* Prints Keras's table of layers, output shapes and parameters; if the model is not a chain, also the layers'
 * connections. Any rank may print. */
ISO_API void iso_model_summary(iso_model *model, FILE *out);

/* A custom metric: a value for each row (or each element) of a batch. The mean is reported. */
typedef struct iso_custom_metric {
    const char *name;
    iso_tensor *(*function)(iso_tensor *y_true, iso_tensor *y_pred);
} iso_custom_metric;

/* The training options of one of several outputs. A member that is zero has the value of iso_compile_options, which
 * is for all outputs. */
typedef struct iso_output_options {
    iso_loss loss;
    iso_tensor *(*loss_function)(iso_tensor *y_true, iso_tensor *y_pred);
    double loss_weight; /* weight in the total loss; 1 */
    iso_metric metrics[ISO_MAX_METRICS];
    iso_metric weighted_metrics[ISO_MAX_METRICS];
    iso_custom_metric custom_metrics[ISO_MAX_METRICS];
    const char *metric_names[ISO_MAX_METRICS], *weighted_metric_names[ISO_MAX_METRICS];
    iso_metric_settings metric_settings[ISO_MAX_METRICS], weighted_metric_settings[ISO_MAX_METRICS];
    double label_smoothing, huber_delta, loss_alpha, loss_beta, loss_gamma, loss_q;
    int ignore_class;
    uint64_t loss_axes;
    bool apply_class_balancing;
    iso_dtype target_dtype;
    iso_shape target_shape;
} iso_output_options;

typedef struct iso_compile_options {
    char begin_;
    iso_optimizer optimizer; /* rmsprop */
    iso_loss loss;           /* either this or loss_function is required */
    iso_tensor *(*loss_function)(iso_tensor *y_true, iso_tensor *y_pred); /* returns the loss of each row */
    iso_metric metrics[ISO_MAX_METRICS]; /* the list ends at the first 0; they ignore sample weights, as in
                                            Keras */
    iso_metric weighted_metrics[ISO_MAX_METRICS]; /* they use sample weights */
    iso_custom_metric custom_metrics[ISO_MAX_METRICS];
    /* The names of .metrics[i] and of .weighted_metrics[i] in logs and files; NULL: the default names */
    const char *metric_names[ISO_MAX_METRICS], *weighted_metric_names[ISO_MAX_METRICS];
    /* The settings of .metrics[i] and of .weighted_metrics[i]: .metric_settings = {{.top_k = 3}} */
    iso_metric_settings metric_settings[ISO_MAX_METRICS], weighted_metric_settings[ISO_MAX_METRICS];
    /* Settings of the losses of these names; 0: Keras's default. */
    double label_smoothing;
    double huber_delta; /* 1 */
    double loss_alpha;  /* of focal cross-entropy 0.25, of tversky 0.5 */
    double loss_beta;   /* of tversky: 0.5 */
    double loss_gamma;  /* of focal cross-entropy: 2 */
    double loss_q;      /* of the generalized cross-entropy: 0.5 */
    /* Of sparse cross-entropy: labels of this number, which may be no class (-100), do not count: the loss is the
     * mean over the other labels of the global batch, 0 if there are none. 0: all count; ISO_ZERO: class 0. */
    int ignore_class;
    uint64_t loss_axes;         /* of dice and tversky: bit i is dimension i of the predictions; 0: all */
    bool apply_class_balancing; /* of binary focal cross-entropy */
    /* Data sets have sample weights: after the targets either one component with a weight for each row, for
     * all outputs, or one such component for each target. A data set may have none: each weight is 1 then, as in
     * Keras. */
    bool sample_weights;
    /* Each row has a weight for each of its positions, [batch, positions...]: all dimensions of the predictions
     * but the last. False: one for each row. With .sample_weights. */
    bool position_weights;
    /* Keras's class_weight, of a model with one output: in iso_fit, not in evaluations, each row (each position,
     * where positions have classes) counts with the weight of its class besides its own weight. class_weights[i]
     * is that of class i; classes from n_class_weights on have 1. The class of a target that has several numbers
     * is the index of the largest; of another one, that number, rounded. */
    const double *class_weights;
    int n_class_weights;
    /* The type and shape of a row of targets, for loss_function. dtype 0: float, in the output's shape. */
    iso_dtype target_dtype;
    iso_shape target_shape;
    double loss_weight; /* weight of each output's loss in the total; 1 */
    /* The options of several outputs, in their order: .outputs = {{.loss = ISO_LOSS_MSE}, {.loss = ISO_LOSS_MAE,
     * .loss_weight = 0.2}}. An output that has neither loss nor metrics has no targets in the data. The total loss
     * is the weighted sum of the losses plus the losses that layers add (regularisation). */
    iso_output_options outputs[ISO_MAX_MODEL_OUTPUTS];
    iso_distribution *distribution; /* NULL: data parallel over all slots; the model keeps it */
    bool reset_optimizer; /* when compiled again: discards the optimizer's state even if the rule is the
                             same */
} iso_compile_options;

/* Builds the training and the evaluation function. Returns the model's own error if building it failed;
 * ISO_INVALID for options that make no sense or differ between ranks. A model that has no trainable variable
 * can be compiled and evaluated, and can predict; iso_fit is ISO_INVALID for it. After an error the model is
 * as it was before the call, and may be compiled with other options.
 *
 * A model may be compiled again: after layers were frozen or unfrozen (iso_model_set_trainable), or with
 * another optimizer, loss or metrics. It must not be in iso_fit, iso_evaluate or iso_predict at the time (a
 * callback is).
 *   - Weights, other variables and the counts of steps are kept.
 *   - The optimizer has the settings and the learning rate of the new options. If its rule ("adam") and the
 *     number of steps over which gradients are accumulated are the same as before, its state is kept: its
 *     iterations, by which schedules and Adam's bias correction count, and the slots of all variables that
 *     were trained before. Slots of variables that were frozen are new. With another rule all state is new.
 *     In Keras the optimizer object has the state. A new object has none, as with .reset_optimizer here. The
 *     same object keeps it, but the next fit fails if other variables are trained than before.
 *   - The mesh and the layouts of the first call are kept: .distribution must be the same one or NULL.
 *   - Everything that the previous call added to the graph is freed, including the functions that
 *     iso_model_training_function and iso_model_evaluation_function returned. The program's own functions of
 *     the graph stay valid, but a function that uses the model's targets or the optimizer's variables must be
 *     destroyed first (ISO_INVALID names it). The program must add its own ops, variables and layers to the
 *     graph before the first call; later ones are ISO_INVALID.
 * Collective. */
ISO_API iso_status iso_compile_with(iso_model *model, const iso_compile_options *options, size_t size);
#define iso_compile(model, ...) iso_compile_with(model, ISO_OPTIONS(iso_compile_options, __VA_ARGS__))

/* The options with which a model was compiled, with Keras's defaults filled in: the optimizer (its no_decay is not
 * kept) and the options of output `index`. NULL before iso_compile. Lent. */
ISO_API const iso_optimizer *iso_model_optimizer(const iso_model *model);
ISO_API const iso_output_options *iso_model_compiled_output(const iso_model *model, int index);

/* Keras's layer.trainable = ...: sets whether the weights of a layer, or of all layers of a block
 * ("encoder"), are trained; layer NULL: of the whole model. A frozen BatchNormalization uses its moving
 * statistics in training too and does not change them. Takes effect at the next iso_compile. ISO_INVALID: no
 * such layer or block (names the nearest). Local; every rank must make the same calls. */
ISO_API iso_status iso_model_set_trainable(iso_model *model, const char *layer, bool trainable);

/* Builds losses, metrics and updates into the model's graph without compiling, and returns the options of the
 * training function for iso_function_plan and iso_function_suggest. The model cannot be used for anything else
 * afterwards. Returns the model's own error or ISO_INVALID as iso_compile does, and ISO_INVALID for a model that
 * has no trainable variable. Local. */
ISO_API iso_status iso_model_describe_with(iso_model *model, const iso_compile_options *options, size_t size,
                                           iso_function_options *training);

typedef struct iso_fit_options {
    char begin_;
    int epochs;              /* 1; total, counted from 0: training runs from initial_epoch to epochs */
    iso_dataset *validation; /* evaluated after each epoch; NULL: none */
    iso_callback *
        *callbacks; /* a list that ends at NULL; fit owns its members from the call on, even if it fails */
    int64_t steps_per_epoch; /* the data set's */
    int initial_epoch;
    const char *resume; /* a checkpoint of such a training, its folder, DIR/latest or DIR/best: resumes
                                    from its position instead of initial_epoch; NULL: begins */
    iso_saved_file *resume_file; /* the same as an open file; a file that iso_checkpoint_find has verified is
                                    not read again for that; fit owns it from the call on, as it does the
                                    callbacks */
    int verbose; /* 1 (default, see iso_verbose): a bar on a terminal, otherwise as 2: a line an epoch;
                    ISO_ZERO: nothing */
    int64_t check_replicas; /* after every so many steps (of the model, those of earlier runs included), and
                               before each checkpoint, compares the copies of variables that several hosts
                               hold: iso_graph_check_replicas. If they differ, fit returns ISO_FAILED at once,
                               no further checkpoint is written, and the message names the last good one. On
                               one host the chief warns that there is nothing to compare. 0: never */
    bool swap_ema_weights;  /* with an optimizer that has use_ema: validation sees the averages instead of the
                              weights, as with Keras's SwapEMAWeights() */
    iso_history **history;  /* if not NULL, receives losses and metrics (after an error, of the epochs before
                              it); owned by the caller */
} iso_fit_options;

/* Trains. A data set without a batch size is batched by 32. ISO_INVALID if the data does not fit the model
 * (names both shapes) or has invalid values (a label outside the classes), or if the file to resume from is not
 * of such a training; ISO_STOPPED, ISO_INTERRUPTED (iso_stop_on_signals); ISO_FAILED (.check_replicas); and the
 * statuses of callbacks: ISO_DIVERGED of iso_terminate_on_nan, ISO_IO of those that write. Collective. */
ISO_API iso_status iso_fit_with(iso_model *model, iso_dataset *data, const iso_fit_options *options,
                                size_t size);
#define iso_fit(model, data, ...) iso_fit_with(model, data, ISO_OPTIONS(iso_fit_options, __VA_ARGS__))

typedef struct iso_evaluate_options {
    char begin_;
    double *loss;    /* receives the loss */
    double *metrics; /* receives the other values that iso_model_value_name names: metrics, weighted and
                        custom ones; if there are several losses, each loss first */
    int verbose;     /* as in iso_fit */
} iso_evaluate_options;

/* Computes loss and metrics on a data set, exact for any batch size and mesh: sums over rows divided by counts.
 * ISO_INVALID: the model is not compiled, or the data does not fit or has invalid values; ISO_INTERRUPTED
 * (iso_stop_on_signals). Collective. */
ISO_API iso_status iso_evaluate_with(iso_model *model, iso_dataset *data, const iso_evaluate_options *options,
                                     size_t size);
#define iso_evaluate(model, data, ...)                                                                       \
    iso_evaluate_with(model, data, ISO_OPTIONS(iso_evaluate_options, __VA_ARGS__))

typedef struct iso_predict_options {
    char begin_;
    /* Arrays for the outputs of all rows, in the order of the model's outputs: [rows, shape...], dense, of
     * the output's element type (float32; float64 if the graph's precision is float64), on every rank. NULL:
     * not wanted. */
    void *outputs[ISO_MAX_MODEL_OUTPUTS];
    /* Called between batches, on each rank, with the parts that its own slots have computed: part->box counts
     * rows of the whole data set. Every element is passed once, on one rank. An error ends the prediction on
     * all ranks. */
    iso_status (*part)(void *user, const iso_output_part *part);
    void *user;
    /* An HDF5 file that all ranks write, each its own part: dataset "y" or, with several outputs, a dataset
     * with each output's name. It gets its name when it is complete; every rank must see the folder, which is
     * made if it is missing. */
    const char *file;
    int verbose; /* as in iso_fit */
} iso_predict_options;

/* Computes the outputs for the rows of a data set, in its order, in inference mode. Targets and weights are not
 * read. The model need not be compiled; it then uses the distribution of iso_graph_distribute, or all slots. A data
 * set without a batch size is batched by 32. ISO_INVALID if the data does not fit; ISO_IO (.file); ISO_INTERRUPTED
 * (iso_stop_on_signals); the status of .part. Collective. */
ISO_API iso_status iso_predict_with(iso_model *model, iso_dataset *data, const iso_predict_options *options,
                                    size_t size);
#define iso_predict(model, data, ...)                                                                        \
    iso_predict_with(model, data, ISO_OPTIONS(iso_predict_options, __VA_ARGS__))

/* The learning rate of the next step. ISO_INVALID before iso_compile. Collective. */
ISO_API iso_status iso_model_learning_rate(iso_model *model, double *rate);
/* Sets the learning rate of all following steps; the same on every rank. ISO_INVALID if the optimizer follows
 * a schedule. Collective. */
ISO_API iso_status iso_model_set_learning_rate(iso_model *model, double rate);

/* The compiled functions, for counts and printed plans; NULL before iso_compile. Lent until the model is
 * compiled again. */
ISO_API iso_function *iso_model_training_function(iso_model *model);
ISO_API iso_function *iso_model_evaluation_function(iso_model *model);
/* The names of the values that training reports, as in Keras: "loss"; with several losses also
 * "<output>_loss" of each; then metrics, weighted and custom metrics in the order of the outputs; with
 * several outputs "<output>_<metric>". NULL outside [0, count). */
ISO_API int iso_model_value_count(const iso_model *model);
ISO_API const char *iso_model_value_name(const iso_model *model, int index);

#ifdef __cplusplus
}
#endif
#endif
