/* Trials: one of the small networks on a mesh, with data of its own, step by step. An error fails the test with the
 * trial's description. */
#ifndef ISO_TESTS_SUPPORT_TRIAL_H
#define ISO_TESTS_SUPPORT_TRIAL_H

#include "runtime/exec/function/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/spmd/spmd.h"
#include "tests/support/nets.h"

typedef struct trial {
    net net;
    iso_context *ctx;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_update *update;
    iso_function *train, *infer;
    int64_t rows;
    int zero;        /* level of ZeRO; 0: not set. Set it before trial_make */
    char what[4096]; /* the mesh and the layouts, for messages */
} trial;

/* The network; its weights are the same every time. */
void trial_begin(trial *t, iso_context *ctx, const net_kind *kind, iso_dtype precision, int64_t rows);
void trial_end(trial *t);
/* The mesh, before layouts. rank_of_slot: NULL for blocks. */
void trial_mesh(trial *t, const char *mesh, const int *rank_of_slot);
void trial_layout(trial *t, const char *key, const char *layout);
/* Makes the training function. batch_axis NULL: all axes, data parallel, without layouts. */
void trial_make(trial *t, const char *batch_axis, const iso_optimizer *optimizer);
/* The loss of one step on the batch of this number; data depends on the network and the number alone. */
double trial_step(trial *t, int number);
/* The loss in inference of the batch of this number. */
double trial_infer(trial *t, int number);
/* The same batch through another function of the graph. */
void trial_run(trial *t, iso_function *function, int number, double *const *outputs);
/* The same through a function made with .parts. */
void trial_run_parts(trial *t, iso_function *function, int number);
/* All variables one after another; freed with free(). */
double *trial_weights(const trial *t, int64_t *count);
/* Checks that the operations and bytes which the first `steps` steps of training counted are those of the plan,
 * summed over all slots. accumulation: that of the optimizer. Collective. */
void trial_check_counts(const trial *t, int steps, int accumulation);
/* Fails the test if the status is an error. */
void trial_ok(const trial *t, iso_status status);

#endif
