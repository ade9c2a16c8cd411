/* Products of bfloat16 by oneDNN's primitive "matmul". Its sums are in float32, in an order that depends on the
 * shape alone: the number of threads is 1. Cutting the rows of a transposed a into several calls changes the bits,
 * so that a slot's product has the same blocks on any number of threads (product.h). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cpu/onednn.h"

#if ISO_WITH_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#if ISO_WITH_DNNL && DNNL_VERSION_MAJOR == 2

/* The memory objects of one execution at a time; threads take a set each and give it back. */
typedef struct arguments {
    dnnl_memory_t a, b, c, scratch;
    dnnl_stream_t stream;
    struct arguments *next;
} arguments;

/* A product of one shape. Made when it is planned, and kept to the end of the process: as oneDNN's own memory it
 * belongs to no model, and is not accounted. */
typedef struct primitive {
    iso_product product;
    iso_dtype to;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t executable; /* NULL before the first execution */
    arguments *free;
    struct primitive *next;
} primitive;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;
static primitive *primitives;

static bool bf16_instructions(void)
{
    unsigned needed = (unsigned)dnnl_cpu_isa_avx512_core_bf16;
    return ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed &&
           dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success;
}

static bool usable;
static void find_out(void)
{
    usable = bf16_instructions();
}

bool iso_onednn_has_bf16(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (iso_cpu_isa() < ISO_ISA_AVX512_BF16)
        return false;
    pthread_once(&once, find_out);
    return usable;
}

/* Describes a matrix [rows, columns], or the memory of its transpose, whose rows are `step` elements apart. */
static dnnl_status_t describe_matrix(dnnl_memory_desc_t *desc, iso_dtype dtype, int64_t rows, int64_t columns,
                                     bool transposed, int64_t step)
{
    dnnl_dims_t dims = {rows, columns}, steps = {transposed ? 1 : step, transposed ? step : 1};
    return dnnl_memory_desc_init_by_strides(desc, 2, dims, dtype == ISO_BF16 ? dnnl_bf16 : dnnl_f32, steps);
}

static dnnl_primitive_desc_t make_description(const iso_product *p, iso_dtype to)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t product;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    if (describe_matrix(&a, ISO_BF16, p->m, p->k, p->transpose_a, iso_product_lda(p)) == dnnl_success &&
        describe_matrix(&b, ISO_BF16, p->k, p->n, p->transpose_b, iso_product_ldb(p)) == dnnl_success &&
        describe_matrix(&c, to, p->m, p->n, false, iso_product_ldc(p)) == dnnl_success &&
        dnnl_matmul_desc_init(&product, &a, &b, NULL, &c) == dnnl_success &&
        dnnl_primitive_attr_create(&attributes) == dnnl_success &&
        dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) == dnnl_success &&
        dnnl_primitive_desc_create(&description, &product, attributes, engine, NULL) != dnnl_success)
        description = NULL;
    dnnl_primitive_attr_destroy(attributes);
    return description;
}

static bool is_of(const primitive *made, const iso_product *p, iso_dtype to)
{
    const iso_product *q = &made->product;
    return q->m == p->m && q->n == p->n && q->k == p->k && q->transpose_a == p->transpose_a &&
           q->transpose_b == p->transpose_b && iso_product_lda(q) == iso_product_lda(p) &&
           iso_product_ldb(q) == iso_product_ldb(p) && iso_product_ldc(q) == iso_product_ldc(p) &&
           made->to == to;
}

static primitive *make_primitive(const iso_product *p, iso_dtype to)
{
    int threads = iso_onednn_threads_begin();
    dnnl_primitive_desc_t description = make_description(p, to);
    iso_onednn_threads_end(threads);
    primitive *made = description ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        if (description)
            dnnl_primitive_desc_destroy(description);
        return NULL;
    }
    *made = (primitive){.product = *p, .to = to, .description = description, .next = primitives};
    return primitives = made;
}

/* NULL: oneDNN or memory failed. */
static primitive *primitive_of(const iso_product *p, iso_dtype to)
{
    pthread_mutex_lock(&lock);
    primitive *made = primitives;
    while (made && !is_of(made, p, to))
        made = made->next;
    if (!made)
        made = make_primitive(p, to);
    pthread_mutex_unlock(&lock);
    return made;
}

static const dnnl_memory_desc_t *memory_of(const primitive *made, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(made->description, what, 0);
}

size_t iso_onednn_bf16_scratch(const iso_product *product, iso_dtype to)
{
    const primitive *made = primitive_of(product, to);
    return made ? dnnl_memory_desc_get_size(memory_of(made, dnnl_query_scratchpad_md)) : 0;
}

static void destroy_arguments(arguments *set)
{
    dnnl_memory_destroy(set->a);
    dnnl_memory_destroy(set->b);
    dnnl_memory_destroy(set->c);
    dnnl_memory_destroy(set->scratch);
    dnnl_stream_destroy(set->stream);
    free(set);
}

static bool make_memory(const primitive *made, dnnl_query_t what, dnnl_memory_t *memory)
{
    return dnnl_memory_create(memory, memory_of(made, what), engine, DNNL_MEMORY_NONE) == dnnl_success;
}

static arguments *make_arguments(const primitive *made)
{
    arguments *set = calloc(1, sizeof *set);
    if (set && make_memory(made, dnnl_query_src_md, &set->a) &&
        make_memory(made, dnnl_query_weights_md, &set->b) && make_memory(made, dnnl_query_dst_md, &set->c) &&
        make_memory(made, dnnl_query_scratchpad_md, &set->scratch) &&
        dnnl_stream_create(&set->stream, engine, dnnl_stream_default_flags) == dnnl_success)
        return set;
    if (set)
        destroy_arguments(set);
    return NULL;
}

/* A set of arguments, with the primitive executable; NULL: oneDNN or memory failed. */
static arguments *take_arguments(primitive *made)
{
    pthread_mutex_lock(&lock);
    if (!made->executable && dnnl_primitive_create(&made->executable, made->description) != dnnl_success)
        made->executable = NULL;
    arguments *set = made->executable ? made->free : NULL;
    if (set)
        made->free = set->next;
    else if (made->executable)
        set = make_arguments(made);
    pthread_mutex_unlock(&lock);
    return set;
}

static void give_arguments(primitive *made, arguments *set)
{
    pthread_mutex_lock(&lock);
    set->next = made->free;
    made->free = set;
    pthread_mutex_unlock(&lock);
}

static bool execute(const primitive *made, const arguments *set, const void *a, const void *b, void *c,
                    void *scratch)
{
    dnnl_exec_arg_t list[] = {{DNNL_ARG_SRC, set->a},
                              {DNNL_ARG_WEIGHTS, set->b},
                              {DNNL_ARG_DST, set->c},
                              {DNNL_ARG_SCRATCHPAD, set->scratch}};
    return dnnl_memory_set_data_handle(set->a, (void *)a) == dnnl_success &&
           dnnl_memory_set_data_handle(set->b, (void *)b) == dnnl_success &&
           dnnl_memory_set_data_handle(set->c, c) == dnnl_success &&
           dnnl_memory_set_data_handle(set->scratch, scratch) == dnnl_success &&
           dnnl_primitive_execute(made->executable, set->stream, sizeof list / sizeof *list, list) ==
               dnnl_success &&
           dnnl_stream_wait(set->stream) == dnnl_success;
}

bool iso_onednn_bf16_gemm(const iso_product *product, const uint16_t *a, const uint16_t *b, iso_dtype to,
                          void *c, void *scratch)
{
    int threads = iso_onednn_threads_begin();
    primitive *made = primitive_of(product, to);
    arguments *set = made ? take_arguments(made) : NULL;
    bool done = set && execute(made, set, a, b, c, scratch);
    if (set)
        give_arguments(made, set);
    iso_onednn_threads_end(threads);
    return done;
}
#else
bool iso_onednn_has_bf16(void)
{
    return false;
}

size_t iso_onednn_bf16_scratch(const iso_product *product, iso_dtype to)
{
    (void)product, (void)to;
    return 0;
}

bool iso_onednn_bf16_gemm(const iso_product *product, const uint16_t *a, const uint16_t *b, iso_dtype to,
                          void *c, void *scratch)
{
    (void)product, (void)a, (void)b, (void)to, (void)c, (void)scratch;
    return false;
}
#endif
