/* The cells of recurrences, row by row: what the loops over them read and write (functions.h). */
#ifndef ISO_CPU_CELLS_H
#define ISO_CPU_CELLS_H

#include <stdint.h>

#include "runtime/graph/graph.h"

/* A row of a step. The units of a gate are next to each other, gate after gate. */
typedef struct iso_cell_row {
    int64_t units;
    iso_cell_activation activation, recurrent;
    const float *x, *r;               /* [g units]; r: h' kernel + bias */
    const float *h_before, *c_before; /* [units] */
    float *gates;                     /* [4 units]; SIMPLE has none */
    float *c, *h;                     /* [units]; c: of LSTM */
} iso_cell_row;

/* The same of the gradient. The gradient of h is dh + carried_h, that of c dc + carried_c. */
typedef struct iso_cell_row_grad {
    int64_t units;
    iso_cell_activation activation, recurrent;
    const float *gates, *c, *c_before, *h, *h_before;
    const float *dh, *dc; /* [units] */
    float *carried_c;     /* in: from the later step; out: for c' */
    float *carried_h;     /* in: from the later step; out, of GRU: for h', without that through r */
    float *dx, *dr;       /* [g units]; dr: of r. It is dx for LSTM and SIMPLE, whose rows write dx alone */
} iso_cell_row_grad;

#endif
