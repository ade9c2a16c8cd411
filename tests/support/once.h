/* One step of a graph on arrays: for tests that compare numbers. */
#ifndef TESTS_SUPPORT_ONCE_H
#define TESTS_SUPPORT_ONCE_H

#include "runtime/base/batch.h"
#include "runtime/exec/function/function.h"

/* A batch of arrays of doubles; batch->impl is the memory's. component i: [rows, shape...] */
typedef struct memory_batch {
    iso_batch batch;
    const double *data[ISO_MAX_COMPONENTS];
} memory_batch;
void memory_batch_begin(memory_batch *memory, int64_t rows);
void memory_batch_add(memory_batch *memory, iso_shape row, const double *values);

/* Elements of a tensor in a batch of `rows` rows. */
int64_t count_elements(iso_tensor *tensor, int64_t rows);
/* Fails the test, with the message, if the status is an error. */
void check_ok(iso_status status);
/* Fails the test unless the status is ISO_INVALID with a message that contains this part. */
void check_refused(iso_status status, const char *part);
/* The same with both parts. */
void check_refused_naming(iso_status status, const char *first, const char *second);
/* |a[i] - b[i]| <= tolerance * max(1, |b[i]|) for all i; `what` for the message. */
void check_near(const char *what, const double *a, const double *b, int64_t count, double tolerance);

#endif
