/* What the tests of data sets share. Each program runs with and without a context (iso_init) of any number of
 * ranks. */
#ifndef ISO_TESTS_DATA_TEST_H
#define ISO_TESTS_DATA_TEST_H

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/data/data.h"

#define OK(call) ck_assert_msg((call) == ISO_OK, "%s: %s", #call, iso_error_message())
#define FAILS(call, text)                                                                                    \
    do {                                                                                                     \
        ck_assert_int_eq((call), ISO_INVALID);                                                               \
        ck_assert_msg(strstr(iso_error_message(), text), "'%s' is not in '%s'", text, iso_error_message());  \
    } while (0)

enum { MOST_ROWS = 4096 };

/* Rows 0, 1, 2, ...: x is the row's number, y 100 + it. */
static inline iso_dataset *numbers(iso_context *ctx, int64_t rows)
{
    static int32_t x[MOST_ROWS];
    static uint8_t y[MOST_ROWS];
    iso_dataset *ds = NULL;
    for (int64_t i = 0; i < rows; i++) {
        x[i] = (int32_t)i;
        y[i] = (uint8_t)(100 + i);
    }
    OK(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_I32, ISO_SHAPE(rows)}, .y = {y, ISO_U8, ISO_SHAPE(rows)}));
    return ds;
}

/* The rows that the rest of the epoch gives (component 0 as int32), with -1 behind each batch. Returns how
 * many words. */
static inline int read_epoch(iso_dataset *ds, int32_t *words)
{
    const iso_batch *batch = NULL;
    int count = 0;
    for (;;) {
        OK(iso_dataset_next(ds, &batch));
        if (!batch)
            return count;
        OK(batch->read(batch, 0, 0, batch->rows, ISO_I32, words + count));
        count += (int)batch->rows;
        words[count++] = -1;
    }
}

static inline void expect_epoch(iso_dataset *ds, const int32_t *expected, int count)
{
    int32_t words[2 * MOST_ROWS];
    ck_assert_int_eq(read_epoch(ds, words), count);
    for (int i = 0; i < count; i++)
        ck_assert_msg(words[i] == expected[i], "word %d: %d, not %d", i, words[i], expected[i]);
}
#define EXPECT_EPOCH(ds, ...)                                                                                \
    expect_epoch(ds, (const int32_t[]){__VA_ARGS__},                                                         \
                 (int)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

/* A part of each row is what would be cut from the whole one, wherever the rows come from. */
static inline void check_parts(const iso_batch *batch, const iso_shape *row)
{
    enum { MOST = 64 };
    int64_t count = 1, rows = batch->rows;
    for (int d = 0; d < row->rank; d++)
        count *= row->dim[d];
    double *all = malloc((size_t)(rows * count) * sizeof *all),
           *got = malloc((size_t)(rows * count) * sizeof *got);
    OK(batch->read(batch, 0, 0, rows, ISO_F64, all));
    for (int k = 0; k < MOST; k++) {
        iso_box part = {.rank = row->rank};
        for (int d = 0; d < row->rank; d++) {
            part.offset[d] = iso_random_word(3, (uint64_t)k, (uint64_t)d) % (uint64_t)(row->dim[d] + 1);
            part.extent[d] =
                iso_random_word(4, (uint64_t)k, (uint64_t)d) % (uint64_t)(row->dim[d] - part.offset[d] + 1);
        }
        int64_t begin = k % rows, n = rows - begin, size = iso_box_count(&part);
        OK(batch->read_part(batch, 0, begin, n, &part, ISO_F64, got));
        for (int64_t i = 0; i < n * size; i++) {
            int64_t at = iso_box_global_index(&part, row, i % size);
            ck_assert_msg(got[i] == all[(begin + i / size) * count + at], "part %d, element %d is %g, not %g",
                          k, (int)i, got[i], all[(begin + i / size) * count + at]);
        }
    }
    free(all);
    free(got);
}

#endif
