/* Shared by the tests of checkpoints: a state of which every rank has shards, divided as a plan would, or less
 * regularly. */
#ifndef ISO_TESTS_SUPPORT_CHECKPOINTS_H
#define ISO_TESTS_SUPPORT_CHECKPOINTS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"

enum { MADE_TENSORS = 10, MADE_GROUPS = 7, MOST_MADE_PIECES = 64 };

/* The state, and this rank's part of it. */
typedef struct made_state {
    iso_file_spec contents;
    iso_saved_tensor tensor[MADE_TENSORS];
    iso_saved_group group[MADE_GROUPS];
    const void *constant[MADE_TENSORS];
    iso_state_shard shard[MOST_MADE_PIECES];
    iso_state_shards shards;
} made_state;

/* version: other values, the same structure. */
void made_state_begin(made_state *state, iso_context *ctx, int version);
void made_state_end(made_state *state);
/* All elements of a tensor of that version, dense; free(). */
void *made_values(const iso_saved_tensor *tensor, int number, int version);
size_t made_bytes(const iso_saved_tensor *tensor);

#endif
