#include "runtime/backend/cpu/softmax_body.h"
