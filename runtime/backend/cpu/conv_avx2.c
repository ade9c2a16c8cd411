#include "runtime/backend/cpu/conv_body.h"
