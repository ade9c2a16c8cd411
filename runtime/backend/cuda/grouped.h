/* Products of the rows of each expert with matrices of its own, in one launch for all experts. Where the rows of an
 * expert are, a grouped_order says, on the device. */
#ifndef ISO_BACKEND_CUDA_GROUPED_H
#define ISO_BACKEND_CUDA_GROUPED_H

#include "runtime/backend/cuda/grouped_order.h"

namespace iso_cuda
{

/* c [m, n] = the sum over k of a b. With BY_MATRIX and BY_TRANSPOSED, a [m, k] and c have the rows of an expert, and
 * b is its matrix [k, n], or [n, k] transposed. OVER_ROWS: k is over the rows of an expert, a is [k, m] transposed, b
 * [k, n], and c the expert's matrix. */
enum grouped_form { BY_MATRIX, BY_TRANSPOSED, OVER_ROWS };

/* A matrix, stored by rows that are `row` elements apart. */
struct grouped_operand {
    const void *x;
    int64_t row;
    int64_t
        expert; /* elements from the matrix of one expert to that of the next; 0: the rows are positions */
    const int32_t *rows; /* of x at each position; nullptr: x has its rows by position */
};

struct grouped_result {
    reals to;
    int64_t row, expert;
};

/* c = a[0] b[0], or the sum of that and a[1] b[1]. Operands have one type, which is c's except for bfloat16. */
struct grouped_product {
    grouped_form form;
    int pairs;
    grouped_operand a[2], b[2];
    grouped_result c;
    int64_t m, n, k; /* but the one that is the number of rows of an expert */
};

/* Rows of a tile, for grouped_order. */
int64_t grouped_tile(iso_dtype dtype);

/* Queues a product. dtype: of the operands. */
void multiply_groups(const iso_stream *stream, iso_dtype dtype, const grouped_order &order,
                     const grouped_product &product);

} // namespace iso_cuda

#endif
