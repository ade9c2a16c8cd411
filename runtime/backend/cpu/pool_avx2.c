#include "runtime/backend/cpu/pool_body.h"
