#include "runtime/backend/cpu/channels_body.h"
