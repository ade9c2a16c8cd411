#include "runtime/backend/cpu/depthwise_body.h"
