#include "runtime/backend/cpu/cells_body.h"
