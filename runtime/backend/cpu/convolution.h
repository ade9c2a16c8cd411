/* The convolutions of calls, for the kernels of images and of volumes. */
#ifndef ISO_CPU_CONVOLUTION_H
#define ISO_CPU_CONVOLUTION_H

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/conv.h"

/* Of one image x [.., h, w, c], or of a slice of a volume, by a kernel [r, s, .., f] -> y [.., oh, ow, f]. n: that of
 * dimension 0; height: the dimension of h and oh. */
iso_conv iso_cpu_conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                         const iso_array *y, int height);
/* Whether the loops compute it: without dilation, and with windows that begin at x or before. Parts without an output
 * position or an element of x are left to other kernels, as are parts that begin before the window. */
bool iso_cpu_conv_fits(const iso_kernel_call *call, const iso_conv *conv);
/* The convolution of dy with the rotated kernel that makes the gradient of x. */
iso_conv iso_cpu_conv_rotated(const iso_conv *conv);

#endif
