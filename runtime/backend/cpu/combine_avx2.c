#include "runtime/backend/cpu/combine_body.h"
