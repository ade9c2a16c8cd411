#include "runtime/backend/cpu/gemm_body.h"
