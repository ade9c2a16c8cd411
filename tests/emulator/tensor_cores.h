/* The emulated functions of runtime/backend/cuda/mma.h: the lanes of a warp give each other their fragments, as the
 * PTX manual lays them out ("Matrix Fragments for mma.m16n8k16", "ldmatrix"). Copies to shared memory are made when
 * their thread waits for them; until then it is filled with NaN there. */
#ifndef ISO_TESTS_EMULATOR_TENSOR_CORES_H
#define ISO_TESTS_EMULATOR_TENSOR_CORES_H

#include "tests/emulator/cuda_runtime.h"

namespace emulator
{

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATOR_PLACE);
void load_matrices(uint32_t (&x)[4], const void *row, EMULATOR_PLACE);
void load_transposed(uint32_t (&x)[4], const void *row, EMULATOR_PLACE);
void copy_16(void *to, const void *from, bool exists);
void copy_4(void *to, const void *from, bool exists);
void wait_for_copies();

} // namespace emulator

#endif
