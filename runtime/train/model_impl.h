/* The inside of a model. For runtime/train only. */
#ifndef ISO_TRAIN_MODEL_IMPL_H
#define ISO_TRAIN_MODEL_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/graph/savepoint.h"
#include "runtime/train/model.h"

/* One number that training reports: `last` of the sum over batches of results[sum], divided by that of
 * results[weight], or where weight is negative by per_row times the rows. */
typedef struct iso_value_rule {
    char name[ISO_MAX_NAME];
    int sum, weight;
    double per_row;
    bool mean;                   /* results[sum] is the batch's mean: counted `rows` times */
    double (*last)(double mean); /* NULL: the quotient itself */
} iso_value_rule;

/* The settings of losses and metrics in iso_output_options and iso_compile_options. */
#define ISO_OUTPUT_SETTINGS(DO) DO(top_k) DO(threshold) DO(label_smoothing) DO(huber_delta)

struct iso_model {
    iso_graph *graph;
    int n_inputs, n_outputs;
    iso_tensor *inputs[ISO_MAX_MODEL_INPUTS], *outputs[ISO_MAX_MODEL_OUTPUTS];
    char output_name[ISO_MAX_MODEL_OUTPUTS][ISO_MAX_NAME]; /* that were set; "": the layer's */
    iso_status status; /* an error of the model itself, not of its graph */
    /* what iso_compile made */
    bool compiled;
    iso_savepoint *point;    /* in the graph, before what it has added; NULL: none */
    int busy;                /* the number of running iso_fit, iso_evaluate and iso_predict */
    iso_optimizer optimizer; /* with its rule's name; its no_decay is not kept */
    iso_output_options objective[ISO_MAX_MODEL_OUTPUTS];
    int n_targets; /* outputs that have a loss or metrics */
    bool weighted; /* they have sample weights */
    int n_parts;   /* what the functions take: inputs, targets, and where `weighted` a weight for each */
    iso_tensor *parts[ISO_MAX_COMPONENTS];
    iso_saved_file *initial; /* to restore from: making the first function reads its weights, compiling its
                                optimizer state, and then it is closed; NULL: none */
    int64_t trained;         /* steps of iso_fit so far, of the runs before this one too */
    iso_function *training, *evaluation;
    iso_function *prediction[2]; /* of whole outputs, of parts; made when first needed */
    int n_values, n_results;
    iso_value_rule values[ISO_MAX_VALUES];
    const char *value_name[ISO_MAX_VALUES];
};

/* ISO_INVALID where the optimizer follows a schedule, which who ("learning rate scheduler") would fight.
 * Local. */
iso_status iso_model_check_learning_rate(const iso_model *model, const char *who);

/* Running sums of the reported values. */
typedef struct iso_totals {
    double sum[ISO_MAX_VALUES], weight[ISO_MAX_VALUES];
} iso_totals;
void iso_totals_add(iso_totals *totals, const iso_model *model, const double *results, int64_t rows);
/* values[i] = last(sum / weight), with 0 / 0 = 0, as Keras has it. */
void iso_totals_read(const iso_totals *totals, const iso_model *model, double *values);

/* ISO_INVALID where the model is not compiled or the data set's components do not fit it; batches a data set
 * that is not. Not collective. */
iso_status iso_model_check_data(iso_model *model, iso_dataset *data, const char *use);
/* The same of the inputs alone, for a model that need not be compiled. */
iso_status iso_model_check_inputs(iso_model *model, iso_dataset *data, const char *use);

/* What iso_compile asks for, with the outputs' own options in place: targets and weights become inputs of the
 * model; *loss, reported values and their tensors in `results`. Errors stay in the graph. Local. */
typedef struct iso_results {
    iso_tensor *tensors[ISO_MAX_FUNCTION_OUTPUTS];
    int count;
} iso_results;
iso_status iso_loss_graph_build(iso_model *model, const iso_compile_options *options, iso_results *results,
                                iso_tensor **loss);
/* The options of an output; those of all where it has none of its own. */
iso_output_options iso_loss_graph_options(const iso_compile_options *options, int output);

/* The function that gives the outputs, made now if there is none: whole on every slot, or in parts. Variables
 * have values from then on. Collective. */
iso_status iso_model_predictor(iso_model *model, bool parts, iso_function **function);

/* Goes through batches with a function. A rank whose data set fails alone takes part in the steps that
 * follow, with batches that cannot be read, so that every rank meets the error. */
typedef struct iso_input_iterator {
    iso_dataset *data;
    bool differs; /* the data's components are not the model's one by one: rows have dimensions of 1
                     that the others lack, or one component of weights serves all outputs */
    int component[ISO_MAX_COMPONENTS]; /* of the data, for each of the model's */
    iso_batch reshaped;                /* lends the data set's batch in the model's shapes */
    const iso_batch *lent;
    iso_status status; /* the data set's first error on this rank */
    char message[1024];
    iso_batch failed;
    bool ended;            /* by a generator of unknown length, before the last of the steps */
    int64_t position, end; /* in batches since the data set's epoch 0 */
} iso_input_iterator;
/* steps batches from position `begin` on. */
void iso_input_iterator_begin(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                              int64_t begin, int64_t steps);
/* The same of the model's inputs alone. */
void iso_input_iterator_begin_inputs(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                                     int64_t begin, int64_t steps);
/* The next batch, NULL after the last. */
const iso_batch *iso_input_iterator_next(iso_input_iterator *iterator);
/* The iterator's own error, recorded again. */
iso_status iso_input_iterator_status(const iso_input_iterator *iterator);

/* The reported values on a data set that was checked. Prints nothing. Collective. */
iso_status iso_model_evaluate_all(iso_model *model, iso_dataset *data, double *values);

/* ---- same_model.c ---- */
/* Comparison of a model between the ranks. For runtime/train only. */
/* ISO_INVALID where the ranks do not have the same layers, variables, optimizer, losses and metrics: names
 * the ranks and the first setting that differs, with both values. To be called after they were built.
 * Collective. */
iso_status iso_model_agree_same(const iso_model *model);

#endif
