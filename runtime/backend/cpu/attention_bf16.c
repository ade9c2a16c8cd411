/* Attention in bfloat16 on a processor with AMX. Softmax and dropout are in float32, and products nearly as
 * exact: one operand of each is a query, a key, a value or the gradient of a result, which are bfloat16; for the
 * other one see amx.h. */
#include <float.h>

#include "runtime/backend/cpu/amx.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/isa.h"

#define REAL float
#define REAL_DTYPE ISO_F32
#define REAL_MAX FLT_MAX
#define BLOCK_KEYS 512
#define STORED uint16_t
#define STORED_DTYPE ISO_BF16
#define STORED_IS_NARROW 1
#define real_load iso_cpu_functions()->f32_of_bf16
#define real_store iso_cpu_functions()->bf16_of_f32
#define real_gemm iso_amx_gemm
#define real_transpose iso_cpu_functions()->transpose_f32
#define real_affine iso_cpu_functions()->affine_f32
#define real_softmax_part iso_cpu_functions()->softmax_part_f32
#define real_softmax_part_slopes iso_cpu_functions()->softmax_part_slopes_f32
#define real_softmax_part_grad iso_cpu_functions()->softmax_part_grad_f32
#define real_dropout iso_cpu_functions()->dropout_f32
#define real_tanh(n, x, y) iso_cpu_functions()->unary_f32(ISO_UNARY_TANH, 0, n, x, y)
#define real_tanh_grad(n, y, dy, dx) iso_cpu_functions()->unary_gradient_f32(ISO_UNARY_TANH, 0, n, y, dy, dx)
#include "runtime/backend/cpu/attention_body.h"

static bool bf16_fits(const iso_kernel_call *call)
{
    return iso_cpu_isa() >= ISO_ISA_AMX && attention_fits(call);
}

const iso_kernel iso_cpu_attention_bf16 = {.op = "attention",
                                           .name = "blocks, AMX",
                                           .fits = bf16_fits,
                                           .scratch = attention_scratch,
                                           .run = attention_run,
                                           .blocks = attention_blocks,
                                           .run_block = attention_run_block};
const iso_kernel iso_cpu_attention_grad_bf16 = {.op = "attention_grad",
                                                .name = "blocks, AMX",
                                                .fits = bf16_fits,
                                                .scratch = attention_grad_scratch,
                                                .run = attention_grad_run,
                                                .blocks = attention_grad_blocks,
                                                .run_block = attention_grad_run_block};
