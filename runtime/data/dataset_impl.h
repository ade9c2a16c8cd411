/* The struct of a data set, for the files of this folder. */
#ifndef ISO_DATA_DATASET_IMPL_H
#define ISO_DATA_DATASET_IMPL_H

#include "runtime/data/data.h"
#include "runtime/data/fractions.h"
#include "runtime/data/generator_impl.h"
#include "runtime/data/local_rows_impl.h"
#include "runtime/data/node_impl.h"
#include "runtime/data/prefetch_impl.h"

struct iso_dataset {
    iso_context *ctx; /* lent; may be NULL */
    uint64_t seed;
    iso_node *top;   /* held */
    iso_order order; /* from top's rows to those that the data set gives */
    int shuffles;    /* so far: each has a key of its own */
    int64_t prefetch;
    iso_status failed; /* the first error of a stage */
    char *message;     /* its message */

    bool fraction[ISO_MAX_COMPONENTS]; /* it must be from 0 to 1 */

    bool started; /* `order` is built for `epoch`, and the prefetcher for the stages */
    int64_t epoch;
    int64_t next;               /* number, in the epoch, of the batch that next gives */
    int64_t begin;              /* first row of the last batch, in the order of the epoch */
    iso_batch batch;            /* the last batch */
    iso_prefetcher *prefetcher; /* NULL: rows are read directly from `top` */
    iso_kept_bytes kept;        /* of its batches; its total is NULL if there is no context */
    iso_generator *generator;   /* makes the batches; NULL: batches are rows of `top` */
    const iso_batch *made;      /* the generator's last batch */
    iso_row_window *window;     /* fetched rows of other ranks; NULL unless rows are stored in shares */
    int64_t fetched;            /* the rows of the epoch's batches before this number are fetched */
    uint64_t fetched_for;       /* for these ranges */
};

/* A data set over a source, of which it takes ownership. After an error the source is released. Not
 * collective. */
iso_status iso_dataset_create(iso_context *ctx, iso_node *source, iso_dataset **dataset);
/* Ends a collective function that opens data: all ranks get the same status; ISO_INVALID if their data (rows,
 * shapes and types of `what`: "the data set") differ. After an error of any rank the data set is
 * destroyed. */
iso_status iso_dataset_agree(iso_context *ctx, iso_status status, const char *what, iso_dataset **dataset);
/* Returns the error that the data set has, if any, else ends iteration. To be called before a stage is added. */
iso_status iso_dataset_edit(iso_dataset *dataset);
/* Computes the order of the current epoch, unless that is done. */
iso_status iso_dataset_start(iso_dataset *dataset);
/* Keeps the error of a stage in the data set. */
iso_status iso_dataset_keep(iso_dataset *dataset, iso_status status);

#endif
