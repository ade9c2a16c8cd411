/* Weights and training state in files, and the callbacks that save them. Functions are local unless their
 * comment says otherwise. Pointers that functions return are callbacks that belong to the caller until
 * iso_fit() gets them, unless their comment says otherwise. */
#ifndef ISO_TRAIN_CHECKPOINTS_H
#define ISO_TRAIN_CHECKPOINTS_H

#include "runtime/train/callbacks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the weights of a model, its other variables and, if it is compiled, the optimizer's state into a
 * file that ends in ".weights.h5", which Keras's model.load_weights() opens. An existing file of this name is
 * replaced when the new one is complete. A missing folder is made. ISO_INVALID: another ending; ISO_IO names the
 * file. Collective. */
ISO_API iso_status iso_model_save_weights(iso_model *model, const char *path);
typedef struct iso_load_weights_options {
    const char *path; /* positional. A file, or a checkpoint as DIR or DIR/latest (the newest), or DIR/best */
    bool no_optimizer; /* does not change the optimizer's state */
    const char
        *name; /* what messages call the file, such as the archive that it comes from; NULL: its path */
} iso_load_weights_options;
/* Reads the weights of a model (compiled, or to be used by iso_predict) from a checkpoint or a .weights.h5 of
 * Keras, on any mesh, and the optimizer's state if the file has it. Checksums, if the file has them, are
 * compared first. The chief warns if the checkpoint is of a model whose layers have other settings, on which the
 * outputs depend, or that computed in another precision. ISO_INVALID names the first tensor that is missing,
 * unexpected, or of another shape; nothing has been changed then. Collective. */
ISO_API iso_status iso_model_load_weights_with(iso_model *model, const iso_load_weights_options *options,
                                               size_t size);
#define iso_model_load_weights(model, ...)                                                                   \
    iso_model_load_weights_with(model, ISO_OPTIONS_AFTER(iso_load_weights_options, path, __VA_ARGS__))

/* What Keras's guides call make_or_restore_model(): builds a model with `build`, and restores it from the
 * newest checkpoint of `folder` that passes verification. Restored are
 *   - the weights, when the first function of the model's graph is made: by iso_compile (in `build` or
 *     later), by iso_predict without compiling, or by the program itself,
 *   - the counts of steps: dropout continues its random numbers, and new checkpoints count as newer,
 *   - the optimizer's state, when the model is compiled with an optimizer of the same rule; the state of
 *     another rule is ignored with a warning.
 * Training then counts its epochs from 0, as in Keras. A missing folder, or one without checkpoints, is no
 * error. Damaged checkpoints are skipped with a warning that names them. A checkpoint of another network is
 * ISO_INVALID: of this call if `build` has made functions (the model is then destroyed), else of the call that
 * makes the first function. *model is owned by the caller, and set on success only. Collective. */
ISO_API iso_status iso_model_restore_or_create(iso_context *ctx, const char *folder,
                                               iso_model *(*build)(iso_context *ctx), iso_model **model);

typedef struct iso_model_checkpoint_options {
    char begin_;
    /* "ckpt/{epoch:02d}-{val_loss:.4f}.weights.h5": epoch and batch count from 1, as in Keras; other names
     * are those of the logs (with .save_freq, not val_...). A missing folder is made. ISO_INVALID before the
     * first step if a rank cannot write into it. */
    const char *path;
    const char *monitor; /* "val_loss": for save_best_only */
    iso_mode mode;
    bool save_best_only;
    bool save_weights_only; /* without the optimizer and the training's state: training cannot resume from
                               it */
    double initial_value_threshold; /* save_best_only: a value must be better than this; ISO_ZERO for 0 */
    int64_t save_freq;              /* after this many batches; 0: after each epoch */
    int keep;                       /* how many checkpoints are kept; 0: all */
    iso_mode best_mode;             /* for the value `best` */
    const char *best; /* a value of the logs: the file `best` in the folder names the checkpoint where it was
                         best, which is kept; a training that resumes moves `best` if it names another one */
    bool mpio;        /* writes with HDF5's parallel driver, while training waits */
    bool waits;       /* training waits for each checkpoint; default: a thread writes */
    bool stop_on_error; /* a checkpoint that cannot be written ends training; default: a warning */
    int verbose;        /* 1: prints a line for each checkpoint */
} iso_model_checkpoint_options;
/* Saves checkpoints from which training resumes bit for bit (iso_fit's .resume). */
ISO_API iso_callback *iso_model_checkpoint_with(const iso_model_checkpoint_options *options, size_t size);
#define iso_model_checkpoint(...)                                                                            \
    iso_model_checkpoint_with(ISO_OPTIONS_AFTER(iso_model_checkpoint_options, path, __VA_ARGS__))

#define ISO_BACKUP_NAME "backup.weights.h5" /* of the file in the folder */

typedef struct iso_backup_and_restore_options {
    char begin_;
    /* The folder, for this training alone; it is made if it is missing. ISO_INVALID before the first step if a rank
     * cannot write into it. */
    const char *folder;
    int64_t save_freq;               /* after this many batches; 0: after each epoch */
    bool keep_backup;                /* the backup stays after training ends */
    bool mpio, waits, stop_on_error; /* as in iso_model_checkpoint */
    bool begins_anew; /* training does not resume from the folder's backup, which the first save replaces */
} iso_backup_and_restore_options;
/* Keeps one checkpoint of a training. If the folder has one when training begins, training resumes from it.
 * Removed when training ends without an error, unless it is of an earlier training (.begins_anew). It stays when
 * training diverged (iso_terminate_on_nan). */
ISO_API iso_callback *iso_backup_and_restore_with(const iso_backup_and_restore_options *options, size_t size);
#define iso_backup_and_restore(...)                                                                          \
    iso_backup_and_restore_with(ISO_OPTIONS_AFTER(iso_backup_and_restore_options, folder, __VA_ARGS__))
/* Removes the backup that `keep_backup` left in the folder; other files stay. For programs that have more to
 * do after training: call it when its results are saved. On one rank, in any thread. */
ISO_API void iso_backup_remove(const char *folder);

#ifdef __cplusplus
}
#endif
#endif
