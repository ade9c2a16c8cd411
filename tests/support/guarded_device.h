/* The test device: the CPU's kernels on memory that the host may not touch. It proves that the host reaches
 * tensors by runtime/base/device.h alone.
 *
 * The addresses of its memory are reserved pages without access. The memory itself is elsewhere, and only the
 * device's functions and kernels know where: a load or store of the host ends the process with a report. What is
 * queued on a stream is done as late as possible, when the host, or another stream that the host waits for, waits for
 * it: so a wait that is missing shows. ISOGRID_TEST_ORDER=early does it at once, a number there by chance.
 *
 * Test programs have it in their list of backends, as "test": with ISOGRID_BACKEND=test in its environment, a test
 * program runs all its graphs on this device. */
#ifndef ISO_TESTS_GUARDED_DEVICE_H
#define ISO_TESTS_GUARDED_DEVICE_H

#include "runtime/backend/backend.h"
#include "runtime/base/shards.h"

/* One for all slots. */
const iso_device *test_device(int turn);
/* The CPU's kernels, sums and optimizers on the device's memory. */
const iso_backend *test_device_backend(void);

/* For shards that a test makes, with data from malloc: moves the data to the test device if the program runs on
 * it; and frees the data. */
void test_shard_place(iso_state_shard *shard);
void test_shard_free(iso_state_shard *shard);

#endif
