/* Cases of ops in other types than float32. */
#ifndef ISO_TESTS_BACKEND_OTHER_TYPES_H
#define ISO_TESTS_BACKEND_OTHER_TYPES_H

#include "tests/backend/harness.h"

/* The same with another type in place of float32. */
static inline bool in_type(const trial *t, iso_dtype dtype, trial *other)
{
    bool any = false;
    *other = *t;
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        iso_array *array = i < t->inputs ? &other->in[i] : &other->out[i - t->inputs];
        any |= array->dtype == ISO_F32;
        array->dtype = array->dtype == ISO_F32 ? dtype : array->dtype;
    }
    return any && !t->fixed_types;
}

static inline void check_as_reference(trial *t, const iso_backend *backend)
{
    void *owner[MOST_ARRAYS];
    place_inputs(t, 0, NULL, owner);
    result want = run_trial(t, iso_backend_reference(), 0);
    result got = run_trial(t, backend, 0);
    compare(t, &want, &got);
    free_result(t, &want);
    free_result(t, &got);
    free_all(owner, t->inputs);
}

/* A sum with a residual is rounded to bfloat16 before it is normalised. The reference for bfloat16 computes all in
 * float32, and rounds results alone; test_layer_norm_bf16 has these cases. */
static inline bool rounds_within(const trial *t, iso_dtype dtype)
{
    return dtype == ISO_BF16 && strncmp(t->op, "layer_norm", strlen("layer_norm")) == 0 &&
           t->attrs.layer_norm.residual;
}

/* Compares a backend with the reference in this type, if the case has a form in it. */
static inline void check_type(const trial *t, iso_dtype dtype, const iso_backend *backend)
{
    trial other;
    if (!rounds_within(t, dtype) && in_type(t, dtype, &other))
        check_as_reference(&other, backend);
}

/* The ops of which slots may have parts of sums: a graph in mixed_bfloat16 has them of bfloat16 with results in
 * float32. matmul and reduce_sum have such cases of their own. */
static inline bool has_wide_sums(const char *op)
{
    static const char *const ops[] = {"conv2d",
                                      "conv2d_grad_input",
                                      "conv2d_grad_kernel",
                                      "max_pool2d_grad",
                                      "average_pool2d_grad",
                                      "upsample_linear_grad",
                                      "embedding",
                                      "embedding_grad",
                                      "slice",
                                      "fold"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0)
            return true;
    return false;
}

/* Compares in this form. The values of later cases stay. */
static inline void check_wide_sums(const trial *t, const iso_backend *backend)
{
    trial other;
    if (!has_wide_sums(t->op) || t->out[0].dtype != ISO_F32 || !in_type(t, ISO_BF16, &other))
        return;
    other.out[0].dtype = ISO_F32;
    uint64_t state = random_state;
    check_as_reference(&other, backend);
    random_state = state;
}

#endif
