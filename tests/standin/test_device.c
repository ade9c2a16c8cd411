/* The CUDA device on the stand-in: what goes wrong on a GPU is an error with the GPU's name and CUDA's number, out of
 * memory with the bytes that were asked for and those that are free; the slots of a host take GPUs in turn.
 * (tests/base/test_device.c has what it does as every device.) Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/device.h"
#include "tests/support/cuda_library.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static const iso_cuda_library *cuda;

static void has_message(const char *text)
{
    ck_assert_msg(strstr(iso_error_message(), text) != NULL, "the message is '%s'", iso_error_message());
}

/* Each case has a process of its own, because the library looks at its GPUs once. */
static void in_child(void (*run)(void))
{
    int code;
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    ck_assert_int_eq(code, 0);
}

static void run_out_of_memory(void)
{
    void *memory = NULL;
    setenv("STANDIN_MEGABYTES", "3", 1);
    check_ok(cuda->device(0)->allocate(cuda->device(0), 1000000, "the weights", &memory));
    ck_assert_int_eq(cuda->device(0)->allocate(cuda->device(0), 5000000, "the arena of a slot", &memory),
                     ISO_NO_MEMORY);
    has_message(
        "GPU 0 (Stand-in): no memory for the arena of a slot: 5 MB are needed (5000000 bytes), 2.15 MB of "
        "3.15 MB are free");
    check_ok(
        cuda->device(0)->allocate(cuda->device(0), 1000000, "what fits", &memory)); /* the error is over */
}

static void fail_in_a_kernel(void)
{
    const iso_device *device = cuda->device(0);
    const double element = 1.5;
    iso_stream *stream = NULL;
    void *memory = NULL;
    setenv("STANDIN_FAIL", "kernel:719", 1);
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, 800, "numbers", &memory));
    device->fill(stream, memory, &element, 8, 100);
    ck_assert_int_eq(device->wait(stream), ISO_FAILED);
    has_message(
        "GPU 0 (Stand-in): the work that was queued failed: unspecified launch failure (CUDA error 719)");
}

static void fail_in_a_copy(void)
{
    const iso_device *device = cuda->device(0);
    iso_stream *stream = NULL;
    void *memory = NULL;
    char host[8] = {0};
    setenv("STANDIN_FAIL", "cudaMemcpyAsync:1:2", 1);
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, 8, "numbers", &memory));
    device->copy(stream, memory, host, 8);
    check_ok(device->wait(stream));
    device->copy(stream, memory, host, 8);
    unsetenv("STANDIN_FAIL");
    device->copy(stream, memory, host, 8);
    ck_assert_int_eq(device->wait(stream), ISO_FAILED); /* the first error, once */
    has_message("invalid argument (CUDA error 1)");
    check_ok(device->wait(stream));
}

/* A launch that is refused is an error of its stream alone, whoever looks first, and of what is recorded after it. */
static void fail_at_a_launch(void)
{
    const iso_device *device = cuda->device(0);
    const double element = 1.5;
    iso_stream *stream = NULL, *other = NULL;
    iso_device_event *before = NULL, *after = NULL;
    void *memory = NULL;
    setenv("STANDIN_FAIL", "cudaLaunchKernelExC:2:1:1", 1);
    check_ok(device->create_stream(device, &stream));
    check_ok(device->create_stream(device, &other));
    check_ok(device->create_event(device, &before));
    check_ok(device->create_event(device, &after));
    check_ok(device->allocate(device, 800, "numbers", &memory));
    device->record(before, stream);
    device->fill(stream, memory, &element, 8, 100);
    device->record(after, stream);
    device->fill(other, memory, &element, 8, 100);
    check_ok(device->check(other));
    check_ok(device->wait(other));
    check_ok(device->wait_event(before));
    ck_assert_int_eq(device->wait_event(after), ISO_FAILED);
    ck_assert_int_eq(device->check(stream), ISO_FAILED);
    has_message("GPU 0 (Stand-in): the work that was queued failed: out of memory (CUDA error 2)");
    ck_assert_int_eq(device->wait(stream), ISO_FAILED);
    check_ok(device->wait(stream));
}

static void fail_at_a_stream(void)
{
    iso_stream *stream = NULL;
    setenv("STANDIN_FAIL", "cudaStreamCreateWithFlags:2", 1);
    ck_assert_int_eq(cuda->device(0)->create_stream(cuda->device(0), &stream), ISO_FAILED);
    has_message("GPU 0 (Stand-in): a stream cannot be made: out of memory (CUDA error 2)");
}

static void take_turns(void)
{
    unsigned char identity[ISO_DEVICE_IDENTITY];
    void *memory = NULL;
    setenv("STANDIN_GPUS", "3", 1);
    setenv("STANDIN_MEGABYTES", "1", 1);
    const iso_device *device = cuda->device(4);
    ck_assert_ptr_eq(device, cuda->device(1));
    ck_assert_ptr_ne(device, cuda->device(0));
    ck_assert_int_eq(device->allocate(device, 5000000, "the arena of a slot", &memory), ISO_NO_MEMORY);
    has_message("GPU 1 (Stand-in): no memory");
    check_ok(cuda->device(0)->allocate(cuda->device(0), 800000, "what fits", &memory));
    check_ok(device->allocate(device, 800000, "what fits on another GPU", &memory));
    setenv("STANDIN_FAIL", "cudaGetDeviceProperties:2", 1); /* what is known of a GPU is read once */
    check_ok(device->identify(device, identity));
    ck_assert(device->reaches(device, identity));
}

START_TEST(out_of_memory_names_the_bytes_that_are_needed_and_free)
{
    in_child(run_out_of_memory);
}
END_TEST

START_TEST(work_that_fails_is_an_error_of_the_next_wait)
{
    in_child(fail_in_a_kernel);
    in_child(fail_in_a_copy);
    in_child(fail_at_a_launch);
    in_child(fail_at_a_stream);
}
END_TEST

START_TEST(slots_of_a_host_take_the_gpus_in_turn)
{
    in_child(take_turns);
}
END_TEST

int main(void)
{
    cuda = test_cuda_library();
    if (!cuda) {
        report_skipped("the device of CUDA", "this build has no CUDA");
        return 77;
    }
    return RUN_TESTS("the device of CUDA", 60, out_of_memory_names_the_bytes_that_are_needed_and_free,
                     work_that_fails_is_an_error_of_the_next_wait, slots_of_a_host_take_the_gpus_in_turn);
}
