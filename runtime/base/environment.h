/* Variables of the environment. */
#ifndef ISO_BASE_ENVIRONMENT_H
#define ISO_BASE_ENVIRONMENT_H

#include "runtime/base/status.h"

/* *value: a variable that is an integer from 1 to `most`; 0: it is not set, or empty. ISO_INVALID names it. */
iso_status iso_environment_integer(const char *name, int most, int *value);

#endif
