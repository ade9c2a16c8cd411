/* Pulls into memory of a device that the host cannot write. */
#ifndef ISO_STAGED_IMPL_H
#define ISO_STAGED_IMPL_H

#include "collectives/puller_impl.h"

/* Pulls into memory of the host and copies the result to the gather's target, which is memory of `device`; it is
 * there when the call returns. The puller reads operands that the host can read. Errors of the device are those of
 * the next wait for any of its streams. */
void iso_pull_staged(const iso_puller *puller, const iso_gather *gather);

#endif
