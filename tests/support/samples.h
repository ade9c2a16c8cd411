/* Small graphs, at least one for every op in graph/ops/list.h, for the tests of all ops: gradients, sharding rules,
 * types, backends. These tests fail if an op has none. */
#ifndef ISO_TESTS_SUPPORT_SAMPLES_H
#define ISO_TESTS_SUPPORT_SAMPLES_H

#include "tests/support/interpreter.h"

enum { SAMPLE_ROWS = 5, SAMPLE_LEAVES = 8 };

/* A graph that is being built, and the inputs and variables at its leaves with the ranges of their values. */
typedef struct sample_graph {
    iso_graph *graph;
    int leaves;
    iso_tensor *leaf[SAMPLE_LEAVES];
    double low[SAMPLE_LEAVES], high[SAMPLE_LEAVES];
} sample_graph;

/* An input (where the shape begins with ISO_BATCH) or a variable. Values are random, no two alike, in
 * low..high; whole numbers for integer types, 0 or 1 for ISO_BOOL (low and high not looked at). ISO_F32 gives
 * the graph's precision. */
iso_tensor *sample_leaf(sample_graph *s, iso_dtype dtype, double low, double high, iso_shape shape);

/* How to build graphs around one op. The op that is tested is the last of its type in the graph. */
typedef struct sample {
    const char *op;
    void (*build)(sample_graph *s);
} sample;

/* Lists that end with op NULL: samples_basic.c, samples_network.c, samples_decomposed.c. Several entries for one
 * op are variants. */
extern const sample basic_samples[];
extern const sample network_samples[];
extern const sample decomposed_samples[];

/* One sample: the graph, its op, and an interpreter in which the values of all leaves depend on the sample alone. */
typedef struct sample_case {
    const sample *from;
    sample_graph s;
    iso_op *op;
    interpreter *in;
} sample_case;
/* precision: ISO_F32, ISO_F64, or ISO_BF16: then leaves of ISO_F32 are cast to it. Values are the same for all,
 * rounded to float32. */
void sample_begin(sample_case *c, const sample *from, const iso_backend *backend, iso_dtype precision);
void sample_end(sample_case *c);
/* Whether the graph can be built in this precision; else the error is recorded in this thread. */
bool sample_builds(const sample *from, iso_dtype precision);

/* All samples in order; NULL after the last. */
const sample *sample_at(int index);

#endif
