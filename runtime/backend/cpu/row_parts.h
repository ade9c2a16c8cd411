/* Sums over the rows of [rows, columns] for each column, by several threads: the sums of some rows at a time, in
 * double, which are then added in order. The parts depend on shapes alone. */
#ifndef ISO_CPU_ROW_PARTS_H
#define ISO_CPU_ROW_PARTS_H

#include "runtime/backend/backend.h"
#include "runtime/base/memory.h"

typedef struct iso_row_parts {
    int64_t rows, parts;
    int64_t sums; /* doubles of a part */
    size_t room;  /* bytes that the computation of a part needs besides */
} iso_row_parts;

enum { ISO_ROW_GROUP = 64 }; /* parts begin at multiples of so many rows */

/* A part is at least 256 KiB of floats, and many rows: to add its sums costs little. */
static inline iso_row_parts iso_row_parts_of(int64_t rows, int64_t columns, int64_t sums, size_t room)
{
    enum { MOST = 32, LEAST = 1 << 16 };
    int64_t most = rows / ISO_ROW_GROUP < MOST ? rows / ISO_ROW_GROUP : MOST, parts = rows * columns / LEAST;
    parts = parts < most ? parts : most;
    return (iso_row_parts){rows, parts > 1 ? parts : 1, sums, iso_round_to_lines(room)};
}

/* The first row of a part; that of part `parts` is the end of the last one. */
static inline int64_t iso_row_part_begin(const iso_row_parts *p, int64_t part)
{
    return part == p->parts ? p->rows : p->rows / ISO_ROW_GROUP * part / p->parts * ISO_ROW_GROUP;
}

/* Bytes from the sums of a part to those of the next one. */
static inline size_t iso_row_part_bytes(const iso_row_parts *p)
{
    return iso_round_to_lines((size_t)p->sums * sizeof(double));
}

/* iso_kernel.scratch: the sums so far, those of a part, and the room of a part; iso_kernel.shared: the sums of
 * all. */
static inline size_t iso_row_parts_scratch(const iso_row_parts *p)
{
    return 2 * iso_row_part_bytes(p) + p->room;
}

static inline size_t iso_row_parts_shared(const iso_row_parts *p)
{
    return (size_t)p->parts * iso_row_part_bytes(p);
}

/* Writes the sums of a part. */
typedef void iso_row_part_sum(const iso_kernel_call *call, int64_t part, double *sums, void *room);

static inline double *iso_row_part_at(const iso_row_parts *p, void *memory, int64_t part)
{
    return (double *)(void *)((char *)memory + (size_t)part * iso_row_part_bytes(p));
}

static inline void iso_row_part_add(const iso_row_parts *p, const double *part, double *sums)
{
    for (int64_t i = 0; i < p->sums; i++)
        sums[i] += part[i];
}

/* The sums of all parts, by one thread. */
static inline const double *iso_row_parts_run(const iso_row_parts *p, const iso_kernel_call *call,
                                              iso_row_part_sum *sum)
{
    double *sums = iso_row_part_at(p, call->scratch, 0), *more = iso_row_part_at(p, call->scratch, 1);
    void *room = iso_row_part_at(p, call->scratch, 2);
    sum(call, 0, sums, room);
    for (int64_t part = 1; part < p->parts; part++) {
        sum(call, part, more, room);
        iso_row_part_add(p, more, sums);
    }
    return sums;
}

/* The same by several: a block is a part; then all of them are added. */
static inline void iso_row_part_run(const iso_row_parts *p, const iso_kernel_call *call, int64_t part,
                                    iso_row_part_sum *sum)
{
    sum(call, part, iso_row_part_at(p, call->shared, part), iso_row_part_at(p, call->scratch, 2));
}

static inline const double *iso_row_parts_add(const iso_row_parts *p, const iso_kernel_call *call)
{
    double *sums = iso_row_part_at(p, call->shared, 0);
    for (int64_t part = 1; part < p->parts; part++)
        iso_row_part_add(p, iso_row_part_at(p, call->shared, part), sums);
    return sums;
}

/* The functions of a kernel whose outputs are such sums. PARTS(call) tells the parts, SUM is an iso_row_part_sum, and
 * PUT(call, sums) writes the outputs. */
#define ISO_ROW_SUMS(NAME, PARTS, SUM, PUT)                                                                  \
    static size_t NAME##_scratch(const iso_kernel_call *call)                                                \
    {                                                                                                        \
        const iso_row_parts p = PARTS(call);                                                                 \
        return iso_row_parts_scratch(&p);                                                                    \
    }                                                                                                        \
    static void NAME##_run(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        const iso_row_parts p = PARTS(call);                                                                 \
        PUT(call, iso_row_parts_run(&p, call, SUM));                                                         \
    }                                                                                                        \
    static int64_t NAME##_blocks(const iso_kernel_call *call)                                                \
    {                                                                                                        \
        return PARTS(call).parts;                                                                            \
    }                                                                                                        \
    static void NAME##_run_block(const iso_kernel_call *call, int64_t block)                                 \
    {                                                                                                        \
        const iso_row_parts p = PARTS(call);                                                                 \
        iso_row_part_run(&p, call, block, SUM);                                                              \
    }                                                                                                        \
    static size_t NAME##_shared(const iso_kernel_call *call)                                                 \
    {                                                                                                        \
        const iso_row_parts p = PARTS(call);                                                                 \
        return iso_row_parts_shared(&p);                                                                     \
    }                                                                                                        \
    static void NAME##_finish(const iso_kernel_call *call)                                                   \
    {                                                                                                        \
        const iso_row_parts p = PARTS(call);                                                                 \
        PUT(call, iso_row_parts_add(&p, call));                                                              \
    }

/* They, as members of the kernel. */
#define ISO_ROW_SUMS_MEMBERS(NAME)                                                                           \
    .scratch = NAME##_scratch, .run = NAME##_run, .blocks = NAME##_blocks, .run_block = NAME##_run_block,    \
    .shared = NAME##_shared, .finish = NAME##_finish

#endif
