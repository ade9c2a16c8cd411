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

/* A part is at least 256 KiB of floats, and many rows: to add its sums costs little. */
static inline iso_row_parts iso_row_parts_of(int64_t rows, int64_t columns, int64_t sums, size_t room)
{
    enum { MOST = 32, LEAST = 1 << 16, GROUP = 64 };
    int64_t most = rows / GROUP < MOST ? rows / GROUP : MOST, parts = rows * columns / LEAST;
    parts = parts < most ? parts : most;
    return (iso_row_parts){rows, parts > 1 ? parts : 1, sums, iso_round_to_lines(room)};
}

/* The first row of a part, which is a multiple of 64; that of part `parts` is the end of the last one. */
static inline int64_t iso_row_part_begin(const iso_row_parts *p, int64_t part)
{
    enum { GROUP = 64 };
    return part == p->parts ? p->rows : p->rows / GROUP * part / p->parts * GROUP;
}

/* The scratch memory: the sums of each part, then the room of each. */
static inline size_t iso_row_parts_scratch(const iso_row_parts *p)
{
    return (size_t)p->parts * (iso_round_to_lines((size_t)p->sums * sizeof(double)) + p->room) + ISO_ALIGN;
}

static inline double *iso_row_part_sums(const iso_row_parts *p, const iso_kernel_call *call, int64_t part)
{
    return (double *)((char *)call->scratch +
                      (size_t)part * iso_round_to_lines((size_t)p->sums * sizeof(double)));
}

static inline void *iso_row_part_room(const iso_row_parts *p, const iso_kernel_call *call, int64_t part)
{
    return (char *)iso_row_part_sums(p, call, p->parts) + (size_t)part * p->room;
}

/* Adds the sums of all parts to those of part 0, and returns these. */
static inline const double *iso_row_parts_add(const iso_row_parts *p, const iso_kernel_call *call)
{
    double *sums = iso_row_part_sums(p, call, 0);
    for (int64_t part = 1; part < p->parts; part++) {
        const double *more = iso_row_part_sums(p, call, part);
        for (int64_t i = 0; i < p->sums; i++)
            sums[i] += more[i];
    }
    return sums;
}

#endif
