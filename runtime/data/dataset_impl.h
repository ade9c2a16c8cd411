/* What a data set is inside, for the files of this folder. */
#ifndef ISO_DATA_DATASET_IMPL_H
#define ISO_DATA_DATASET_IMPL_H

#include "runtime/data/data.h"
#include "runtime/data/generator_impl.h"
#include "runtime/data/node_impl.h"
#include "runtime/data/prefetch_impl.h"
#include "runtime/data/shares_impl.h"

struct iso_dataset {
    iso_context *ctx; /* lent; may be NULL */
    uint64_t seed;
    iso_node *top;   /* held */
    iso_order order; /* from top's rows to those that are given out */
    int shuffles;    /* so far: each has a key of its own */
    int64_t prefetch;
    iso_status failed; /* the first error of a stage, */
    char *message;     /* and what it said */

    bool started; /* `order` is that of `epoch`, and prefetcher is as the stages want it */
    int64_t epoch;
    int64_t next;               /* number of the batch in the epoch that next gives */
    int64_t begin;              /* first row of the batch that was given last, in the order of the epoch */
    iso_batch batch;            /* it */
    iso_prefetcher *prefetcher; /* NULL where rows are read where they lie */
    iso_generator *generator;   /* makes the batches; NULL: batches are rows of `top` */
    const iso_batch *made;      /* the generator's last batch */
    iso_row_window *window; /* the rows of other ranks that were fetched; NULL unless rows lie in shares */
    int64_t fetched;        /* the rows of the epoch's batches before this number are fetched, */
    uint64_t fetched_for;   /* for these ranges */
};

/* A data set over a source, which it takes over. On an error the source is released. Not collective. */
iso_status iso_dataset_create(iso_context *ctx, iso_node *source, iso_dataset **dataset);
/* Ends a collective function that opens data: all ranks get the same status; on success they have the same
 * data (rows, shapes and types of `what`: "the data set"). On an error of any rank the data set is destroyed.
 */
iso_status iso_dataset_settle(iso_context *ctx, iso_status status, const char *what, iso_dataset **dataset);
/* Before a stage is added: the error that the data set has, else iteration ends. */
iso_status iso_dataset_edit(iso_dataset *dataset);
/* Works out the order of the epoch that it is at, unless that is done. */
iso_status iso_dataset_start(iso_dataset *dataset);
/* Keeps the error of a stage in the data set. */
iso_status iso_dataset_keep(iso_dataset *dataset, iso_status status);
/* Is it the first rank of its host? */
bool iso_data_leads_host(const iso_context *ctx);

#endif
