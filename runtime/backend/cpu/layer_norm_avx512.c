#include "runtime/backend/cpu/layer_norm_body.h"
