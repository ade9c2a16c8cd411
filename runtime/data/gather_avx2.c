#define GATHER_NAME iso_gather_u8_f32_avx2
#include "runtime/data/gather_impl.h"
