/* Backends: the kernels of ops, reductions between slots and optimizer updates on one kind of device. */
#ifndef ISO_BACKEND_BACKEND_H
#define ISO_BACKEND_BACKEND_H

#include "runtime/backend/box_copy.h"
#include "runtime/backend/kernel.h"
#include "runtime/base/device.h"
#include "runtime/base/limits.h"

/* Elements and bytes of an array. */
static inline int64_t iso_array_count(const iso_array *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->dim[i];
    return count;
}
static inline size_t iso_array_bytes(const iso_array *array)
{
    return (size_t)iso_array_count(array) * iso_dtype_size(array->dtype);
}

/* An operand of an op as its kernels see it: with fewer dimensions where the op's type says so. */
struct iso_op;
iso_array iso_operand_of(const struct iso_op *op, iso_array array);

/* ---- the end of a step ----
 * What a backend does there is queued on a stream, and reads the memory of the device when it is executed. `faults`
 * is the number of slots that met a fault in the step, plus multiples of 2^32; if some did, nothing changes. */

/* A rule of an optimizer on a device, which `optimize` of the same backend runs. That of the CPU updates n elements:
 * weights w and its slots in place from the summed gradient g, by hyper of iso_rates. */
typedef void (*iso_rule_run)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper);

/* The rates of a rule in a step. */
typedef struct iso_rates {
    bool apply; /* false: the step only accumulates gradients */
    double hyper[ISO_MAX_HYPER];
} iso_rates;

/* Those of an optimizer: of its rule, and of the kernel of averages, which runs after it. */
typedef struct iso_step_rates {
    iso_rates update, average;
} iso_step_rates;

/* rates = those after *iteration completed steps at the learning rate *rate (iso_optimizer_prepare,
 * iso_optimizer_prepare_average). */
typedef struct iso_rates_call {
    const struct iso_optimizer_rule *rule;
    const struct iso_optimizer *optimizer;
    iso_dtype dtype;
    const int64_t *iteration;
    const double *rate;
    iso_step_rates *rates;
} iso_rates_call;

/* Elements of one variable: weights, the optimizer's slots for them, and their summed gradient. A kernel may load a
 * gradient that its rule does not use. */
typedef struct iso_optimizer_run {
    int64_t count;
    void *weights;
    void *slots[ISO_MAX_OPTIMIZER_SLOTS];
    const void *gradient;
} iso_optimizer_run;

typedef struct iso_optimizer_call {
    iso_rule_run rule;
    const iso_rates *rates; /* nothing changes unless rates->apply */
    const double *faults;   /* NULL: there are none */
    int n_runs;
    const iso_optimizer_run *runs; /* of one bucket; read when the call is queued */
} iso_optimizer_call;

/* The memory in which a device keeps the list of the updates of a step, from step to step. The caller allocates it,
 * zeroed. */
typedef struct iso_optimizer_table {
    size_t bytes; /* at least iso_backend.table_entry for each run of a step */
    void *device; /* [bytes] of the device's memory */
    void *host;   /* [2 * bytes] */
} iso_optimizer_table;

/* The copy of bytes. */
typedef struct iso_bytes_copy {
    const void *from;
    void *to;
    size_t bytes;
} iso_bytes_copy;

/* ---- instructions ---- */

/* One instruction of a slot between two exchanges: a kernel, or a copy. */
typedef struct iso_thunk {
    const iso_kernel *kernel;
    const iso_kernel_call *call;
    const iso_box_copy *copy; /* NULL: the kernel */
    /* How the threads of the slot divide the kernel's work, on a device whose kernels run on the host; NULL: they do
     * not. */
    const struct iso_division *division;
    struct iso_thread_pool *intra_op; /* the threads that divide a large copy; NULL: none do */
    const char *layer;                /* of the kernel's op, for messages; NULL, "": none */
    /* Marks its begin as this moment, and its end as the next one; NULL: it is not timed. */
    iso_device_timer *timer;
    int moment;
} iso_thunk;

/* Instructions that a backend has prepared to be executed in each step: a list, which a device that can record it
 * captures. */
typedef struct iso_sequence iso_sequence;

/* The choices of kernels that a user may make. */
typedef struct iso_backend_settings {
    bool tf32; /* products of float32 multiply as TF32, with 10 bits of the fraction */
} iso_backend_settings;

/* The fastest of several algorithms for an op, as it was measured. */
typedef struct iso_tuning_result {
    char choice[100];        /* names it */
    double seconds, by_rule; /* of it, and of the one that rules choose */
    int candidates;
} iso_tuning_result;

/* Choices that can be measured: which algorithm does an op, such as a product of one shape. Texts name both, and
 * mean the same on all ranks whose machines are alike. */
typedef struct iso_backend_tuning {
    /* Gets the properties on which measured choices depend: member 0, 1, ... has a name ("device") and a value
     * ("NVIDIA H200"). False: no more. */
    bool (*machine)(int member, const char **name, char *value, size_t size);
    /* Number `number` of the ops that kernels were found for (iso_backend.find); NULL: there are not so many.
     * Constant. */
    const char *(*op)(int number);
    /* The algorithm that was chosen for an op; NULL: none was. Valid until another is. *found: a kernel was found
     * for the op. */
    const char *(*choice)(const char *op, bool *found);
    /* Uses an algorithm for an op from now on, unless one was chosen before. Before the kernel runs. ISO_FAILED: it
     * cannot be used. */
    iso_status (*choose)(const char *op, const char *choice);
    /* Measures the algorithms of an op on a stream, in memory of its own. Waits. */
    iso_status (*measure)(const char *op, iso_stream *stream, iso_tuning_result *tuned);
} iso_backend_tuning;

/* All that the rest of Isogrid knows of a kind of device. To add a backend: one file that gives this table, and
 * one line in list.h. Members that may be NULL say what that means. */
typedef struct iso_backend {
    const char *name;
    const char *(*description)(void); /* "cpu: AVX-512, oneDNN 2.6, OpenBLAS 0.3.21" */
    /* Why this machine cannot use it: "there is no driver"; NULL: it can. A member of NULL: it always can. */
    const char *(*unavailable)(void);
    /* Loads libraries, when a context begins that uses it, and may set environment variables for this time.
     * NULL: there is nothing to load. */
    void (*load)(void);
    /* After `load`, before the first plan. NULL: there is nothing to choose. */
    void (*set)(const iso_backend_settings *settings);
    const iso_backend_tuning *tuning; /* NULL: rules choose everything */
    /* ISO_INVALID: a variable of the environment, by which users choose kernels, has a wrong value. NULL: there is no
     * such variable. */
    iso_status (*check)(void);
    /* Kernels of different levels (instruction sets) give different bits, so all ranks use the lowest level that
     * one of them has. NULL: there is one level. */
    int (*level)(void);
    void (*limit)(int level);
    /* Libraries of products and convolutions, with versions ("cuBLASLt 13.1.0, cuDNN 9.19.0"), after `limit`.
     * They must be the same on all ranks, since others give other bits. NULL: they differ in no job. */
    const char *(*libraries)(void);
    /* The number of devices that this process sees, and their model. NULL: they are the processors. */
    int (*devices)(void);
    const char *(*model)(void);
    const char *(*kernels)(void); /* the name of the level in use, for checkpoints: "AVX-512" */
    /* The device in whose memory the kernels of slot number `turn` of its host work: the slots take the devices
     * that this process sees in turn. All devices are of one kind. turn -1: that of a rank without slots, which has
     * no memory but the host's and no streams; what is found for it is not run. */
    const iso_device *(*device)(int turn);
    /* NULL: no kernel fits. If a library fails meanwhile, `sequence` gives its error. */
    const iso_kernel *(*find)(const char *op, const iso_kernel_call *call);
    /* Whether programs for this backend let kernels round complete sums to bfloat16, instead of a cast that follows:
     * the bits of own kernels are the same, and libraries have more algorithms for such results. */
    bool rounds;
    /* Whether kernels of layer normalisation and its gradients read x and dy in bfloat16, and write bfloat16, in
     * place of casts before and after them, with the same bits. */
    bool normalizes;
    /* Whether kernels of convolutions of float32 take windows along the depth of volumes themselves
     * (iso_conv_attrs.depth). */
    bool unfolds;
    /* Prepares instructions, in order. `thunks` and what they point to stay where they are, and the addresses in them
     * stay the same, until `discard`. ISO_FAILED: a library has failed since kernels were looked for. */
    iso_status (*sequence)(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **sequence);
    /* From now on a launch of the whole sequence is one launch of what is captured here. To be called after the same
     * thunks were launched once: until then libraries may load kernels, which a capture does not allow. Does nothing
     * if it is captured. ISO_FAILED: the device refuses. NULL: there is nothing to capture. */
    iso_status (*capture)(iso_sequence *sequence);
    /* Queues instructions [first, first + count) of a sequence, on its stream. ISO_FAILED: a library refuses one, and
     * those after it are not queued. */
    iso_status (*launch)(const iso_sequence *sequence, int first, int count);
    void (*discard)(iso_sequence *sequence); /* does nothing with NULL */
    /* For reductions between slots: out[i] = a[i] + b[i] (out may be a), by dtype. stream NULL: the exchanges of the
     * CPU call it (iso_device.reach), and it is done at once. */
    void (*sum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream);
    void (*maximum)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream);
    /* rule: iso_optimizer_kernel of an optimizer: "adam", ...; NULL: unknown. */
    iso_rule_run (*optimizer)(const char *rule, iso_dtype dtype);
    void (*prepare)(const iso_rates_call *call, iso_stream *stream);
    /* table: one for each list of calls that is repeated; NULL if table_entry is 0. */
    void (*optimize)(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                     iso_stream *stream);
    size_t table_entry; /* bytes of a run in an iso_optimizer_table; 0: there is none */
    /* Within the device's memory, or to pinned memory. faults: as in iso_optimizer_call. */
    void (*copy_bytes)(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream);
    /* *out = *host, plus 1 if there is a fault. host: pinned memory. */
    void (*count_fault)(const iso_fault *fault, const double *host, double *out, iso_stream *stream);
} iso_backend;

/* Finds a backend by its name; "auto": the first of the list that this machine can use. ISO_INVALID names it, those
 * of this build, and why one cannot be used. Local. */
iso_status iso_backend_find(const char *name, const iso_backend **backend);
/* The number of a backend in the list, the preferred one first; and the backend of a number, NULL if there is none.
 * Local. */
int iso_backend_number(const iso_backend *backend);
const iso_backend *iso_backend_numbered(int number);
/* Allows backends whose device is missing, for plans: they report the sizes of kernels, and run nothing. To be
 * called before the first context begins. */
void iso_backend_only_plan(void);
bool iso_backend_only_plans(void);
/* Adds one more backend at the end of the list, for tests. It is lent. Before the first context begins. */
void iso_backend_add(const iso_backend *backend);

/* The CPU backend; the instruction set is detected once. Never NULL. */
const iso_backend *iso_backend_cpu(void);
/* The reference kernels alone, on the CPU: the oracle of the others. */
const iso_backend *iso_backend_reference(void);

#endif
