/* Runs CUDA kernels on the host, so that tests need no GPU.
 *
 * Kernel files (.cu) are compiled unchanged by g++ or clang++, with the cuda_runtime.h of this folder in
 * place of CUDA's. A launch runs the blocks of its grid one after another. The threads of a block are
 * fibers: each runs until it meets others (a barrier, a shuffle, a vote) or ends. The next one to run is
 * always the first in an order of priorities that can run, so some threads are far ahead of others. That
 * order, and the order of the blocks, is chosen here. Shared memory is filled with NaN when a block begins.
 *
 * A kernel that does what CUDA does not define is stopped, and its launch returns cudaErrorLaunchFailure:
 * threads that wait for others that never come; barriers or warp operations in different places; a shuffle
 * from a lane that does not take part; a write behind the dynamic shared memory.
 *
 * Tensor cores and asynchronous copies are those of tensor_cores.h. Not emulated: other inline PTX, cooperative
 * groups, textures, launches from kernels, and blocks that wait for each other.
 *
 * Functions are local. Any thread may call them; the order is that of the whole process. */
#ifndef ISO_TESTS_EMULATOR_EMULATOR_H
#define ISO_TESTS_EMULATOR_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum emulator_order {
    EMULATOR_IN_ORDER,
    EMULATOR_BACKWARD,
    EMULATOR_RANDOM, /* drawn anew for each block; in some blocks the lanes of a warp stay together */
} emulator_order;

/* The order of threads and blocks in the launches from now on. At first it is EMULATOR_IN_ORDER.
 * seed: for EMULATOR_RANDOM. */
void emulator_set_order(emulator_order order, uint64_t seed);

/* The text of the first error since the last call, which names the place, the block and the thread; NULL if
 * there was none. It stays valid until the next error. */
const char *emulator_error(void);

#ifdef __cplusplus
}
#endif
#endif
