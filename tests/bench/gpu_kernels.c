/* The bytes per second of the CUDA backend's kernels that memory bounds, on arrays of 256 MiB, beside a copy in the
 * device's memory, first and last: one JSON object a line, with "error" for a kernel that fails; the others are
 * measured all the same. tests/bench/gpu runs it and compares.
 *     build/tests/bench/gpu_kernels [MIB [ROUNDS]]
 * A time is the least of ROUNDS (5), each of 10 launches. Bytes are those of the arrays that a kernel must read and
 * write. ISOGRID_CUDA_LIBRARY names the library. Exit code: 1 if a kernel fails; 77 where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network.h"

enum { ARRAYS = 5, COLUMNS = 1024, LAUNCHES = 10 };

typedef struct bench {
    const iso_backend *backend;
    iso_stream *stream;
    void *array[ARRAYS]; /* of `bytes` */
    size_t bytes;
    int rounds, failures;
    iso_step_info *info;
    iso_fault *fault;
    iso_rates *rates;
} bench;

typedef struct row {
    const char *name, *op;
    iso_dtype dtype;
    int inputs, vectors; /* inputs of all elements; then so many of a row's */
    int vector_dtype;
    const void *attrs;
} row;

/* What is measured: queues one launch. */
typedef iso_status launcher(const bench *b, const void *what);

static iso_status measure(const bench *b, launcher *run, const void *what, double *seconds)
{
    const iso_device *device = b->backend->device(0);
    iso_status status;
    ISO_TRY(run(b, what)); /* warm */
    ISO_TRY(device->wait(b->stream));
    for (int r = 0; r < b->rounds; r++) {
        int64_t begin = iso_clock_ns();
        for (int i = 0; i < LAUNCHES; i++)
            ISO_TRY(run(b, what));
        ISO_TRY(device->wait(b->stream));
        double each = (double)(iso_clock_ns() - begin) * 1e-9 / LAUNCHES;
        *seconds = r == 0 || each < *seconds ? each : *seconds;
    }
done:
    return status;
}

static void print(bench *b, const char *name, launcher *run, const void *what, double bytes)
{
    double seconds = 0;
    if (measure(b, run, what, &seconds) == ISO_OK) {
        printf("{\"kernel\": \"%s\", \"bytes\": %.0f, \"seconds\": %.9f, \"bytes_per_second\": %.6g}\n", name,
               bytes, seconds, bytes / seconds);
    } else {
        iso_text line = {0};
        iso_json_put(&line, NULL, "{");
        iso_json_put_text(&line, "kernel", name);
        iso_json_put_text(&line, "error", iso_error_message());
        iso_text_add(&line, "}");
        puts(iso_text_get(&line));
        iso_text_free(&line);
        b->failures++;
    }
    fflush(stdout);
}

/* ---- ops ---- */

static iso_array make_array(void *data, iso_dtype dtype, int64_t rows, int64_t columns)
{
    iso_array array = {.data = data, .dtype = dtype, .rank = rows ? 2 : 1};
    array.dim[0] = array.global[0] = rows ? rows : columns;
    if (rows)
        array.dim[1] = array.global[1] = columns;
    return array;
}

static iso_status run_op(const bench *b, const void *what)
{
    const row *r = what;
    iso_array in[ARRAYS + 4], out = {0};
    int64_t rows = (int64_t)(b->bytes / iso_dtype_size(r->dtype)) / COLUMNS;
    iso_kernel_call call = {.attrs = r->attrs,
                            .in = in,
                            .out = &out,
                            .n_outputs = 1,
                            .info = b->info,
                            .fault = b->fault,
                            .stream = b->stream};
    for (int i = 0; i < r->inputs; i++)
        in[call.n_inputs++] = make_array(b->array[i], r->dtype, rows, COLUMNS);
    for (int i = 0; i < r->vectors; i++)
        in[call.n_inputs++] = make_array(b->array[ARRAYS - 1], (iso_dtype)r->vector_dtype, 0, COLUMNS);
    out = make_array(b->array[r->inputs], r->dtype, rows, COLUMNS);
    const iso_kernel *kernel = b->backend->find(r->op, &call);
    if (!kernel)
        return iso_error(ISO_FAILED, "no kernel of %s fits", r->op);
    if (kernel->scratch && kernel->scratch(&call) > b->bytes)
        return iso_error(ISO_FAILED, "%s needs %zu bytes of scratch", r->op, kernel->scratch(&call));
    call.scratch = b->array[ARRAYS - 2];
    kernel->run(&call);
    return ISO_OK;
}

static const iso_unary_attrs relu = {.kind = ISO_UNARY_RELU}, gelu = {.kind = ISO_UNARY_GELU};
static const iso_dropout_attrs dropout = {.key = 7, .threshold = 1u << 23, .scale = 2};
static const iso_layer_norm_attrs layer_norm = {.epsilon = 1e-3, .has_gamma = true, .has_beta = true};
static const iso_batch_norm_attrs batch_norm = {.epsilon = 1e-3, .has_gamma = true, .has_beta = true};
static const iso_softmax_attrs softmax = {.axis = 1};

static const row rows[] = {
    {"relu", "relu", ISO_F32, 1, 0, ISO_F32, &relu},
    {"relu, bfloat16", "relu", ISO_BF16, 1, 0, ISO_F32, &relu},
    {"gelu", "gelu", ISO_F32, 1, 0, ISO_F32, &gelu},
    {"add", "add", ISO_F32, 2, 0, ISO_F32, NULL},
    {"add of a bias", "add", ISO_F32, 1, 1, ISO_F32, NULL},
    {"dropout", "dropout", ISO_F32, 1, 0, ISO_F32, &dropout},
    {"softmax", "softmax", ISO_F32, 1, 0, ISO_F32, &softmax},
    {"layer norm", "layer_norm", ISO_F32, 1, 2, ISO_F32, &layer_norm},
    {"batch norm", "batch_norm", ISO_F32, 1, 4, ISO_F32, &batch_norm},
};

static void print_ops(bench *b)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        print(b, rows[i].name, run_op, &rows[i], (double)(rows[i].inputs + 1) * (double)b->bytes);
}

/* ---- copies, sums, optimizers ---- */

static iso_status run_copy(const bench *b, const void *what)
{
    (void)what;
    b->backend->device(0)->copy(b->stream, b->array[1], b->array[0], b->bytes);
    return ISO_OK;
}

static iso_status run_sum(const bench *b, const void *what)
{
    (void)what;
    b->backend->sum(ISO_F32, (int64_t)(b->bytes / sizeof(float)), b->array[0], b->array[1], b->array[2],
                    b->stream);
    return ISO_OK;
}

/* Weights, a gradient and the slots. */
typedef struct rule {
    const char *name;
    int slots;
} rule;

static iso_status run_rule(const bench *b, const void *what)
{
    const rule *r = what;
    iso_optimizer_run run = {
        .count = (int64_t)(b->bytes / sizeof(float)), .weights = b->array[0], .gradient = b->array[1]};
    for (int k = 0; k < r->slots; k++)
        run.slots[k] = b->array[2 + k];
    iso_optimizer_call call = {
        .rule = b->backend->optimizer(r->name, ISO_F32), .rates = b->rates, .n_runs = 1, .runs = &run};
    static _Alignas(16) char kept[256];
    iso_optimizer_table table = {
        .bytes = b->backend->table_entry, .host = kept, .device = b->array[ARRAYS - 1]};
    memset(kept, 0, sizeof kept); /* the table is copied each time, which these arrays make unimportant */
    b->backend->optimize(&call, 1, &table, b->stream);
    return ISO_OK;
}

static void print_copy(bench *b)
{
    print(b, "copy", run_copy, NULL, 2 * (double)b->bytes);
}

static void print_updates(bench *b)
{
    static const rule rules[] = {{"sgd", 0}, {"sgd", 1}, {"adam", 2}};
    print(b, "sum of slots", run_sum, NULL, 3 * (double)b->bytes);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s with %d slots", rules[i].name, rules[i].slots);
        print(b, name, run_rule, &rules[i], (double)(3 + 2 * rules[i].slots) * (double)b->bytes);
    }
}

/* ---- the device ---- */

static iso_status prepare(bench *b)
{
    const iso_device *device = b->backend->device(0);
    iso_step_info info = {.step = 1, .seed = 1, .rows = COLUMNS};
    iso_rates rates = {.apply = true, .hyper = {1e-3, 0, 0.1, 0.001, 1e-7, 0}};
    void *memory[3] = {NULL};
    iso_status status;
    ISO_TRY(device->create_stream(device, &b->stream));
    for (int i = 0; i < ARRAYS; i++)
        ISO_TRY(device->allocate(device, b->bytes, "an array", &b->array[i]));
    ISO_TRY(device->allocate(device, sizeof info, "what kernels know", &memory[0]));
    ISO_TRY(device->allocate(device, sizeof(iso_fault), "a fault", &memory[1]));
    ISO_TRY(device->allocate(device, sizeof rates, "rates", &memory[2]));
    b->info = memory[0], b->fault = memory[1], b->rates = memory[2];
    ISO_TRY(iso_device_write(b->stream, b->info, &info, sizeof info));
    ISO_TRY(iso_device_write(b->stream, b->rates, &rates, sizeof rates));
done:
    return status;
}

static void release(bench *b)
{
    const iso_device *device = b->backend->device(0);
    for (int i = 0; i < ARRAYS; i++)
        device->release(device, b->array[i]);
    device->release(device, b->info);
    device->release(device, b->fault);
    device->release(device, b->rates);
    device->destroy_stream(b->stream);
}

int main(int argc, char **argv)
{
    bench b = {.bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20,
               .rounds = argc > 2 ? atoi(argv[2]) : 5};
    if (b.bytes == 0 || b.rounds < 1) {
        fprintf(stderr, "usage: gpu_kernels [MIB [ROUNDS]]\n");
        return 2;
    }
    if (iso_backend_find("cuda", &b.backend) != ISO_OK) {
        printf("skipped: gpu_kernels: %s\n", iso_error_message());
        return 77;
    }
    iso_status status;
    ISO_TRY(prepare(&b));
    print_copy(&b);
    print_ops(&b);
    print_updates(&b);
    print_copy(&b);
done:
    if (status != ISO_OK)
        fprintf(stderr, "gpu_kernels: %s\n", iso_error_message());
    release(&b);
    return status == ISO_OK && b.failures == 0 ? 0 : 1;
}
