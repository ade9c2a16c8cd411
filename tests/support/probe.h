/* A small graph in float64 with random inputs, to evaluate and to compare its gradients with finite
 * differences. */
#ifndef TESTS_SUPPORT_PROBE_H
#define TESTS_SUPPORT_PROBE_H

#include "tests/support/interpreter.h"

enum { MAX_FEEDS = 8, MAX_RESULTS = 64 };

typedef struct probe {
    iso_graph *graph;
    int64_t rows;
    uint64_t step;
    iso_fault fault; /* of the last evaluation */
    int feeds;
    iso_tensor *tensor[MAX_FEEDS];
    double *values[MAX_FEEDS];
    int results;
    double *result[MAX_RESULTS];
    interpreter *in;
} probe;

void probe_begin(probe *p, int64_t rows, iso_dtype precision);
void probe_end(probe *p);
/* An input [batch, shape...] or a variable [shape...] with random values in [-1, 1). */
iso_tensor *probe_input(probe *p, const char *name, iso_shape shape);
iso_tensor *probe_variable(probe *p, const char *name, iso_shape shape);
/* An input with values of the test's own, which are copied. */
iso_tensor *probe_given(probe *p, const char *name, iso_dtype dtype, iso_shape shape, const double *values);
/* The values that were fed for a tensor. */
double *probe_values(const probe *p, const iso_tensor *tensor);
int64_t probe_count(const probe *p, const iso_tensor *tensor);
/* Its value; belongs to the probe. Fails the test if the graph has an error. */
double *probe_evaluate(probe *p, iso_tensor *tensor);
/* For loss = sum(r y), r random: d loss / d of every fed tensor of float type, compared with central
 * differences; tensors on which y does not depend must have no gradient. */
void probe_check_gradients(probe *p, iso_tensor *y);
/* |a - b| <= tolerance * max(1, |b|) for each of n. */
void check_close(const double *a, const double *b, int64_t n, double tolerance);
/* A number in [-1, 1) that depends on both arguments. */
double random_number(uint64_t key, int64_t index);

#endif
