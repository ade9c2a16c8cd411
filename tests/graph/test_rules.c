/* Ranks: 1. What the sharding rules promise, for every op in the list: run on the parts that a rule allows
 * and put together as it says, a kernel gives what it gives on the whole. And linear means linear, in place
 * means the same. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/run_tests.h"
#include "tests/support/samples.h"

/* An op of a sample with its rule and the arrays of a whole run. */
typedef struct whole_run {
    sample_case c;
    iso_rule rule;
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    const struct kernels *with;
} whole_run;

/* Plain kernels in float64, and those that networks run with. */
typedef struct kernels {
    const iso_backend *(*backend)(void);
    iso_dtype dtype;
    double tolerance;
} kernels;
static const kernels in_float64 = {iso_backend_reference, ISO_F64, 1e-12},
                     in_float32 = {iso_backend_cpu, ISO_F32, 1e-5};

static void whole_begin(whole_run *w, const sample *from, const kernels *with)
{
    w->with = with;
    sample_begin(&w->c, from, with->backend(), with->dtype);
    iso_op_rule(w->c.op, &w->rule);
    for (int i = 0; i < w->c.op->n_inputs; i++)
        interpreter_get(w->c.in, w->c.op->inputs[i]);
    interpreter_get(w->c.in, w->c.op->outputs[0]);
    for (int i = 0; i < w->c.op->n_inputs; i++)
        w->in[i] = *interpreter_get(w->c.in, w->c.op->inputs[i]);
    for (int i = 0; i < w->c.op->n_outputs; i++)
        w->out[i] = *interpreter_get(w->c.in, w->c.op->outputs[i]);
}

static void run(whole_run *w, const iso_array *in, iso_array *out)
{
    iso_fault fault = {0};
    run_op(w->with->backend(), w->c.op, in, out, &w->c.in->info, &fault);
    ck_assert_msg(fault.code == ISO_FAULT_NONE, "%s: %s", w->c.from->op, fault.text);
}

static void check_same(const whole_run *w, const iso_array *want, const iso_array *have, const char *how)
{
    double largest = 1;
    for (int64_t i = 0, n = array_count(want); i < n; i++)
        largest = fmax(largest, fabs(array_get(want, i)));
    for (int64_t i = 0, n = array_count(want); i < n; i++)
        ck_assert_msg(fabs(array_get(want, i) - array_get(have, i)) <= w->with->tolerance * largest,
                      "%s, %s: element %lld is %.17g, on the whole %.17g", w->c.from->op, how, (long long)i,
                      array_get(have, i), array_get(want, i));
}

/* ---- parts ---- */

/* What an operand's dimensions run over. */
typedef struct operand {
    const iso_array *whole;
    const int8_t *dims;
    uint8_t windows;
} operand;

static operand operand_of(const whole_run *w, int i)
{
    int inputs = w->c.op->n_inputs, o = i - inputs;
    return i < inputs ? (operand){&w->in[i], w->rule.input[i], w->rule.input_windows[i]}
                      : (operand){&w->out[o], w->rule.output[o], w->rule.output_windows[o]};
}

/* The extent of a factor, from all dimensions that run over it, which must agree; 0 where none does. */
static int64_t factor_extent(const whole_run *w, int factor)
{
    int64_t extent = 0;
    for (int i = 0; i < w->c.op->n_inputs + w->c.op->n_outputs; i++) {
        operand o = operand_of(w, i);
        for (int d = 0; d < o.whole->rank; d++) {
            if (o.dims[d] != factor)
                continue;
            int64_t here = o.windows >> d & 1 ? w->rule.window[factor].positions : o.whole->dim[d];
            ck_assert_msg(extent == 0 || extent == here, "%s: factor %d has extents %lld and %lld",
                          w->c.from->op, factor, (long long)extent, (long long)here);
            extent = here;
        }
    }
    return extent;
}

/* How an operand's dimension is cut by a factor, windows by places. `roomy`: cut as if there were no window,
 * which a part must put up with that holds what it needs. */
static void cut_dimension(const whole_run *w, const operand *o, int d, int parts, int part, bool roomy,
                          iso_box *box)
{
    int factor = o->dims[d];
    int64_t n = o->whole->dim[d], first, count;
    if (!(o->windows >> d & 1) || roomy) {
        iso_part_range(n, parts, part, &box->offset[d], &box->extent[d]);
        return;
    }
    const iso_sliding_window *window = &w->rule.window[factor];
    iso_part_range(window->positions, parts, part, &first, &count);
    iso_sliding_window_covers(window, n, first, count, &box->offset[d], &box->extent[d]);
}

static iso_array part_of(const whole_run *w, int operand_number, int factor, int parts, int part, bool roomy)
{
    operand o = operand_of(w, operand_number);
    iso_box box = {.rank = o.whole->rank};
    for (int d = 0; d < o.whole->rank; d++) {
        box.extent[d] = o.whole->dim[d];
        if (o.dims[d] == factor)
            cut_dimension(w, &o, d, parts, part, roomy, &box);
    }
    return array_cut(o.whole, &box);
}

static bool has(const int8_t *dims, int rank, int factor)
{
    for (int d = 0; d < rank; d++)
        if (dims[d] == factor)
            return true;
    return false;
}

/* Adds the elements of a part to those of the whole. */
static void add_part(iso_array *all, const iso_array *part)
{
    iso_box box = {.rank = part->rank};
    iso_shape shape = {.rank = all->rank};
    for (int d = 0; d < part->rank; d++) {
        box.offset[d] = part->offset[d];
        box.extent[d] = part->dim[d];
        shape.dim[d] = all->dim[d];
    }
    for (int64_t i = 0; i < iso_box_count(&box); i++) {
        int64_t to = iso_box_global_index(&box, &shape, i);
        array_set(all, to, array_get(all, to) + array_get(part, i));
    }
}

/* Puts a part where it belongs, or combines it with those before it where its output lacks the factor or the
 * parts overlap. */
static void combine(const whole_run *w, int output, int factor, bool first, iso_array *all,
                    const iso_array *part)
{
    const iso_backend *backend = iso_backend_reference();
    if (w->rule.output_windows[output])
        add_part(all, part);
    else if (has(w->rule.output[output], all->rank, factor) || first)
        array_paste(all, part);
    else if (w->rule.contract_max)
        backend->maximum(all->dtype, array_count(all), all->data, part->data, all->data, NULL);
    else
        backend->sum(all->dtype, array_count(all), all->data, part->data, all->data, NULL);
}

static bool by_window(const whole_run *w, int factor)
{
    return w->rule.window[factor].size > 0;
}

static void run_part(whole_run *w, int factor, int parts, int part, bool roomy, iso_array *all)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    int inputs = w->c.op->n_inputs;
    for (int i = 0; i < inputs; i++)
        in[i] = part_of(w, i, factor, parts, part, roomy);
    for (int i = 0; i < w->c.op->n_outputs; i++)
        out[i] = part_of(w, inputs + i, factor, parts, part, roomy);
    run(w, in, out);
    for (int i = 0; i < w->c.op->n_outputs; i++) {
        combine(w, i, factor, part == 0, &all[i], &out[i]);
        array_free(&out[i]);
    }
    for (int i = 0; i < inputs; i++)
        array_free(&in[i]);
}

/* Whether parts of x hold what the same parts of the places read, though they are cut without the window. */
static bool may_be_roomy(const whole_run *w, int factor, int parts)
{
    for (int i = 0; i < w->c.op->n_inputs + w->c.op->n_outputs; i++) {
        operand o = operand_of(w, i);
        for (int d = 0; d < o.whole->rank; d++)
            for (int part = 0; o.dims[d] == factor && o.windows >> d & 1 && part < parts; part++) {
                int64_t begin, extent, first, count, from, reads;
                iso_part_range(o.whole->dim[d], parts, part, &begin, &extent);
                iso_part_range(w->rule.window[factor].positions, parts, part, &first, &count);
                iso_sliding_window_reads(&w->rule.window[factor], o.whole->dim[d], first, count, &from,
                                         &reads);
                if (reads > 0 && (from < begin || from + reads > begin + extent))
                    return false;
            }
    }
    return by_window(w, factor);
}

/* More parts than elements: the last ones are empty. */
static void check_factor(whole_run *w, int factor, int parts, bool roomy)
{
    iso_array all[ISO_MAX_OUTPUTS];
    char how[64];
    snprintf(how, sizeof how, "factor %d in %d %sparts", factor, parts, roomy ? "roomy " : "");
    for (int i = 0; i < w->c.op->n_outputs; i++)
        all[i] = array_create(w->out[i].dtype, w->out[i].rank, w->out[i].dim);
    for (int part = 0; part < parts; part++)
        run_part(w, factor, parts, part, roomy, all);
    for (int i = 0; i < w->c.op->n_outputs; i++) {
        check_same(w, &w->out[i], &all[i], how);
        array_free(&all[i]);
    }
}

/* even and uneven, some empty (no sample has a dimension of more than 12) */
static const int part_counts[] = {1, 2, 3, 4, 5, 8, 13};
enum { PART_COUNTS = sizeof part_counts / sizeof *part_counts };

static void check_parts(const kernels *with)
{
    int windows = 0, roomy = 0;
    for (int i = 0; sample_at(i); i++) {
        whole_run w;
        whole_begin(&w, sample_at(i), with);
        ck_assert_int_le(w.rule.n_factors, ISO_MAX_FACTORS);
        for (int factor = 0; factor < w.rule.n_factors; factor++)
            for (int k = 0; k < PART_COUNTS && factor_extent(&w, factor) > 0; k++) {
                check_factor(&w, factor, part_counts[k], false);
                windows += by_window(&w, factor);
                if (may_be_roomy(&w, factor, part_counts[k]))
                    check_factor(&w, factor, part_counts[k], true), roomy++;
            }
        sample_end(&w.c);
    }
    ck_assert_int_gt(windows, 100);
    ck_assert_int_gt(roomy, 5);
}

START_TEST(parts_make_the_whole)
{
    check_parts(&in_float64);
}
END_TEST

START_TEST(parts_make_the_whole_in_float32)
{
    check_parts(&in_float32);
}
END_TEST

/* ---- linearity: f(x + dx) = f(x) + f(dx) for the inputs that a partial sum may pass through ---- */

/* Splits an input: some of each element goes to `a`, the rest to `b`. */
static void split(const iso_array *x, iso_array *a, iso_array *b)
{
    *a = array_create(x->dtype, x->rank, x->dim);
    *b = array_create(x->dtype, x->rank, x->dim);
    for (int64_t i = 0, n = array_count(x); i < n; i++) {
        array_set(a, i, sin((double)i + 1));
        array_set(b, i, array_get(x, i) - array_get(a, i));
    }
}

static void check_linear(whole_run *w, uint32_t together)
{
    iso_array in[2][ISO_MAX_INPUTS], out[2][ISO_MAX_OUTPUTS];
    for (int i = 0; i < w->c.op->n_inputs; i++) {
        in[0][i] = in[1][i] = w->in[i];
        if (together >> i & 1)
            split(&w->in[i], &in[0][i], &in[1][i]);
    }
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < w->c.op->n_outputs; i++)
            out[half][i] = array_create(w->out[i].dtype, w->out[i].rank, w->out[i].dim);
        run(w, in[half], out[half]);
    }
    for (int i = 0; i < w->c.op->n_outputs; i++) {
        iso_array *sum = &out[0][i];
        iso_backend_reference()->sum(sum->dtype, array_count(sum), sum->data, out[1][i].data, sum->data,
                                     NULL);
        check_same(w, &w->out[i], sum, "as a sum of two");
    }
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < w->c.op->n_outputs; i++)
            array_free(&out[half][i]);
        for (int i = 0; i < w->c.op->n_inputs; i++)
            if (together >> i & 1)
                array_free(&in[half][i]);
    }
}

static bool floats(const whole_run *w, uint32_t inputs)
{
    bool all = iso_dtype_is_float(w->out[0].dtype);
    for (int i = 0; i < w->c.op->n_inputs; i++)
        if (inputs >> i & 1)
            all &= iso_dtype_is_float(w->in[i].dtype);
    return all;
}

START_TEST(linear_is_linear)
{
    int checked = 0;
    for (int i = 0; sample_at(i); i++) {
        whole_run w;
        whole_begin(&w, sample_at(i), &in_float64);
        uint32_t linear = w.rule.linear;
        ck_assert_msg(linear < 1u << w.c.op->n_inputs, "%s: linear in an input that it lacks", w.c.from->op);
        for (int k = 0; linear && !w.rule.jointly && k < w.c.op->n_inputs; k++)
            if (linear >> k & 1 && floats(&w, 1u << k))
                check_linear(&w, 1u << k), checked++;
        if (linear && w.rule.jointly && floats(&w, linear))
            check_linear(&w, linear), checked++;
        sample_end(&w.c);
    }
    ck_assert_int_gt(checked, 20);
}
END_TEST

/* ---- shards ---- */

/* A graph of the op's shards on inputs that have the values of the whole run. */
static interpreter *build_decomposed(const whole_run *w, iso_graph *shards, iso_tensor **out)
{
    iso_tensor *in[ISO_MAX_INPUTS];
    for (int i = 0; i < w->c.op->n_inputs; i++) {
        iso_input_attrs attrs = {
            .name = "input", .dtype = w->c.op->inputs[i]->dtype, .shape = w->c.op->inputs[i]->shape};
        in[i] = iso_op_create(shards, &iso_op_input, NULL, 0, &attrs);
    }
    w->c.op->type->decompose(w->c.op, in, out);
    ck_assert_msg(shards->status == ISO_OK, "%s: %s", w->c.from->op, shards->message);
    interpreter *made = interpreter_create(shards, iso_backend_reference(), SAMPLE_ROWS);
    for (int i = 0; i < w->c.op->n_inputs; i++) {
        double values[4096];
        for (int64_t k = 0, n = array_count(&w->in[i]); k < n; k++)
            values[k] = array_get(&w->in[i], k);
        interpreter_set(made, in[i], values);
    }
    return made;
}

/* No shard needs a dimension whole, but what is one element of each row. */
static void check_decomposed_can_be_sharded(const whole_run *w, const iso_graph *shards)
{
    iso_rule rule;
    for (int k = 0; k < shards->n_ops; k++) {
        const iso_op *shard = shards->ops[k];
        iso_op_rule(shard, &rule);
        for (int i = 0; i < shard->n_inputs; i++)
            for (int d = 0; d < shard->inputs[i]->shape.rank; d++)
                ck_assert_msg(rule.input[i][d] != ISO_WHOLE || shard->inputs[i]->shape.dim[d] == 1,
                              "%s: its shard %s holds a dimension whole", w->c.from->op, shard->type->name);
    }
}

START_TEST(decomposed_ops_are_the_whole)
{
    int checked = 0;
    for (int i = 0; sample_at(i); i++) {
        whole_run w;
        whole_begin(&w, sample_at(i), &in_float64);
        if (w.c.op->type->decompose) {
            iso_graph *shards = iso_graph_create(NULL);
            iso_tensor *out[ISO_MAX_OUTPUTS];
            iso_graph_set_precision(shards, ISO_F64);
            interpreter *made = build_decomposed(&w, shards, out);
            for (int o = 0; o < w.c.op->n_outputs; o++)
                check_same(&w, &w.out[o], interpreter_get(made, out[o]), "in blocks");
            check_decomposed_can_be_sharded(&w, shards);
            interpreter_destroy(made);
            iso_graph_destroy(shards);
            checked++;
        }
        sample_end(&w.c);
    }
    ck_assert_int_gt(checked, 15);
}
END_TEST

/* ---- in place ---- */
static void check_in_place(whole_run *w, int input)
{
    iso_array in[ISO_MAX_INPUTS];
    for (int i = 0; i < w->c.op->n_inputs; i++)
        in[i] = w->in[i];
    iso_box all = iso_box_whole(&(iso_shape){0});
    all.rank = in[input].rank;
    for (int d = 0; d < all.rank; d++)
        all.extent[d] = in[input].dim[d];
    iso_array copy = array_cut(&in[input], &all), out[ISO_MAX_OUTPUTS];
    in[input] = copy;
    out[0] = copy;
    run(w, in, out);
    check_same(w, &w->out[0], &out[0], "in place");
    array_free(&copy);
}

static bool same_array(const iso_array *a, const iso_array *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dim[d] == b->dim[d];
    return same;
}

START_TEST(in_place_is_the_same)
{
    int checked = 0;
    for (int i = 0; sample_at(i); i++) {
        whole_run w;
        whole_begin(&w, sample_at(i), &in_float64);
        iso_kernel_call call = {.attrs = w.c.op->attrs,
                                .n_inputs = w.c.op->n_inputs,
                                .n_outputs = w.c.op->n_outputs,
                                .in = w.in,
                                .out = w.out,
                                .info = &w.c.in->info};
        const iso_kernel *kernel = iso_backend_reference()->find(w.c.from->op, &call);
        for (int k = 0; kernel && kernel->in_place && k < w.c.op->n_inputs; k++)
            if (w.c.op->type->in_place >> k & 1 && w.c.op->n_outputs == 1 && same_array(&w.in[k], &w.out[0]))
                check_in_place(&w, k), checked++;
        sample_end(&w.c);
    }
    ck_assert_int_gt(checked, 20);
}
END_TEST

int main(void)
{
    return RUN_TESTS("rules", 120, parts_make_the_whole, parts_make_the_whole_in_float32, linear_is_linear,
                     decomposed_ops_are_the_whole, in_place_is_the_same);
}
