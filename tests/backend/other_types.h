/* Cases of ops in other types than float32. */
#ifndef ISO_TESTS_BACKEND_OTHER_TYPES_H
#define ISO_TESTS_BACKEND_OTHER_TYPES_H

#include "tests/backend/cases_more.h"

/* The same with another type in place of float32. Sums and functions of float64 are exact to its roundings;
 * a result in bfloat16 is rounded once, so it may be the neighbour. */
static inline bool in_type(const trial *t, iso_dtype dtype, trial *other)
{
    bool any = false;
    *other = *t;
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        iso_array *array = i < t->inputs ? &other->in[i] : &other->out[i - t->inputs];
        any |= array->dtype == ISO_F32;
        array->dtype = array->dtype == ISO_F32 ? dtype : array->dtype;
    }
    bool exactly = t->tolerance.relative == 0 && t->tolerance.absolute == 0;
    if (dtype == ISO_F64)
        other->tolerance = (tolerance){t->tolerance.relative * 1e-6, t->tolerance.absolute * 1e-6};
    else if (!exactly)
        other->tolerance.relative = 0x1p-7;
    return any && !t->fixed_types;
}

/* Compares a backend with the reference in this type, if the case has a form in it. */
static inline void check_type(const trial *t, iso_dtype dtype, const iso_backend *backend)
{
    trial other;
    void *owner[MOST_ARRAYS];
    if (!in_type(t, dtype, &other))
        return;
    place_inputs(&other, 0, NULL, owner);
    result want = run_trial(&other, iso_backend_reference(), 0);
    result got = run_trial(&other, backend, 0);
    compare(&other, &want, &got);
    free_result(&other, &want);
    free_result(&other, &got);
    free_all(owner, other.inputs);
}

#endif
