/* What a rank of a host owns on a GPU (the stand-in for CUDA) and other ranks have open is given back when they have
 * closed it, also if they come later; CUDA leaves the other order undefined, and the stand-in ends the process then.
 * Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "runtime/base/device.h"
#include "runtime/session/session.h"
#include "tests/support/cuda_library.h"
#include "tests/support/hosts.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { LATE = 300000 /* microseconds */ };

static iso_context *ctx;
static const iso_device *device;

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)dtype, (void)n, (void)a, (void)b, (void)out, (void)stream;
}

/* A slot on each rank, all on one GPU. */
static iso_fabric *make(iso_stream *const *streams)
{
    static int rank_of_slot[64], host_of_rank[64];
    iso_fabric *fabric = NULL;
    int ranks = iso_ranks(ctx);
    pretend_hosts(ctx, ranks, host_of_rank);
    for (int slot = 0; slot < ranks; slot++)
        rank_of_slot[slot] = slot;
    iso_topology topology = {.n_slots = ranks,
                             .n_ranks = ranks,
                             .rank = iso_rank(ctx),
                             .rank_of_slot = rank_of_slot,
                             .host_of_rank = host_of_rank,
                             .n_threads = 1,
                             .device = device,
                             .stream_of_slot = streams};
    check_ok(iso_fabric_create(&topology, iso_communicator(ctx), sum, sum, &fabric));
    return fabric;
}

/* late: the rank that ends its fabric after the others. */
static void end_late(int late)
{
    iso_stream *stream = NULL, *streams[64] = {NULL};
    check_ok(device->create_stream(device, &stream));
    streams[iso_rank(ctx)] = stream;
    iso_fabric *fabric = make(streams);
    for (size_t bytes = 1000; bytes < 5000000; bytes *= 10)
        check_ok(iso_fabric_reserve(fabric, bytes, same_bytes(bytes)));
    check_ok(device->wait(stream));
    if (iso_rank(ctx) == late)
        usleep(LATE);
    iso_fabric_destroy(fabric);
    device->destroy_stream(stream);
}

START_TEST(events_are_destroyed_when_others_have_closed_them)
{
    end_late(iso_ranks(ctx) - 1);
    end_late(0);
}
END_TEST

/* Without events, which would make the ranks wait for each other. */
START_TEST(memory_is_freed_when_others_have_closed_it)
{
    setenv("STANDIN_FAIL", "cudaEventInterprocess:801", 1);
    end_late(iso_ranks(ctx) - 1);
    end_late(0);
    unsetenv("STANDIN_FAIL");
}
END_TEST

int main(int argc, char **argv)
{
    const iso_cuda_library *cuda = test_cuda_library();
    if (!cuda) {
        report_skipped("the backend cuda", "this build has no CUDA");
        return 77;
    }
    device = cuda->device(0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("closing", 60, events_are_destroyed_when_others_have_closed_them,
                                      memory_is_freed_when_others_have_closed_it))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
