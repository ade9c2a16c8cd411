/* Backends: the kernels of ops, reductions between slots and optimizer updates on one kind of device. */
#ifndef ISO_BACKEND_BACKEND_H
#define ISO_BACKEND_BACKEND_H

#include "runtime/backend/box_copy.h"
#include "runtime/backend/kernel.h"
#include "runtime/base/device.h"

/* Elements and bytes of an array. */
static inline int64_t iso_array_count(const iso_array *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->dim[i];
    return count;
}
static inline size_t iso_array_bytes(const iso_array *array)
{
    return (size_t)iso_array_count(array) * iso_dtype_size(array->dtype);
}

/* An optimizer's rule over n elements: weights w and its slots are updated in place from the summed gradient
 * g. `hyper` is the result of iso_optimizer_hyper for this step. */
typedef void (*iso_rule_run)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper);

/* All that the rest of Isogrid knows of a kind of device. To add a backend: one file that gives this table, and
 * one line in list.h. Members that may be NULL say what that means. */
typedef struct iso_backend {
    const char *name;
    const char *(*description)(void); /* "cpu: AVX-512, oneDNN 2.6, OpenBLAS 0.3.21" */
    /* Why this machine cannot use it: "there is no driver"; NULL: it can. A member of NULL: it always can. */
    const char *(*unavailable)(void);
    /* Loads libraries, when a context begins that uses it, and may set environment variables for this time. NULL:
     * there are none. */
    void (*load)(void);
    /* Kernels of different levels (instruction sets) give different bits, so all ranks use the lowest level that
     * one of them has. NULL: there is one level. */
    int (*level)(void);
    void (*limit)(int level);
    const char *(*kernels)(void);      /* the name of the level in use, for checkpoints: "AVX-512" */
    const iso_device *(*device)(void); /* whose memory the kernels work in */
    const iso_kernel *(*find)(const char *op, const iso_kernel_call *call); /* NULL: no kernel fits */
    /* For reductions between slots: out[i] = a[i] + b[i] (out may be a), by dtype. */
    void (*sum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out);
    void (*maximum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out);
    void (*copy)(const iso_box_copy *copy);
    iso_rule_run (*optimizer)(const char *rule, iso_dtype dtype); /* "adam", ...; NULL: unknown */
} iso_backend;

/* Finds a backend by its name; "auto": the first of the list that this machine can use. ISO_INVALID names it, those
 * of this build, and why one cannot be used. Local. */
iso_status iso_backend_find(const char *name, const iso_backend **backend);
/* Adds one more backend at the end of the list, for tests. It is lent. Before the first context begins. */
void iso_backend_add(const iso_backend *backend);

/* The CPU backend; the instruction set is detected once. Never NULL. */
const iso_backend *iso_backend_cpu(void);
/* The reference kernels alone, on the CPU: the oracle of the others. */
const iso_backend *iso_backend_reference(void);

#endif
