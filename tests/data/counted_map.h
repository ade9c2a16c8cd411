/* Maps that tell how often they were called. */
#ifndef ISO_TESTS_DATA_COUNTED_MAP_H
#define ISO_TESTS_DATA_COUNTED_MAP_H

#include <stdatomic.h>

#include "tests/data/data_test.h"

static _Atomic int calls;
static _Atomic int made[MOST_ROWS]; /* how often for each row */

static inline void forget(void)
{
    calls = 0;
    memset((void *)made, 0, sizeof made);
}

/* x: [] -> 10 x + rows of the element, y as it is. Counts. */
static inline iso_status ten_times(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    calls++;
    for (int64_t i = 0; i < in->rows; i++) {
        int32_t x = ((const int32_t *)in->data[0])[i];
        if (x >= 0 && x < MOST_ROWS)
            made[x]++;
        ((int32_t *)out[0])[i] = 10 * x + (int32_t)in->rows;
        ((uint8_t *)out[1])[i] = ((const uint8_t *)in->data[1])[i];
    }
    return ISO_OK;
}

static inline iso_status fail_at_seven(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    *(int32_t *)out[0] = *(const int32_t *)in->data[0];
    *(uint8_t *)out[1] = 0;
    return *(int32_t *)out[0] == 7 ? iso_error(ISO_INVALID, "seven is not liked") : ISO_OK;
}

#endif
