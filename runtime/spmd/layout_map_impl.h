/* Internals of layout maps: layout_map.c stores and finds keys, unmatched_keys.c reports keys that match
 * nothing. */
#ifndef ISO_SPMD_LAYOUT_MAP_IMPL_H
#define ISO_SPMD_LAYOUT_MAP_IMPL_H

#include "runtime/base/pattern.h"
#include "runtime/spmd/spmd_impl.h"

/* The prefix of keys and paths of optimizer slots. */
#define ISO_OPTIMIZER_PREFIX "optimizer:"

typedef struct iso_map_entry {
    char *given;     /* the key as it was set, perhaps with '?' */
    const char *key; /* without it; within `given` */
    char *text;
    iso_layout layout;
    iso_pattern *pattern;
    bool plain;        /* contains no special character of expressions: it matches only itself */
    bool of_optimizer; /* applies to slots of optimizers, not to variables and outputs */
    bool optional;     /* it may match nothing */
    bool used, reported;
} iso_map_entry;

struct iso_layout_map {
    int holders;    /* the program and distributions: the last one frees the map */
    iso_mesh *mesh; /* held */
    bool strict;
    int count;
    iso_map_entry *entries;
};

bool iso_path_of_optimizer(const char *path);
/* Whether the entry applies to paths of this kind and matches the path, as the key itself or by its
 * expression. */
iso_status iso_map_entry_match(const iso_map_entry *entry, const char *path, bool *found);

#endif
