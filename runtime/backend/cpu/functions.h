/* The loops of the kernels: each is compiled for every instruction set (functions of one name with the
 * endings _base, _avx2 and _avx512), and iso_cpu_functions() has those of the set in use. FUNCTION(result,
 * name, arguments): n counts elements; arrays do not overlap unless a comment says so. */
#ifndef ISO_CPU_FUNCTIONS_H
#define ISO_CPU_FUNCTIONS_H

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/cells.h"
#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/conv.h"
#include "runtime/backend/cpu/depthwise.h"
#include "runtime/backend/cpu/optimizers.h"
#include "runtime/backend/cpu/pool2d.h"
#include "runtime/graph/ops/attrs.h"

typedef enum iso_cpu_binary {
    ISO_CPU_ADD,
    ISO_CPU_SUBTRACT,
    ISO_CPU_MULTIPLY,
    ISO_CPU_DIVIDE,
    ISO_CPU_MAXIMUM,
    ISO_CPU_MINIMUM,
} iso_cpu_binary;

/* A row of a layer normalisation. */
typedef struct iso_row_moments {
    float mean, rstd;
} iso_row_moments;

/* iso_rule_run of an optimizer */
#define ISO_CPU_OPTIMIZER(FUNCTION, name)                                                                    \
    FUNCTION(void, name##_f32, (int64_t n, void *w, void *const *slots, const void *g, const double *hyper))

#define ISO_CPU_FUNCTIONS(FUNCTION)                                                                            \
    /* z = x + y, max(x, y); z may be x; NaN in x or y gives NaN */                                            \
    FUNCTION(void, sum_f32, (int64_t n, const float *x, const float *y, float *z))                             \
    FUNCTION(void, sum_f64, (int64_t n, const double *x, const double *y, double *z))                          \
    FUNCTION(void, max_f32, (int64_t n, const float *x, const float *y, float *z))                             \
    /* c [rows, columns] = a b, where a(i, k) = a[i * a_row + k * a_k] and b(k, j) = b[k * b_k + j]; */        \
    /* add: c += a b. The bits of a row do not depend on the number of rows */                                 \
    FUNCTION(void, gemm_f32,                                                                                   \
             (int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,            \
              const float *b, int64_t b_k, bool add, float *c))                                                \
    /* Floats of a vector */                                                                                   \
    FUNCTION(int64_t, lanes, (void))                                                                           \
    /* The same for wide b and a strip of rows: b is packed once into panels (gemm_pack_size floats), */       \
    /* which every strip of up to gemm_strip_rows or a multiple reads in order. a(i, k) = a[i + k * */         \
    /* a_k]; strip: rows * k scratch floats; add: c += a b. The bits are those of gemm_f32 where */            \
    /* k is at most 256. */                                                                                    \
    FUNCTION(int64_t, gemm_strip_rows, (void))                                                                 \
    FUNCTION(int64_t, gemm_pack_size, (int64_t columns, int64_t k))                                            \
    FUNCTION(void, gemm_pack_f32, (int64_t columns, int64_t k, const float *b, int64_t b_k, float *packed))    \
    FUNCTION(void, gemm_strip_f32,                                                                             \
             (int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_k, const float *packed,      \
              float *strip, bool add, float *c))                                                               \
    /* The same with a(i, k) = a[i * a_row + k], which is read where it is */                                  \
    FUNCTION(void, gemm_packed_f32,                                                                            \
             (int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, const float *packed,    \
              bool add, float *c))                                                                             \
    /* c [rows, columns] = a b^T, a [rows, k], b [columns, k]; rows of c begin c_row elements apart.         \
     * Scratch: bytes, aligned to 64. */ \
    FUNCTION(size_t, gemm_transposed_scratch, (int64_t rows, int64_t columns, int64_t k))                      \
    FUNCTION(void, gemm_transposed_f32,                                                                        \
             (int64_t rows, int64_t columns, int64_t k, const float *a, const float *b, float *c,              \
              int64_t c_row, void *scratch))                                                                   \
    /* x [rows, columns] -> y [columns, rows]; rows begin x_row and y_row elements apart */                    \
    FUNCTION(void, transpose_f32,                                                                              \
             (int64_t rows, int64_t columns, const float *x, int64_t x_row, float *y, int64_t y_row))          \
    /* Ops element by element, in float32 and in bfloat16 (computed as float32); y may be x, dx may be dy */   \
    FUNCTION(void, unary_f32, (iso_unary_kind kind, float alpha, int64_t n, const float *x, float *y))         \
    FUNCTION(void, unary_bf16,                                                                                 \
             (iso_unary_kind kind, float alpha, int64_t n, const uint16_t *x, uint16_t *y))                    \
    FUNCTION(void, unary_gradient_f32,                                                                         \
             (iso_unary_kind kind, float alpha, int64_t n, const float *s, const float *dy, float *dx))        \
    FUNCTION(                                                                                                  \
        void, unary_gradient_bf16,                                                                             \
        (iso_unary_kind kind, float alpha, int64_t n, const uint16_t *s, const uint16_t *dy, uint16_t *dx))    \
    FUNCTION(void, affine_f32, (int64_t n, float scale, float shift, const float *x, float *y))                \
    FUNCTION(void, affine_bf16, (int64_t n, float scale, float shift, const uint16_t *x, uint16_t *y))         \
    /* y[i] = table[x[i]], dx[i] = dy[i] table[x[i]]: tables.h; y may be x, dx may be dy */                    \
    FUNCTION(void, look_up_bf16, (int64_t n, const uint16_t *table, const uint16_t *x, uint16_t *y))           \
    FUNCTION(void, look_up_gradient_bf16,                                                                      \
             (int64_t n, const float *table, const uint16_t *x, const uint16_t *dy, uint16_t *dx))             \
    /* To bfloat16, rounded as by iso_bf16_of_float, and back */                                               \
    FUNCTION(void, bf16_of_f32, (int64_t n, const float *x, uint16_t *y))                                      \
    FUNCTION(void, f32_of_bf16, (int64_t n, const uint16_t *x, float *y))                                      \
    /* y[i] = a[i * a_step] op b[i * b_step], steps 0 or 1 */                                                  \
    FUNCTION(                                                                                                  \
        void, binary_f32,                                                                                      \
        (iso_cpu_binary kind, int64_t n, const float *a, int a_step, const float *b, int b_step, float *y))    \
    FUNCTION(void, binary_bf16,                                                                                \
             (iso_cpu_binary kind, int64_t n, const uint16_t *a, int a_step, const uint16_t *b, int b_step,    \
              uint16_t *y))                                                                                    \
    /* Convolutions; x, y, kernel as in iso_conv. Scratch: bytes, aligned to 64. */                            \
    FUNCTION(size_t, conv_scratch, (const iso_conv *conv))                                                     \
    FUNCTION(void, conv,                                                                                       \
             (const iso_conv *conv, const float *x, const float *kernel, float *y, void *scratch))             \
    FUNCTION(size_t, conv_grad_input_scratch, (const iso_conv *conv))                                          \
    FUNCTION(void, conv_grad_input,                                                                            \
             (const iso_conv *conv, const float *kernel, const float *dy, float *dx, void *scratch))           \
    /* The gradient of the kernel: the whole (part -1), or one of so many parts, with the same bits */         \
    FUNCTION(size_t, conv_grad_kernel_scratch, (const iso_conv *conv, bool whole))                             \
    FUNCTION(int64_t, conv_grad_kernel_parts, (const iso_conv *conv))                                          \
    FUNCTION(void, conv_grad_kernel,                                                                           \
             (const iso_conv *conv, int64_t part, const float *x, const float *dy, float *dkernel,             \
              void *scratch))                                                                                  \
    /* The same by Winograd's F(2 x 2, 3 x 3), of 3 x 3 elements without strides. rotated: the kernel is */    \
    /* [r, s, f, c] and rotated by 180 degrees, which makes of dy the gradient of the input. */                \
    FUNCTION(bool, winograd_pays, (const iso_conv *conv))                                                      \
    FUNCTION(size_t, winograd_scratch, (const iso_conv *conv))                                                 \
    FUNCTION(                                                                                                  \
        void, winograd,                                                                                        \
        (const iso_conv *conv, bool rotated, const float *x, const float *kernel, float *y, void *scratch))    \
    FUNCTION(size_t, winograd_grad_kernel_scratch, (const iso_conv *conv, bool whole))                         \
    FUNCTION(int64_t, winograd_grad_kernel_parts, (const iso_conv *conv))                                      \
    FUNCTION(void, winograd_grad_kernel,                                                                       \
             (const iso_conv *conv, int64_t part, const float *x, const float *dy, float *dkernel,             \
              void *scratch))                                                                                  \
    /* The same of volumes, of which `conv` is the convolution of one slice. */                                \
    FUNCTION(bool, winograd_volume_pays, (const iso_conv *conv))                                               \
    FUNCTION(size_t, winograd_volume_scratch, (const iso_conv *conv, const iso_conv_depth *depth))             \
    FUNCTION(void, winograd_volume,                                                                            \
             (const iso_conv *conv, const iso_conv_depth *depth, bool rotated, const float *x,                 \
              const float *kernel, float *y, void *scratch))                                                   \
    FUNCTION(size_t, winograd_volume_grad_kernel_scratch,                                                      \
             (const iso_conv *conv, const iso_conv_depth *depth))                                              \
    FUNCTION(void, winograd_volume_grad_kernel,                                                                \
             (const iso_conv *conv, const iso_conv_depth *depth, const float *x, const float *dy,              \
              float *dkernel, void *scratch))                                                                  \
    /* Convolutions of each channel by itself, one image; channels [begin, end) of dkernel are added to */     \
    FUNCTION(void, depthwise_f32, (const iso_depthwise *d, const float *x, const float *kernel, float *y))     \
    FUNCTION(void, depthwise_grad_input_f32,                                                                   \
             (const iso_depthwise *d, const float *kernel, const float *dy, float *dx))                        \
    FUNCTION(void, depthwise_grad_kernel_f32,                                                                  \
             (const iso_depthwise *d, int64_t begin, int64_t end, const float *x, const float *dy,             \
              float *dkernel))                                                                                 \
    ISO_FAST_OPTIMIZER_KERNELS(ISO_CPU_OPTIMIZER, FUNCTION)                                                    \
    /* Sums over the rows of x, dy [rows, c], c > 0: of x; of x and x^2; of dy and dy (x - mean), see */       \
    /* channels.h. scratch: 2 iso_pattern(c) doubles, aligned to 64. */                                        \
    FUNCTION(void, channel_sums, (int64_t rows, int64_t c, const float *x, double *sums, double *scratch))     \
    FUNCTION(void, channel_moments,                                                                            \
             (int64_t rows, int64_t c, const float *x, double *sums, double *squares, double *scratch))        \
    FUNCTION(void, channel_slopes,                                                                             \
             (int64_t rows, int64_t c, const float *x, const float *dy, const iso_channels *of,                \
              double *sums, double *products, double *scratch))                                                \
    /* y = (x - mean) scale + shift, at least 0 with relu and at most `largest`; n elements; y may be x */     \
    FUNCTION(void, channel_affine,                                                                             \
             (int64_t n, int64_t pattern, const float *x, const iso_channels *of, bool relu, float *y))        \
    /* dx may be dy or x */                                                                                    \
    FUNCTION(void, channel_gradient,                                                                           \
             (int64_t n, int64_t pattern, const float *x, const float *dy, const iso_channels *of,             \
              const iso_gradient_channels *to, float *dx))                                                     \
    /* Rows [rows, n] one by one, n > 0; y may be x, dx may be dy. log_sum_exp: y [rows] */                    \
    FUNCTION(void, softmax_f32, (int64_t rows, int64_t n, const float *x, float *y))                           \
    FUNCTION(void, log_softmax_f32, (int64_t rows, int64_t n, const float *x, float *y))                       \
    FUNCTION(void, log_sum_exp_f32, (int64_t rows, int64_t n, const float *x, float *y))                       \
    /* Softmax of rows that come part by part: x [rows, n] becomes exp(x - max), n > 0, with the max of */     \
    /* the parts up to this one; sum = sum decay + those numbers, decay = exp(max before - max). At first */   \
    /* max is the lowest finite number and sum 0. slopes = slopes decay + the sum of y dy. grad: y = y */      \
    /* scale, then dy = y (dy - slope). All but x, y and dy are [rows]. */                                     \
    FUNCTION(void, softmax_part_f32,                                                                           \
             (int64_t rows, int64_t n, float *x, float *max, float *sum, float *decay))                        \
    FUNCTION(void, softmax_part_slopes_f32,                                                                    \
             (int64_t rows, int64_t n, const float *y, const float *dy, const float *decay, float *slopes))    \
    FUNCTION(void, softmax_part_grad_f32,                                                                      \
             (int64_t rows, int64_t n, const float *scale, const float *slopes, float *y, float *dy))          \
    /* Of parts of rows [rows, n], n perhaps 0: max, sum, y [rows] */                                          \
    FUNCTION(void, class_max_f32, (int64_t rows, int64_t n, const float *x, float *y))                         \
    FUNCTION(void, class_sum_exp_f32, (int64_t rows, int64_t n, const float *x, const float *max, float *y))   \
    /* exp(x - max) / sum; y [rows, n] may be x */                                                             \
    FUNCTION(void, class_softmax_f32,                                                                          \
             (int64_t rows, int64_t n, const float *x, const float *max, const float *sum, float *y))          \
    FUNCTION(void, softmax_grad_f32, (int64_t rows, int64_t n, const float *y, const float *dy, float *dx))    \
    FUNCTION(void, log_softmax_grad_f32,                                                                       \
             (int64_t rows, int64_t n, const float *y, const float *dy, float *dx))                            \
    /* Elements first, first + 1, ... of the random sequence (key, step): graph/ops/network.h; y may be x */   \
    FUNCTION(void, dropout_f32,                                                                                \
             (int64_t n, uint64_t key, uint64_t step, uint64_t first, uint32_t threshold, float scale,         \
              const float *x, float *y))                                                                       \
    /* Rotary positions: n angles position * frequency; rows of pairs i, i + features / 2; y may be x */       \
    FUNCTION(void, rotary_angles,                                                                              \
             (int64_t n, double position, const double *frequency, double *cosine, double *sine))              \
    FUNCTION(void, rotary_f32,                                                                                 \
             (int64_t rows, int64_t features, int64_t pairs, const float *cosine, const float *sine,           \
              const float *x, float *y))                                                                       \
    FUNCTION(void, rotary_bf16,                                                                                \
             (int64_t rows, int64_t features, int64_t pairs, const float *cosine, const float *sine,           \
              const uint16_t *x, uint16_t *y))                                                                 \
    FUNCTION(void, rotary_f64,                                                                                 \
             (int64_t rows, int64_t features, int64_t pairs, const double *cosine, const double *sine,         \
              const double *x, double *y))                                                                     \
    /* A row of a step of a recurrence, and of its gradient */                                                 \
    FUNCTION(void, lstm_row_f32, (const iso_cell_row *row))                                                    \
    FUNCTION(void, lstm_row_grad_f32, (const iso_cell_row_grad *row))                                          \
    FUNCTION(void, gru_row_f32, (const iso_cell_row *row))                                                     \
    FUNCTION(void, gru_row_grad_f32, (const iso_cell_row_grad *row))                                           \
    FUNCTION(void, simple_row_f32, (const iso_cell_row *row))                                                  \
    FUNCTION(void, simple_row_grad_f32, (const iso_cell_row_grad *row))                                        \
    /* Pools */                                                                                                \
    FUNCTION(void, max_pool_f32, (const iso_pool2d *pool, const float *x, float *y))                           \
    FUNCTION(void, max_pool_grad_f32,                                                                          \
             (const iso_pool2d *pool, const float *x, const float *y, const float *dy, float *dx))             \
    FUNCTION(void, average_pool_f32, (const iso_pool2d *pool, const float *x, float *y))                       \
    FUNCTION(void, average_pool_grad_f32, (const iso_pool2d *pool, const float *dy, float *dx))                \
    /* One row's part of c channels, perhaps 0: x's sum and sum of squares; then with its mean and rstd */     \
    /* known y, which may be x; the sums of d = dy gamma and of d xhat; dx, which may be dy, from the */       \
    /* means of these; and dy xhat and dy added to sums of channels. gamma, beta: NULL or [c] */               \
    FUNCTION(void, layer_moments_f32, (int64_t c, const float *x, double *sum, double *squares))               \
    FUNCTION(void, layer_scale_f32,                                                                            \
             (int64_t c, const float *x, const iso_row_moments *m, const float *gamma, const float *beta,      \
              float *y))                                                                                       \
    FUNCTION(void, layer_grad_sums_f32,                                                                        \
             (int64_t c, const float *x, const float *dy, const iso_row_moments *m, const float *gamma,        \
              double *sum, double *products))                                                                  \
    FUNCTION(void, layer_grad_f32,                                                                             \
             (int64_t c, const float *x, const float *dy, const iso_row_moments *m, const float *gamma,        \
              float sum, float products, float *dx))                                                           \
    FUNCTION(void, layer_weight_sums_f32,                                                                      \
             (int64_t c, const float *x, const float *dy, const iso_row_moments *m, float *products,           \
              float *sums))                                                                                    \
    /* Layer normalisation of rows [rows, c]; gamma, beta may be NULL. residual, NULL or [rows, c], is */      \
    /* added to x, which gives sum [rows, c], or to dx. sums: dgamma, dbeta [c]; scratch: 2 c floats. */       \
    /* rms: the mean counts as 0 */                                                                            \
    FUNCTION(void, layer_norm_f32,                                                                             \
             (int64_t rows, int64_t c, const float *x, const float *residual, const float *gamma,              \
              const float *beta, float epsilon, bool rms, float *sum, float *y))                               \
    FUNCTION(void, layer_norm_grad_f32,                                                                        \
             (int64_t rows, int64_t c, const float *x, const float *dy, const float *gamma, float epsilon,     \
              bool rms, const float *residual, float *dx))                                                     \
    FUNCTION(void, layer_norm_sums_f32,                                                                        \
             (int64_t rows, int64_t c, const float *x, const float *dy, float epsilon, bool rms,               \
              double *dgamma, double *dbeta, float *scratch))

typedef struct iso_cpu_functions_table {
#define FUNCTION(result, name, arguments) result(*name) arguments;
    ISO_CPU_FUNCTIONS(FUNCTION)
#undef FUNCTION
} iso_cpu_functions_table;

#define FUNCTION(result, name, arguments)                                                                    \
    result name##_base arguments;                                                                            \
    result name##_avx2 arguments;                                                                            \
    result name##_avx512 arguments;
ISO_CPU_FUNCTIONS(FUNCTION)
#undef FUNCTION

/* The functions of the instruction set in use. */
const iso_cpu_functions_table *iso_cpu_functions(void);

#endif
