#include "runtime/backend/cpu/optimizers_body.h"
