/* Calls of the CUDA backend's kernels on the stand-ins for NVIDIA's libraries, for test_libraries.c: runs the cases
 * of the ops (tests/backend/cases.h) on the device, compares them with the reference, and reads what was asked of the
 * libraries. */
#ifndef TESTS_STANDIN_LIBRARY_CALLS_H
#define TESTS_STANDIN_LIBRARY_CALLS_H

#include <unistd.h>

#include "runtime/base/device.h"
#include "tests/backend/cases.h"
#include "tests/support/cuda_library.h"
#include "tests/support/once.h"

static const iso_cuda_library *cuda;
static const iso_backend *backend;
static const iso_device *device;
static iso_stream *stream;

/* ---- a call on the device ---- */

enum { ARENA = 8 << 20, APART = 4096, MOST_EXTRA = 64 };
static char *arena; /* what the calls of a case use; the access to all of it changes with each kernel */
static size_t used;
static char *extra[MOST_EXTRA]; /* what does not fit there, until the next case */
static int n_extra;

static void begin_case(void)
{
    used = 0;
    while (n_extra > 0)
        device->release(device, extra[--n_extra]);
}

static void *take(size_t bytes, size_t offset)
{
    size_t at = used, room = (bytes + offset) / APART * APART + APART;
    if (used + room > ARENA) {
        ck_assert_int_lt(n_extra, MOST_EXTRA);
        check_ok(device->allocate(device, room, "an array", (void **)&extra[n_extra]));
        return extra[n_extra++] + offset;
    }
    used += room;
    return arena + at + offset;
}

/* An array on the device, at `offset` from an aligned address. */
static void place(iso_array *array, const void *from, size_t offset)
{
    array->data = take(iso_array_bytes(array), offset);
    if (from && iso_array_bytes(array) > 0)
        device->copy(stream, array->data, from, iso_array_bytes(array));
}

static void fetch(const iso_array *array, void *to)
{
    if (iso_array_bytes(array) > 0)
        device->copy(stream, to, array->data, iso_array_bytes(array));
    check_ok(device->wait(stream));
}

/* A call with arrays of its own. */
typedef struct placed {
    iso_kernel_call call;
    const iso_kernel *kernel;
    iso_array in[MOST_ARRAYS], out[4];
} placed;

static void begin(placed *p, const trial *t, size_t offset)
{
    *p = (placed){0};
    for (int i = 0; i < t->inputs; i++) {
        p->in[i] = t->in[i];
        place(&p->in[i], t->in[i].data, offset);
    }
    for (int i = 0; i < t->outputs; i++) {
        p->out[i] = t->out[i];
        place(&p->out[i], NULL, offset);
    }
    p->call = (iso_kernel_call){.attrs = &t->attrs,
                                .n_inputs = t->inputs,
                                .n_outputs = t->outputs,
                                .in = p->in,
                                .out = p->out,
                                .info = take(sizeof step_info, 0),
                                .stream = stream};
    device->copy(stream, (void *)p->call.info, &step_info, sizeof step_info);
    p->kernel = backend->find(t->op, &p->call);
    ck_assert_ptr_nonnull(p->kernel);
    size_t bytes = p->kernel->scratch ? p->kernel->scratch(&p->call) : 0;
    p->call.scratch = bytes > 0 ? take(bytes, 64) : NULL;
}

static char notes_path[] = "/tmp/isogrid_notes_XXXXXX";

/* Runs work as the executor does the first time, and sees that it can be captured then. */
static void run_thunks(const iso_thunk *thunks, int count)
{
    iso_sequence *sequence = NULL;
    check_ok(backend->sequence(thunks, count, stream, &sequence));
    check_ok(backend->launch(sequence, 0, count));
    check_ok(device->wait(stream));
    unsetenv("STANDIN_NOTES");
    check_ok(backend->capture(sequence));
    setenv("STANDIN_NOTES", notes_path, 1);
    backend->discard(sequence);
}

/* Work that is refused when it is queued. */
static void check_refused_thunks(const iso_thunk *thunks, int count, const char *message)
{
    iso_sequence *sequence = NULL;
    check_ok(backend->sequence(thunks, count, stream, &sequence));
    ck_assert_int_eq(backend->launch(sequence, 0, count), ISO_FAILED);
    ck_assert_str_eq(iso_error_message(), message);
    check_ok(device->wait(stream));
    check_ok(backend->capture(sequence)); /* what no graph can have is queued again, which shows the error */
    ck_assert_int_eq(backend->launch(sequence, 0, count), ISO_FAILED);
    ck_assert_str_eq(iso_error_message(), message);
    check_ok(device->wait(stream));
    backend->discard(sequence);
}

/* A library that fails while the kernel is looked for: neither is there another kernel, nor is it remembered. */
static void check_failing(trial t, const char *order, const char *message)
{
    void *owner[MOST_ARRAYS];
    iso_sequence *sequence = NULL;
    placed p;
    place_inputs(&t, 0, NULL, owner);
    begin_case();
    setenv("STANDIN_FAIL", order, 1);
    begin(&p, &t, 0);
    const iso_thunk thunk = {.kernel = p.kernel, .call = &p.call};
    ck_assert_int_eq(backend->sequence(&thunk, 1, stream, &sequence), ISO_FAILED);
    ck_assert_str_eq(iso_error_message(), message);
    unsetenv("STANDIN_FAIL");
    begin_case();
    begin(&p, &t, 0);
    ck_assert_str_ne(p.kernel->name, "own");
    free_all(owner, t.inputs);
}

static const char *run_case(const trial *t, size_t offset, result *got)
{
    placed p;
    begin_case();
    begin(&p, t, offset);
    run_thunks(&(iso_thunk){.kernel = p.kernel, .call = &p.call}, 1);
    for (int i = 0; i < t->outputs; i++) {
        got->out[i] = t->out[i];
        got->out[i].data = room_for(&t->out[i], 0, &got->owner[i]);
        fetch(&p.out[i], got->out[i].data);
    }
    got->kernel = p.kernel->name;
    return got->kernel;
}

/* ---- the cases of the CPU's kernels ---- */

static trial in_type(const trial *t, iso_dtype dtype)
{
    trial other = *t;
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        iso_array *array = i < t->inputs ? &other.in[i] : &other.out[i - t->inputs];
        array->dtype = array->dtype == ISO_F32 ? dtype : array->dtype;
    }
    return other;
}

/* NVIDIA's own cuDNN chooses the engines (tests/standin/test_real_cudnn): at addresses that it takes. */
static bool real_cudnn;

/* NULL: all cases; else those that the kernel of this name does. */
static const char *only;

static bool is_done_by_another(const trial *t)
{
    placed p;
    if (!only)
        return false;
    begin_case();
    begin(&p, t, 0);
    return strcmp(p.kernel->name, only) != 0;
}

/* Returns whether a library did it. Empty ones are the own kernels' affair. */
static bool check_by_library(trial t)
{
    void *owner[MOST_ARRAYS];
    bool by_library = false;
    place_inputs(&t, 0, NULL, owner);
    if (is_done_by_another(&t)) {
        free_all(owner, t.inputs);
        return false;
    }
    result want = run_trial(&t, iso_backend_reference(), 0), odd, first, again;
    by_library = strcmp(run_case(&t, 16, &first), "own") != 0;
    compare(&t, &want, &first);
    run_case(&t, 48, &again);
    compare_bits(&t, &first, &again);
    bool at_odd = t.in[0].dtype == ISO_F32 && !real_cudnn;
    if (at_odd) {
        run_case(&t, 8, &odd);
        compare(&t, &want, &odd);
    }
    result *all[] = {&first, &again, &odd};
    for (int i = 0; i < (at_odd ? 3 : 2); i++)
        free_result(&t, all[i]);
    free_result(&t, &want);
    free_all(owner, t.inputs);
    return by_library;
}

static bool check_case(const trial *of, iso_dtype dtype)
{
    return check_by_library(in_type(of, dtype));
}

static bool is_of(const char *op, const char *kind)
{
    return strncmp(op, kind, strlen(kind)) == 0;
}

/* Convolutions of bfloat16 with sums in float32, as in mixed_bfloat16. matmul has such cases of its own. */
static bool check_wide_sums(const trial *of)
{
    uint64_t state = random_state; /* the values of later cases stay */
    trial t = in_type(of, ISO_BF16);
    t.out[0].dtype = ISO_F32;
    bool by_library = is_of(of->op, "conv2d") && check_by_library(t);
    random_state = state;
    return by_library;
}

static int every = 1; /* which cases are tried */

/* A case of other types has them for a reason. */
static bool all_float32(const trial *t)
{
    bool all = !t->fixed_types;
    for (int i = 0; i < t->inputs; i++)
        all = all && t->in[i].dtype == ISO_F32;
    return all && t->out[0].dtype == ISO_F32;
}

/* By default a case is tried in one type, that of a convolution's gradients in others. */
static bool in_all_types(void)
{
    return getenv("ISOGRID_TEST_LONG");
}

static int types_of(const char *op)
{
    return is_of(op, "conv2d") ? 4 : 3;
}

static bool takes_type(const char *op, int index, int type)
{
    int shift = is_of(op, "conv2d_grad_input") ? 1 : is_of(op, "conv2d_grad_kernel") ? 2 : 0;
    int types = types_of(op);
    return in_all_types() || (index + index / types + shift) % types == type;
}

/* least: how many cases a library does, in all types. */
static void check_op(const char *op, int least)
{
    least = in_all_types() ? least : least / types_of(op);
    int by_library = 0;
    random_state = 1;
    for (int index = 0;; index++) {
        trial t = {.op = op};
        if (!maker_of(op)(&t, index))
            break;
        if (index % every > 0)
            continue;
        bool all = all_float32(&t);
        by_library += (!all || takes_type(op, index, 0)) && check_case(&t, ISO_F32);
        by_library += all && takes_type(op, index, 1) && check_case(&t, ISO_F64);
        by_library += all && takes_type(op, index, 2) && check_case(&t, ISO_BF16);
        by_library += all && takes_type(op, index, 3) && check_wide_sums(&t);
    }
    ck_assert_msg(by_library >= least, "a library did %d cases of %s", by_library, op);
}

/* What the stand-in notes of the libraries' calls, since the last time. */
static void take_notes(char *text, size_t size)
{
    FILE *file = fopen(notes_path, "r");
    ck_assert_ptr_nonnull(file);
    size_t length = fread(text, 1, size - 1, file);
    text[length] = 0;
    fclose(file);
    ck_assert_int_eq(truncate(notes_path, 0), 0);
}

/* ---- the beginning and the end ---- */

/* False: there is no backend. */
static bool begin_all(void)
{
    cuda = test_cuda_library();
    real_cudnn = getenv("STANDIN_CUDNN") != NULL;
    int file = cuda ? mkstemp(notes_path) : -1;
    if (file < 0)
        return false;
    close(file);
    setenv("STANDIN_NOTES", notes_path, 1);
    backend = cuda->backend();
    device = cuda->device(0);
    check_ok(device->create_stream(device, &stream));
    check_ok(device->allocate(device, ARENA, "the arrays", (void **)&arena));
    return true;
}

static void end_all(void)
{
    begin_case();
    device->release(device, arena);
    device->destroy_stream(stream);
    unlink(notes_path);
}

#endif
