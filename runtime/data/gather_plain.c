#define GATHER_NAME iso_gather_u8_f32_plain
#include "runtime/data/gather_impl.h"
