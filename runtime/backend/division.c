#include "runtime/backend/division.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "runtime/backend/fault.h"
#include "runtime/base/memory.h"
#include "runtime/graph/ops/list.h"

enum {
    LEAST_BYTES =
        1 << 16,          /* of the operands of a part: below, waking the threads costs more than they save */
    PARTS_PER_THREAD = 4, /* threads that are late leave some of theirs to others */
};

double iso_division_most_parts(double flops, double bytes)
{
    static const double block_flops = 256e6; /* of a block of a product (cpu/product.c) */
    return fmax(1, fmax(flops / block_flops, bytes / LEAST_BYTES));
}

/* ---- by rows ---- */

/* The dimension of an operand that has a factor, if a range of it is contiguous: the dimensions before it have one
 * element, or are taken one element at a time (`single`). -1: the operand does not have the factor. -2: a range of it
 * is not contiguous. */
static int dimension_of(const int8_t *factors, const iso_array *array, int factor, int single)
{
    bool contiguous = true;
    for (int d = 0; d < array->rank; d++) {
        if (factors[d] == factor)
            return contiguous ? d : -2;
        contiguous &= array->dim[d] == 1 || d == single;
    }
    return -1;
}

/* Whether element i of a dimension belongs to element i of the factor: parts do not overlap. */
static bool is_plain(const iso_array *array, uint8_t windows, int d, int64_t rows)
{
    return !(windows >> d & 1) && array->dim[d] == rows;
}

/* Adds a level that divides dimension d of output 0. */
static bool add_level(const iso_rule *rule, const iso_kernel_call *call, int d, iso_division *division)
{
    const int level = division->n_levels, factor = rule->output[0][d];
    const int64_t rows = call->out[0].dim[d];
    if (factor == ISO_WHOLE || rows == 0)
        return false;
    for (int k = 0; k < call->n_inputs; k++) {
        int at = dimension_of(rule->input[k], &call->in[k], factor, level > 0 ? division->in[k][0] : -1);
        if (at == -2 || (at >= 0 && !is_plain(&call->in[k], rule->input_windows[k], at, rows)))
            return false;
        division->in[k][level] = (int8_t)at;
    }
    for (int k = 0; k < call->n_outputs; k++) {
        int at = dimension_of(rule->output[k], &call->out[k], factor, level > 0 ? division->out[k][0] : -1);
        if (at < 0 || !is_plain(&call->out[k], rule->output_windows[k], at, rows))
            return false;
        division->out[k][level] = (int8_t)at;
    }
    division->rows[level] = division->parts[level] = rows;
    division->n_levels++;
    return true;
}

/* The first dimension of output 0, from `from` on, that has more than one element. */
static int next_dimension(const iso_array *out, int from)
{
    while (from < out->rank && out->dim[from] == 1)
        from++;
    return from;
}

/* Whether the kernel's operands are the op's, dimension by dimension (iso_operand_of). */
static bool follows_rule(const iso_op *op, const iso_kernel_call *call)
{
    for (int k = 0; k < call->n_inputs; k++)
        if (call->in[k].rank != op->inputs[k]->shape.rank)
            return false;
    for (int k = 0; k < call->n_outputs; k++)
        if (call->out[k].rank != op->outputs[k]->shape.rank)
            return false;
    return true;
}

static int64_t bytes_of(const iso_kernel_call *call)
{
    size_t bytes = 0;
    for (int k = 0; k < call->n_inputs; k++)
        bytes += iso_array_bytes(&call->in[k]);
    for (int k = 0; k < call->n_outputs; k++)
        bytes += iso_array_bytes(&call->out[k]);
    return (int64_t)bytes;
}

/* The part of an array in a level: elements [begin, end) of a dimension. */
static void narrow(iso_array *array, int d, int64_t begin, int64_t end)
{
    if (d < 0)
        return;
    int64_t stride = 1;
    for (int i = d + 1; i < array->rank; i++)
        stride *= array->dim[i];
    if (array->data) /* there is none while planning */
        array->data = (char *)array->data + (size_t)(begin * stride) * iso_dtype_size(array->dtype);
    array->dim[d] = end - begin;
    array->offset[d] += begin;
}

/* Leaves the first rows of a level, of one element of the level before. */
static void take_rows(iso_array *array, const int8_t *at, int level, int64_t rows)
{
    if (level > 0)
        narrow(array, at[0], 0, 1);
    narrow(array, at[level], 0, rows);
}

/* Scratch memory of a call of so many rows of a level. bytes: of the operands that the level divides. */
static int64_t rows_need(const iso_kernel *kernel, const iso_kernel_call *call, const iso_division *division,
                         int level, int64_t rows, int64_t *bytes)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call part = *call;
    memcpy(in, call->in, (size_t)call->n_inputs * sizeof *in);
    memcpy(out, call->out, (size_t)call->n_outputs * sizeof *out);
    part.in = in;
    part.out = out;
    *bytes = 0;
    for (int k = 0; k < call->n_inputs; k++) {
        take_rows(&in[k], division->in[k], level, rows);
        *bytes += division->in[k][level] < 0 ? 0 : (int64_t)iso_array_bytes(&in[k]);
    }
    for (int k = 0; k < call->n_outputs; k++) {
        take_rows(&out[k], division->out[k], level, rows);
        *bytes += (int64_t)iso_array_bytes(&out[k]);
    }
    return kernel->scratch ? (int64_t)kernel->scratch(&part) : 0;
}

/* The parts of a level, so that each has `least` bytes of the operands that it divides, and no fewer than it
 * prepares: the scratch memory that does not grow with the rows. */
static int64_t most_parts(const iso_kernel *kernel, const iso_kernel_call *call, int64_t least,
                          const iso_division *division, int level)
{
    int64_t bytes;
    if (least == 0)
        return INT64_MAX;
    const int64_t two = rows_need(kernel, call, division, level, 2, &bytes),
                  prepared = 2 * rows_need(kernel, call, division, level, 1, &bytes) - two;
    return bytes * division->rows[level] / (prepared > least ? prepared : least);
}

static bool divide_rows(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call,
                        int64_t least, int64_t wanted, iso_division *division)
{
    const iso_array *out = &call->out[0];
    int d = next_dimension(out, 0);
    iso_rule rule;
    iso_op_rule(op, &rule);
    if (!follows_rule(op, call) || d == out->rank || !add_level(&rule, call, d, division))
        return false;
    const int64_t most = most_parts(kernel, call, least, division, 0);
    wanted = wanted < most ? wanted : most;
    if (wanted < 2)
        return false;
    if (division->rows[0] >= wanted) {
        division->parts[0] = wanted;
    } else if ((d = next_dimension(out, d + 1)) < out->rank && add_level(&rule, call, d, division)) {
        int64_t each = (wanted + division->rows[0] - 1) / division->rows[0];
        const int64_t inner = most_parts(kernel, call, least, division, 1);
        each = each < inner ? each : inner > 1 ? inner : 1;
        division->parts[1] = each < division->rows[1] ? each : division->rows[1];
    }
    division->n_blocks = division->parts[0] * (division->n_levels > 1 ? division->parts[1] : 1);
    return division->n_blocks > 1;
}

static void narrow_call(const iso_division *division, int64_t block, const iso_kernel_call *call,
                        iso_array *in, iso_array *out)
{
    memcpy(in, call->in, (size_t)call->n_inputs * sizeof *in);
    memcpy(out, call->out, (size_t)call->n_outputs * sizeof *out);
    int64_t inner = division->n_blocks; /* blocks that have one part of this level in common */
    for (int level = 0; level < division->n_levels; level++) {
        const int64_t rows = division->rows[level], parts = division->parts[level];
        inner /= parts;
        const int64_t part = block / inner % parts;
        const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
        for (int k = 0; k < call->n_inputs; k++)
            narrow(&in[k], division->in[k][level], begin, end);
        for (int k = 0; k < call->n_outputs; k++)
            narrow(&out[k], division->out[k][level], begin, end);
    }
}

/* ---- both ---- */

static size_t room_of_thread(size_t scratch)
{
    return scratch ? iso_round_to_lines(scratch) + ISO_THREAD_GAP : 0;
}

bool iso_division_by_rows(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call,
                          int threads, int64_t least, int64_t wanted, iso_division *division)
{
    *division = (iso_division){.threads = threads};
    if (!divide_rows(op, kernel, call, least, wanted, division))
        return false;
    for (int64_t block = 0; kernel->scratch && block < division->n_blocks; block++) {
        iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
        iso_kernel_call part = *call;
        narrow_call(division, block, call, in, out);
        part.in = in;
        part.out = out;
        size_t room = room_of_thread(kernel->scratch(&part));
        division->scratch = room > division->scratch ? room : division->scratch;
    }
    return true;
}

bool iso_division_by_parts(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call,
                           int threads, int64_t wanted, iso_division *division)
{
    const iso_array *out = &call->out[0];
    if (!kernel->run_part || out->rank != 2 || call->n_outputs != 1 || iso_array_count(out) == 0)
        return false;
    const size_t own = kernel->part_scratch ? kernel->part_scratch(call) : 0,
                 all = kernel->scratch ? kernel->scratch(call) : 0;
    const int64_t rows = kernel->part_rows(call), part_rows = rows > 0 ? rows : 1;
    *division = (iso_division){.threads = threads,
                               .scratch = room_of_thread(own),
                               .part_rows = part_rows,
                               .n_parts = (out->dim[0] + part_rows - 1) / part_rows,
                               .shared = room_of_thread(all > own ? all - own : 0),
                               .adds = op->type == &iso_op_embedding_grad_add};
    division->n_blocks = division->n_parts < wanted ? division->n_parts : wanted;
    return division->n_blocks > 1;
}

bool iso_division_by_blocks(const iso_kernel *kernel, const iso_kernel_call *call, int threads,
                            iso_division *division)
{
    *division = (iso_division){.threads = threads, .n_blocks = kernel->blocks ? kernel->blocks(call) : 1};
    size_t (*scratch)(const iso_kernel_call *) =
        kernel->block_scratch ? kernel->block_scratch : kernel->scratch;
    division->scratch = room_of_thread(scratch ? scratch(call) : 0);
    division->shared = room_of_thread(kernel->shared ? kernel->shared(call) : 0);
    return division->n_blocks > 1;
}

bool iso_division_choose(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call, int threads,
                         iso_division *division)
{
    if (threads < 2)
        return false;
    const int64_t wanted = PARTS_PER_THREAD * (int64_t)threads, most = bytes_of(call) / LEAST_BYTES;
    if (kernel->by_rows && iso_division_by_rows(op, kernel, call, threads, LEAST_BYTES, wanted, division))
        return true;
    if (kernel->run_part)
        return iso_division_by_parts(op, kernel, call, threads, wanted < most ? wanted : most, division);
    return iso_division_by_blocks(kernel, call, threads, division);
}

size_t iso_division_scratch(const iso_division *division)
{
    return division->shared + division->scratch * (size_t)division->threads;
}

typedef struct division_run {
    const iso_division *division;
    const iso_kernel *kernel;
    const iso_kernel_call *call;
    pthread_mutex_t lock;
    int64_t faulty; /* the lowest block with a fault; -1: none */
    iso_fault fault;
} division_run;

/* Elements of faults count in the whole array. */
static void keep_fault(division_run *r, int64_t block, const iso_array *in, iso_fault *fault)
{
    if (fault->code == ISO_FAULT_INTEGER || fault->code == ISO_FAULT_REAL) {
        const iso_array *part = &in[fault->input], *whole = &r->call->in[fault->input];
        fault->element += ((char *)part->data - (char *)whole->data) / (int64_t)iso_dtype_size(whole->dtype);
    }
    pthread_mutex_lock(&r->lock);
    if (r->faulty < 0 || block < r->faulty) {
        r->faulty = block;
        r->fault = *fault;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Block `block` of a kernel with run_part. room: the thread's own. */
static void run_parts(const division_run *r, int64_t block, void *room)
{
    const iso_division *d = r->division;
    const iso_array *out = &r->call->out[0];
    const int64_t first = d->n_parts * block / d->n_blocks, end = d->n_parts * (block + 1) / d->n_blocks;
    for (int64_t i = first; i < end; i++) {
        const int64_t offset[] = {i * d->part_rows, 0}, left = out->dim[0] - offset[0];
        const int64_t extent[] = {left < d->part_rows ? left : d->part_rows, out->dim[1]};
        const size_t row = (size_t)out->dim[1] * iso_dtype_size(out->dtype);
        char *part = (char *)out->data + (size_t)offset[0] * row;
        const char *base = d->adds ? (const char *)r->call->in[0].data + (size_t)offset[0] * row : part;
        if (base != part)
            memcpy(part, base, (size_t)extent[0] * row);
        r->kernel->run_part(r->call, offset, extent, d->adds, part, room);
    }
}

static void set_memory(const iso_division *division, int thread, iso_kernel_call *call)
{
    char *memory = call->scratch;
    if (!memory)
        return;
    call->shared = division->shared ? memory : NULL;
    call->scratch = memory + division->shared + (size_t)thread * division->scratch;
}

static void run_block(void *arg, int64_t block, int thread)
{
    division_run *r = arg;
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call part = *r->call;
    iso_fault fault;
    fault.lock = 0;
    fault.code = ISO_FAULT_NONE;
    part.fault = &fault;
    set_memory(r->division, thread, &part);
    if (r->division->part_rows > 0) {
        run_parts(r, block, part.scratch);
        return;
    }
    if (r->division->n_levels > 0) {
        narrow_call(r->division, block, r->call, in, out);
        part.in = in;
        part.out = out;
        r->kernel->run(&part);
    } else {
        r->kernel->run_block(&part, block);
    }
    if (iso_fault_raised(&fault))
        keep_fault(r, block, part.in, &fault);
}

void iso_division_run(const iso_division *division, iso_thread_pool *pool, const iso_kernel *kernel,
                      const iso_kernel_call *call)
{
    division_run r = {.division = division,
                      .kernel = kernel,
                      .call = call,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .faulty = -1};
    if (division->part_rows > 0)
        kernel->prepare_parts(call);
    iso_parallel_for(pool, division->n_blocks, run_block, &r);
    if (division->n_levels == 0 && division->part_rows == 0 && kernel->finish) {
        iso_kernel_call rest = *call;
        set_memory(division, 0, &rest);
        kernel->finish(&rest);
    }
    if (r.faulty >= 0 && !iso_fault_raised(call->fault))
        *call->fault = r.fault;
}
