#include "runtime/backend/cpu/elementwise_body.h"
