/* The update kernels of the optimizers, one on each line: KERNEL(with, name); `with` is passed through. Every
 * kernel has a reference form (reference/optimizers.c). Those of the second list also have a fast form in
 * float32 (optimizers_body.h); the others use the reference form. */
#ifndef ISO_CPU_OPTIMIZERS_H
#define ISO_CPU_OPTIMIZERS_H

// clang-format off
#define ISO_OPTIMIZER_KERNELS(KERNEL, with) \
    KERNEL(with, sgd) \
    KERNEL(with, rmsprop) \
    KERNEL(with, adam) \
    KERNEL(with, adagrad) \
    KERNEL(with, nadam) \
    KERNEL(with, lion)
#define ISO_FAST_OPTIMIZER_KERNELS(KERNEL, with) \
    KERNEL(with, sgd) \
    KERNEL(with, rmsprop) \
    KERNEL(with, adam) \
    KERNEL(with, adagrad) \
    KERNEL(with, nadam) \
    KERNEL(with, lion)
// clang-format on

#endif
