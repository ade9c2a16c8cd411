/* A node: rows that can be read by number. Sources, maps and caches are nodes. An order (shuffle, batch,
 * split) is between two nodes, and between the topmost node and the batches. Nodes are shared by the data
 * sets that a split makes; then their order is fixed. */
#ifndef ISO_DATA_NODE_IMPL_H
#define ISO_DATA_NODE_IMPL_H

#include <stdatomic.h>

#include "runtime/base/batch.h"
#include "runtime/data/row_order_impl.h"

enum { ISO_COMPONENT_NAME = 64 };
/* The components of a row. */
typedef struct iso_spec {
    int n_components;        /* the first n_inputs are inputs, */
    int n_inputs, n_targets; /* the next n_targets targets, the others sample weights */
    iso_shape shape[ISO_MAX_COMPONENTS];
    iso_dtype dtype[ISO_MAX_COMPONENTS];
    int64_t elements[ISO_MAX_COMPONENTS];
    size_t bytes[ISO_MAX_COMPONENTS];
    char name[ISO_MAX_COMPONENTS]
             [ISO_COMPONENT_NAME]; /* in the source, for messages; "": none, or a longer one */
} iso_spec;

typedef struct iso_node iso_node;

/* All may run in several threads at once. Rows are numbers of this node. */
typedef struct iso_node_ops {
    /* One component of some rows, converted. NULL: rows are worth keeping once they are computed (maps). */
    iso_status (*gather)(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype, void *out);
    /* All components of some rows, in the stored types. If elements are batches: of whole elements, each as
     * one run of rows. NULL: gather is used. */
    iso_status (*fetch)(iso_node *node, const iso_rows *rows, void *const *out);
    /* The address of a row in memory; NULL: not in memory. */
    const void *(*peek)(const iso_node *node, int component, int64_t row);
    /* Makes a later gather of these rows cheap. NULL: not supported. */
    iso_status (*ensure)(iso_node *node, const iso_rows *rows);
    /* Whether an element can be read without the nodes below. NULL: never. */
    bool (*is_made)(const iso_node *node, int64_t element);
    void (*destroy)(iso_node *node);
} iso_node_ops;

struct iso_node {
    const iso_node_ops *ops;
    _Atomic int references;
    char *name; /* for messages */
    iso_spec spec;
    iso_spans spans; /* of the rows that it gives, in the current epoch */
    iso_node *up;    /* NULL for a source; held */
    iso_order in;    /* from up's rows to this node's */
    int64_t epoch;   /* of `in` */
    int n_threads;   /* background threads that the maps in and above it may use */
    bool cheap;      /* a gather costs no more than a copy */
    bool
        reordered; /* its rows are not numbered as those of the source: a cache file after a shuffle or a split */
    /* Of a source: changes when its content may have changed; 0: hash the content. Of a map: a hash of the settings
     * of its function; 0: not known. */
    uint64_t identity;
    void *impl;
};

/* Sets elements and bytes from shapes and types. If n_inputs is 0, the first component is the input and the
 * second the target. ISO_INVALID, naming `what`: a dimension below one, a row of so many dimensions that
 * there is none left for the batch, a size that overflows, also that of `rows` rows. */
iso_status iso_spec_finish(iso_spec *spec, int64_t rows, const char *what);

/* A node over `up` (held from now on; NULL for a source) through `in`, of which it takes ownership. On
 * success the node also owns impl. */
iso_status iso_node_create(const iso_node_ops *ops, const char *name, const iso_spec *spec, iso_node *up,
                           iso_order *in, void *impl, iso_node **node);
iso_node *iso_node_hold(iso_node *node);
void iso_node_release(iso_node *node);

iso_status iso_node_fetch(iso_node *node, const iso_rows *rows, void *const *out);
/* Computes the orders below for an epoch. */
iso_status iso_node_rewind(iso_node *node, int64_t epoch);
/* Fixes the orders below at those of epoch 0. */
iso_status iso_node_freeze(iso_node *node);
bool iso_node_is_live(const iso_node *node);
/* A hash of what the rows depend on: source, shapes, stages. */
uint64_t iso_node_hash(const iso_node *node, uint64_t hash);
uint64_t iso_order_hash(const iso_order *order, uint64_t hash);
/* As if shuffles with the seed `from` had the seed `to`. */
uint64_t iso_order_hash_with_seed(const iso_order *order, uint64_t from, uint64_t to, uint64_t hash);

/* Components in memory, [rows, ...] each: lent, or owned by `owned` (iso_free) or `mapping` (munmap). */
typedef struct iso_memory_rows {
    const void *data[ISO_MAX_COMPONENTS];
    void *owned[ISO_MAX_COMPONENTS];
    void *mapping;
    size_t mapping_bytes;
} iso_memory_rows;

/* A source of rows in memory, which it owns on success. */
iso_status iso_memory_node(const char *name, const iso_spec *spec, const iso_spans *spans,
                           const iso_memory_rows *memory, iso_node **node);
void iso_memory_rows_free(iso_memory_rows *memory);
/* The rows of such a source, lent; NULL: the node is another one. */
const iso_memory_rows *iso_memory_node_rows(const iso_node *node);
/* Gives memory back to the system (iso_memory_give_back) if the rows own it. */
void iso_memory_rows_give_back(const iso_memory_rows *memory, const void *begin, size_t bytes);

/* A node of the results of `function` on the elements of `up`. */
struct iso_dataset_map_options;
iso_status iso_map_node(iso_node *up, iso_order *in, const struct iso_dataset_map_options *options,
                        iso_node **node);
/* Makes the map free `user` (iso_free). identity: what the function depends on, as a hash. */
void iso_map_node_own(iso_node *node, void *user, uint64_t identity);
/* A node that keeps the rows of `up` once they have been computed. */
iso_status iso_cache_node(iso_node *up, iso_order *in, iso_node **node);

/* The error for a value that does not fit the requested type. */
iso_status iso_bad_element(const iso_node *node, int component, int64_t row, const void *element,
                           iso_dtype dtype);

#endif
