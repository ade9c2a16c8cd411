/* Backends: the kernels of ops, reductions between slots and optimizer updates on one kind of device. */
#ifndef ISO_BACKEND_BACKEND_H
#define ISO_BACKEND_BACKEND_H

#include "runtime/backend/box_copy.h"
#include "runtime/backend/isa.h"
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

typedef struct iso_backend {
    const char *name;
    const char *description;           /* "cpu: AVX-512, oneDNN 2.6, OpenBLAS 0.3.21" */
    const iso_device *(*device)(void); /* whose memory the kernels work in */
    const iso_kernel *(*find)(const char *op, const iso_kernel_call *call); /* NULL: no kernel fits */
    /* For reductions between slots: out[i] = a[i] + b[i] (out may be a), by dtype. */
    void (*sum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out);
    void (*maximum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out);
    void (*copy)(const iso_box_copy *copy);
    iso_rule_run (*optimizer)(const char *rule, iso_dtype dtype); /* "adam", ...; NULL: unknown */
} iso_backend;

/* The CPU backend; the instruction set is detected once. Never NULL. */
const iso_backend *iso_backend_cpu(void);
/* The reference kernels alone: the oracle of the others. */
const iso_backend *iso_backend_reference(void);

#endif
