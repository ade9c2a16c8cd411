/* Convolutions of one group as products of matrices by cuBLASLt: the windows of the images are copied side by side
 * (im2col), as many images at a time as a bound of scratch memory allows, and multiplied by the kernel. Gradients are
 * products likewise: that of x has its columns added up, that of the kernel its images.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_IM2COL_H
#define ISO_BACKEND_CUDA_IM2COL_H

#include "runtime/backend/cuda/cudnn.h"

/* Whether a call has enough channels and filters for products that are worth the copies, and cuBLASLt does them. */
bool iso_cuda_im2col_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind);
/* Whether a window is one element, and the next window the next element, so that nothing is copied; and cuBLASLt
 * does the product. */
bool iso_cuda_pointwise_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind);
/* Whether a call of ISO_CUDA_CONVOLVE that fits can be done with an epilogue too. */
bool iso_cuda_im2col_fuses(const iso_kernel_call *call, int epilogue);
/* For a call that fits: the bytes of scratch memory, also with any epilogue; and queues it. The arrays lie at
 * multiples of 16. */
size_t iso_cuda_im2col_scratch(const iso_kernel_call *call, iso_cuda_convolution_kind kind);
void iso_cuda_im2col_run(const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                         const iso_cuda_epilogue *epilogue);

#endif
