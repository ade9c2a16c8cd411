/* The rows of the batch in a benchmark: read in random order from synthetic rows that caches do not hold, as from a
 * shuffled data set in memory. */
#include <string.h>
#include <unistd.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/prefetch.h"
#include "runtime/exec/calibrate/benchmark_impl.h"

/* Bytes of the rows of one input. */
static double bytes_beyond_caches(void)
{
    static const double least = 64 << 20;
    double twice = 2.0 * (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
    return twice > least ? twice : least;
}

/* The rows of a slot's part of an input; *bytes: of one. A scalar is a row. */
static int64_t rows_of(const benchmark *r, int value, int slot, size_t *bytes)
{
    iso_box box = iso_plan_box(r->plan, value, slot);
    int64_t rows = box.rank > 0 ? box.extent[0] : 1;
    size_t element = iso_dtype_size(r->plan->program->values[value].tensor->dtype);
    *bytes = rows > 0 ? (size_t)(iso_box_count(&box) / rows) * element : 0;
    return rows;
}

/* All inputs have as many rows as fit of the largest. */
static int64_t count_rows(const benchmark *r, double most)
{
    int64_t rows = 1;
    size_t bytes, largest = 1;
    for (int i = 0; i < r->plan->program->n_inputs; i++) {
        if (r->plan->program->input_value[i] < 0)
            continue;
        int64_t read = rows_of(r, r->plan->program->input_value[i], r->slot[0].slot, &bytes);
        rows = read > rows ? read : rows;
        largest = bytes > largest ? bytes : largest;
    }
    return most / (double)largest > (double)rows ? (int64_t)(most / (double)largest) : rows;
}

iso_status iso_benchmark_allocate_rows(benchmark *r, double memory)
{
    iso_status status = ISO_OK;
    size_t bytes;
    double most = bytes_beyond_caches();
    r->n_rows = count_rows(r, memory < most ? memory : most);
    for (int i = 0; i < r->plan->program->n_inputs; i++) {
        int value = r->plan->program->input_value[i];
        if (value < 0)
            continue;
        rows_of(r, value, r->slot[0].slot, &bytes);
        ISO_TRY(iso_alloc((size_t)r->n_rows * bytes + 1, "the rows of a benchmark", &r->rows[i]));
    }
done:
    return status;
}

void iso_benchmark_fill_rows(const benchmark *r)
{
    for (int i = 0; i < r->plan->program->n_inputs; i++) {
        size_t bytes;
        if (!r->rows[i])
            continue;
        int value = r->plan->program->input_value[i];
        size_t element = iso_dtype_size(r->plan->program->values[value].tensor->dtype);
        rows_of(r, value, r->slot[0].slot, &bytes);
        iso_benchmark_fill(r, value, r->rows[i], (int64_t)((size_t)r->n_rows * bytes / element));
    }
}

/* The n-th row that a slot reads. */
static const char *row_at(const benchmark *r, const benchmark_slot *s, int input, size_t bytes, int64_t n)
{
    uint64_t drawn = iso_hash_mix((uint64_t)(s->n_read + n + 1) * (uint64_t)(s->slot + 1));
    return (const char *)r->rows[input] + (size_t)(drawn % (uint64_t)r->n_rows) * bytes;
}

/* Parts of slots are not larger than that of the first. */
void iso_benchmark_read(const benchmark *r, benchmark_slot *s, int input)
{
    size_t bytes;
    int value = r->plan->program->input_value[input];
    int64_t rows = rows_of(r, value, s->slot, &bytes);
    char *to = iso_benchmark_value(r, s, value);
    const int64_t ahead = iso_rows_ahead(bytes);
    for (int64_t n = 0; n < ahead; n++)
        iso_prefetch_row(row_at(r, s, input, bytes, n), bytes);
    for (int64_t n = 0; n < rows; n++, to += bytes) {
        iso_prefetch_row(row_at(r, s, input, bytes, n + ahead), bytes);
        memcpy(to, row_at(r, s, input, bytes, n), bytes);
    }
    s->n_read += rows;
}
