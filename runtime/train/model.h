/* Models: a graph with inputs and outputs, what it is trained for, and Keras's compile, fit, evaluate and
 * predict.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_TRAIN_MODEL_H
#define ISO_TRAIN_MODEL_H

#include <stdio.h>

#include "runtime/base/batch.h"
#include "runtime/exec/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/callbacks.h"
#include "runtime/train/losses.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_dataset iso_dataset;
typedef struct iso_saved_file iso_saved_file;

/* A model from x, an iso_input of g, to y. Owns g from then on: it goes with the model, and
 * iso_graph_destroy(g) does nothing. A graph has one model: a second one does not get it, and its error says
 * so. Never NULL: the first error made while building stays in the model, and
 * iso_compile returns it on every rank. Not collective, but every rank must build the same model. */
ISO_API iso_model *iso_model_create(iso_graph *g, iso_tensor *x, iso_tensor *y);
/* The same with several (at most ISO_MAX_MODEL_INPUTS and ISO_MAX_MODEL_OUTPUTS); data sets have their
 * components in this order: inputs, then the targets of the outputs that have a loss or metrics. */
ISO_API iso_model *iso_model_create_several(iso_graph *g, iso_tensor *const *inputs, int input_count,
                                            iso_tensor *const *outputs, int output_count);
/* Frees the model and its graph. NULL is nothing. Collective (iso_mesh_destroy). */
ISO_API void iso_model_destroy(iso_model *model);
ISO_API iso_graph *iso_model_graph(iso_model *model);
/* The first ones, and by index; NULL outside. Lent. */
ISO_API iso_tensor *iso_model_input(iso_model *model);
ISO_API iso_tensor *iso_model_output(iso_model *model);
ISO_API int iso_model_input_count(const iso_model *model);
ISO_API int iso_model_output_count(const iso_model *model);
ISO_API iso_tensor *iso_model_input_at(iso_model *model, int index);
ISO_API iso_tensor *iso_model_output_at(iso_model *model, int index);
/* By which reported values name an output ("<name>_loss"): that of the layer that made it, as in Keras,
 * unless set otherwise before iso_compile. Lent. */
ISO_API const char *iso_model_output_name(iso_model *model, int index);
ISO_API void iso_model_set_output_name(iso_model *model, int index, const char *name);
/* Whether that was done. */
ISO_API bool iso_model_output_has_name(const iso_model *model, int index);
/* By path ("d1/kernel"); NULL where there is none. Lent; read and assigned after iso_compile. */
ISO_API iso_variable *iso_model_variable(iso_model *model, const char *path);
/* Keras's table of layers, output shapes and parameters, and where the model is no chain what is connected to
 * what. Any rank may print. */
ISO_API void iso_model_summary(iso_model *model, FILE *out);

/* A metric of one's own: a value for each row (or each element) of a batch; it is averaged. */
typedef struct iso_custom_metric {
    const char *name;
    iso_tensor *(*function)(iso_tensor *y_true, iso_tensor *y_pred);
} iso_custom_metric;

/* What one of several outputs is trained for. What is left out (zero) is as iso_compile_options has it for
 * all outputs. */
typedef struct iso_output_options {
    iso_loss loss;
    iso_tensor *(*loss_function)(iso_tensor *y_true, iso_tensor *y_pred);
    double loss_weight; /* in the total; 1 */
    iso_metric metrics[ISO_MAX_METRICS];
    iso_metric weighted_metrics[ISO_MAX_METRICS];
    iso_custom_metric custom_metrics[ISO_MAX_METRICS];
    const char *metric_names[ISO_MAX_METRICS];
    int top_k;
    double threshold, label_smoothing, huber_delta;
    iso_dtype target_dtype;
    iso_shape target_shape;
} iso_output_options;

typedef struct iso_compile_options {
    char begin_;
    iso_optimizer optimizer; /* rmsprop */
    iso_loss loss;           /* this or loss_function must be given */
    iso_tensor *(*loss_function)(iso_tensor *y_true, iso_tensor *y_pred); /* -> the loss of each row */
    iso_metric metrics[ISO_MAX_METRICS]; /* end at the first 0; they ignore sample weights, as in Keras */
    iso_metric weighted_metrics[ISO_MAX_METRICS]; /* with sample weights */
    iso_custom_metric custom_metrics[ISO_MAX_METRICS];
    const char *metric_names[ISO_MAX_METRICS]; /* of metrics, in logs and files; NULL: as they are usually */
    int top_k;                                 /* of the top-k metrics; 5 */
    double threshold;                          /* of binary accuracy; 0.5 */
    double label_smoothing;
    double huber_delta; /* 1 */
    /* Data sets have sample weights: after the targets a component with a weight for each row, for all
     * outputs, or one such component for each target. */
    bool sample_weights;
    /* Of a row of targets, for loss_function: float and the output's shape where dtype is 0. */
    iso_dtype target_dtype;
    iso_shape target_shape;
    double loss_weight; /* of each output's loss in the total; 1 */
    /* For several outputs, in their order: .outputs = {{.loss = ISO_LOSS_MSE}, {.loss = ISO_LOSS_MAE,
     * .loss_weight = 0.2}}. An output that has neither loss nor metrics has no targets in the data. The total
     * is the sum of the weighted losses and of what the layers add (regularisation). */
    iso_output_options outputs[ISO_MAX_MODEL_OUTPUTS];
    iso_distribution *distribution; /* NULL: every slot there is, data parallel; the model keeps it */
    bool
        reset_optimizer; /* when compiled again: discard the optimizer's state also if the rule is the same */
} iso_compile_options;

/* Builds the training and the evaluation function. Returns the model's own error where building failed;
 * ISO_INVALID for options that make no sense or differ between ranks. After an error the model is as it was
 * before the call, and may be compiled with other options.
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
 *   - What the call before added to the graph is freed, with what iso_model_training_function and
 *     iso_model_evaluation_function returned. The program's own functions of the graph stay valid, except
 *     that one which uses the model's targets or the optimizer's variables must be destroyed first
 *     (ISO_INVALID names it). The program must add its own ops, variables and layers to the graph before the
 *     first call; later ones are ISO_INVALID.
 * Collective. */
ISO_API iso_status iso_compile_with(iso_model *model, const iso_compile_options *options, size_t size);
#define iso_compile(model, ...) iso_compile_with(model, ISO_OPTIONS(iso_compile_options, __VA_ARGS__))

/* What a model was compiled with, Keras's defaults filled in: the optimizer (its no_decay is not kept) and
 * what output `index` is trained for. NULL before iso_compile. Lent. */
ISO_API const iso_optimizer *iso_model_optimizer(const iso_model *model);
ISO_API const iso_output_options *iso_model_compiled_output(const iso_model *model, int index);

/* Keras's layer.trainable = ...: whether the weights of a layer, or of all layers of a block ("encoder"), are
 * trained; layer NULL: of the whole model. A frozen BatchNormalization uses its moving statistics in training
 * too and leaves them as they are. Takes effect with the next iso_compile. ISO_INVALID: no such layer or
 * block (names the nearest). Local; every rank must do it alike. */
ISO_API iso_status iso_model_set_trainable(iso_model *model, const char *layer, bool trainable);

/* Instead of compiling: builds losses, metrics and updates into the model's graph, and says what the training
 * function would be, for iso_function_plan and iso_function_suggest. The model is of no other use then.
 * Local. */
ISO_API iso_status iso_model_describe_with(iso_model *model, const iso_compile_options *options, size_t size,
                                           iso_function_options *training);

typedef struct iso_fit_options {
    char begin_;
    int epochs;              /* 1; in all, counted from 0: training goes from initial_epoch to epochs */
    iso_dataset *validation; /* evaluated after each epoch; NULL: none */
    iso_callback *
        *callbacks; /* a list that ends at NULL; fit owns its members from the call on, whatever it returns */
    int64_t steps_per_epoch; /* the data set's */
    int initial_epoch;
    const char *resume; /* a checkpoint of such a training: go on from where that was written, instead of at
                           initial_epoch; NULL: begin */
    iso_saved_file *resume_file; /* the same of one that is open: what iso_checkpoint_find has verified is not
                                    read for that again; fit owns it from the call on, as the callbacks */
    int verbose; /* 1 (default): a bar on a terminal, else as 2: a line an epoch; ISO_ZERO: nothing */
    iso_history **history; /* where not NULL, receives losses and metrics (also of the epochs before an
                              error); the caller's */
} iso_fit_options;

/* Trains. A data set without a batch size is batched by 32. ISO_INVALID where the data does not fit the model
 * (names both shapes) or holds what it must not (a label outside the classes). Collective. */
ISO_API iso_status iso_fit_with(iso_model *model, iso_dataset *data, const iso_fit_options *options,
                                size_t size);
#define iso_fit(model, data, ...) iso_fit_with(model, data, ISO_OPTIONS(iso_fit_options, __VA_ARGS__))

typedef struct iso_evaluate_options {
    char begin_;
    double *loss;    /* receives the loss */
    double *metrics; /* receives the other values that iso_model_value_name names: metrics, weighted, custom;
                        with several losses, each of them before */
    int verbose;     /* as of iso_fit */
} iso_evaluate_options;

/* Loss and metrics on a data set, exact for any batch size and mesh: sums over rows divided by counts.
 * Collective. */
ISO_API iso_status iso_evaluate_with(iso_model *model, iso_dataset *data, const iso_evaluate_options *options,
                                     size_t size);
#define iso_evaluate(model, data, ...)                                                                       \
    iso_evaluate_with(model, data, ISO_OPTIONS(iso_evaluate_options, __VA_ARGS__))

typedef struct iso_predict_options {
    char begin_;
    /* Where the outputs of all rows go, in the order of the model's outputs: [rows, shape...], dense, of the
     * output's element type (float32, but with float64 precision float64), on every rank. NULL: not wanted.
     */
    void *outputs[ISO_MAX_MODEL_OUTPUTS];
    /* Called, between batches, on each rank for what its own slots have computed: part->box counts rows of
     * the whole data set. Every element comes once, on one rank. An error ends the prediction on all. */
    iso_status (*part)(void *user, const iso_output_part *part);
    void *user;
    /* An HDF5 file that all ranks write, each its own part: dataset "y", with several outputs one of each
     * output's name. It has its name when it is whole; every rank must see the folder. */
    const char *file;
    int verbose; /* as of iso_fit */
} iso_predict_options;

/* The outputs of a data set's rows, in its order, in inference mode. Targets and weights are not read; the
 * model need not be compiled (its distribution is then that of iso_graph_distribute, or every slot there is).
 * A data set without a batch size is batched by 32. ISO_INVALID where the data does not fit. Collective. */
ISO_API iso_status iso_predict_with(iso_model *model, iso_dataset *data, const iso_predict_options *options,
                                    size_t size);
#define iso_predict(model, data, ...)                                                                        \
    iso_predict_with(model, data, ISO_OPTIONS(iso_predict_options, __VA_ARGS__))

/* The rate of the next step, of a compiled model. Collective. */
ISO_API iso_status iso_model_learning_rate(iso_model *model, double *rate);
/* The rate of all steps that follow, the same on every rank. ISO_INVALID where the optimizer follows a
 * schedule. Collective. */
ISO_API iso_status iso_model_set_learning_rate(iso_model *model, double rate);

/* The compiled functions, for facts, counts and printed plans; NULL before iso_compile. Lent until the model
 * is compiled again. */
ISO_API iso_function *iso_model_training_function(iso_model *model);
ISO_API iso_function *iso_model_evaluation_function(iso_model *model);
/* Names of the values that training gives, those of Keras: "loss", with several losses "<output>_loss" of
 * each, then metrics, weighted and custom metrics in the order of the outputs; with several outputs
 * "<output>_<metric>". NULL outside [0, count). */
ISO_API int iso_model_value_count(const iso_model *model);
ISO_API const char *iso_model_value_name(const iso_model *model, int index);

#ifdef __cplusplus
}
#endif
#endif
