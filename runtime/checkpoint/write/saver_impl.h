/* Savers: the save under way, phase by phase. */
#ifndef ISO_CHECKPOINT_WRITE_SAVER_IMPL_H
#define ISO_CHECKPOINT_WRITE_SAVER_IMPL_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/checkpoint/folder_impl.h"
#include "runtime/checkpoint/write/parts_impl.h"
#include "runtime/checkpoint/write/two_phase_impl.h"
#include "runtime/session/session.h"

/* Every rank goes through these in order; the caller's thread moves on from one to the next. */
typedef enum iso_save_phase {
    ISO_SAVE_NONE,
    ISO_SAVE_WRITING,    /* this rank's thread writes its parts */
    ISO_SAVE_JOINING,    /* statuses and checksums travel to the chief */
    ISO_SAVE_COMMITTING, /* chief: a thread commits the file, or discards it */
    ISO_SAVE_TELLING,    /* the outcome travels from the chief */
} iso_save_phase;

/* How something ended; travels between ranks. */
typedef struct iso_save_outcome {
    int32_t status;
    int32_t rank; /* whose status it is */
    char text[504];
} iso_save_outcome;

/* What a rank hands the chief: of several, the status of the lowest rank that failed, the sum of checksums.
 */
typedef struct iso_save_report {
    iso_save_outcome outcome;
    uint32_t crc[]; /* [n_tensors] */
} iso_save_report;

struct iso_saver {
    iso_context *ctx;
    iso_saver_options options;
    MPI_Comm communicator; /* its own; MPI_COMM_NULL where there is no MPI */
    MPI_Op join;           /* of two reports */
    int rank, n_ranks;
    uint32_t id; /* of its temporary files; the same on all ranks */
    iso_file_layout layout;
    iso_save_parts parts;
    iso_two_phase two_phase;
    iso_kept kept;     /* the chief's */
    uint64_t numbered; /* added to the callers' numbers, so that they lie above all that it has adopted */
    void *copy;        /* of the parts' data */
    size_t copy_bytes;

    /* The save under way. */
    iso_save_phase phase;
    iso_path path;
    bool best;
    int file;                    /* -1: not open */
    iso_save_report *mine, *all; /* all: the chief's */
    MPI_Datatype report;         /* their type */
    MPI_Request request;
    int n_failures; /* of its tests in a row */
    pthread_t thread;
    bool has_thread;
    void (*work)(struct iso_saver *); /* what the thread does */
    atomic_bool worked;
    iso_save_outcome outcome;
    iso_save_outcome failed; /* the first call of MPI that failed on this rank while ranks told each other */

    bool unreported; /* the outcome of the last save has not been given out */
    iso_status result;
    char message[1024];
};

/* Records this thread's error, or success, as an outcome of this rank. */
void iso_save_outcome_set(iso_saver *saver, iso_save_outcome *outcome, iso_status status);

/* In the thread: opens the temporary file, writes this rank's parts and syncs; the report tells how it went.
 */
void iso_save_write(iso_saver *saver);
/* The chief's first part of that: opens the temporary file, reserves its space, writes what belongs to no
 * tensor.
 */
iso_status iso_save_begin_file(iso_saver *saver);
/* The last part: syncs the file; the chief keeps it open. */
iso_status iso_save_sync(iso_saver *saver);
/* mpio.c: the same through HDF5's parallel driver, here and now. Collective. */
void iso_save_by_mpio(iso_saver *saver, const iso_file_spec *spec);
/* In the chief's thread, after all ranks have written: commits the file if none failed, else removes it. */
void iso_save_commit(iso_saver *saver);

#endif
