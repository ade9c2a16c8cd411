/* Small networks of odd sizes that together have every kind of layer and most ops: for tests that compare one
 * mesh with another. */
#ifndef ISO_TESTS_SUPPORT_NETS_H
#define ISO_TESTS_SUPPORT_NETS_H

#include "models/layers.h"
#include "runtime/train/losses.h"

enum { NET_INPUTS = 4 };

/* A network that is being built: its inputs, and its loss. */
typedef struct net {
    iso_graph *graph;
    int inputs;
    iso_tensor *input[NET_INPUTS];
    int64_t classes[NET_INPUTS]; /* whole numbers below this; 0: real numbers around zero */
    iso_tensor *loss;
} net;

typedef struct net_kind {
    const char *name;
    void (*build)(net *n);
} net_kind;

/* The list ends with a kind whose name is NULL. */
extern const net_kind net_kinds[];
int net_kind_count(void);
/* By name; fails the test if there is none. */
const net_kind *net_kind_find(const char *name);

#endif
