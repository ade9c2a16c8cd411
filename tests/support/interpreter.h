/* A tiny interpreter of graphs for tests: every op in order, on whole tensors, with a backend's kernels. It
 * shares nothing with planner and executor. Errors of the test itself (no kernel, a broken graph) end it. */
#ifndef ISO_TESTS_SUPPORT_INTERPRETER_H
#define ISO_TESTS_SUPPORT_INTERPRETER_H

#include "runtime/backend/backend.h"
#include "runtime/backend/fault.h"
#include "runtime/graph/graph_impl.h"

/* ---- arrays ---- */

/* A zeroed array of this type and these extents, whole: offsets 0, global = dim. Freed with array_free.
 * Guard bytes follow its end. */
iso_array array_create(iso_dtype dtype, int rank, const int64_t *dim);
void array_free(iso_array *array);
int64_t array_count(const iso_array *array);
double array_get(const iso_array *array, int64_t index);
void array_set(iso_array *array, int64_t index, double value);
/* The part box of a whole array, its offsets and global extents filled in. */
iso_array array_cut(const iso_array *whole, const iso_box *box);
/* Writes a part into the whole at the part's offsets. */
void array_paste(iso_array *whole, const iso_array *part);

/* Runs the kernel that a backend has for an op; out is filled with garbage before. Fails the test if there is no
 * kernel, or if the kernel wrote past an output's end. reshape, which has no kernel, is a copy. */
void run_op(const iso_backend *backend, const iso_op *op, const iso_array *in, iso_array *out,
            const iso_step_info *info, iso_fault *fault);

/* ---- graphs ---- */
typedef struct interpreter {
    iso_graph *graph;
    const iso_backend *backend;
    iso_step_info info;
    bool training;
    iso_fault fault;  /* of the last run */
    iso_array *value; /* [tensors] .data NULL: not computed yet */
    int values;
} interpreter;

/* For batches of so many rows; .info.step, .info.seed and .training may be set afterwards. */
interpreter *interpreter_create(iso_graph *graph, const iso_backend *backend, int64_t rows);
void interpreter_destroy(interpreter *in);
/* Sets the value of an input, a variable or any other tensor; what was computed from older values is
 * forgotten. */
void interpreter_set(interpreter *in, const iso_tensor *tensor, const double *values);
/* The value of a tensor, computed with all that it needs. Valid until a value is set. */
const iso_array *interpreter_get(interpreter *in, const iso_tensor *tensor);
/* The value of a scalar. */
double interpreter_number(interpreter *in, const iso_tensor *tensor);
/* The tensor's shape with the interpreter's rows. */
iso_shape interpreter_shape(const interpreter *in, const iso_tensor *tensor);

#endif
