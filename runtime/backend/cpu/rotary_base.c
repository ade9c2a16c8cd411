#include "runtime/backend/cpu/rotary_body.h"
