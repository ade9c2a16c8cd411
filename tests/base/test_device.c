/* The device interface on the CPU, on the test device, and on a GPU of the stand-in for CUDA (tests/standin): copies,
 * fills, mappings; and what the test device is for: it shows an access of the host and a wait that is missing.
 * Ranks: 1 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/device.h"
#include "runtime/base/memory.h"
#include "tests/support/cuda_library.h"
#include "tests/support/guarded_device.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static const iso_device *devices[3];
static int n_devices;

static void find_devices(void)
{
    const iso_cuda_library *cuda = test_cuda_library();
    devices[n_devices++] = iso_device_cpu();
    devices[n_devices++] = test_device(0);
    if (cuda)
        devices[n_devices++] = cuda->device(0);
    else
        report_skipped("the device of CUDA", "this build has no CUDA");
}

START_TEST(copies_and_fills_are_done_when_the_host_has_waited)
{
    const iso_device *device = devices[_i];
    double from[37], back[37];
    iso_stream *stream = NULL;
    void *memory = NULL;
    for (int i = 0; i < 37; i++)
        from[i] = i + 0.5;
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, sizeof from, "numbers", &memory));
    check_ok(iso_device_read(stream, back, memory, sizeof back));
    for (int i = 0; i < 37; i++)
        ck_assert(back[i] == 0);
    device->copy(stream, memory, from, sizeof from);
    device->fill(stream, (char *)memory + 8, &from[36], 8, 2); /* in the order of the stream */
    device->copy(stream, back, memory, sizeof back);
    check_ok(device->wait(stream));
    for (int i = 0; i < 37; i++)
        ck_assert(back[i] == (i == 1 || i == 2 ? from[36] : from[i]));
    device->release(device, memory);
    device->destroy_stream(stream);
}
END_TEST

START_TEST(a_fill_repeats_elements_of_any_size)
{
    const iso_device *device = devices[_i];
    const unsigned char element[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    iso_stream *stream = NULL;
    void *memory = NULL;
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, 100, "bytes", &memory));
    for (size_t size = 1; size <= 8; size *= 2)
        for (size_t count = 0; count <= 11; count++) {
            unsigned char back[100], blank[100] = {0};
            check_ok(iso_device_write(stream, memory, blank, sizeof blank));
            device->fill(stream, memory, element, size, count);
            check_ok(iso_device_read(stream, back, memory, sizeof back));
            for (size_t i = 0; i < 100; i++)
                ck_assert_int_eq(back[i], i < size * count ? element[i % size] : 0);
        }
    device->release(device, memory);
    device->destroy_stream(stream);
}
END_TEST

START_TEST(what_is_written_to_a_mapping_is_in_the_memory_after_it)
{
    const iso_device *device = devices[_i];
    iso_stream *stream = NULL;
    void *memory = NULL;
    iso_mapping mapping;
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, 64, "bytes", &memory));
    check_ok(iso_map_to_write(stream, (char *)memory + 8, 8, &mapping));
    ck_assert_int_eq(mapping.data == (char *)memory + 8, device->host_access);
    memcpy(mapping.data, "written", 8);
    check_ok(iso_unmap(ISO_OK, &mapping));
    check_ok(iso_map(stream, memory, 64, &mapping));
    ck_assert_str_eq((char *)mapping.data + 8, "written");
    ck_assert_int_eq(*(char *)mapping.data, 0);
    ck_assert_int_eq(iso_unmap(ISO_FAILED, &mapping), ISO_FAILED);
    device->release(device, memory);
    device->destroy_stream(stream);
}
END_TEST

START_TEST(memory_that_ranks_share_is_one_for_both_sides)
{
    const iso_device *device = devices[_i];
    char shared[64] = "shared", back[64];
    iso_stream *stream = NULL;
    void *memory = NULL;
    check_ok(device->create_stream(device, &stream));
    check_ok(device->attach(device, shared, sizeof shared, &memory));
    ck_assert_ptr_eq(device->reach((char *)memory + 3), shared + 3);
    ck_assert_ptr_eq(device->reach(back), back);
    ck_assert_ptr_null(device->reach(NULL));
    check_ok(iso_device_read(stream, back, memory, sizeof back));
    ck_assert_str_eq(back, "shared");
    check_ok(iso_device_write(stream, memory, "written", 8));
    ck_assert_str_eq(shared, "written");
    device->detach(device, memory);
    device->destroy_stream(stream);
}
END_TEST

START_TEST(a_stream_goes_on_when_an_event_of_another_has_passed)
{
    const iso_device *device = devices[_i];
    iso_stream *one = NULL, *other = NULL;
    iso_device_event *event = NULL;
    void *memory = NULL;
    double from = 1.5, back = 0, later = 2.5;
    check_ok(device->create_stream(device, &one));
    check_ok(device->create_stream(device, &other));
    check_ok(device->create_event(device, &event));
    check_ok(device->allocate(device, sizeof from, "a number", &memory));
    ck_assert(device->passed(event)); /* it was never recorded */
    device->copy(one, memory, &from, sizeof from);
    device->record(event, one);
    device->await(other, event);
    device->copy(other, &back, memory, sizeof back);
    check_ok(device->wait(other));
    ck_assert(back == 1.5);
    device->copy(one, memory, &later, sizeof later);
    device->record(event, one);
    for (int i = 0; i < 1000000 && !device->passed(event); i++)
        continue;
    check_ok(device->wait_event(event));
    ck_assert(device->passed(event));
    check_ok(iso_device_read(other, &back, memory, sizeof back));
    ck_assert(back == 2.5);
    check_ok(device->wait(one));
    device->release(device, memory);
    device->destroy_event(event);
    device->destroy_event(NULL);
    device->destroy_stream(one);
    device->destroy_stream(other);
}
END_TEST

START_TEST(the_test_device_shows_a_missing_event)
{
    const iso_device *device = test_device(0);
    iso_stream *one = NULL, *other = NULL;
    void *memory = NULL;
    double from = 1.5, back = 3;
    check_ok(device->create_stream(device, &one));
    check_ok(device->create_stream(device, &other));
    check_ok(device->allocate(device, sizeof from, "a number", &memory));
    device->copy(one, memory, &from, sizeof from);
    device->copy(other, &back, memory, sizeof back);
    check_ok(device->wait(other));
    ck_assert(back == 0);
    check_ok(device->wait(one));
    device->release(device, memory);
    device->destroy_stream(one);
    device->destroy_stream(other);
}
END_TEST

/* Loads a byte of the device's memory in a process of its own; what it prints comes back in `out`. */
static int touch(const volatile char *address, char *out, size_t size)
{
    int ends[2], code;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* it crashes on purpose */
        dup2(ends[1], STDERR_FILENO);
        _exit(*address);
    }
    close(ends[1]);
    ssize_t got, all = 0;
    while ((got = read(ends[0], out + all, size - 1 - (size_t)all)) > 0)
        all += got;
    out[all] = 0;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &code, 0), child);
    return code;
}

START_TEST(the_host_cannot_touch_the_test_device)
{
    void *memory = NULL;
    char out[400];
    check_ok(test_device(0)->allocate(test_device(0), 1000, "the weights", &memory));
    int code = touch((char *)memory + 12, out, sizeof out);
    ck_assert_msg(WIFSIGNALED(code) && WTERMSIG(code) == SIGSEGV, "the process ended with %d", code);
    ck_assert_msg(strstr(out, "the host touched byte 12 of the weights (1000 bytes)") != NULL,
                  "the report is '%s'", out);
    test_device(0)->release(test_device(0), memory);
}
END_TEST

START_TEST(the_test_device_copies_nothing_before_the_wait)
{
    char value = 1, back = 0;
    iso_stream *stream = NULL;
    void *memory = NULL;
    check_ok(test_device(0)->create_stream(test_device(0), &stream));
    check_ok(test_device(0)->allocate(test_device(0), 1, "a byte", &memory));
    test_device(0)->copy(stream, memory, &value, 1);
    test_device(0)->copy(stream, &back, memory, 1);
    ck_assert_int_eq(back, 0);
    value = 2; /* too early: this is what is copied */
    check_ok(test_device(0)->wait(stream));
    ck_assert_int_eq(back, 2);
    test_device(0)->release(test_device(0), memory);
    test_device(0)->destroy_stream(stream);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *all = tcase_create("all"), *own = tcase_create("test device");
    find_devices();
    tcase_add_loop_test(all, copies_and_fills_are_done_when_the_host_has_waited, 0, n_devices);
    tcase_add_loop_test(all, a_fill_repeats_elements_of_any_size, 0, n_devices);
    tcase_add_loop_test(all, what_is_written_to_a_mapping_is_in_the_memory_after_it, 0, n_devices);
    tcase_add_loop_test(all, memory_that_ranks_share_is_one_for_both_sides, 0, n_devices);
    tcase_add_loop_test(all, a_stream_goes_on_when_an_event_of_another_has_passed, 0, n_devices);
    tcase_add_test(own, the_test_device_shows_a_missing_event);
    tcase_add_test(own, the_host_cannot_touch_the_test_device);
    tcase_add_test(own, the_test_device_copies_nothing_before_the_wait);
    suite_add_tcase(suite, all);
    suite_add_tcase(suite, own);
    return run_suite(suite);
}
