/* Every elementwise op of one operand, one per line, in the order of their kinds. Define before including it:
 *   UNARY(name, KIND, gradient, linear): the op iso_op_name of the kind ISO_UNARY_KIND; its gradient in
 *     elementwise.c (from_input and from_output: the tensor that the slope is computed from); whether it is linear
 *   UNARY_WITH, optional: the same for ops that take a number alpha besides x; default: UNARY
 *   UNARY_KIND(KIND), optional: another kind of the op above; default: nothing */
#ifndef UNARY_WITH
#define UNARY_WITH UNARY
#endif
#ifndef UNARY_KIND
#define UNARY_KIND(KIND)
#endif
// clang-format off
UNARY(negate, NEGATE, of_negate, 1)
UNARY(abs, ABS, from_input, 0)
UNARY(sign, SIGN, NULL, 0)
UNARY(exp, EXP, from_output, 0)
UNARY(log, LOG, from_input, 0)
UNARY(sqrt, SQRT, from_output, 0)
UNARY(rsqrt, RSQRT, from_output, 0)
UNARY(square, SQUARE, from_input, 0)
UNARY(relu, RELU, from_output, 0)
UNARY_WITH(clipped_relu, CLIPPED_RELU, from_output, 0) /* alpha: the largest result, above 0 */
UNARY_WITH(leaky_relu, LEAKY_RELU, from_input, 0) /* alpha: the slope below 0 */
UNARY_WITH(elu, ELU, from_input, 0)               /* alpha: the limit is -alpha */
UNARY(sigmoid, SIGMOID, from_output, 0)
UNARY(tanh, TANH, from_output, 0)
UNARY_WITH(gelu, GELU, from_input, 0)             /* x * Phi(x) */
UNARY_KIND(GELU_APPROXIMATE)                      /* by tanh */
UNARY(silu, SILU, from_input, 0)
UNARY(softplus, SOFTPLUS, from_input, 0)
// clang-format on
#undef UNARY
#undef UNARY_WITH
#undef UNARY_KIND
