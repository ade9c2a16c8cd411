/* Kernels for the emulator's own tests, each with its faults. Inputs and outputs are memory of the host. */
#ifndef ISO_TESTS_EMULATOR_SAMPLES_H
#define ISO_TESTS_EMULATOR_SAMPLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A barrier is left out where `missing` is its number; 0: none. Numbers of the barriers: */
enum {
    SAMPLE_BARRIERS = 5,  /* in all */
    SAMPLE_OF_SUMS = 2,   /* 1, 2: sample_row_sums */
    SAMPLE_OF_COLUMN = 3, /* 3: sample_columns */
    SAMPLE_OF_PRODUCT = 5 /* 4, 5: sample_product */
};

/* x [rows, columns] -> y [rows, columns]: x minus its row's mean, divided by the mean distance from that
 * mean */
void sample_row_sums(int missing, int rows, int columns, const float *x, float *y);
/* x [rows, columns] -> y [columns], sums */
void sample_columns(int missing, int rows, int columns, const float *x, float *y);
/* c [m, n] = a [m, k] b [k, n] */
void sample_product(int missing, int m, int n, int k, const float *a, const float *b, float *c);
/* y[b] of each of `blocks` blocks of 64 threads: how many of the lanes below 8 of its first warp have an odd
 * number plus b; total: the sum of 1 to 64, and greatest: the largest number of a block */
void sample_votes(int blocks, int *y, int *total, int *greatest);

/* How the fragments of sample_fragments are loaded. */
typedef enum sample_loads {
    SAMPLE_BY_ELEMENT, /* as the PTX manual states the element of each word */
    SAMPLE_BY_MATRIX,  /* a and the transposed b [8, 16] by load_matrices, b [16, 8] by load_transposed */
    SAMPLE_TOO_EARLY,  /* the same without waiting for the copies to shared memory */
    SAMPLE_ODD_ADDRESS /* of a row in shared memory */
} sample_loads;
/* c [16, 16] += a [16, 16] b [16, 16], numbers of bfloat16, by two "mma" of 8 columns each: the second one has b
 * transposed in `b_rows` [8, 16], its columns from 8 on. Returns the error of the launch. */
int sample_fragments(sample_loads how, const uint16_t *a, const uint16_t *b, const uint16_t *b_rows,
                     float *c);

/* What CUDA does not define. */
typedef enum sample_fault {
    SAMPLE_DEADLOCK,       /* some threads wait at a barrier, others for lanes that wait at it */
    SAMPLE_TWO_BARRIERS,   /* a warp at one barrier, a warp at another */
    SAMPLE_PAST_SHARED,    /* thread 3 of block 1 writes one element past the dynamic shared memory */
    SAMPLE_TWO_OPERATIONS, /* lanes of a warp at a shuffle and at a vote */
    SAMPLE_OUTSIDE_MASK,   /* a shuffle from a lane that is not in the mask */
    SAMPLE_ENDED_LANE,     /* a shuffle of a warp that has lost a lane */
    SAMPLE_TOO_MANY,       /* threads in a block */
    SAMPLE_FAULTS
} sample_fault;
/* Returns the error of the launch. */
int sample_run_fault(sample_fault fault);

/* The shared variable that a thread finds when its block begins, and what is behind it in dynamic shared
 * memory. */
void sample_poison(uint32_t *fixed, uint32_t *dynamic);

#ifdef __cplusplus
}
#endif
#endif
