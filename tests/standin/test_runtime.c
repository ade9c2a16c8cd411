/* The stand-in for the CUDA runtime does what it is for: a pipeline of two streams is right with every seed of
 * delays, directly and as a graph; where a wait for an event is missing, some seeds give a wrong result. Memory of a
 * device that the host or a kernel touches wrongly ends the process with a report; errors come when they are ordered;
 * what may not be captured is refused; a GPU does not reach the memory of another, unless they are peers.
 * Ranks: 1   Sanitize: 1 */
#include <stdio.h>

#ifdef TESTS_HAVE_CUDA
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/kernels.h"
#include "tests/standin/standin.h"
#include "tests/support/run_tests.h"

enum { SEEDS = 20, N = 1000, STEPS = 6 };
#define GOOD(call) ck_assert_int_eq((call), cudaSuccess)

static void set(const char *name, int value)
{
    char text[20];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* ---- a pipeline: one stream copies batches in, the other adds them up ---- */

typedef struct pipeline {
    cudaStream_t input, compute;
    cudaEvent_t filled, emptied;
    float *batch, *sum; /* of the device */
    float *from, *to;   /* pinned */
} pipeline;

static void make(pipeline *p, int seed)
{
    set("STANDIN_SEED", seed);
    GOOD(cudaStreamCreateWithFlags(&p->input, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&p->compute, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&p->filled, cudaEventDisableTiming));
    GOOD(cudaEventCreateWithFlags(&p->emptied, cudaEventDisableTiming));
    GOOD(cudaMalloc((void **)&p->batch, N * sizeof(float)));
    GOOD(cudaMalloc((void **)&p->sum, N * sizeof(float)));
    GOOD(cudaHostAlloc((void **)&p->from, STEPS * N * sizeof(float), 0));
    GOOD(cudaHostAlloc((void **)&p->to, N * sizeof(float), 0));
    for (int i = 0; i < STEPS * N; i++)
        p->from[i] = (float)(i % 37 + i / N);
}

static void drop(pipeline *p)
{
    GOOD(cudaStreamDestroy(p->input));
    GOOD(cudaStreamDestroy(p->compute));
    GOOD(cudaEventDestroy(p->filled));
    GOOD(cudaEventDestroy(p->emptied));
    GOOD(cudaFree(p->batch));
    GOOD(cudaFree(p->sum));
    GOOD(cudaFreeHost(p->from));
    GOOD(cudaFreeHost(p->to));
}

/* without: the wait that is left out: 1, that of compute for the input; 2, that of the input for compute. */
static void queue_steps(pipeline *p, int without)
{
    for (int step = 0; step < STEPS; step++) {
        GOOD(cudaMemcpyAsync(p->batch, p->from + step * N, N * sizeof(float), cudaMemcpyHostToDevice,
                             p->input));
        GOOD(cudaEventRecord(p->filled, p->input));
        if (without != 1)
            GOOD(cudaStreamWaitEvent(p->compute, p->filled, 0));
        GOOD(test_scale(p->batch, N, 2, 1, p->compute));
        GOOD(test_add(p->sum, p->batch, N, p->compute));
        GOOD(cudaEventRecord(p->emptied, p->compute));
        if (without != 2)
            GOOD(cudaStreamWaitEvent(p->input, p->emptied, 0));
    }
}

/* How many elements of the sum are not `runs` times what they should be. */
static int wrong(pipeline *p, int runs)
{
    int count = 0;
    GOOD(cudaStreamSynchronize(p->input));
    GOOD(cudaMemcpyAsync(p->to, p->sum, N * sizeof(float), cudaMemcpyDeviceToHost, p->compute));
    GOOD(cudaStreamSynchronize(p->compute));
    for (int i = 0; i < N; i++) {
        float expected = 0;
        for (int step = 0; step < STEPS; step++)
            expected += p->from[step * N + i] * 2 + 1;
        count += p->to[i] != expected * (float)runs;
    }
    return count;
}

static int run_directly(int seed, int without)
{
    pipeline p;
    make(&p, seed);
    GOOD(cudaMemsetAsync(p.sum, 0, N * sizeof(float), p.compute));
    queue_steps(&p, without);
    int count = wrong(&p, 1);
    drop(&p);
    return count;
}

/* In how many of the seeds a run without wait number `without` (0: with all) has wrong elements. */
static int wrong_seeds(int (*run)(int seed, int without), int without)
{
    int seeds = 0;
    for (int seed = 1; seed <= SEEDS; seed++)
        seeds += run(seed, without) != 0;
    return seeds;
}

START_TEST(a_pipeline_of_two_streams_is_right_with_every_seed)
{
    ck_assert_int_eq(wrong_seeds(run_directly, 0), 0);
}
END_TEST

START_TEST(a_wait_that_is_missing_shows)
{
    ck_assert_int_gt(wrong_seeds(run_directly, _i), 0);
}
END_TEST

static void load(pipeline *p)
{
    queue_steps(p, 0);
    GOOD(cudaStreamSynchronize(p->input));
    GOOD(cudaStreamSynchronize(p->compute));
}

/* The first test, so that no kernel is loaded. */
START_TEST(kernels_are_loaded_before_they_are_captured)
{
    pipeline p;
    cudaGraph_t graph;
    make(&p, 1);
    for (int launched = 0; launched < 2; launched++) {
        GOOD(cudaStreamBeginCapture(p.compute, cudaStreamCaptureModeThreadLocal));
        ck_assert_int_eq(test_scale(p.batch, N, 1, 0, p.compute),
                         launched ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
        ck_assert_int_eq(cudaStreamEndCapture(p.compute, &graph),
                         launched ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
        cudaGetLastError();
        load(&p);
    }
    GOOD(cudaGraphDestroy(graph));
    drop(&p);
}
END_TEST

/* The streams are captured from `compute` on: the input joins by an event, and comes back by one. */
static int run_graph(int seed, int without)
{
    pipeline p;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    make(&p, seed);
    load(&p);
    GOOD(cudaMemsetAsync(p.sum, 0, N * sizeof(float), p.compute));
    GOOD(cudaStreamBeginCapture(p.compute, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecord(p.emptied, p.compute));
    GOOD(cudaStreamWaitEvent(p.input, p.emptied, 0));
    queue_steps(&p, without);
    GOOD(cudaEventRecord(p.filled, p.input));
    GOOD(cudaStreamWaitEvent(p.compute, p.filled, 0));
    GOOD(cudaStreamEndCapture(p.compute, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        GOOD(cudaGraphLaunch(exec, p.compute));
    int count = wrong(&p, 3);
    GOOD(cudaGraphExecDestroy(exec));
    drop(&p);
    return count;
}

START_TEST(a_captured_pipeline_is_right_with_every_seed)
{
    ck_assert_int_eq(wrong_seeds(run_graph, 0), 0);
}
END_TEST

START_TEST(a_wait_that_is_missing_in_a_graph_shows)
{
    ck_assert_int_gt(wrong_seeds(run_graph, _i), 0);
}
END_TEST

START_TEST(what_cannot_be_captured_is_refused)
{
    pipeline p;
    cudaGraph_t graph;
    make(&p, 1);
    load(&p);
    GOOD(cudaStreamBeginCapture(p.compute, cudaStreamCaptureModeThreadLocal));
    ck_assert_int_eq(cudaStreamSynchronize(p.compute), cudaErrorStreamCaptureUnsupported);
    ck_assert_int_eq(cudaStreamEndCapture(p.compute, &graph), cudaErrorStreamCaptureInvalidated);
    GOOD(cudaStreamBeginCapture(p.compute, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecord(p.emptied, p.compute));
    GOOD(cudaStreamWaitEvent(p.input, p.emptied, 0));
    GOOD(test_scale(p.batch, N, 1, 0, p.input)); /* and the input does not come back */
    ck_assert_int_eq(cudaStreamEndCapture(p.compute, &graph), cudaErrorStreamCaptureUnjoined);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    drop(&p);
}
END_TEST

/* ---- a process of its own ---- */

typedef int child(void);

/* Runs a function in a child. Returns how it ended, as waitpid does; what it prints comes back in `out`. */
static int in_child(child *run, char *out, size_t size)
{
    int ends[2], code;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* it crashes on purpose */
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        _exit(run());
    }
    close(ends[1]);
    ssize_t got, all = 0;
    while ((got = read(ends[0], out + all, size - 1 - (size_t)all)) > 0)
        all += got;
    out[all] = 0;
    for (char rest[256]; read(ends[0], rest, sizeof rest) > 0;)
        ;
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    return code;
}

static void ends_with(child *run, int signal, const char *text)
{
    char out[1000];
    int code = in_child(run, out, sizeof out);
    ck_assert_msg(WIFSIGNALED(code) && WTERMSIG(code) == signal, "the process ended with %d: '%s'", code,
                  out);
    ck_assert_msg(strstr(out, text) != NULL, "the report is '%s'", out);
}

static void exits_with(child *run, int expected)
{
    char out[1000];
    int code = in_child(run, out, sizeof out);
    ck_assert_msg(WIFEXITED(code) && WEXITSTATUS(code) == expected, "the process ended with %d: '%s'", code,
                  out);
}

static int touch_memory(void)
{
    pipeline p;
    make(&p, 1);
    test_scale(p.batch, N, 0, 1, p.compute); /* while it runs, the memory is open */
    cudaStreamSynchronize(p.compute);
    for (int waited = 0; waited < 30000 && standin_is_open(); waited++)
        usleep(1000);
    return (int)*(volatile float *)(p.batch + 3);
}

static int free_twice(void)
{
    pipeline p;
    make(&p, 1);
    cudaFree(p.batch);
    cudaFree(p.batch);
    return 0;
}

static int copy_freed(void)
{
    pipeline p;
    make(&p, 1);
    cudaFree(p.batch);
    cudaMemsetAsync(p.batch, 0, 4, p.compute);
    return 0;
}

static int copy_too_much(void)
{
    pipeline p;
    make(&p, 1);
    cudaMemsetAsync(p.batch + 1, 0, N * sizeof(float), p.compute);
    return 0;
}

static int scale_freed(void)
{
    pipeline p;
    make(&p, 1);
    cudaFree(p.batch);
    test_scale(p.batch, N, 0, 1, p.compute);
    cudaStreamSynchronize(p.compute);
    return 0;
}

static int scale_too_much(void)
{
    pipeline p;
    make(&p, 1);
    test_scale(p.batch, N + 4096, 0, 1, p.compute);
    cudaStreamSynchronize(p.compute);
    return 0;
}

/* A kernel of GPU 1 on memory of GPU 0. */
static int scale_of(bool peers)
{
    pipeline p;
    cudaStream_t other = NULL;
    set("STANDIN_GPUS", 2);
    make(&p, 1);
    cudaSetDevice(1);
    if (peers && cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess)
        return 4;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    test_scale(p.batch, N, 0, 1, other);
    return cudaStreamSynchronize(other) == cudaSuccess ? 5 : 6;
}

static int scale_of_another(void)
{
    set("STANDIN_PEERS", 1);
    return scale_of(false);
}

static int scale_of_a_peer(void)
{
    set("STANDIN_PEERS", 1);
    return scale_of(true);
}

static int scale_of_no_peer(void)
{
    return scale_of(true);
}

static int fill_of_another(void)
{
    pipeline p;
    cudaStream_t other = NULL;
    set("STANDIN_GPUS", 2);
    make(&p, 1);
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMemsetAsync(p.batch, 0, 4, other);
    return 0;
}

/* Work on a stream of GPU 0 while GPU 1 is the thread's. */
static int use_the_wrong_gpu(void)
{
    pipeline p;
    cudaEvent_t event = NULL;
    set("STANDIN_GPUS", 2);
    make(&p, 1);
    cudaSetDevice(1);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    return test_scale(p.batch, N, 0, 1, p.compute) == cudaErrorInvalidResourceHandle &&
                   cudaEventRecord(event, p.compute) == cudaErrorInvalidResourceHandle
               ? 7
               : 0;
}

/* Adds to memory of the process at the other end, which sends the handle. */
static int add_to_the_parents(int from)
{
    cudaIpcMemHandle_t handle;
    cudaStream_t stream = NULL;
    void *memory = NULL;
    if (read(from, &handle, sizeof handle) != sizeof handle ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaIpcOpenMemHandle(&memory, handle, 0) != cudaSuccess)
        return 2;
    test_scale(memory, N, 3, 4, stream);
    return cudaStreamSynchronize(stream) != cudaSuccess || cudaIpcCloseMemHandle(memory) != cudaSuccess;
}

/* The other process is made before this one has streams, whose threads it would lack. */
static int open_from_a_child(void)
{
    cudaIpcMemHandle_t handle;
    void *own = NULL;
    pipeline p;
    int code = 0, ends[2];
    if (pipe(ends) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(add_to_the_parents(ends[0]));
    make(&p, 1);
    for (int i = 0; i < N; i++)
        p.to[i] = 1;
    cudaMemcpyAsync(p.batch, p.to, N * sizeof(float), cudaMemcpyHostToDevice, p.compute);
    cudaStreamSynchronize(p.compute);
    if (cudaIpcGetMemHandle(&handle, p.batch) != cudaSuccess ||
        cudaIpcOpenMemHandle(&own, handle, 0) != cudaErrorInvalidResourceHandle || /* it is its own */
        write(ends[1], &handle, sizeof handle) != sizeof handle)
        return 1;
    waitpid(pid, &code, 0);
    cudaMemcpyAsync(p.to, p.batch, N * sizeof(float), cudaMemcpyDeviceToHost, p.compute);
    cudaStreamSynchronize(p.compute);
    return code == 0 && p.to[0] == 7 && p.to[N - 1] == 7 ? 8 : 3;
}

/* The first bytes of the UUIDs of the GPUs that a list shows, as digits, after a 1. */
static int seen(const char *list)
{
    struct cudaDeviceProp of;
    int count = 0, digits = 1;
    set("STANDIN_GPUS", 4);
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    if (cudaGetDeviceCount(&count) == cudaErrorNoDevice)
        return cudaSetDevice(0) == cudaErrorInvalidDevice ? 1 : 0;
    for (int i = 0; i < count; i++)
        digits = cudaGetDeviceProperties(&of, i) == cudaSuccess ? 10 * digits + of.uuid.bytes[0] : 0;
    return cudaSetDevice(count - 1) == cudaSuccess && cudaSetDevice(count) == cudaErrorInvalidDevice ? digits
                                                                                                     : 0;
}

/* The examples of CUDA's programming guide, and what it says of invalid entries. */
START_TEST(a_list_chooses_gpus)
{
    static const struct {
        const char *list;
        int seen;
    } cases[] = {{"0,1,2,3", 10123},
                 {"2,1", 121},
                 {"0,2,-1,1", 102},
                 {"", 1},
                 {"-1", 1},
                 {"4,0", 1},
                 {"3,99999999999,0", 13},
                 {"1,x", 11},
                 {"1,,2", 11},
                 {"GPU-03,GPU-01", 131},
                 {"GPU-02,0", 120},
                 {"GPU-0,1", 1},
                 {"GPU-x,0", 1},
                 {"0,GPU-04,1", 10},
                 {"MIG-03,0", 1},
                 {"1x,0", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int digits = seen(cases[i].list);
        unsetenv("CUDA_VISIBLE_DEVICES");
        ck_assert_msg(digits == cases[i].seen, "'%s' shows %d, not %d", cases[i].list, digits, cases[i].seen);
    }
    int count = 0;
    cudaGetDeviceCount(&count);
    cudaSetDevice(0);
    unsetenv("STANDIN_GPUS");
    ck_assert_int_eq(count, 4);
}
END_TEST

START_TEST(gpus_are_told_apart)
{
    ends_with(scale_of_another, SIGSEGV, "closed memory of GPU 0 was touched at byte 0 of 4000");
    ends_with(fill_of_another, SIGABRT, "a stream of GPU 1 copies or fills memory of GPU 0");
    exits_with(scale_of_a_peer, 5);
    exits_with(scale_of_no_peer, 4);
    exits_with(use_the_wrong_gpu, 7);
    exits_with(open_from_a_child, 8);
}
END_TEST

START_TEST(wrong_accesses_end_with_a_report)
{
    ends_with(touch_memory, SIGSEGV, "closed memory of GPU 0 was touched at byte 12 of 4000");
    ends_with(free_twice, SIGABRT, "cudaFree of 0x");
    ends_with(copy_freed, SIGABRT, "freed memory of GPU 0 is used: byte 0 of 4000");
    ends_with(copy_too_much, SIGABRT, "4000 bytes from byte 4 of an allocation of 4000 bytes");
    ends_with(scale_freed, SIGSEGV, "freed memory of GPU 0 was touched at byte 0 of 4000");
    char out[1000]; /* memory of nobody: AddressSanitizer has a report and an exit code of its own */
    ck_assert_int_ne(in_child(scale_too_much, out, sizeof out), 0);
}
END_TEST

static int run_out_of_memory(void)
{
    void *first, *second;
    size_t free_bytes, total;
    setenv("STANDIN_MEGABYTES", "2", 1);
    cudaError_t a = cudaMalloc(&first, 1500000), b = cudaMalloc(&second, 1500000);
    cudaMemGetInfo(&free_bytes, &total);
    return a == cudaSuccess && b == cudaErrorMemoryAllocation && total == 2 << 20 &&
                   free_bytes == total - 1500000
               ? 1
               : 0;
}

static int fail_at_third_call(void)
{
    void *memory;
    setenv("STANDIN_FAIL", "cudaMalloc:2:3", 1);
    int failed = 0;
    for (int i = 0; i < 4; i++)
        failed = failed * 10 + (cudaMalloc(&memory, 10) == cudaErrorMemoryAllocation);
    return failed;
}

/* From the kernel that fails on, every call gives its error. */
static int fail_in_second_kernel(void)
{
    pipeline p;
    setenv("STANDIN_FAIL", "kernel:719:2", 1);
    make(&p, 1);
    test_scale(p.batch, N, 0, 1, p.compute);
    cudaError_t first = cudaStreamSynchronize(p.compute);
    test_scale(p.batch, N, 0, 1, p.compute);
    cudaError_t second = cudaStreamSynchronize(p.compute), later = cudaMemsetAsync(p.batch, 0, 4, p.compute);
    return first == cudaSuccess && second == cudaErrorLaunchFailure && later == cudaErrorLaunchFailure ? 1
                                                                                                       : 0;
}

START_TEST(errors_come_when_they_are_ordered)
{
    exits_with(run_out_of_memory, 1);
    exits_with(fail_at_third_call, 11);
    exits_with(fail_in_second_kernel, 1);
}
END_TEST

/* Events of a stream, and external ones of a graph, note when they are passed. */
START_TEST(events_tell_the_time_between_them)
{
    cudaStream_t stream;
    cudaEvent_t event[4], untimed;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float first, second, none;
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 4; i++)
        GOOD(cudaEventCreateWithFlags(&event[i], cudaEventDefault));
    GOOD(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    ck_assert_int_eq(cudaEventElapsedTime(&none, event[0], event[1]), cudaErrorInvalidResourceHandle);
    ck_assert_int_eq(cudaEventRecordWithFlags(event[0], stream, cudaEventRecordExternal),
                     cudaErrorInvalidValue);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(cudaEventRecordWithFlags(event[1], stream, cudaEventRecordExternal));
    GOOD(cudaEventRecordWithFlags(event[2], stream, cudaEventRecordExternal));
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaEventRecord(event[0], stream));
    GOOD(cudaEventRecord(untimed, stream));
    for (int launch = 0; launch < 2; launch++) {
        GOOD(cudaGraphLaunch(exec, stream));
        GOOD(cudaEventRecord(event[3], stream));
        GOOD(cudaEventSynchronize(event[3]));
        GOOD(cudaEventElapsedTime(&first, event[0], event[1]));
        GOOD(cudaEventElapsedTime(&second, event[0], event[2]));
        GOOD(cudaEventElapsedTime(&none, event[0], event[3]));
        ck_assert(first >= 0 && second >= first && none >= second);
    }
    ck_assert_int_eq(cudaEventElapsedTime(&none, untimed, event[3]), cudaErrorInvalidResourceHandle);
    GOOD(cudaGraphExecDestroy(exec));
    GOOD(cudaGraphDestroy(graph));
    for (int i = 0; i < 4; i++)
        GOOD(cudaEventDestroy(event[i]));
    GOOD(cudaEventDestroy(untimed));
    GOOD(cudaStreamDestroy(stream));
}
END_TEST

static void set_up(void)
{
    setenv("STANDIN_DELAY", "300", 1);
}

int main(void)
{
    Suite *suite = suite_create("stand-in runtime");
    TCase *tests = tcase_create("tests");
    tcase_set_timeout(tests, 100);
    tcase_add_unchecked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, kernels_are_loaded_before_they_are_captured);
    tcase_add_test(tests, a_pipeline_of_two_streams_is_right_with_every_seed);
    tcase_add_loop_test(tests, a_wait_that_is_missing_shows, 1, 3);
    tcase_add_test(tests, a_captured_pipeline_is_right_with_every_seed);
    tcase_add_loop_test(tests, a_wait_that_is_missing_in_a_graph_shows, 1, 3);
    tcase_add_test(tests, events_tell_the_time_between_them);
    tcase_add_test(tests, what_cannot_be_captured_is_refused);
    tcase_add_test(tests, wrong_accesses_end_with_a_report);
    tcase_add_test(tests, a_list_chooses_gpus);
    tcase_add_test(tests, gpus_are_told_apart);
    tcase_add_test(tests, errors_come_when_they_are_ordered);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
#else
int main(void)
{
    puts("skipped: the stand-in for the CUDA runtime: this build has no CUDA");
    return 77;
}
#endif
