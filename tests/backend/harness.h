/* One call of an op with random arrays, done by the reference kernel and by the CPU backend's, and compared.
 */
#ifndef ISO_TESTS_BACKEND_HARNESS_H
#define ISO_TESTS_BACKEND_HARNESS_H

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/division.h"
#include "runtime/backend/index.h"
#include "runtime/base/bf16.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "tests/backend/distances.h"

/* As ck_assert_msg, which writes a file each time, but for loops. */
#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ck_abort_msg(__VA_ARGS__);                                                                       \
    } while (0)

enum { MOST_ARRAYS = 9, GUARD = 64, PAGE = 4096 };

typedef struct trial {
    const char *op;
    union {
        iso_unary_attrs unary;
        iso_affine_attrs affine;
        iso_count_attrs count;
        iso_reduce_attrs reduce;
        iso_matmul_attrs matmul;
        iso_axis_attrs axis;
        iso_cast_attrs cast;
        iso_attention_attrs attention;
        iso_softmax_attrs softmax;
        iso_class_attrs classes;
        iso_conv_attrs conv;
        iso_pool_attrs pool;
        iso_batch_norm_attrs batch_norm;
        iso_layer_norm_attrs layer_norm;
        iso_dropout_attrs dropout;
        iso_noise_attrs noise;
        iso_uniform_attrs uniform;
        iso_warp_attrs warp;
        iso_embedding_attrs embedding;
        iso_top_k_attrs top_k;
        iso_transpose_attrs transpose;
        iso_slice_attrs slice;
        iso_one_hot_attrs one_hot;
        iso_band_attrs band;
        iso_rotary_attrs rotary;
        iso_experts_attrs experts;
        iso_unfold_attrs unfold;
        iso_recurrence_attrs recurrence;
        iso_upsample_attrs upsample;
        iso_moments_attrs moments;
    } attrs;
    iso_array in[MOST_ARRAYS], out[ISO_MAX_OUTPUTS];
    int inputs, outputs;
    double low[MOST_ARRAYS], high[MOST_ARRAYS]; /* values of the inputs; integers: low included, high not */
    uint32_t whole;                             /* bit i: input i has whole numbers */
    uint32_t by_rows; /* bit i: input i has a row for each row of the output, whose bits are
                                                   those of the row alone; 0: not compared */
    bool fixed_types; /* the op has this form only for these types */
    bool cancels;     /* little is left of large terms: tests/backend/distances.h */
    bool tf32;        /* a product or convolution multiplies so */
} trial;

static uint64_t random_state = 1;

static inline double uniform(double low, double high)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(random_state >> 40) * 0x1p-24;
}

/* Whether the op has kernels, and is one of those that ISOGRID_TEST_OPS names: a word that is in their names, or the
 * name of one after "=". */
static inline bool is_wanted(const iso_op_type *type)
{
    const char *only = getenv("ISOGRID_TEST_OPS");
    if (type->no_kernel || !only)
        return !type->no_kernel;
    return only[0] == '=' ? strcmp(type->name, only + 1) == 0 : strstr(type->name, only) != NULL;
}

/* ---- making a trial ---- */
static inline iso_array make_array(iso_dtype dtype, int rank, const int64_t *dim)
{
    iso_array array = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++)
        array.dim[i] = array.global[i] = dim[i];
    return array;
}

#define DIMS(...)                                                                                            \
    ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))), (const int64_t[])                           \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static inline void input(trial *t, iso_dtype dtype, double low, double high, int rank, const int64_t *dim)
{
    CHECK(t->inputs < MOST_ARRAYS, "%s: more than %d inputs", t->op, MOST_ARRAYS);
    t->low[t->inputs] = low;
    t->high[t->inputs] = high;
    t->in[t->inputs++] = make_array(dtype, rank, dim);
}

static inline void output(trial *t, iso_dtype dtype, int rank, const int64_t *dim)
{
    t->out[t->outputs++] = make_array(dtype, rank, dim);
}

/* ---- memory: what lies behind an input is NaN, what lies behind an output must stay ---- */
static inline size_t bytes_of(const iso_array *array)
{
    return (size_t)iso_array_count(array) * iso_dtype_size(array->dtype);
}

static inline void *room_for(const iso_array *array, size_t offset, void **owner)
{
    *owner = aligned_alloc(PAGE, (bytes_of(array) + offset + GUARD + PAGE - 1) / PAGE * PAGE);
    ck_assert_ptr_nonnull(*owner);
    return (char *)*owner + offset;
}

static inline void fill(const iso_array *array, bool whole, double low, double high)
{
    for (int64_t i = 0; i < iso_array_count(array); i++) {
        double value = uniform(low, high);
        value = whole ? floor(value) : value;
        switch (array->dtype) {
        case ISO_F32:
            ((float *)array->data)[i] = (float)value;
            break;
        case ISO_F64:
            ((double *)array->data)[i] = value;
            break;
        case ISO_I32:
            ((int32_t *)array->data)[i] = (int32_t)floor(value);
            break;
        case ISO_I64:
            ((int64_t *)array->data)[i] = (int64_t)floor(value);
            break;
        case ISO_BF16:
            ((uint16_t *)array->data)[i] = iso_bf16_of_double(value);
            break;
        default:
            ((uint8_t *)array->data)[i] = (uint8_t)floor(value);
        }
    }
}

/* ---- running ---- */
typedef struct result {
    iso_array out[ISO_MAX_OUTPUTS];
    void *owner[ISO_MAX_OUTPUTS];
    const char *kernel;
    bool in_place;
} result;

static inline void free_result(const trial *t, result *r)
{
    for (int i = 0; i < t->outputs; i++)
        free(r->owner[i]);
}

static inline const char *describe(const trial *t)
{
    static char text[400];
    int length = snprintf(text, sizeof text, "%s on", t->op);
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        const iso_array *array = i < t->inputs ? &t->in[i] : &t->out[i - t->inputs];
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %s[", i == t->inputs ? " ->" : "",
                           iso_dtype_name(array->dtype));
        for (int j = 0; j < array->rank; j++)
            length += snprintf(text + length, sizeof text - (size_t)length, j ? ",%lld" : "%lld",
                               (long long)array->dim[j]);
        length += snprintf(text + length, sizeof text - (size_t)length, "]");
    }
    return text;
}

static const iso_step_info step_info = {.step = 3, .seed = 5, .rows = 32};

static inline void check_guards(const trial *t, const result *r)
{
    for (int i = 0; i < t->outputs; i++) {
        const unsigned char *end = (const unsigned char *)r->out[i].data + bytes_of(&r->out[i]);
        for (int j = 0; j < GUARD; j++)
            CHECK(end[j] == 0xa5, "%s: kernel %s wrote %d bytes past the end of output %d", describe(t),
                  r->kernel, j + 1, i);
    }
}

/* Runs a kernel on arrays that are there. */
static inline void run_kernel(const trial *t, const iso_backend *backend, result *r)
{
    iso_fault fault = {0};
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = r->out,
                            .info = &step_info,
                            .fault = &fault};
    const iso_kernel *kernel = backend->find(t->op, &call);
    CHECK(kernel != NULL, "%s: no kernel", describe(t));
    r->kernel = kernel->name;
    r->in_place = kernel->in_place;
    size_t scratch = kernel->scratch ? kernel->scratch(&call) : 0;
    unsigned char *memory = aligned_alloc(64, (scratch + 2 * GUARD) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xa5, (scratch + 2 * GUARD) / 64 * 64 + 64);
    call.scratch = memory;
    kernel->run(&call);
    for (int i = 0; i < GUARD; i++)
        CHECK(memory[scratch + (size_t)i] == 0xa5, "%s: kernel %s wrote past its %zu bytes of scratch",
              describe(t), kernel->name, scratch);
    free(memory);
    check_guards(t, r);
    CHECK(fault.code == ISO_FAULT_NONE, "%s: a fault in element %lld", describe(t), (long long)fault.element);
}

/* Runs the trial's op with outputs at `offset` from a page. */
static inline result run_trial(const trial *t, const iso_backend *backend, size_t offset)
{
    result r = {.kernel = ""};
    for (int i = 0; i < t->outputs; i++) {
        r.out[i] = t->out[i];
        r.out[i].data = room_for(&t->out[i], offset, &r.owner[i]);
        memset(r.out[i].data, 0xa5, bytes_of(&t->out[i]) + GUARD);
    }
    run_kernel(t, backend, &r);
    return r;
}

/* How far output k may lie from the reference: |a - b| <= relative * |b| + absolute * (largest |b|). Both 0: equal
 * bits. */
typedef struct tolerance {
    double relative, absolute;
} tolerance;

static inline tolerance tolerance_of(const trial *t, int k, const char *kernel)
{
    const distance *row = distance_of(t->op, t->cancels);
    CHECK(row != NULL, "op %s has no row in tests/backend/distances.h", t->op);
    bool narrow = false; /* than float64 */
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        iso_dtype dtype = i < t->inputs ? t->in[i].dtype : t->out[i - t->inputs].dtype;
        narrow |= dtype == ISO_F32 || dtype == ISO_BF16;
    }
    tolerance near = {strtod(row->relative, NULL), strtod(row->largest, NULL)};
    if (distance_is_none(row))
        return near;
    if (t->tf32)
        near.absolute = strtod(TF32_LARGEST, NULL);
    const double factor = narrow ? 1 : strtod(FLOAT64_FACTOR, NULL);
    near.relative *= factor, near.absolute *= factor;
    if (t->in[0].dtype == ISO_BF16 && strncmp(t->op, "attention", strlen("attention")) == 0)
        near.absolute = strtod(strcmp(kernel, FUSED_ATTENTION) == 0 ? FUSED_ATTENTION_LARGEST
                                                                    : BFLOAT16_ATTENTION_LARGEST,
                               NULL);
    if (t->in[0].dtype == ISO_BF16 && strncmp(t->op, "experts", strlen("experts")) == 0)
        near.absolute = strtod(BFLOAT16_EXPERTS_LARGEST, NULL);
    if (t->out[k].dtype == ISO_BF16)
        near.relative = ldexp(1, -BFLOAT16_BITS);
    return near;
}

static inline void compare(const trial *t, const result *want, const result *got)
{
    for (int k = 0; k < t->outputs; k++) {
        const tolerance near_enough = tolerance_of(t, k, got->kernel);
        double largest = 0;
        int64_t n = iso_array_count(&t->out[k]);
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, fabs(iso_index_element(&want->out[k], i)));
        for (int64_t i = 0; i < n; i++) {
            double a = iso_index_element(&got->out[k], i), b = iso_index_element(&want->out[k], i);
            bool near = fabs(a - b) <= near_enough.relative * fabs(b) + near_enough.absolute * largest;
            CHECK(near || a == b || (isnan(a) && isnan(b)),
                  "%s, %s: kernel %s gave %.9g for element %lld of output %d, the reference %.9g",
                  describe(t), iso_isa_name(iso_cpu_isa()), got->kernel, a, (long long)i, k, b);
        }
    }
}

static inline void compare_bits(const trial *t, const result *a, const result *b)
{
    for (int k = 0; k < t->outputs; k++)
        CHECK(memcmp(a->out[k].data, b->out[k].data, bytes_of(&t->out[k])) == 0,
              "%s: other addresses gave other bits in kernel %s", describe(t), a->kernel);
}

/* Places the inputs anew at `offset` from a page, with the values of `from` or, where it is NULL, random
 * ones. */
static inline void place_inputs(trial *t, size_t offset, const trial *from, void **owner)
{
    for (int i = 0; i < t->inputs; i++) {
        t->in[i].data = room_for(&t->in[i], offset, &owner[i]);
        memset((char *)t->in[i].data + bytes_of(&t->in[i]), 0xff, GUARD); /* NaN */
        if (from)
            memcpy(t->in[i].data, from->in[i].data, bytes_of(&t->in[i]));
        else
            fill(&t->in[i], t->whole >> i & 1, t->low[i], t->high[i]);
    }
}

static inline void free_all(void **owner, int count)
{
    for (int i = 0; i < count; i++)
        free(owner[i]);
}

/* Output 0 over each input that the op's in_place names and that has its shape and type: the bits are the
 * same. */
static inline void check_in_place(const trial *t, const iso_backend *backend, const result *want)
{
    const iso_op_type *type = iso_op_type_find(t->op);
    CHECK(type != NULL, "no op is called %s", t->op);
    for (int i = 0; i < t->inputs && want->in_place; i++) {
        const iso_array *in = &t->in[i], *out = &t->out[0];
        if (!(type->in_place >> i & 1) || in->dtype != out->dtype || in->rank != out->rank ||
            memcmp(in->dim, out->dim, sizeof in->dim) != 0)
            continue;
        trial over = *t;
        void *owner[MOST_ARRAYS];
        place_inputs(&over, 0, t, owner);
        result r = *want;
        r.out[0].data = over.in[i].data;
        memset((char *)r.out[0].data + bytes_of(out), 0xa5, GUARD);
        run_kernel(&over, backend, &r);
        CHECK(memcmp(r.out[0].data, want->out[0].data, bytes_of(out)) == 0,
              "%s: kernel %s over input %d gave other bits", describe(t), r.kernel, i);
        free_all(owner, t->inputs);
    }
}

/* A part of a kernel that adds to input 0, onto that part of it: the bits of `whole`. */
static inline void check_added_part(const trial *t, const iso_kernel *kernel, const iso_kernel_call *call,
                                    const float *whole, const int64_t *offset, const int64_t *extent,
                                    void *part_scratch)
{
    const int64_t columns = call->out[0].dim[1];
    float *part = aligned_alloc(64, ((size_t)(extent[0] * extent[1]) * sizeof *part + GUARD) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(part);
    for (int64_t i = 0; i < extent[0]; i++)
        memcpy(part + i * extent[1], (const float *)call->in[0].data + (offset[0] + i) * columns + offset[1],
               (size_t)extent[1] * sizeof *part);
    kernel->run_part(call, offset, extent, true, part, part_scratch);
    for (int64_t i = 0; i < extent[0]; i++)
        CHECK(memcmp(part + i * extent[1], whole + (offset[0] + i) * columns + offset[1],
                     (size_t)extent[1] * sizeof *part) == 0,
              "%s: row %lld of the part of %lld rows from %lld has other bits", describe(t), (long long)i,
              (long long)extent[0], (long long)offset[0]);
    free(part);
}

/* One part by run_part, then the same onto ones: the bits of `whole`, and of 1 plus them. */
static inline void check_part(const trial *t, const iso_kernel *kernel, const iso_kernel_call *call,
                              const float *whole, const int64_t *offset, const int64_t *extent,
                              void *part_scratch)
{
    if (!strcmp(t->op, "embedding_grad_add")) {
        check_added_part(t, kernel, call, whole, offset, extent, part_scratch);
        return;
    }
    size_t count = (size_t)(extent[0] * extent[1]);
    float *part = aligned_alloc(64, (count * sizeof *part + GUARD) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(part);
    for (int add = 0; add < 2; add++) {
        for (size_t i = 0; i <= count; i++)
            part[i] = 1;
        kernel->run_part(call, offset, extent, add, part, part_scratch);
        CHECK(part[count] == 1, "%s: a part was written past its end", describe(t));
        for (int64_t i = 0; i < extent[0]; i++)
            for (int64_t j = 0; j < extent[1]; j++) {
                float want = whole[(offset[0] + i) * call->out[0].dim[1] + offset[1] + j];
                want = add ? 1 + want : want;
                CHECK(memcmp(&part[i * extent[1] + j], &want, sizeof want) == 0,
                      "%s, %s: element [%lld, %lld] of the part of %lld rows from %lld is %.9g, not %.9g%s",
                      describe(t), iso_isa_name(iso_cpu_isa()), (long long)i, (long long)j,
                      (long long)extent[0], (long long)offset[0], part[i * extent[1] + j], want,
                      add ? ", added" : "");
            }
    }
    free(part);
}

/* The parts that an optimizer takes of a product: its last elements of a row, blocks of whole rows, shorter
 * ones at the end, its first elements of a row. */
static inline void check_parts(const trial *t, const result *want)
{
    iso_fault fault = {0};
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = (iso_array *)want->out,
                            .info = &step_info,
                            .fault = &fault};
    const iso_kernel *kernel = iso_backend_cpu()->find(t->op, &call);
    int64_t rows = want->out[0].dim[0], columns = want->out[0].dim[1];
    if (!kernel->run_part || rows < 1 || columns < 1)
        return;
    call.scratch = aligned_alloc(64, (kernel->scratch(&call) + 63) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(call.scratch);
    const size_t own = kernel->part_scratch ? kernel->part_scratch(&call) : 0;
    void *room = aligned_alloc(64, (own + 63) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(room);
    int64_t most = kernel->part_rows(&call), cut = columns / 3;
    ck_assert_int_ge(most, 1);
    kernel->prepare_parts(&call);
    check_part(t, kernel, &call, want->out[0].data, (int64_t[]){0, cut}, (int64_t[]){1, columns - cut}, room);
    for (int64_t i = 1, n; i < rows - 1; i += n) {
        n = rows - 1 - i < most ? rows - 1 - i : most;
        check_part(t, kernel, &call, want->out[0].data, (int64_t[]){i, 0}, (int64_t[]){n, columns}, room);
    }
    check_part(t, kernel, &call, want->out[0].data, (int64_t[]){rows - 1, 0}, (int64_t[]){1, columns - cut},
               room);
    free(room);
    free(call.scratch);
}

/* The first half of the batch alone: the bits of these rows of the whole. */
static inline void check_rows(const trial *t, const result *want)
{
    trial half = *t;
    half.out[0].dim[0] /= 2;
    for (int i = 0; i < t->inputs; i++)
        if (t->by_rows >> i & 1)
            half.in[i].dim[0] /= 2;
    result got = run_trial(&half, iso_backend_cpu(), 0);
    CHECK(memcmp(got.out[0].data, want->out[0].data, bytes_of(&half.out[0])) == 0,
          "%s: kernel %s gave other bits for half of the batch", describe(t), got.kernel);
    free_result(&half, &got);
}

/* An op of a trial's type, attributes and shapes, for its sharding rule. */
typedef struct trial_op {
    iso_op op;
    iso_tensor tensor[MOST_ARRAYS + ISO_MAX_OUTPUTS];
} trial_op;

static inline void make_op(const trial *t, trial_op *made)
{
    *made = (trial_op){.op = {.type = iso_op_type_find(t->op),
                              .attrs = (void *)&t->attrs,
                              .n_inputs = t->inputs,
                              .n_outputs = t->outputs}};
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        const iso_array *array = i < t->inputs ? &t->in[i] : &t->out[i - t->inputs];
        iso_tensor *tensor = &made->tensor[i];
        tensor->dtype = array->dtype;
        tensor->shape.rank = array->rank;
        memcpy(tensor->shape.dim, array->dim, sizeof tensor->shape.dim);
        if (i < t->inputs)
            made->op.inputs[i] = tensor;
        else
            made->op.outputs[i - t->inputs] = tensor;
    }
}

/* The work divided between 3 threads: the bits of `want`. Returns whether the kernel could be divided. */
static inline bool check_division(const trial *t, const result *want)
{
    static iso_thread_pool *pool; /* until the process ends */
    if (!pool)
        CHECK(iso_thread_pool_create(3, true, &pool) == ISO_OK, "no threads");
    result r = *want;
    iso_fault fault = {0};
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = r.out,
                            .info = &step_info,
                            .fault = &fault};
    const iso_kernel *kernel = iso_backend_cpu()->find(t->op, &call);
    bool divided = false;
    for (int64_t wanted = 2; wanted < 9; wanted += 5) {
        trial_op made;
        iso_division division;
        make_op(t, &made);
        if (!(kernel->by_rows    ? iso_division_by_rows(&made.op, kernel, &call, 3, 0, wanted, &division)
              : kernel->run_part ? iso_division_by_parts(&made.op, kernel, &call, 3, wanted, &division)
                                 : iso_division_choose(&made.op, kernel, &call, 3, &division)))
            continue;
        for (int i = 0; i < t->outputs; i++) {
            r.out[i].data = room_for(&t->out[i], 0, &r.owner[i]);
            memset(r.out[i].data, 0xa5, bytes_of(&t->out[i]) + GUARD);
        }
        size_t scratch = iso_division_scratch(&division);
        call.scratch = aligned_alloc(64, (scratch + GUARD) / 64 * 64 + 64);
        ck_assert_ptr_nonnull(call.scratch);
        iso_division_run(&division, pool, kernel, &call);
        for (int k = 0; k < t->outputs; k++)
            CHECK(memcmp(r.out[k].data, want->out[k].data, bytes_of(&t->out[k])) == 0,
                  "%s, %s: kernel %s gave other bits in output %d when 3 threads divided it in %lld blocks",
                  describe(t), iso_isa_name(iso_cpu_isa()), kernel->name, k, (long long)division.n_blocks);
        check_guards(t, &r);
        CHECK(fault.code == ISO_FAULT_NONE, "%s: a fault", describe(t));
        free(call.scratch);
        free_result(t, &r);
        divided = true;
    }
    return divided;
}

/* `used` of each kernel that did it is raised, and `divided` if threads divided its work. */
static inline void check_trial(trial *t, const iso_kernel *const *kernels, int *used, int *divided)
{
    void *owner[MOST_ARRAYS], *moved_owner[MOST_ARRAYS];
    place_inputs(t, 0, NULL, owner);
    result want = run_trial(t, iso_backend_reference(), 0);
    result got = run_trial(t, iso_backend_cpu(), 0);
    compare(t, &want, &got);
    check_in_place(t, iso_backend_cpu(), &got);
    check_parts(t, &got);
    const bool was_divided = check_division(t, &got);
    if (t->by_rows)
        check_rows(t, &got);
    trial moved = *t;
    place_inputs(&moved, 192, t, moved_owner);
    result again = run_trial(&moved, iso_backend_cpu(), 320);
    compare_bits(t, &got, &again);
    for (int i = 0; kernels[i]; i++) {
        const bool did = strcmp(kernels[i]->op, t->op) == 0 && kernels[i]->name == got.kernel;
        used[i] += did;
        divided[i] += did && was_divided;
    }
    free_result(t, &want);
    free_result(t, &got);
    free_result(t, &again);
    free_all(owner, t->inputs);
    free_all(moved_owner, t->inputs);
}

#endif
