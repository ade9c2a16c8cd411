/* The stand-in for the CUDA runtime: functions with CUDA's names and types, which do on the CPU what the manual of
 * the CUDA runtime API (13.0) says. libisogrid_cuda.so is linked with it in place of the runtime, as
 * tests/standin/libisogrid_cuda.so of the build folder: a program that opens that file (ISOGRID_CUDA_LIBRARY) runs
 * the whole device path without a GPU. Nothing that it measures says anything about a GPU.
 *
 * A stream is a thread that does its work in order, after random delays: where a wait for an event is missing, some
 * seeds give a wrong result. The host cannot touch device memory while no stream has work; what touches it, or
 * memory that was freed, ends the process with a report. So does a process that frees memory or an event which
 * another one has open. Kernels run in the emulator (tests/emulator). A captured graph is done in a random order that
 * its dependencies allow. A kernel, also a library's, cannot be captured before it was queued once: CUDA may load it
 * when it is first used, which may need what a capture does not allow.
 *
 * Variables of the environment make the machine, and its faults:
 *   STANDIN_GPUS=N         the number of GPUs (1); STANDIN_FIRST_GPU=N: that of the first among the host's (0).
 *                          CUDA_VISIBLE_DEVICES chooses among these GPUs, as CUDA's programming guide says: indexes,
 *                          and UUIDs ("GPU-" and the beginning of one, whose first byte is the number of the GPU
 *                          among the host's); the first entry that names no GPU ends the list
 *   STANDIN_PEERS=1        the GPUs are peers (0); a kernel, copy or fill that touches memory of another without peer
 *                          access ends the process; 2: peer access is granted, but not given, which shows kernels
 *                          that use it; 3: other processes' memory on another GPU is opened, but has other data
 *   STANDIN_EXCLUSIVE=D    the mode "exclusive process": a GPU takes the context of one process; D: a folder where
 *                          processes lock a file for each GPU
 *   STANDIN_MEGABYTES=N    the memory of each (256)
 *   STANDIN_MODEL=NAME[,NAME...]  their models (Stand-in); the last is that of all others
 *   STANDIN_CAPABILITY=N.M[,N.M...]  their compute capabilities (9.0), likewise
 *   STANDIN_DRIVER=N       the driver's version (13000); 0: there is no driver
 *   STANDIN_DELAY=N        the longest delay before a stream's work, in microseconds (0)
 *   STANDIN_STALL=N        one of 16 works, and each function of the host, begins so many microseconds late (0):
 *                          others come far ahead of its stream
 *   STANDIN_SEED=N         for delays and orders (1)
 *   STANDIN_FAIL=F:E[:N[:C]]  the function F gives error E at its Nth call in the process (1) and at all later
 *                          ones, or at C calls alone; F may be `kernel`: kernel number N fails while it runs;
 *                          `capture`: the work that is number N of those queued into captures breaks its capture;
 *                          `cudaEventInterprocess`: an event for several processes is made; `cudnnPlan`: a plan of
 *                          cuDNN's is finalized; `nccl`: from group number N on, what NCCL has queued never ends
 *                          until it is aborted, and its communicator has error E; `ncclJob`: joining or splitting
 *                          number N has begun, and fails then
 *   STANDIN_ABORTS=0       ncclCommAbort does not return
 *   STANDIN_WAITS=0        streams do not wait for events: what depends on the waits then goes wrong
 *   STANDIN_CLOCK=1        events have the time that libraries say their work takes, the same in each run
 *   STANDIN_LIBRARIES=0    the libraries that stand-ins replace (substitutes.c) are looked for as without them
 *   STANDIN_LACKS=N        cuDNN refuses its engine number N
 *   STANDIN_CUDNN_VERSION=N  that of cuDNN (that of the headers)
 *   STANDIN_CUDNN=real     NVIDIA's own cuDNN chooses engines and refuses descriptors (cudnn_real.c)
 *   STANDIN_NOTES=FILE     each call of a library that queues work adds a line to it
 *   STANDIN_COPIES=1       and each copy between the host and a GPU: "cudaMemcpyAsync in|out BYTES", and each
 *                          function of the host: "cudaLaunchHostFunc"; then "among|beside kernels" of its stream
 *   STANDIN_WAITED=FILE    each wait of the host for a stream or an event adds the name of its function
 *   STANDIN_LAUNCHED=FILE  each work that is queued on a stream, and not captured, adds what it is: "a kernel", "a
 *                          graph", "a copy"
 *   STANDIN_CONTEXTS=FILE  each context that a process makes adds a line to it: "PROCESS GPU N", the GPU of the host
 *   STANDIN_NCCL_FOLDER=D  where the ranks of NCCL's communicators share a file (/dev/shm) */
#ifndef ISO_TESTS_STANDIN_H
#define ISO_TESTS_STANDIN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STANDIN_MOST_GPUS = 8, STANDIN_UUID = 16 };

/* A number from the environment. */
long standin_number(const char *variable, long otherwise);

/* Adds a line to the file that a variable of the environment names, if that is set; standin_note: STANDIN_NOTES. */
void standin_tell(const char *variable, const char *line);
__attribute__((format(printf, 1, 2))) void standin_note(const char *format, ...);

/* Ends the process with a report: the caller did what CUDA leaves undefined. */
__attribute__((noreturn, format(printf, 1, 2))) void standin_stop(const char *format, ...);

/* ---- errors ---- */

/* Keeps an error for cudaGetLastError, and returns it. */
cudaError_t standin_error(cudaError_t error);
/* Whether this thread has begun a capture: it may not call what may wait for the device, which breaks the capture. */
bool standin_in_capture(void);
/* What STANDIN_FAIL orders for this call of a function; cudaSuccess if nothing. */
cudaError_t standin_ordered(const char *function);
/* The same for a call of CUDA: without a driver, and after an error of a kernel, every call fails. */
cudaError_t standin_enter(const char *function);
#define STANDIN_ENTER()                                                                                      \
    do {                                                                                                     \
        cudaError_t injected_ = standin_enter(__func__);                                                     \
        if (injected_ != cudaSuccess)                                                                        \
            return injected_;                                                                                \
    } while (0)
/* The same for a call that makes the context of the thread's GPU. */
#define STANDIN_ENTER_GPU()                                                                                  \
    do {                                                                                                     \
        STANDIN_ENTER();                                                                                     \
        cudaError_t context_ = standin_context(standin_gpu());                                               \
        if (context_ != cudaSuccess)                                                                         \
            return context_;                                                                                 \
    } while (0)
/* Returns a library's status. */
#define REFUSE_IF(condition, status)                                                                         \
    do {                                                                                                     \
        if (condition)                                                                                       \
            return status;                                                                                   \
    } while (0)
/* An error of work on a stream: from now on every call gives it. */
void standin_raise(cudaError_t error);

/* ---- GPUs ---- */

/* The number of GPUs that the process sees; the number among those of the host, and the UUID, of one of them. */
int standin_gpus(void);
int standin_number_on_host(int gpu);
bool standin_sees(int number_on_host);
void standin_uuid(int gpu, unsigned char uuid[STANDIN_UUID]);
/* To be called where CUDA makes the GPU's context, if this process has none there. */
cudaError_t standin_context(int gpu);

/* ---- memory ---- */

/* The GPU that this thread uses. */
int standin_gpu(void);
/* The memory of a GPU. */
size_t standin_total_bytes(void);
/* How much of it is allocated, and how much pinned memory of the host. */
__attribute__((visibility("default"))) size_t standin_used_bytes(int gpu);
__attribute__((visibility("default"))) size_t standin_pinned_bytes(void);

typedef enum standin_kind { STANDIN_PAGEABLE, STANDIN_PINNED, STANDIN_DEVICE } standin_kind;
/* What kind of memory the bytes are. Ends the process if they are partly outside of an allocation of the device, or
 * were freed. */
standin_kind standin_kind_of(const void *memory, size_t bytes);
/* The GPU of memory of the device; -1: it is not. */
int standin_memory_gpu(const void *memory);
/* Where the code of the stand-in finds the bytes, whether the device's memory is open or not. */
__attribute__((visibility("default"))) void *standin_reach(const void *memory, size_t bytes);
/* Opens the memory of a GPU to this process, and closes that of the others unless it may reach it, until no stream
 * has work; called by a kernel on a stream of this GPU, one at a time. */
void standin_open(int gpu);
bool standin_is_open(void);
/* Whether the GPUs may be peers. */
bool standin_peers(void);
/* Whether kernels of a GPU reach the memory of another: it is itself, or peer access was enabled. */
bool standin_reaches(int gpu, int other);
int standin_stream_gpu(cudaStream_t stream);
/* Closes it. busy: whether a stream has work, asked under the lock that standin_open takes. */
void standin_close(bool (*busy)(void));

/* ---- work ---- */

/* Work on a stream: run(argument) is called by the stream's thread, or each time a graph is launched. */
typedef struct standin_work {
    void (*run)(void *argument);
    void (*drop)(void *argument); /* when it will not be run again; may be NULL */
    const char *what;
} standin_work;
/* For STANDIN_CLOCK: what is done now takes so long. Isogrid times what takes long a few times only. */
void standin_spend(int64_t nanoseconds);
/* Queues work with a copy of the argument, or adds it to the graph that the stream is captured into. */
cudaError_t standin_enqueue(cudaStream_t stream, const standin_work *work, const void *argument, size_t size);
/* To be called before a kernel, which the number names, is queued: loads it on the stream's GPU, or breaks the
 * capture if it is not loaded. */
cudaError_t standin_load(cudaStream_t stream, uint64_t kernel);

#ifdef __cplusplus
}
#endif
#endif
