/* Every op type, one a line: OP(name) stands for the descriptor iso_op_name, whose name is "name". Included
 * plainly this declares them all; with OP defined it is the list itself. */
#ifndef OP
#include "runtime/graph/op.h"
#define OP(name) extern const iso_op_type iso_op_##name;
#endif
// clang-format off

/* arithmetic, reductions, shapes, products */

/* networks */

// clang-format on
#undef OP
