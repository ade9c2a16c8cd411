#include "runtime/backend/cpu/random_body.h"
