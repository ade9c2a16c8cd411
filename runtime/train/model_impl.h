/* The internals of a model. For runtime/train only. */
#ifndef ISO_TRAIN_MODEL_IMPL_H
#define ISO_TRAIN_MODEL_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/graph/savepoint.h"
#include "runtime/train/model.h"

struct iso_metric_type;

/* A reported number, from the sums over batches of results[sum] to results[sum + count - 1] and of
 * results[weight]; if weight is negative, that is per_row times the number of rows. */
typedef struct iso_value_rule {
    char name[ISO_MAX_NAME];
    int64_t sum, count, weight;
    int64_t at; /* of its first sum in iso_totals */
    double per_row;
    bool mean;                          /* results[sum] is the batch's mean, weighted by `rows` */
    const struct iso_metric_type *type; /* NULL: the value is the quotient of the sums */
    iso_metric_settings settings;
} iso_value_rule;

/* The settings of losses in iso_output_options and iso_compile_options. */
#define ISO_OUTPUT_SETTINGS(DO)                                                                              \
    DO(label_smoothing)                                                                                      \
    DO(huber_delta)                                                                                          \
    DO(loss_alpha)                                                                                           \
    DO(loss_beta)                                                                                            \
    DO(loss_gamma)                                                                                           \
    DO(loss_q)                                                                                               \
    DO(ignore_class)                                                                                         \
    DO(loss_axes)                                                                                            \
    DO(apply_class_balancing)

struct iso_model {
    iso_graph *graph;
    int n_inputs, n_outputs;
    iso_tensor *inputs[ISO_MAX_MODEL_INPUTS], *outputs[ISO_MAX_MODEL_OUTPUTS];
    const char *input_key[ISO_MAX_MODEL_INPUTS];           /* of the graph; NULL: none */
    iso_tensor *result[ISO_MAX_MODEL_OUTPUTS];             /* iso_model_result; NULL: not made yet */
    char output_name[ISO_MAX_MODEL_OUTPUTS][ISO_MAX_NAME]; /* names that were set; "": the layer's name */
    iso_status status;                                     /* the model's own error, not its graph's */
    /* made by iso_compile */
    bool compiled;
    iso_savepoint *point; /* in the graph, before what compiling added; NULL: none */
    bool merged;          /* its adapters are merged, and it was not trained since: files do not have them */
    bool trains;          /* the loss depends on a trainable variable */
    bool evaluation_only; /* there is no training function (iso_compile_evaluation) */
    int busy;             /* the number of running iso_fit, iso_evaluate and iso_predict */
    iso_optimizer optimizer; /* rule: the name of its rule; no_decay is not kept */
    iso_output_options objective[ISO_MAX_MODEL_OUTPUTS];
    int n_targets;             /* outputs that have a loss or metrics */
    bool weighted;             /* whether they have sample weights */
    bool sample_weights;       /* whether rows or positions have weights */
    const char *class_weights; /* as text; NULL: none */
    int n_parts;               /* the step inputs: inputs, targets and, if `weighted`, a weight for each */
    iso_tensor *parts[ISO_MAX_COMPONENTS];
    iso_saved_file *initial; /* the file to restore from: making the first function reads its weights;
                                compiling reads its optimizer state and closes it; NULL: none */
    int64_t trained;         /* steps of iso_fit so far, including those of earlier runs */
    iso_function *training, *evaluation;
    iso_function *prediction[2]; /* of whole outputs, and of shards of them; made when first needed */
    int n_values;
    int64_t n_results,
        n_sums; /* the elements of results of a step; of them those that are summed for a value */
    iso_value_rule values[ISO_MAX_VALUES];
    const char *value_name[ISO_MAX_VALUES];
};

/* ISO_INVALID if the optimizer follows a schedule, which `who` ("learning rate scheduler") would conflict
 * with. Local. */
iso_status iso_model_check_learning_rate(const iso_model *model, const char *who);

/* Running sums of the reported values, and room for the results of a step. */
typedef struct iso_totals {
    double *sum, *weight, *results; /* [n_sums], [n_values], [n_results] of one block of memory */
} iso_totals;
/* Zeros. ISO_NO_MEMORY. */
iso_status iso_totals_create(const iso_model *model, iso_totals *totals);
void iso_totals_destroy(iso_totals *totals);
void iso_totals_clear(iso_totals *totals, const iso_model *model);
void iso_totals_add(iso_totals *totals, const iso_model *model, const double *results, int64_t rows);
/* values[i] from the sums, with 0 / 0 = 0, as in Keras. */
void iso_totals_read(const iso_totals *totals, const iso_model *model, double *values);

/* ISO_INVALID if the model is not compiled or the data set's components do not fit it. Sample weights may be
 * missing: all are 1, as in Keras. Batches a data set that has no batch stage. Not collective. */
iso_status iso_model_check_data(iso_model *model, iso_dataset *data, const char *use);
/* The same for the inputs only; the model need not be compiled. */
iso_status iso_model_check_inputs(iso_model *model, iso_dataset *data, const char *use);
/* ISO_INVALID if the loss of a compiled model depends on no trainable variable, or if it has no training function.
 * Local. */
iso_status iso_model_check_trains(const iso_model *model);

/* Builds what iso_compile needs, with the outputs' own options filled in: targets and weights become inputs
 * of the model; *loss; reported values and their tensors in `results`. Errors stay in the graph. Local. */
typedef struct iso_results {
    iso_tensor *tensors[ISO_MAX_FUNCTION_OUTPUTS];
    int count;
    int64_t size; /* elements of all */
} iso_results;
iso_status iso_loss_graph_build(iso_model *model, const iso_compile_options *options, iso_results *results,
                                iso_tensor **loss);
/* The options of an output; the common ones if it has none of its own. */
iso_output_options iso_loss_graph_options(const iso_compile_options *options, int output);

/* Output `index` in the type of its results (iso_model_output_dtype). The first call may add to the graph; compiling
 * makes all results before its savepoint, so that a prediction adds nothing after it. */
iso_tensor *iso_model_result(iso_model *model, int index);
/* The function that computes the outputs, made now if there is none: whole on every slot, or sharded
 * (`parts`). Variables have values afterwards. Collective. */
iso_status iso_model_predictor(iso_model *model, bool parts, iso_function **function);

/* Iterates over batches for a function. If a data set fails on one rank only, that rank takes part in the
 * following steps with batches that cannot be read, so that every rank gets the error. */
enum { ISO_WEIGHTS_OF_ONE = -1 }; /* instead of a component: the data have no sample weights */
typedef struct iso_input_iterator {
    iso_dataset *data;
    bool differs; /* the data's components do not match the model's one by one: rows have extra dimensions of
                     1, one component of weights serves all outputs, or there is none */
    int component[ISO_MAX_COMPONENTS]; /* the data's component for each of the model's */
    iso_batch reshaped;                /* wraps the data set's batch in the model's shapes */
    const iso_batch *lent;
    iso_status status; /* the data set's first error on this rank */
    char message[1024];
    iso_batch failed;
    bool ended;            /* by a generator of unknown length, before the last step */
    int64_t position, end; /* in batches since the data set's epoch 0 */
} iso_input_iterator;
/* Begins `steps` batches at position `begin`. */
void iso_input_iterator_begin(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                              int64_t begin, int64_t steps);
/* The same for the model's inputs only. */
void iso_input_iterator_begin_inputs(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                                     int64_t begin, int64_t steps);
/* The next batch, NULL after the last. Others may have used the data set since the last call. */
const iso_batch *iso_input_iterator_next(iso_input_iterator *iterator);
/* The last batch again, if others may have used the data set since. */
const iso_batch *iso_input_iterator_again(iso_input_iterator *iterator, const iso_batch *batch);
/* Records the iterator's own error again and returns it. */
iso_status iso_input_iterator_status(const iso_input_iterator *iterator);

/* The reported values on a data set that was checked. Prints nothing. ISO_INTERRUPTED if the program was asked
 * to stop, unless `whole`. Collective. */
iso_status iso_model_evaluate_all(iso_model *model, iso_dataset *data, double *values, bool whole);

/* ---- same_model.c ---- */
/* Comparison of a model between the ranks. For runtime/train only. */
/* ISO_INVALID if the ranks do not have the same layers, variables, optimizer, losses and metrics: names the
 * ranks and the first setting that differs, with both values. Call it after they are built. Collective. */
iso_status iso_model_agree_same(const iso_model *model);

#endif
