/* What tests/huggingface/make.py computes: its tokens, the digests of logits and the losses of single steps; and a
 * mesh with the layouts on which a test computes them again. */
#ifndef ISO_TESTS_SUPPORT_PRETRAINED_H
#define ISO_TESTS_SUPPORT_PRETRAINED_H

#include "runtime/isogrid.h"

enum { VOCABULARY = 61, CONTEXT = 16, BATCH = 4, STEPS = 3, ROWS = BATCH * STEPS };

/* The file of tokens of make.py. Called on one rank. */
void pretrained_write_tokens(const char *path);
/* Its rows, in batches. */
iso_dataset *pretrained_open_tokens(iso_context *ctx, const char *path);

/* Of the logits of the first batch: their squares, and their products with oracle_weight(100, ...). */
typedef struct digest {
    double squares, products;
} digest;

typedef struct pretrained_expected {
    digest before, after; /* the steps */
    double loss[STEPS];
} pretrained_expected;

/* The line of a network in a file of tests/huggingface. */
pretrained_expected pretrained_read_expected(const char *file, const char *network);
/* what: for the message of a failure. logits: [BATCH, CONTEXT, VOCABULARY] */
void pretrained_check_digest(const char *what, const digest *expected, const double *logits);
/* The same of the logits that the model predicts. */
void pretrained_check_logits(const char *what, const digest *expected, iso_model *model, iso_context *ctx,
                             const char *tokens);

/* The losses of single steps, from the running means of an epoch: `user` of pretrained_note_loss, which is called at
 * the end of each batch. Initialised with {0}. */
typedef struct curve {
    int count;
    double sum, loss[STEPS];
} curve;
iso_status pretrained_note_loss(void *user, iso_fit_state *state);

/* layouts: those of the network; otherwise all weights are replicated. */
typedef struct pretrained_setting {
    const char *mesh;
    bool layouts;
    int zero;
} pretrained_setting;
enum { SETTINGS = 4 };
extern const pretrained_setting pretrained_settings[SETTINGS];

typedef struct job {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_model *model; /* made by the caller */
} job;

/* All but the model. layouts: the network's file. */
job pretrained_begin_job(iso_context *ctx, const pretrained_setting *setting, const char *layouts);
void pretrained_end_job(job *j);

#endif
