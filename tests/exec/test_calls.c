/* Values in and out of functions and variables, against plain C: random meshes, placements, layouts (partial
 * ones too), sizes that do not divide, parts that are empty; inputs with rows, without, scalars, from a
 * batch; what one function makes feeds the next; a training on values has the bits of one on batches; wrong
 * calls on one rank alone. Ranks: 1, 3, 8   More: 4 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/function.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/session/session.h"
#include "runtime/train/train.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { CASES = 40, MOST = 9, MOST_ELEMENTS = MOST * MOST, MOST_SLOTS = 8, OUTPUTS = 3 };

/* ---- y = scale * x w on a mesh, its columns' sums, and the sum of all; small integers, so that every order
 * of sums is exact ---- */

typedef struct product {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_graph *graph;
    iso_tensor *x, *w, *scale, *y;
    iso_function *function;
    int axes;
    int64_t rows, k, m;
    double x_data[MOST_ELEMENTS], w_data[MOST_ELEMENTS], scale_data;
    double expected[OUTPUTS][MOST_ELEMENTS];
    bool parts;
    char what[512];
} product;

static void lay_out(product *p, dice *d, const char *key, int rank)
{
    char text[256];
    if (throw_dice(d, 3) == 0)
        return;
    random_layout(d, p->axes, rank, text, sizeof text);
    check_ok(iso_layout_map_set(p->map, key, text));
    snprintf(p->what + strlen(p->what), sizeof p->what - strlen(p->what), " %s='%s'", key, text);
}

static void place(product *p, dice *d, int number)
{
    char mesh[128];
    int rank_of_slot[MOST_SLOTS];
    dice of_ranks = dice_for(-number);
    p->axes = random_mesh(d, 1, mesh, sizeof mesh);
    random_ranks(&of_ranks, 1 + throw_dice(&of_ranks, iso_ranks(ctx) < 3 ? iso_ranks(ctx) : 3), MOST_SLOTS,
                 rank_of_slot);
    check_ok(iso_mesh_create_on(ctx, mesh, rank_of_slot, slots_of_mesh(mesh), &p->mesh));
    check_ok(iso_layout_map_create(p->mesh, &p->map));
    snprintf(p->what, sizeof p->what, "case %d, mesh %s,", number, mesh);
    lay_out(p, d, "x/output", 2);
    lay_out(p, d, "w/output", 2);
    lay_out(p, d, "y/output", 2);
    lay_out(p, d, "columns/output", 1);
    check_ok(
        iso_model_parallel_create(p->map, &p->distribution, .batch_axis = dice_axis[throw_dice(d, p->axes)]));
}

static void build(product *p)
{
    iso_graph *g = p->graph = iso_graph_create(ctx);
    iso_graph_set_precision(g, ISO_F64);
    iso_graph_distribute(g, p->distribution);
    p->x = iso_input(g, "x", ISO_F32, ISO_SHAPE(p->k));
    p->w = iso_input_unbatched(g, "w", ISO_F64, ISO_SHAPE(p->k, p->m));
    p->scale = iso_input_unbatched(g, "scale", ISO_F64, ISO_SCALAR);
    p->y = iso_multiply(iso_matmul(p->x, p->w), p->scale);
    iso_tensor_set_name(p->y, "y/output");
    iso_tensor *columns = iso_reduce_sum(p->y, (int[]){0}, 1, false);
    iso_tensor_set_name(columns, "columns/output");
    iso_tensor *all = iso_reduce_sum(p->y, (int[]){0, 1}, 2, false);
    check_ok(iso_function_create(g, &p->function, .inputs = {p->x, p->w, p->scale},
                                 .outputs = {p->y, columns, all}, .parts = p->parts, .name = "product"));
}

static void expect(product *p)
{
    memset(p->expected, 0, sizeof p->expected);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->m; j++) {
            double sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += p->x_data[i * p->k + l] * p->w_data[l * p->m + j];
            p->expected[0][i * p->m + j] = sum * p->scale_data;
            p->expected[1][j] += sum * p->scale_data;
            p->expected[2][0] += sum * p->scale_data;
        }
}

static void fill(dice *d, double *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = throw_dice(d, 21) - 10;
}

/* square: w [k, k], so that y can be an x. */
static void begin(product *p, int number, bool parts, bool square)
{
    dice d = dice_for(number);
    *p = (product){.parts = parts,
                   .rows = 1 + throw_dice(&d, MOST),
                   .k = 1 + throw_dice(&d, MOST),
                   .m = 1 + throw_dice(&d, MOST)};
    p->m = square ? p->k : p->m;
    place(p, &d, number);
    build(p);
    fill(&d, p->x_data, p->rows * p->k);
    fill(&d, p->w_data, p->k * p->m);
    fill(&d, &p->scale_data, 1);
    expect(p);
}

static void end(product *p)
{
    iso_function_destroy(p->function);
    iso_graph_destroy(p->graph);
    iso_distribution_destroy(p->distribution);
    iso_layout_map_destroy(p->map);
    iso_mesh_destroy(p->mesh);
}

/* ---- values ---- */

/* An array in any layout, partial ones too (of sums: a maximum has its candidates). */
static iso_value *scattered(dice *d, iso_mesh *mesh, iso_shape shape, const double *data)
{
    iso_layout *layout = throw_handle(d, mesh, shape.rank);
    iso_value *value;
    check_ok(iso_value_create(layout, ISO_F64, shape, &value));
    check_ok(iso_value_copy_to_mesh(value, data));
    iso_layout_destroy(layout);
    return value;
}

/* The value, by what it says, by every shard, and by what all ranks get. */
static void check_value(const char *what, iso_value *value, iso_shape shape, const double *expected)
{
    double all[MOST_ELEMENTS] = {0};
    iso_box whole = iso_box_whole(&shape);
    iso_shape has = iso_value_shape(value);
    ck_assert_msg(iso_shape_equal(&has, &shape) && iso_value_dtype(value) == ISO_F64, "%s", what);
    ck_assert(!iso_layout_is_partial(iso_value_layout(value)));
    for (int i = 0; i < iso_value_shard_count(value); i++) {
        iso_shard shard = iso_value_shard(value, i);
        for (int64_t e = 0; e < iso_box_count(&shard.box); e++) {
            double x = iso_element_get(shard.data, shard.dtype, e);
            double y = expected[iso_box_global_index(&shard.box, &shape, e)];
            ck_assert_msg(x == y, "%s: element %d of slot %d is %g, not %g", what, (int)e, shard.slot, x, y);
        }
    }
    check_ok(iso_value_fetch(value, all));
    for (int64_t e = 0; e < iso_box_count(&whole); e++) /* a zero may have either sign */
        ck_assert_msg(all[e] == expected[e], "%s: element %d is %g, not %g", what, (int)e, all[e],
                      expected[e]);
}

static void check_outputs(const product *p, iso_value *const *output)
{
    const iso_shape shapes[OUTPUTS] = {ISO_SHAPE(p->rows, p->m), ISO_SHAPE(p->m), ISO_SCALAR};
    for (int o = 0; o < OUTPUTS; o++)
        check_value(p->what, output[o], shapes[o], p->expected[o]);
}

static int cut; /* outputs so far that stayed cut */

static void run_case(int number, bool parts)
{
    product p;
    double left;
    iso_value *in[3], *out[OUTPUTS] = {NULL};
    begin(&p, number, parts, false);
    dice d = dice_for(number + 1000000);
    in[0] = scattered(&d, p.mesh, ISO_SHAPE(p.rows, p.k), p.x_data);
    in[1] = scattered(&d, p.mesh, ISO_SHAPE(p.k, p.m), p.w_data);
    in[2] = scattered(&d, p.mesh, ISO_SCALAR, &p.scale_data);
    for (int twice = 0; twice < 2; twice++) {
        check_ok(iso_function_call(p.function, .inputs = {in[0], in[1], in[2]},
                                   .outputs = {&out[0], &out[1], &out[2]}));
        check_outputs(&p, out);
        for (int o = 0; o < OUTPUTS; o++) {
            cut += iso_layout_is_sharded(iso_value_layout(out[o]));
            ck_assert(parts || iso_layout_is_replicated(iso_value_layout(out[o])));
            iso_value_destroy(out[o]);
        }
    }
    check_ok(iso_value_fetch(in[2], &left)); /* as it was */
    ck_assert(left == p.scale_data);
    for (int i = 0; i < 3; i++)
        iso_value_destroy(in[i]);
    end(&p);
}

START_TEST(values_go_in_and_out)
{
    int tried = 0;
    for (int i = 0; i < CASES; i++)
        if (takes_case(iso_ranks(ctx), i)) {
            run_case(i + 100 * iso_ranks(ctx), i % 2);
            tried++;
        }
    ck_assert_int_gt(cut, tried / 4);
}
END_TEST

/* ---- one function after another ---- */

/* y of one graph, on a mesh of its own that is equal, is the x of another; the first graph and its function
 * are gone by then. Handles stand in both lists. */
START_TEST(what_one_function_makes_feeds_the_next)
{
    for (int number = 0; number < 10; number++) {
        product first, second;
        double one = 1;
        iso_value *w, *scale, *x, *y = NULL;
        dice d = dice_for(number + 5000);
        begin(&first, number + 5000, true, true);
        begin(&second, number + 5000, number % 2, true);
        ck_assert(first.mesh != second.mesh && iso_mesh_equal(first.mesh, second.mesh));
        x = scattered(&d, first.mesh, ISO_SHAPE(first.rows, first.k), first.x_data);
        w = scattered(&d, first.mesh, ISO_SHAPE(first.k, first.m), first.w_data);
        scale = scattered(&d, first.mesh, ISO_SCALAR, &first.scale_data);
        check_ok(iso_function_call(first.function, .inputs = {x, w, scale}, .outputs = {&y}));
        check_ok(iso_function_call(first.function, .inputs = {x, w, scale})); /* and nothing is wanted */
        iso_function_destroy(first.function);
        iso_graph_destroy(first.graph);
        first.function = NULL;
        first.graph = NULL;
        check_value(first.what, y, ISO_SHAPE(first.rows, first.m), first.expected[0]);
        memcpy(second.x_data, first.expected[0], sizeof second.x_data);
        second.scale_data = one;
        expect(&second);
        iso_value *old = y, *unit = scattered(&d, second.mesh, ISO_SCALAR, &one);
        check_ok(iso_function_call(second.function, .inputs = {y, w, unit}, .outputs = {&y}));
        ck_assert(old != y);
        check_value(second.what, y, ISO_SHAPE(second.rows, second.m), second.expected[0]);
        iso_value_destroy(old);
        iso_value_destroy(unit);
        iso_value_destroy(x);
        iso_value_destroy(w);
        iso_value_destroy(scale);
        end(&first);
        end(&second);
        iso_value_destroy(y); /* behind its mesh */
    }
}
END_TEST

/* ---- beside batches ---- */

static int prepared; /* times that the batch was made ready */

static iso_status note_prepare(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    ck_assert_ptr_eq(batch->impl, batch); /* the caller's own, not what stands for it */
    for (int i = 0; i < count; i++)
        ck_assert(ranges[i].begin >= 0 && ranges[i].begin + ranges[i].count <= batch->rows);
    prepared++;
    return ISO_OK;
}

/* x from a batch; w too, all of it, where it has no rows. */
START_TEST(batches_give_the_other_inputs)
{
    for (int number = 0; number < 12; number++) {
        product p;
        memory_batch memory;
        iso_value *w, *scale, *out[OUTPUTS] = {NULL};
        begin(&p, number + 7000, number % 2, false);
        dice d = dice_for(number);
        memory_batch_begin(&memory, p.rows);
        memory_batch_add(&memory, ISO_SHAPE(p.k), p.x_data);
        memory_batch_add(&memory, ISO_SHAPE(p.k, p.m), p.w_data);
        memory.batch.prepare = note_prepare;
        prepared = 0;
        w = scattered(&d, p.mesh, ISO_SHAPE(p.k, p.m), p.w_data);
        scale = scattered(&d, p.mesh, ISO_SCALAR, &p.scale_data);
        check_ok(iso_function_call(p.function, .inputs = {NULL, w, scale}, .batch = &memory.batch,
                                   .outputs = {&out[0], &out[1], &out[2]}));
        ck_assert_int_eq(prepared, 1);
        check_outputs(&p, out);
        for (int o = 0; o < OUTPUTS; o++)
            iso_value_destroy(out[o]);
        check_refused(
            iso_function_call(p.function, .inputs = {NULL, w}, .batch = &memory.batch),
            "input 'scale' of function 'product' was given no value, and the batch has 2 components");
        iso_value_destroy(w);
        iso_value_destroy(scale);
        end(&p);
    }
}
END_TEST

/* ---- training ---- */

/* A dense layer by hand: y = x w + b, mean of squares, SGD with momentum. */
typedef struct linear {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_graph *graph;
    iso_variable *w;
    iso_function *step;
} linear;

static void linear_begin(linear *l, const int *rank_of_slot)
{
    iso_optimizer sgd = iso_sgd(0.1, 0.9);
    check_ok(iso_mesh_create_on(ctx, "data=4,model=2", rank_of_slot, 8, &l->mesh));
    check_ok(iso_layout_map_create(l->mesh, &l->map));
    check_ok(iso_layout_map_set(l->map, "w", "-, model"));
    check_ok(iso_model_parallel_create(l->map, &l->distribution));
    iso_graph *g = l->graph = iso_graph_create(ctx);
    iso_graph_distribute(g, l->distribution);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(5)), *t = iso_input(g, "t", ISO_F32, ISO_SHAPE(3));
    l->w = iso_variable_create(g, "w", ISO_F32, ISO_SHAPE(5, 3),
                               (iso_initializer){.kind = ISO_INIT_GLOROT_UNIFORM}, true);
    iso_tensor *loss = iso_reduce_mean(iso_square(iso_subtract(iso_matmul(x, iso_variable_value(l->w)), t)),
                                       (int[]){0, 1}, 2, false);
    check_ok(iso_function_create(g, &l->step, .inputs = {x, t}, .outputs = {loss},
                                 .updates = {iso_minimize(loss, sgd)}, .training = true));
}

static void linear_end(linear *l)
{
    iso_function_destroy(l->step);
    iso_graph_destroy(l->graph);
    iso_distribution_destroy(l->distribution);
    iso_layout_map_destroy(l->map);
    iso_mesh_destroy(l->mesh);
}

static iso_value *float_value(dice *d, iso_mesh *mesh, iso_shape shape, const double *data)
{
    iso_layout *layout = throw_handle(d, mesh, shape.rank);
    iso_value *value;
    float narrow[64];
    for (int64_t i = 0; i < shape.dim[0] * shape.dim[1]; i++)
        narrow[i] = (float)data[i];
    check_ok(iso_value_create(layout, ISO_F32, shape, &value));
    check_ok(iso_value_copy_to_mesh(value, narrow));
    iso_layout_destroy(layout);
    return value;
}

START_TEST(a_training_on_values_has_the_bits_of_one_on_batches)
{
    linear a, b;
    int rank_of_slot[8];
    dice d = dice_for(77);
    iso_fingerprint of_a, of_b;
    random_ranks(&d, iso_ranks(ctx), 8, rank_of_slot);
    linear_begin(&a, NULL);
    linear_begin(&b, rank_of_slot);
    for (int step = 0; step < 6; step++) {
        double x[7 * 5], t[7 * 3], loss;
        int64_t rows = 1 + step; /* of 4 parts some are empty */
        memory_batch memory;
        iso_value *values[2], *result = NULL;
        float other;
        for (int i = 0; i < 7 * 5; i++)
            x[i] = (float)throw_dice(&d, 1000) / 997;
        for (int i = 0; i < 7 * 3; i++)
            t[i] = (float)throw_dice(&d, 1000) / 991;
        for (int i = 0; i < 7 * 5; i++)
            x[i] = (float)x[i];
        for (int i = 0; i < 7 * 3; i++)
            t[i] = (float)t[i];
        memory_batch_begin(&memory, rows);
        memory_batch_add(&memory, ISO_SHAPE(5), x);
        memory_batch_add(&memory, ISO_SHAPE(3), t);
        check_ok(iso_function_run(a.step, &memory.batch, &loss));
        values[0] = float_value(&d, b.mesh, ISO_SHAPE(rows, 5), x);
        values[1] = float_value(&d, b.mesh, ISO_SHAPE(rows, 3), t);
        check_ok(iso_function_call(b.step, .inputs = {values[0], values[1]}, .outputs = {&result}));
        double wide = 0;
        if (iso_value_dtype(result) == ISO_F64) {
            check_ok(iso_value_fetch(result, &wide));
        } else {
            check_ok(iso_value_fetch(result, &other));
            wide = other;
        }
        ck_assert_msg(wide == loss, "step %d: the loss is %.17g, on a batch %.17g", step, wide, loss);
        iso_value_destroy(values[0]);
        iso_value_destroy(values[1]);
        iso_value_destroy(result);
    }
    check_ok(iso_graph_fingerprint(a.graph, &of_a));
    check_ok(iso_graph_fingerprint(b.graph, &of_b));
    ck_assert_mem_eq(&of_a, &of_b, sizeof of_a);
    linear_end(&a);
    linear_end(&b);
}
END_TEST

/* ---- variables ---- */

/* Read as a value, read in parts, and become any value of their shape, in any layout. */
START_TEST(variables_are_values)
{
    dice d = dice_for(5);
    for (int i = 0; i < 8; i++) {
        linear l;
        int rank_of_slot[8];
        double before[15], wide[15], after[15];
        float all[15], part[15];
        iso_value *value, *next;
        iso_box box;
        random_ranks(&d, 1 + throw_dice(&d, iso_ranks(ctx)), 8, rank_of_slot);
        linear_begin(&l, rank_of_slot);
        check_ok(iso_variable_read(l.w, before, 15));
        check_ok(iso_variable_read_value(l.w, &value));
        ck_assert(iso_layout_equal(iso_value_layout(value), iso_variable_layout(l.w)));
        check_ok(iso_value_fetch(value, all));
        for (int e = 0; e < 15; e++)
            ck_assert(all[e] == before[e]);
        for (int slot = 0; slot < 8; slot++) {
            check_ok(iso_variable_box(l.w, slot, &box));
            int64_t offset = slot % 2 ? 2 : 0, extent = slot % 2 ? 1 : 2; /* 3 columns on model=2 */
            ck_assert(box.offset[0] == 0 && box.extent[0] == 5);
            ck_assert(box.offset[1] == offset && box.extent[1] == extent);
            if (rank_of_slot[slot] != iso_rank(ctx)) {
                check_refused(iso_variable_read_part(l.w, slot, NULL, ISO_F32, part), "cannot read its part");
                continue;
            }
            check_ok(iso_variable_read_part(l.w, slot, NULL, ISO_F32, part));
            box = (iso_box){.rank = 2, .offset = {3, offset}, .extent = {2, extent}};
            check_ok(iso_variable_read_part(l.w, slot, &box, ISO_F64, wide));
            for (int64_t e = 0; e < 5 * extent; e++)
                ck_assert(part[e] == before[e / extent * 3 + offset + e % extent]);
            for (int64_t e = 0; e < 2 * extent; e++)
                ck_assert(wide[e] == before[(3 + e / extent) * 3 + offset + e % extent]);
        }
        for (int e = 0; e < 15; e++)
            wide[e] = throw_dice(&d, 100) - 50;
        next = float_value(&d, l.mesh, ISO_SHAPE(5, 3), wide);
        check_ok(iso_variable_assign_value(l.w, next));
        check_ok(iso_variable_read(l.w, after, 15));
        ck_assert_mem_eq(after, wide, sizeof after);
        check_ok(iso_value_fetch(value, all)); /* a copy: as it was */
        for (int e = 0; e < 15; e++)
            ck_assert(all[e] == before[e]);
        check_ok(iso_variable_assign_value(l.w, value));
        check_ok(iso_variable_read(l.w, after, 15));
        ck_assert_mem_eq(after, before, sizeof after);
        iso_value_destroy(next);
        iso_value_destroy(value);
        linear_end(&l);
    }
}
END_TEST

/* ---- wrong calls ---- */

static void check_all_refused(iso_status status, const char *part)
{
    int mine = (int)status, all[64];
    check_refused(status, part);
    check_ok(iso_gather_all(ctx, &mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(ctx); r++)
        ck_assert_int_eq(all[r], mine);
}

static bool is_last(void)
{
    return iso_rank(ctx) == iso_ranks(ctx) - 1;
}

static iso_value *plain_value(iso_mesh *mesh, const char *text, iso_dtype dtype, iso_shape shape)
{
    iso_layout *layout;
    iso_value *value;
    check_ok(iso_layout_create(mesh, text, &layout));
    check_ok(iso_value_create(layout, dtype, shape, &value));
    iso_layout_destroy(layout);
    return value;
}

/* One rank is given something else, or all are. */
START_TEST(wrong_values_are_refused_together)
{
    linear l;
    iso_mesh *other;
    linear_begin(&l, NULL);
    check_ok(iso_mesh_create(ctx, "data=8", &other));
    iso_value *x = plain_value(l.mesh, "data, -", ISO_F32, ISO_SHAPE(6, 5)),
              *t = plain_value(l.mesh, "data, -", ISO_F32, ISO_SHAPE(6, 3)),
              *also = plain_value(l.mesh, "-, -", ISO_F32, ISO_SHAPE(6, 3)),
              *w = plain_value(l.mesh, "-, model", ISO_F32, ISO_SHAPE(5, 3)), *kept = (iso_value *)&l,
              *out = kept;
    const struct wrong {
        iso_value *value;
        const char *message;
    } wrong[] = {
        {plain_value(l.mesh, "-, -", ISO_F64, ISO_SHAPE(6, 3)),
         "input 't' of function 'training' is float32 [6, 3], the value float64 [6, 3]"},
        {plain_value(l.mesh, "-, -", ISO_F32, ISO_SHAPE(6, 4)),
         "is float32 [6, 3], the value float32 [6, 4]"},
        {plain_value(l.mesh, "-", ISO_F32, ISO_SHAPE(6)), "is float32 [6, 3], the value float32 [6]"},
        {plain_value(l.mesh, "", ISO_F32, ISO_SCALAR), "is float32 [batch, 3], the value float32 []"},
        {plain_value(l.mesh, "-, -", ISO_F32, ISO_SHAPE(7, 3)),
         "input 't' of function 'training' was given 7 rows, those before it 6"},
        {plain_value(l.mesh, "-, -", ISO_F32, ISO_SHAPE(0, 3)), "was given 0 rows"},
        {plain_value(other, "-, -", ISO_F32, ISO_SHAPE(6, 3)),
         "is on mesh data=4,model=2, the value on the mesh data=8"},
        {NULL, "input 't' of function 'training' was given neither a value nor a batch"},
    };
    for (int alone = 0; alone < 2; alone++) {
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            check_all_refused(iso_function_call(l.step, .outputs = {&out},
                                                .inputs = {x, alone && !is_last() ? t : wrong[i].value}),
                              wrong[i].message);
        check_all_refused(
            iso_function_call(l.step, .inputs = {x, t, alone && !is_last() ? NULL : t}, .outputs = {&out}),
            "has 2 inputs and was given a value for input 2");
        check_all_refused(
            iso_function_call(l.step, .inputs = {x, t}, .outputs = {&out, alone && !is_last() ? NULL : &out}),
            "has 1 outputs and was asked for output 1");
        check_all_refused(iso_variable_assign_value(l.w, alone && !is_last() ? w : t),
                          "variable 'w' is float32 [5, 3], the value float32 [6, 3]");
        check_all_refused(iso_variable_assign_value(l.w, alone && !is_last() ? w : NULL), "value is NULL");
    }
    if (iso_ranks(ctx) > 1) {
        check_all_refused(iso_function_call(l.step, .inputs = {x, is_last() ? also : t}, .outputs = {&out}),
                          "the call of a function");
        check_all_refused(iso_function_call(l.step, .inputs = {x, t}, .outputs = {is_last() ? NULL : &out}),
                          "the call of a function");
    }
    check_refused(iso_function_call_with(NULL, &(iso_function_call_options){.batch = NULL},
                                         sizeof(iso_function_call_options)),
                  "function is NULL");
    check_refused(iso_variable_read_value(NULL, &out), "variable is NULL");
    check_refused(iso_variable_assign_value(NULL, w), "variable is NULL");
    check_refused(iso_variable_box(NULL, 0, NULL), "the variable is NULL");
    ck_assert_ptr_eq(out, kept); /* nothing was written */
    iso_value_pack(x, 9, NULL);
    check_all_refused(iso_function_call(l.step, .inputs = {x, t}), "slot 9");
    check_ok(iso_function_call(l.step, .inputs = {x, t})); /* told once */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        iso_value_destroy(wrong[i].value);
    iso_value_destroy(x);
    iso_value_destroy(t);
    iso_value_destroy(also);
    iso_value_destroy(w);
    iso_mesh_destroy(other);
    linear_end(&l);
}
END_TEST

/* Data parallel, ZeRO of level 3: an input without rows is replicated. It is none for a model. */
START_TEST(inputs_without_rows)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_function *function;
    iso_value *x, *w, *y = NULL;
    float rows[13 * 3], weights[3] = {1, 10, 100}, sums[13];
    check_ok(iso_mesh_create(ctx, "data=8", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    check_ok(iso_distribution_set_zero(distribution, 3));
    iso_graph_distribute(g, distribution);
    iso_tensor *of_x = iso_input(g, "x", ISO_F32, ISO_SHAPE(3)),
               *of_w = iso_input_unbatched(g, "w", ISO_F32, ISO_SHAPE(3, 1));
    ck_assert(iso_tensor_is_input(of_w) && iso_tensor_shape(of_w)->rank == 2);
    check_ok(iso_function_create(g, &function, .inputs = {of_x, of_w}, .outputs = {iso_matmul(of_x, of_w)},
                                 .parts = true));
    x = plain_value(mesh, "-, data", ISO_F32, ISO_SHAPE(13, 3));
    w = plain_value(mesh, "data, -", ISO_F32, ISO_SHAPE(3, 1));
    for (int i = 0; i < 13 * 3; i++)
        rows[i] = (float)i;
    check_ok(iso_value_copy_to_mesh(x, rows));
    check_ok(iso_value_copy_to_mesh(w, weights));
    check_ok(iso_function_call(function, .inputs = {x, w}, .outputs = {&y}));
    ck_assert_int_eq(iso_layout_parts(iso_value_layout(y), 0), 8); /* 13 rows stay on 7 of 8 slots */
    check_ok(iso_value_fetch(y, sums));
    for (int i = 0; i < 13; i++)
        ck_assert(sums[i] == (float)(3 * i + 10 * (3 * i + 1) + 100 * (3 * i + 2)));
    iso_value_destroy(x);
    iso_value_destroy(w);
    iso_value_destroy(y);
    iso_function_destroy(function);
    iso_graph_destroy(g);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    g = iso_graph_create(ctx);
    of_w = iso_input_unbatched(g, "w", ISO_F32, ISO_SHAPE(3, 1));
    iso_model *model = iso_model_create(g, of_w, of_w);
    check_refused(iso_graph_error(iso_model_graph(model)), "the input 'w' has no batch dimension");
    iso_model_destroy(model);
    g = iso_graph_create(ctx);
    iso_input_unbatched(g, "w", ISO_F32, (iso_shape){.rank = 9});
    check_refused(iso_graph_error(g), "input 'w': rank 9 (0 to 8 are possible)");
    iso_graph_destroy(g);
}
END_TEST

START_TEST(a_variable_has_no_value_before_its_function)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_variable *v =
        iso_variable_create(g, "v", ISO_F32, ISO_SHAPE(3), (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
    iso_value *value = NULL;
    iso_box box;
    float number;
    check_all_refused(iso_variable_read_value(v, &value), "variable 'v' has no value before a function");
    check_refused(iso_variable_box(v, 0, &box), "variable 'v' has no value before a function");
    check_refused(iso_variable_read_part(v, 0, NULL, ISO_F32, &number), "has no value before a function");
    ck_assert_ptr_null(value);
    iso_graph_destroy(g);
}
END_TEST

/* A label that is no class: the fault of a slot; no output is written, no update made. */
START_TEST(faults_of_values_change_nothing)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_function *step;
    iso_fingerprint before, after;
    iso_value *out = NULL;
    check_ok(iso_mesh_create(ctx, "data=8", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph_distribute(g, distribution);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4)), *t = iso_input(g, "t", ISO_I32, ISO_SCALAR);
    iso_variable *w = iso_variable_create(g, "w", ISO_F32, ISO_SHAPE(4, 3),
                                          (iso_initializer){.kind = ISO_INIT_GLOROT_UNIFORM}, true);
    iso_tensor *losses = iso_sparse_crossentropy_op(t, iso_matmul(x, iso_variable_value(w)));
    iso_tensor *loss = iso_reduce_mean(losses, (int[]){0}, 1, false);
    check_ok(iso_function_create(g, &step, .inputs = {x, t}, .outputs = {loss},
                                 .updates = {iso_minimize(loss, iso_sgd(0.1))}, .training = true));
    iso_value *rows = plain_value(mesh, "-, -", ISO_F32, ISO_SHAPE(11, 4)),
              *labels = plain_value(mesh, "-", ISO_I32, ISO_SHAPE(11));
    int32_t classes[11] = {0, 1, 2, 0, 1, 2, 0, 3, 0, 0, 0};
    float ones[44];
    for (int i = 0; i < 44; i++)
        ones[i] = 1;
    check_ok(iso_value_copy_to_mesh(rows, ones));
    check_ok(iso_value_copy_to_mesh(labels, classes));
    check_ok(iso_graph_fingerprint(g, &before));
    check_all_refused(iso_function_call(step, .inputs = {rows, labels}, .outputs = {&out}), "3");
    check_ok(iso_graph_fingerprint(g, &after));
    ck_assert_mem_eq(&before, &after, sizeof before);
    ck_assert_ptr_null(out);
    classes[7] = 2;
    check_ok(iso_value_copy_to_mesh(labels, classes));
    check_ok(iso_function_call(step, .inputs = {rows, labels}, .outputs = {&out}));
    check_ok(iso_graph_fingerprint(g, &after));
    ck_assert_mem_ne(&before, &after, sizeof before);
    iso_value_destroy(out);
    iso_value_destroy(rows);
    iso_value_destroy(labels);
    iso_function_destroy(step);
    iso_graph_destroy(g);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    int failed = status == ISO_OK &&
                 RUN_TESTS("calls", 0, values_go_in_and_out, what_one_function_makes_feeds_the_next,
                           batches_give_the_other_inputs, a_training_on_values_has_the_bits_of_one_on_batches,
                           variables_are_values, wrong_values_are_refused_together, inputs_without_rows,
                           a_variable_has_no_value_before_its_function, faults_of_values_change_nothing);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
