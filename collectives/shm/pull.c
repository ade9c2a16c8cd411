/* Pulls in memory that the CPU's kernels load and store. A run with several operands is combined by blocks that stay
 * in the L1 cache. Operands are combined in the order of their tree: partial results are kept in a small stack of
 * blocks, and the last combination writes to the target. */
#include <string.h>

#include "collectives/gather_kernels_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* at: the addresses of the operands; NULL: where they begin. */
static const char *address_of(const iso_gather *gather, const char *const *at, int operand)
{
    return at ? at[operand] : (const char *)gather->operands[operand].address;
}

/* Combines three or more operands into out[0..n); n is at most one block. at: as above, `skip` bytes are added. */
static void fold_block(const iso_gather *gather, const char *const *at, size_t skip, int64_t n, char *out)
{
    _Alignas(ISO_ALIGN) char partial[ISO_TREE_DEPTH][ISO_BLOCK_BYTES];
    const char *stack[ISO_TREE_DEPTH];
    int depth = 0, last = gather->n_operands - 1;
    for (int i = 0; i <= last; i++) {
        stack[depth++] = address_of(gather, at, i) + skip;
        for (int fold = gather->operands[i].n_folds; fold > 0; fold--) {
            depth--;
            char *into = i == last && fold == 1 ? out : partial[depth - 1];
            gather->combine(gather->dtype, n, stack[depth - 1], stack[depth], into, NULL);
            stack[depth - 1] = into;
        }
    }
}

/* Combines a run of n elements into out[0..n). */
static void combine_run(const iso_gather *gather, const char *const *at, size_t skip, int64_t n, char *out)
{
    size_t bytes = (size_t)n * gather->size;
    if (gather->n_operands == 1) {
        const char *from = address_of(gather, at, 0) + skip;
        if (out != from)
            memcpy(out, from, bytes);
        return;
    }
    if (gather->n_operands == 2) {
        gather->combine(gather->dtype, n, address_of(gather, at, 0) + skip, address_of(gather, at, 1) + skip,
                        out, NULL);
        return;
    }
    for (size_t done = 0; done < bytes; done += ISO_BLOCK_BYTES) {
        size_t part = bytes - done < ISO_BLOCK_BYTES ? bytes - done : ISO_BLOCK_BYTES;
        fold_block(gather, at, skip + done, (int64_t)(part / gather->size), out + done);
    }
}

/* Rows of one operand: the memory copies of slices and halos, where rows may be a few bytes. */
static void gather_copy_rows(char *out, int64_t out_stride, const char *in, int64_t in_stride, int64_t rows,
                             size_t bytes)
{
    if (bytes == 4)
        for (int64_t row = 0; row < rows; row++)
            memcpy(out + row * out_stride, in + row * in_stride, 4);
    else if (bytes == 8)
        for (int64_t row = 0; row < rows; row++)
            memcpy(out + row * out_stride, in + row * in_stride, 8);
    else
        for (int64_t row = 0; row < rows; row++)
            memcpy(out + row * out_stride, in + row * in_stride, bytes);
}

static void move_cursors(const iso_gather *gather, int loop, int64_t steps, char **out)
{
    const int64_t *stride = gather->stride + loop * (gather->n_operands + 1);
    for (int i = 0; i < gather->n_operands; i++)
        gather->cursor[i] += stride[i] * steps;
    *out += stride[gather->n_operands] * steps;
}

/* The innermost loop over runs, beginning at the cursors. */
static void walk_rows(const iso_gather *gather, char *out)
{
    int loop = gather->rank - 2, all = gather->n_operands + 1;
    int64_t rows = gather->extent[loop], run = gather->extent[loop + 1];
    if (gather->n_operands == 1) {
        const int64_t *stride = gather->stride + loop * all;
        gather_copy_rows(out, stride[1], gather->cursor[0], stride[0], rows, (size_t)run * gather->size);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        combine_run(gather, gather->cursor, 0, run, out);
        move_cursors(gather, loop, 1, &out);
    }
    move_cursors(gather, loop, -rows, &out);
}

/* Writes the result to several places, block by block, so that a block is copied from the cache. */
static void combine_and_copy(const iso_gather *gather, char *out)
{
    size_t bytes = (size_t)gather->count * gather->size;
    for (size_t done = 0; done < bytes; done += ISO_BLOCK_BYTES) {
        size_t part = bytes - done < ISO_BLOCK_BYTES ? bytes - done : ISO_BLOCK_BYTES;
        combine_run(gather, gather->cursor, done, (int64_t)(part / gather->size), out + done);
        for (int i = 0; i < gather->n_copies; i++)
            memcpy(gather->copies[i].address + done, out + done, part);
    }
}

/* All loops except the inner two, as an odometer. */
static void pull_run(const iso_gather *gather, iso_stream *stream)
{
    (void)stream;
    int64_t index[ISO_MAX_RANK] = {0};
    char *out = gather->out;
    if (gather->count == 0 || !out)
        return;
    for (int i = 0; i < gather->n_operands; i++)
        gather->cursor[i] = gather->operands[i].address;
    if (gather->n_copies > 0) {
        combine_and_copy(gather, out);
        return;
    }
    if (gather->rank == 1) {
        combine_run(gather, gather->cursor, 0, gather->extent[0], out);
        return;
    }
    for (;;) {
        walk_rows(gather, out);
        int loop = gather->rank - 3;
        while (loop >= 0 && ++index[loop] == gather->extent[loop]) {
            move_cursors(gather, loop, 1 - gather->extent[loop], &out);
            index[loop--] = 0;
        }
        if (loop < 0)
            return;
        move_cursors(gather, loop, 1, &out);
    }
}

/* Threads may combine parts of a region at the same time: the cursors stay. */
static void pull_part(const iso_gather *gather, int64_t begin, int64_t n, void *out, iso_stream *stream)
{
    (void)stream;
    combine_run(gather, NULL, (size_t)begin * gather->size, n, out);
}

static bool supports(const iso_device *device)
{
    return device->reach != NULL;
}

const iso_gather_kernels iso_gather_kernels_shared_memory = {
    .name = "shared memory",
    .supports = supports,
    .run = pull_run,
    .part = pull_part,
};
