/* Batches of more than a megabyte, whose rows several threads of a rank read where a device computes the step: each
 * row is read once, the results of steps that go ahead are those of their batches, whatever their sizes, and an error
 * is that of the first wrong row. Ranks: 1, 3 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/exec/function/async_steps.h"
#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { MOST = 12000, FEATURES = 40, STEPS = 7 };

static iso_context *ctx;

/* ---- batches: number k; rows from `wrong` on cannot be read ---- */

typedef struct rows {
    iso_batch batch;
    int number;
    int64_t wrong;
    _Atomic int *read; /* [MOST] elements of each row that this rank read */
} rows;

static pthread_t first_thread;
static _Atomic bool helped; /* another thread read */

static double element(int number, int64_t row, int64_t k)
{
    return (double)((row * 7 + k * 5 + number) % 11);
}

static iso_status read_rows_part(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                 const iso_box *part, iso_dtype dtype, void *out)
{
    const rows *of = (const rows *)batch->impl;
    (void)dtype;
    helped = helped || !pthread_equal(pthread_self(), first_thread);
    for (int64_t i = begin; i < begin + count; i++) {
        if (i >= of->wrong && component == 0)
            return iso_error(ISO_IO, "row %d is gone", (int)i);
        for (int64_t k = 0; component == 0 && k < part->extent[0]; k++, of->read[i]++)
            ((double *)out)[(i - begin) * part->extent[0] + k] = element(of->number, i, part->offset[0] + k);
        if (component == 1)
            ((double *)out)[i - begin] = (double)(i + of->number);
    }
    return ISO_OK;
}

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    const iso_box whole = {.rank = 1, .extent = {FEATURES}};
    return read_rows_part(batch, component, begin, count, &whole, dtype, out);
}

static void make_rows(rows *of, int number, int64_t count)
{
    *of = (rows){.number = number, .wrong = MOST, .read = calloc(MOST, sizeof *of->read)};
    ck_assert_ptr_nonnull(of->read);
    of->batch = (iso_batch){.rows = count,
                            .n_components = 2,
                            .dtype = {ISO_F64, ISO_F64},
                            .shape = {ISO_SHAPE(FEATURES), ISO_SCALAR},
                            .read = read_rows,
                            .read_part = read_rows_part,
                            .position = number,
                            .impl = of};
}

static void free_rows(rows *of)
{
    free((void *)of->read);
}

/* ---- a function: the sums of x and y ---- */

typedef struct program {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_function *sums;
} program;

static void begin_program(program *p, const char *mesh, const char *layout)
{
    p->graph = iso_graph_create(ctx);
    check_ok(iso_mesh_create(ctx, mesh, &p->mesh));
    check_ok(iso_layout_map_create(p->mesh, &p->map));
    if (layout)
        check_ok(iso_layout_map_set(p->map, "x/output", layout));
    check_ok(iso_model_parallel_create(p->map, &p->distribution));
    iso_graph_distribute(p->graph, p->distribution);
    iso_tensor *x = iso_input(p->graph, "x", ISO_F64, ISO_SHAPE(FEATURES));
    iso_tensor *y = iso_input(p->graph, "y", ISO_F64, ISO_SCALAR);
    check_ok(iso_function_create(p->graph, &p->sums, .inputs = {x, y}, .outputs = {iso_sum(x), iso_sum(y)}));
}

static void end_program(program *p)
{
    iso_function_destroy(p->sums);
    iso_graph_destroy(p->graph);
    iso_distribution_destroy(p->distribution);
    iso_layout_map_destroy(p->map);
    iso_mesh_destroy(p->mesh);
}

static void check_sums(const rows *of, const double *sums)
{
    double x = 0, y = 0;
    for (int64_t i = 0; i < of->batch.rows; i++) {
        for (int64_t k = 0; k < FEATURES; k++)
            x += element(of->number, i, k);
        y += (double)(i + of->number);
    }
    ck_assert_msg(sums[0] == x && sums[1] == y,
                  "batch %d of %d rows: sums %.17g and %.17g, not %.17g and %.17g", of->number,
                  (int)of->batch.rows, sums[0], sums[1], x, y);
}

/* Each element that this rank needs is read once; elements: 0: rows of other ranks. */
static void check_reads(const rows *of, int elements)
{
    for (int64_t i = 0; i < MOST; i++)
        ck_assert_msg(of->read[i] == 0 || (i < of->batch.rows && of->read[i] == elements),
                      "%d elements of row %d of %d are read, not %d", of->read[i], (int)i,
                      (int)of->batch.rows, elements);
}

static void check_steps(const char *mesh, const char *layout, int elements)
{
    static const int64_t sizes[STEPS] = {MOST, MOST, MOST, 9001, MOST, 9001, MOST};
    program p;
    rows of[STEPS];
    double sums[2];
    begin_program(&p, mesh, layout);
    for (int i = 0; i < STEPS; i++) {
        make_rows(&of[i], i, sizes[i]);
        check_ok(iso_function_begin_step(p.sums, &of[i].batch));
        if (i == 0)
            continue;
        check_ok(iso_function_end_step(p.sums, sums));
        check_sums(&of[i - 1], sums);
    }
    check_ok(iso_function_end_step(p.sums, sums));
    check_sums(&of[STEPS - 1], sums);
    for (int i = 0; i < STEPS; i++) {
        check_reads(&of[i], elements);
        free_rows(&of[i]);
    }
    end_program(&p);
}

START_TEST(results_are_those_of_each_batch)
{
    check_steps("data=3", NULL, FEATURES);
    if (iso_ranks(ctx) > 1)
        return;
    check_steps("data=1", NULL, FEATURES);
    check_steps("data=1,model=2", "data, model", FEATURES);
}
END_TEST

START_TEST(threads_share_the_rows_where_there_are_cores)
{
    cpu_set_t mask;
    if (iso_ranks(ctx) > 1)
        return;
    helped = false;
    check_steps("data=1", NULL, FEATURES);
    bool cores = !sched_getaffinity(0, sizeof mask, &mask) && CPU_COUNT(&mask) > 1;
    ck_assert_int_eq(helped, cores);
}
END_TEST

START_TEST(an_error_is_that_of_the_first_wrong_row)
{
    program p;
    rows good, bad;
    double sums[2];
    if (iso_ranks(ctx) > 1)
        return;
    begin_program(&p, "data=1", NULL);
    make_rows(&bad, 0, MOST);
    make_rows(&good, 1, MOST);
    bad.wrong = 117;
    for (int i = 0; i < 2; i++) {
        check_ok(iso_function_run(p.sums, &good.batch, sums));
        check_sums(&good, sums);
        ck_assert_int_eq(iso_function_run(p.sums, &bad.batch, sums), ISO_IO);
        ck_assert_msg(strstr(iso_error_message(), "row 117 is gone") != NULL, "%s", iso_error_message());
    }
    free_rows(&bad);
    free_rows(&good);
    end_program(&p);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_BACKEND", "test", 0); /* unless another is asked for */
    first_thread = pthread_self();
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("large batches", 0, results_are_those_of_each_batch,
                  threads_share_the_rows_where_there_are_cores, an_error_is_that_of_the_first_wrong_row))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
