/* Attention in float32. */
#include <float.h>

#include "runtime/backend/cpu/functions.h"

#define REAL float
#define REAL_DTYPE ISO_F32
#define REAL_MAX FLT_MAX
#define BLOCK_KEYS 256
#define STORED float
#define STORED_DTYPE ISO_F32
#define real_gemm iso_cpu_functions()->gemm_f32
#define real_transpose iso_cpu_functions()->transpose_f32
#define real_affine iso_cpu_functions()->affine_f32
#define real_softmax_part iso_cpu_functions()->softmax_part_f32
#define real_softmax_part_slopes iso_cpu_functions()->softmax_part_slopes_f32
#define real_softmax_part_grad iso_cpu_functions()->softmax_part_grad_f32
#define real_dropout iso_cpu_functions()->dropout_f32
#define real_tanh(n, x, y) iso_cpu_functions()->unary_f32(ISO_UNARY_TANH, 0, n, x, y)
#define real_tanh_grad(n, y, dy, dx) iso_cpu_functions()->unary_gradient_f32(ISO_UNARY_TANH, 0, n, y, dy, dx)
#include "runtime/backend/cpu/attention_body.h"

const iso_kernel iso_cpu_attention = {.op = "attention",
                                      .name = "blocks",
                                      .fits = attention_fits,
                                      .scratch = attention_scratch,
                                      .run = attention_run,
                                      .blocks = attention_blocks,
                                      .run_block = attention_run_block};
const iso_kernel iso_cpu_attention_grad = {.op = "attention_grad",
                                           .name = "blocks",
                                           .fits = attention_fits,
                                           .scratch = attention_grad_scratch,
                                           .run = attention_grad_run,
                                           .blocks = attention_grad_blocks,
                                           .run_block = attention_grad_run_block};
