/* Kernels of mixtures of experts in float32: the choices are sorted by expert, and the rows that chose one are
 * gathered and multiplied by its kernels, a block of rows at a time. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/matmul_impl.h"
#include "runtime/backend/experts.h"
#include "runtime/base/memory.h"

enum {
    MOST_ROWS = 512 /* of a block: its products are then as fast as longer ones, and its memory is bounded */
};

typedef struct workplace {
    iso_experts e;
    const iso_kernel_call *call;
    int64_t rows;         /* of a block, at most */
    int64_t *begin;       /* [experts of the slot + 1] where the list of each begins */
    int64_t *list;        /* the choices, by expert */
    float *x, *dy;        /* [rows, d] */
    float *gate, *up, *a; /* [rows, hidden] */
    float *act, *da;      /* the same, of the gradient */
    float *sum;           /* [d, hidden]: a block's part of the gradient of a kernel */
    void *product;        /* scratch memory of products */
} workplace;

/* ---- memory ---- */

static char *take_bytes(char *memory, size_t *used, size_t bytes)
{
    char *taken = memory ? memory + *used : NULL;
    *used += iso_round_to_lines(bytes + 64); /* inputs may be read a line past their end */
    return taken;
}

static float *take_floats(char *memory, size_t *used, int64_t count)
{
    return (float *)(void *)take_bytes(memory, used, (size_t)count * sizeof(float));
}

static int64_t *take_numbers(char *memory, size_t *used, int64_t count)
{
    return (int64_t *)(void *)take_bytes(memory, used, (size_t)count * sizeof(int64_t));
}

/* The most that a product of a block needs, with any number of rows. */
static size_t most_product_scratch(int64_t rows, const iso_experts *e)
{
    const iso_product down = {.m = rows, .n = e->hidden, .k = e->d, .transpose_b = true},
                      up = {.m = rows, .n = e->d, .k = e->hidden, .transpose_b = true};
    const size_t a = iso_product_scratch(&down), b = iso_product_scratch(&up);
    return a > b ? a : b;
}

static size_t experts_lay_out(workplace *w, const iso_kernel_call *call, char *memory)
{
    const iso_experts *e = &w->e;
    size_t used = 0;
    w->call = call;
    w->e = iso_experts_of(call);
    w->rows = e->choice_count < MOST_ROWS ? e->choice_count : MOST_ROWS;
    w->begin = take_numbers(memory, &used, e->locally + 1);
    w->list = take_numbers(memory, &used, e->choice_count);
    w->x = take_floats(memory, &used, w->rows * e->d);
    w->gate = take_floats(memory, &used, e->gate ? w->rows * e->hidden : 0);
    w->up = take_floats(memory, &used, w->rows * e->hidden);
    w->a = take_floats(memory, &used, w->rows * e->hidden);
    if (e->dy) {
        w->dy = take_floats(memory, &used, w->rows * e->d);
        w->act = take_floats(memory, &used, w->rows * e->hidden);
        w->da = take_floats(memory, &used, w->rows * e->hidden);
        w->sum = take_floats(memory, &used, e->choice_count > w->rows ? e->d * e->hidden : 0);
    }
    w->product = take_bytes(memory, &used, most_product_scratch(w->rows, e));
    return used;
}

static size_t experts_scratch(const iso_kernel_call *call)
{
    workplace w = {.rows = 0};
    return experts_lay_out(&w, call, NULL);
}

static bool experts_fits(const iso_kernel_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (i != ISO_EXPERTS_CHOICE && call->in[i].dtype != ISO_F32)
            return false;
    return call->out[0].dtype == ISO_F32;
}

/* ---- rows ---- */

/* Sorts the choices by counting; those of an expert stay in order. */
static void sort_choices(const workplace *w)
{
    const iso_experts *e = &w->e;
    memset(w->begin, 0, (size_t)(e->locally + 1) * sizeof *w->begin);
    for (int64_t i = 0; i < e->choice_count; i++) {
        const int64_t expert = iso_experts_local(e, i);
        if (expert >= 0)
            w->begin[expert]++;
        else if (iso_index_read(e->choice, i, e->experts) < 0)
            iso_index_fault(w->call, ISO_EXPERTS_CHOICE, i, e->experts);
    }
    for (int64_t i = 0, before = 0; i <= e->locally; i++) { /* where each ends */
        before += w->begin[i];
        w->begin[i] = before;
    }
    for (int64_t i = e->choice_count - 1; i >= 0; i--) {
        const int64_t expert = iso_experts_local(e, i);
        if (expert >= 0)
            w->list[--w->begin[expert]] = i;
    }
}

/* Some rows that chose one expert: the choices list[0], ..., list[rows - 1]. */
typedef struct block {
    int64_t expert, rows;
    bool first; /* of the expert's */
    const int64_t *list;
} block;

/* The block of an expert that begins with element i of the list. */
static block block_at(const workplace *w, int64_t expert, int64_t i)
{
    const int64_t left = w->begin[expert + 1] - i;
    return (block){expert, left < w->rows ? left : w->rows, i == w->begin[expert], w->list + i};
}

static void each_block(const workplace *w, int64_t expert, void (*run)(const workplace *w, const block *b))
{
    for (int64_t i = w->begin[expert]; i < w->begin[expert + 1]; i += w->rows) {
        const block b = block_at(w, expert, i);
        run(w, &b);
    }
}

static void gather(const workplace *w, const block *b, const iso_array *from, float *to)
{
    const int64_t d = w->e.d;
    for (int64_t i = 0; i < b->rows; i++)
        memcpy(to + i * d, (const float *)from->data + b->list[i] / w->e.k * d, (size_t)d * sizeof *to);
}

/* Adds a choice's result to that of its row. */
static void add_row(const iso_experts *e, int64_t choice, const float *from, const iso_array *to)
{
    float *sum = (float *)to->data + choice / e->k * e->d;
    iso_cpu_functions()->sum_f32(e->d, sum, from, sum);
}

/* Adds the results of choices to those of their rows; or leaves them for join_rows. */
static void give_rows(const workplace *w, const block *b, const float *from, const iso_array *to)
{
    const int64_t d = w->e.d;
    float *shared = w->call->shared;
    for (int64_t i = 0; i < b->rows; i++)
        if (shared)
            memcpy(shared + b->list[i] * d, from + i * d, (size_t)d * sizeof *from);
        else
            add_row(&w->e, b->list[i], from + i * d, to);
}

/* Multiplies each row by its share. */
static void scale_rows(const workplace *w, const block *b, int64_t columns, float *x)
{
    const float *share = w->e.share->data;
    for (int64_t i = 0; i < b->rows; i++)
        iso_cpu_functions()->affine_f32(columns, share[b->list[i]], 0, x + i * columns, x + i * columns);
}

static void multiply_elements(const workplace *w, const block *b, const float *x, const float *y, float *z)
{
    iso_cpu_functions()->binary_f32(ISO_CPU_MULTIPLY, b->rows * w->e.hidden, x, 1, y, 1, z);
}

static float *kernel_of(const workplace *w, const block *b, const iso_array *kernels)
{
    return (float *)kernels->data + b->expert * w->e.d * w->e.hidden;
}

/* c [rows, n] = a [rows, k] kernel, or kernel' */
static void multiply_rows(const workplace *w, const block *b, int64_t n, int64_t k, const float *a,
                          const iso_array *kernels, bool transpose, float *c)
{
    const iso_product p = {.m = b->rows, .n = n, .k = k, .transpose_b = transpose};
    iso_product_run(w->call, &p, a, kernel_of(w, b, kernels), c, w->product);
}

/* ---- forward ---- */

/* gate, up, and activation(gate) or activation(up) in `act` */
static void activate_rows(const workplace *w, const block *b, float *act)
{
    const iso_experts *e = &w->e;
    gather(w, b, e->x, w->x);
    if (e->gate)
        multiply_rows(w, b, e->hidden, e->d, w->x, e->gate, false, w->gate);
    multiply_rows(w, b, e->hidden, e->d, w->x, e->up, false, w->up);
    iso_cpu_functions()->unary_f32(e->activation, 0, b->rows * e->hidden, e->gate ? w->gate : w->up, act);
}

static void forward_block(const workplace *w, const block *b)
{
    const iso_experts *e = &w->e;
    activate_rows(w, b, w->a);
    if (e->gate)
        multiply_elements(w, b, w->a, w->up, w->a);
    multiply_rows(w, b, e->d, e->hidden, w->a, e->down, false, w->x);
    scale_rows(w, b, e->d, w->x);
    give_rows(w, b, w->x, &w->call->out[0]);
}

static void experts_run(const iso_kernel_call *call)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    memset(call->out[0].data, 0, iso_array_bytes(&call->out[0]));
    sort_choices(&w);
    for (int64_t expert = 0; expert < w.e.locally; expert++)
        each_block(&w, expert, forward_block);
}

/* ---- divided between threads: each block sorts the choices, which costs little ---- */

/* Whether the work is enough for several threads. */
static bool experts_are_divided(const iso_experts *e)
{
    static const double least = 1e6; /* multiplications */
    return (double)e->choice_count * (double)e->d * (double)e->hidden >= least && e->locally > 0;
}

/* The results of all choices, before they are added to those of their rows. */
static size_t experts_shared(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    return (size_t)(e.choice_count * e.d) * sizeof(float);
}

/* The most blocks that there can be. */
static int64_t experts_blocks(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    return experts_are_divided(&e) ? e.locally + e.choice_count / MOST_ROWS : 1;
}

/* Block `number` of all experts, if there is one. */
static void experts_run_block(const iso_kernel_call *call, int64_t number)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    sort_choices(&w);
    for (int64_t expert = 0; expert < w.e.locally; expert++) {
        const int64_t blocks = (w.begin[expert + 1] - w.begin[expert] + w.rows - 1) / w.rows;
        if (number >= 0 && number < blocks) {
            const block b = block_at(&w, expert, w.begin[expert] + number * w.rows);
            forward_block(&w, &b);
        }
        number -= blocks;
    }
}

/* Adds the results of all choices to those of their rows, in the order of the list. */
static void join_rows(const workplace *w, const iso_array *to)
{
    memset(to->data, 0, iso_array_bytes(to));
    for (int64_t i = 0; i < w->begin[w->e.locally]; i++)
        add_row(&w->e, w->list[i], (const float *)w->call->shared + w->list[i] * w->e.d, to);
}

static void experts_finish(const iso_kernel_call *call)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    sort_choices(&w);
    join_rows(&w, &call->out[0]);
}

/* ---- gradient ---- */

/* a' c, a [rows, m], c [rows, n], is written to or added to the gradient of the expert's kernel. */
static void kernel_gradient(const workplace *w, const block *b, int64_t m, int64_t n, const float *a,
                            const float *c, const iso_array *gradients)
{
    const iso_product p = {.m = m, .n = n, .k = b->rows, .transpose_a = true};
    float *to = kernel_of(w, b, gradients);
    iso_product_run(w->call, &p, a, c, b->first ? to : w->sum, w->product);
    if (!b->first)
        iso_cpu_functions()->sum_f32(m * n, to, w->sum, to);
}

/* The product of a and of what dy gives to it. */
static void share_gradients(const workplace *w, const block *b)
{
    const int64_t hidden = w->e.hidden;
    for (int64_t i = 0; i < b->rows; i++) {
        double sum = 0;
        for (int64_t j = i * hidden; j < (i + 1) * hidden; j++)
            sum += (double)w->a[j] * w->da[j];
        ((float *)w->e.dshare->data)[b->list[i]] = (float)sum;
    }
}

/* From da, the gradient of a: those of gate and up, in da and act; without a gate, that of up in da. */
static void pass_activation(const workplace *w, const block *b)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    const iso_experts *e = &w->e;
    const int64_t n = b->rows * e->hidden;
    if (!e->gate) {
        f->unary_gradient_f32(e->activation, 0, n, w->up, w->da, w->da);
        return;
    }
    multiply_elements(w, b, w->act, w->da, w->act);
    multiply_elements(w, b, w->da, w->up, w->da);
    f->unary_gradient_f32(e->activation, 0, n, w->gate, w->da, w->da);
}

/* The gradients of a kernel [d, hidden], and in dx of x through it. */
static void through_kernel(const workplace *w, const block *b, const iso_array *kernels, const float *dh,
                           const iso_array *gradients, float *dx)
{
    kernel_gradient(w, b, w->e.d, w->e.hidden, w->x, dh, gradients);
    multiply_rows(w, b, w->e.d, w->e.hidden, dh, kernels, true, dx);
}

static void backward_block(const workplace *w, const block *b)
{
    const iso_experts *e = &w->e;
    activate_rows(w, b, w->act);
    if (e->gate)
        multiply_elements(w, b, w->act, w->up, w->a);
    else
        memcpy(w->a, w->act, (size_t)(b->rows * e->hidden) * sizeof *w->a);
    gather(w, b, e->dy, w->dy);
    multiply_rows(w, b, e->hidden, e->d, w->dy, e->down, true, w->da);
    share_gradients(w, b);
    scale_rows(w, b, e->hidden, w->a);
    scale_rows(w, b, e->hidden, w->da);
    kernel_gradient(w, b, e->hidden, e->d, w->a, w->dy, e->ddown);
    pass_activation(w, b);
    if (e->gate)
        through_kernel(w, b, e->gate, w->da, e->dgate, w->dy);
    through_kernel(w, b, e->up, e->gate ? w->act : w->da, e->dup, e->gate ? w->x : w->dy);
    if (e->gate)
        iso_cpu_functions()->sum_f32(b->rows * e->d, w->dy, w->x, w->dy);
    give_rows(w, b, w->dy, e->dx);
}

/* The gradients of an expert's kernels are 0 if no row chose it. */
static void clear_kernels(const workplace *w, int64_t expert)
{
    const iso_kernel_call *call = w->call;
    const size_t kernel = (size_t)(w->e.d * w->e.hidden) * sizeof(float);
    for (int i = 2; i < call->n_outputs && w->begin[expert] == w->begin[expert + 1]; i++)
        memset((char *)call->out[i].data + (size_t)expert * kernel, 0, kernel);
}

/* A slot has no gradient for the shares of other slots' experts. */
static void clear_shares(const workplace *w)
{
    for (int64_t i = 0; i < w->e.choice_count; i++)
        if (iso_experts_local(&w->e, i) < 0)
            ((float *)w->e.dshare->data)[i] = 0;
}

static void experts_run_gradient_block(const iso_kernel_call *call, int64_t expert)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    sort_choices(&w);
    clear_kernels(&w, expert);
    each_block(&w, expert, backward_block);
}

/* An expert: the gradients of its kernels are sums over its blocks of rows, in their order. */
static int64_t experts_gradient_blocks(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    return experts_are_divided(&e) ? e.locally : 1;
}

static void experts_finish_gradient(const iso_kernel_call *call)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    sort_choices(&w);
    clear_shares(&w);
    join_rows(&w, w.e.dx);
}

static void experts_run_gradient(const iso_kernel_call *call)
{
    workplace w = {.rows = 0};
    experts_lay_out(&w, call, call->scratch);
    sort_choices(&w);
    memset(w.e.dx->data, 0, iso_array_bytes(w.e.dx));
    clear_shares(&w);
    for (int64_t expert = 0; expert < w.e.locally; expert++) {
        clear_kernels(&w, expert);
        each_block(&w, expert, backward_block);
    }
}

const iso_kernel iso_cpu_experts = {.op = "experts",
                                    .name = "by expert",
                                    .fits = experts_fits,
                                    .scratch = experts_scratch,
                                    .run = experts_run,
                                    .blocks = experts_blocks,
                                    .run_block = experts_run_block,
                                    .shared = experts_shared,
                                    .finish = experts_finish};
const iso_kernel iso_cpu_experts_grad = {.op = "experts_grad",
                                         .name = "by expert",
                                         .fits = experts_fits,
                                         .scratch = experts_scratch,
                                         .run = experts_run_gradient,
                                         .blocks = experts_gradient_blocks,
                                         .run_block = experts_run_gradient_block,
                                         .shared = experts_shared,
                                         .finish = experts_finish_gradient};
