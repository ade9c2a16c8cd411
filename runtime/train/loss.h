/* The rows of losses and metrics. Compile, the command line, Keras's files, messages and checkpoints iterate
 * over them. A new loss or metric is a file in losses/ and a line in losses/list.h. For the library only. */
#ifndef ISO_TRAIN_LOSS_H
#define ISO_TRAIN_LOSS_H

#include "runtime/base/descriptor.h"
#include "runtime/base/text.h"
#include "runtime/train/model.h"

/* The kind of a loss's targets: see losses/list.h. */
typedef enum iso_loss_targets {
    ISO_LOSS_OF_VALUES,
    ISO_LOSS_OF_FRACTIONS,
    ISO_LOSS_OF_CLASSES,
} iso_loss_targets;

typedef struct iso_loss_call {
    iso_tensor *y_true, *y_pred;
    const iso_output_options *settings;
    bool from_logits;
} iso_loss_call;

/* A loss. Its function returns the loss of each row (of each position) [batch, ...]; errors stay in the
 * graph. */
typedef struct iso_loss_type {
    iso_descriptor row; /* settings: members of iso_output_options */
    const char *saved;  /* the name in the config of Keras's class */
    const char *alias;  /* another accepted name; NULL: none */
    /* The loss of logits of the same Keras class, which may be this one; NULL: the class has no argument
     * from_logits. */
    const struct iso_loss_type *logits;
    iso_tensor *(*function)(iso_tensor *y_true, iso_tensor *y_pred);
    iso_tensor *(*build)(const iso_loss_call *call); /* used if `function` is NULL */
    /* The mask of the targets that count, in the shape of the losses; NULL, also as the result: all count. */
    iso_tensor *(*mask)(const iso_loss_call *call);
} iso_loss_type;

/* A metric. Its function returns booleans or floats [batch, ...]; NULL if the graph has an error. The metric
 * is `last` of their mean over all rows. */
typedef struct iso_metric_type {
    iso_descriptor row;             /* settings: members of iso_metric_settings */
    const char *keras_name, *title; /* iso_metric_keras_name, iso_metric_title */
    const char *alias;              /* another accepted name; NULL: none */
    bool less_is_better;
    /* Fills in settings that follow from the shape of the predictions; NULL: there are none. */
    void (*complete)(iso_metric_settings *settings, const iso_shape *prediction);
    bool whole_weights; /* weights are cut to whole numbers */
    bool without_mask;  /* a mean that does not use the mask of the predictions */
    const char
        *needs; /* a setting of which Keras's default is several values, so that files must have another */
    /* Chooses the metric that replaces this one; NULL: this one is computed. */
    iso_metric (*choose)(iso_loss loss, const iso_shape *prediction);
    iso_tensor *(*function)(iso_tensor *y_true, iso_tensor *y_pred); /* targets in the predictions' shape */
    iso_tensor *(*build)(const iso_metric_options *options);         /* used if `function` is NULL */
    /* The sums of a metric that is no mean over rows: it is the quotient of both, or `value`; used if it is set. */
    iso_metric_sums (*sums)(const iso_metric_options *options);
    double (*last)(double mean); /* NULL: the mean is the metric */
    /* The metric from the sums over all batches [count]; NULL: it is `last` of the quotient. settings: filled in. */
    double (*value)(const iso_metric_settings *settings, const double *sums, int64_t count, double weight);
} iso_metric_type;

/* NULL outside the range. */
const iso_loss_type *iso_loss_type_of(iso_loss loss);
const iso_metric_type *iso_metric_type_of(iso_metric metric);
/* The loss of logits of the same Keras class; ISO_LOSS_NONE: there is none. loss: not ISO_LOSS_NONE. */
iso_loss iso_loss_with_logits(iso_loss loss);
/* ISO_LOSS_OF_VALUES for ISO_LOSS_NONE. */
iso_loss_targets iso_loss_targets_of(iso_loss loss);
/* The name by which a metric was requested, as spelled in the metric's row; NULL: it is not one of its
 * names. */
const char *iso_metric_spelling(iso_metric metric, const char *name);
/* The metric that is computed: "accuracy" becomes the accuracy for this loss and for predictions of this
 * shape (including the batch); other metrics stay. */
iso_metric iso_metric_for_loss(iso_metric metric, iso_loss loss, const iso_shape *prediction);

/* Fills in settings that follow from the shape of the predictions. */
void iso_metric_complete(iso_metric metric, iso_metric_settings *settings, const iso_shape *prediction);
/* The settings with the metric's defaults in place of zeros; INDEX settings stay. settings NULL: all zeros. */
iso_metric_settings iso_metric_filled(const iso_metric_type *type, const iso_metric_settings *settings);
/* iso_metric_result of a type; type NULL: of a mean. */
double iso_metric_value(const iso_metric_type *type, const iso_metric_settings *settings, const double *sums,
                        int64_t count, double weight);

/* ---- the options of compile ---- */

/* Converts between the options that hold for all outputs and the options of one output. */
iso_output_options iso_compile_common(const iso_compile_options *options);
void iso_compile_set_common(iso_compile_options *options, const iso_output_options *common);
/* Sets the settings of all losses to their defaults. */
void iso_loss_reset_settings(iso_output_options *output);

#endif
