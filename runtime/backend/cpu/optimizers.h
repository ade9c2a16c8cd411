/* The rules (runtime/backend/update_rules.h) that have a fast form in float32 (optimizers_body.h), one on each line:
 * KERNEL(with, name); `with` is passed through. The others use the reference form. */
#ifndef ISO_CPU_OPTIMIZERS_H
#define ISO_CPU_OPTIMIZERS_H

// clang-format off
#define ISO_FAST_OPTIMIZER_KERNELS(KERNEL, with) \
    KERNEL(with, sgd) \
    KERNEL(with, rmsprop) \
    KERNEL(with, adam) \
    KERNEL(with, adagrad) \
    KERNEL(with, nadam) \
    KERNEL(with, lion) \
    KERNEL(with, adamax) \
    KERNEL(with, adadelta) \
    KERNEL(with, average)
// clang-format on

#endif
