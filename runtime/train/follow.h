/* The evaluator: follows the checkpoints of a training. */
#ifndef ISO_TRAIN_FOLLOW_H
#define ISO_TRAIN_FOLLOW_H

#include "runtime/train/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_follow_options {
    /* positional; a list that ends at NULL, or NULL. iso_follow owns its members from the call on, even if it
     * fails. Of them, iso_tensorboard writes evaluation_<name>_vs_iterations and epoch_<name> into the folder
     * `evaluator` below its own, and iso_history_file names the file of JSON lines. The others are not called:
     * one list serves iso_fit and iso_follow */
    iso_callback **callbacks;
    const char *pattern; /* of the names: {name} matches a number, {} anything; default: all checkpoints */
    bool newest_only;    /* skips all but the newest one, as TensorFlow's SidecarEvaluator does;
                                 default: evaluates each one that is still there, oldest first */
    int epochs;          /* of the training, as iso_fit gets it: the end of a training of fewer epochs does
                            not count; also ends when a checkpoint of so many epochs is evaluated, or has a
                            line and is in the folder. 0: any end counts */
    double timeout;      /* seconds without a new checkpoint after which ISO_FAILED is returned; 0: waits */
    double period;       /* seconds between two polls; 1 */
    int verbose;         /* 1 (default): prints a line for each checkpoint; ISO_ZERO: nothing */
} iso_follow_options;

/* Loads each checkpoint that iso_model_checkpoint commits to `folder`, as it appears, and evaluates it on
 * `data`, as iso_evaluate would. The model must be compiled. Its optimizer is not used.
 *
 * Each evaluation is a JSON line in FOLDER/evaluator.json (or, with iso_history_file("h.json") among the
 * callbacks, in h-evaluator.json). Checkpoints that have a line are not evaluated again when an evaluator starts
 * anew. If the file is removed or renamed meanwhile, lines go to a new one of its name, with a warning. Damaged
 * checkpoints, and those that are removed before they are read, are skipped with a line that says so. The folder
 * need not exist yet.
 *
 * Returns when the training has ended and nothing is left to evaluate. In a job with workers that is when they
 * call iso_finish (at once, if with an error); otherwise when the chief has written the file `finished` into the
 * folder, which it does at the end of iso_fit and removes when another iso_fit begins. If a training ends
 * without that, because it was killed, the evaluator waits for its continuation.
 *
 * ISO_INVALID: a checkpoint of another network, a file that cannot be written or that another evaluator is
 * writing. Collective over the evaluator's ranks; no worker waits for it. */
ISO_API iso_status iso_follow_with(iso_model *model, const char *folder, iso_dataset *data,
                                   const iso_follow_options *options, size_t size);
#define iso_follow(model, folder, data, ...)                                                                 \
    iso_follow_with(model, folder, data, ISO_OPTIONS_AFTER(iso_follow_options, callbacks, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
