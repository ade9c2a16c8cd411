/* Savers: a save in progress, phase by phase. */
#ifndef ISO_CHECKPOINT_WRITE_SAVER_IMPL_H
#define ISO_CHECKPOINT_WRITE_SAVER_IMPL_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/checkpoint/folder_impl.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/checkpoint/write/parts_impl.h"
#include "runtime/checkpoint/write/two_phase_impl.h"
#include "runtime/session/session.h"

/* Every rank goes through these phases in order; the caller's thread moves from one to the next. */
typedef enum iso_save_phase {
    ISO_SAVE_NONE,
    ISO_SAVE_WRITING,    /* this rank's thread writes its parts */
    ISO_SAVE_JOINING,    /* statuses and checksums are reduced to the chief */
    ISO_SAVE_COMMITTING, /* chief: a thread commits the file or discards it */
    ISO_SAVE_TELLING,    /* the chief broadcasts the outcome */
} iso_save_phase;

/* The result of an operation; ranks send it to each other. */
typedef struct iso_save_outcome {
    int32_t status;
    int32_t rank; /* the rank that has this status */
    char text[504];
} iso_save_outcome;

/* A rank's report to the chief. Reports combine into the status of the lowest rank that failed and the sum of
 * checksums. */
typedef struct iso_save_report {
    iso_save_outcome outcome;
    uint32_t crc[]; /* [n_tensors] */
} iso_save_report;

struct iso_saver {
    iso_context *ctx;
    iso_saver_options options;
    MPI_Comm communicator; /* the saver's own; MPI_COMM_NULL without MPI */
    bool abandoned;        /* a rank was lost in a save: MPI may still use our memory, which is not freed */
    MPI_Op join;           /* combines two reports */
    int rank, n_ranks;
    uint32_t id; /* in the names of its temporary files; the same on all ranks */
    iso_file_layout layout;
    iso_save_parts parts;
    iso_two_phase two_phase;
    iso_kept kept;             /* on the chief */
    iso_saver_numbers numbers; /* unless the options have others */
    void *copy;                /* of the parts' data */
    size_t copy_bytes;

    /* The save in progress. */
    iso_save_phase phase;
    iso_path path;
    bool best;
    int file;                    /* -1: not open */
    iso_save_report *mine, *all; /* all: on the chief */
    MPI_Datatype report;         /* their type */
    MPI_Request request;
    int n_failures; /* consecutive failed tests */
    pthread_t thread;
    bool has_thread;
    void (*work)(struct iso_saver *); /* what the thread does */
    atomic_bool worked;
    iso_save_outcome outcome;
    iso_save_outcome failed; /* the first MPI call that failed on this rank during the exchange of reports and
                                outcomes */

    bool unreported; /* the outcome of the last save has not been returned yet */
    iso_status result;
    char message[1024];
};

/* Records this thread's error, or success, as an outcome of this rank. */
void iso_save_outcome_set(iso_saver *saver, iso_save_outcome *outcome, iso_status status);

/* The chief makes the temporary file, before the other ranks open it. The report holds the result. */
void iso_save_make_file(iso_saver *saver);
/* Runs in the thread: opens the temporary file, writes this rank's parts and syncs. The report holds the
 * result. */
void iso_save_write(iso_saver *saver);
/* The chief's first step: reserves the file's space and writes the bytes that belong to no tensor. */
iso_status iso_save_begin_file(iso_saver *saver);
/* The last step: syncs the file, which the chief keeps open. */
iso_status iso_save_sync(iso_saver *saver);
/* mpio.c: the same through HDF5's parallel driver, in the caller's thread. Collective. */
void iso_save_by_mpio(iso_saver *saver, const iso_file_spec *spec);
/* Runs in the chief's thread after all ranks have written: commits the file if no rank failed, otherwise
 * removes it. */
void iso_save_commit(iso_saver *saver);

#endif
