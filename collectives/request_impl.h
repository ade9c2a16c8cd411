/* The state of an exchange while pulls are added to it. */
#ifndef ISO_REQUEST_IMPL_H
#define ISO_REQUEST_IMPL_H

#include "collectives/gather_impl.h"
#include "collectives/tree.h"
#include "runtime/base/hash.h"

/* A region that a slot reads (the arguments of iso_exchange_add), and what it is made of. */
typedef struct iso_request {
    iso_exchange *exchange;
    int slot;
    iso_dtype dtype;
    iso_reduce reduce;
    const iso_box *region;
    const iso_source *sources;
    int count;
    iso_exchange_kind kind;        /* what it is a part of */
    const int *group;              /* [n_slots] the lowest slot of each slot's group; NULL: kind PULLS */
    iso_memory_location *location; /* [count] of each source */
    iso_tree_node *nodes;          /* [count] */
    int n_operands;                /* number of operands, and so of nodes */
    int *part;             /* [count] the message fragment that carries a node; -1: not in a message of this
                             host */
    bool *fresh;           /* [count] it is the first request for this node */
    bool *intra_host;      /* [count] the fragment comes from another domain of the slot's host */
    int component, result; /* result: what a component brings; -1: the sources are gathered */
} iso_request;

/* A partial result that this rank combines for one fragment of a message, or for a component. */
typedef struct iso_pack {
    iso_gather gather;
    int reader; /* the slot of this rank that reads */
    int message; /* of those that are sent; within the host: of those that are received; or the component's number */
    size_t offset;
} iso_pack;

typedef struct iso_pack_list {
    iso_pack *packs;
    int count;
} iso_pack_list;

/* Identifies the value of all sources of a request together. */
iso_hash_key iso_request_key(const iso_request *request);
/* Adds to `list` the pack with which slot `reader` of this host combines `sources`, all on this host, for the
 * request's region, unless another rank hosts that slot. All ranks of the host call it, because messages between
 * its domains may be needed. The pack runs when the sources have been written. */
iso_status iso_request_pack(const iso_request *request, int reader, const iso_source *sources, int count,
                            iso_pack fresh, iso_pack_list *list);
/* Runs the packs and waits for them. False: a device has failed. */
bool iso_packs_run(const iso_exchange *exchange, const iso_pack_list *list);
void iso_packs_free(iso_pack_list *list);
/* Computes again the addresses of what a gather reads and writes, except `out`. */
void iso_exchange_resolve_gather(const iso_exchange *exchange, iso_gather *gather);

#endif
