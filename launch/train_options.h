/* The options of `isogrid train`, read from the command line without looking at anything else. */
#ifndef ISO_LAUNCH_TRAIN_OPTIONS_H
#define ISO_LAUNCH_TRAIN_OPTIONS_H

#include "launch/command_line.h"
#include "runtime/graph/optimizer.h"
#include "runtime/train/callbacks.h"

/* Options of callbacks, and storage for their texts. */
typedef struct iso_run_callback_options {
    iso_early_stopping_options stopping;
    iso_reduce_lr_on_plateau_options plateau;
    iso_tensorboard_options tensorboard;
    char stopping_monitor[64], plateau_monitor[64];
} iso_run_callback_options;

enum { ISO_MAX_CLASS_WEIGHTS = 1024 };

/* Settings of adapters, and storage for their texts. */
typedef struct iso_lora_settings {
    int64_t rank; /* 0: no adapters */
    double alpha; /* 0: as rank */
    char target[64], trained[64];
} iso_lora_settings;

/* Texts are those of argv. NULL, or 0 unless stated otherwise: not given. */
typedef struct iso_train_options {
    const char *model, *data, *x, *y, *sample_weight;
    const char *tokenizer; /* "none": bytes of a text are its tokens */
    double mask_tokens;    /* 0: not given */
    const char *validation_data, *test_data;
    double validation_split;
    int64_t validation_rows;
    int64_t classes;                                                  /* 0: 10, and not given */
    const char *mesh, *devices, *role, *collectives, *backend, *tune; /* the session reads all but mesh */
    iso_argument_list layouts; /* KEY=LAYOUT; the key ends at the last '=' */
    bool layout_auto;          /* --layout auto; then `layouts` is empty */
    const char *layout_file, *time, *network;
    bool strict_layouts;
    int64_t zero;
    int64_t batch_size, epochs, steps_per_epoch; /* defaults 32, 1, 0: all */
    const char *shuffle;
    int64_t shuffle_rows; /* of the buffer; 0: the whole data set, -1: no shuffling */
    bool drop_remainder;
    const char *optimizer, *schedule, *loss, *metrics, *class_weight;
    double learning_rate, weight_decay, clip_norm, global_clip_norm, clip_value; /* -1: not given */
    int64_t accumulate;                                                          /* 0: not given */
    double ema_momentum;                                                         /* -1: not given */
    int64_t ema_overwrite_frequency;                                             /* 0: not given */
    bool swap_ema_weights;
    iso_schedule decay; /* from `schedule`, which names its kind; .initial is not filled */
    double class_weights[ISO_MAX_CLASS_WEIGHTS]; /* from class_weight */
    int n_class_weights;
    const char *precision; /* NULL: float32, or what a .keras file says */
    bool check_data;
    uint64_t seed, threads, verbose, timeout, timeout_abort, tf32,
        cuda_aware; /* the session reads them too */
    const char *history, *timings;
    const char *csv, *tensorboard, *tensorboard_options, *profile;
    int64_t profile_step; /* 0: in the middle */
    const char *early_stopping, *reduce_lr_on_plateau;
    bool profile_launches, terminate_on_nan;
    iso_run_callback_options callback_options; /* from these; monitors that are empty: not given */
    const char *checkpoint, *save_freq, *save_best, *checkpoint_io, *checkpoint_errors;
    int64_t save_steps;     /* from save_freq; 0: each epoch */
    int64_t keep;           /* 0: all */
    int64_t check_replicas; /* 0: never */
    int64_t stop_before;    /* seconds; 0: not given */
    const char *resume, *backup, *weights, *save;
    const char *lora, *adapter, *save_adapter;
    iso_lora_settings adapters; /* from `lora` */
    const char *save_dtype, *save_shard_size;
    double shard_bytes; /* from save_shard_size; 0: the default */
} iso_train_options;

/* Reads argv[1..argc). ISO_INVALID names the option and its value; also if options exclude each other. */
iso_status iso_train_options_parse(int argc, char *const *argv, iso_train_options *options);
/* Adds the help. */
void iso_train_options_help(iso_text *text);
/* For commands that take some of these options: returns a row of the table by its name; the defaults; and checks
 * options after they have been read. */
const iso_argument *iso_train_argument(const char *name);
iso_train_options iso_train_options_default(void);
iso_status iso_train_options_check(iso_train_options *options);

/* A schedule from text: "constant", "exponential:decay_steps=1000,decay_rate=0.9,staircase=1",
 * "cosine:decay_steps=1000,alpha=0.1,warmup_steps=100,warmup_target=0.01", or
 * "piecewise:1000=0.01,2000=0.001" (the learning rate up to step 1000, then 0.01 up to step 2000, then
 * 0.001). Keras's names and meaning. */
iso_status iso_schedule_parse(const char *text, iso_schedule *schedule);

/* Weights of classes from text, "0=1,1=3.5": weights [ISO_MAX_CLASS_WEIGHTS] up to the last class that is named, 1
 * for the others. ISO_INVALID names what is wrong. Local. */
iso_status iso_class_weights_parse(const char *text, double *weights, int *count);

/* Adapters from text: "rank=8,alpha=16,target=query|value,trained=classifier"; ISO_INVALID. */
iso_status iso_lora_parse(const char *text, iso_lora_settings *settings);
/* The options of iso_lora_begin; their texts are those of the settings. */
iso_lora_options iso_lora_options_of(const iso_lora_settings *settings);

/* Reads --early-stopping, --reduce-lr-on-plateau and --tensorboard-options; Keras's names and meaning. */
iso_status iso_run_callback_options_parse(const iso_train_options *options,
                                          iso_run_callback_options *callback_options);

/* Splits "KEY=LAYOUT" at its last '='. key has `size` bytes; *layout points into text. */
iso_status iso_layout_option_split(const char *text, char *key, size_t size, const char **layout);

/* Reads the options of --save for Hugging Face. ISO_INVALID if they do not suit the name of the output; path: NULL:
 * there is none. */
iso_status iso_save_options_check(iso_train_options *options, const char *path);
/* ISO_INVALID if no model can be saved under this name: ".keras", ".weights.h5" and ".safetensors" are files, others
 * without the ending of another format are folders for Hugging Face. option: "--save ", or "". */
iso_status iso_output_name_check(const char *option, const char *path);
/* Whether the name is that of a folder for Hugging Face. */
bool iso_output_is_folder(const char *path);

#endif
