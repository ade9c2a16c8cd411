/* Ranks: 1. A savepoint of a graph: what was taken out and put back can be discarded, with what was added
 * since.
 * Sanitize: 1 */
#include <check.h>

#include "runtime/graph/op.h"
#include "runtime/graph/savepoint.h"
#include "tests/support/run_tests.h"

enum { LATER = 100 };

static void add_ops(iso_tensor *x, int count)
{
    for (int i = 0; i < count; i++)
        iso_tensor_set_name(iso_relu(x), "added");
}

START_TEST(discards_what_was_put_back_and_what_followed)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4));
    iso_savepoint *point = NULL;
    ck_assert_int_eq(iso_savepoint_create(graph, &point), ISO_OK);
    add_ops(x, 1);
    iso_savepoint_end(point);
    ck_assert_int_eq(iso_savepoint_take_out(point), ISO_OK);
    ck_assert_int_eq(iso_graph_op_count(graph), 1);
    iso_savepoint_put_back(point);
    ck_assert_int_eq(iso_graph_op_count(graph), 2);
    add_ops(x, LATER);
    iso_savepoint_discard(point);
    ck_assert_int_eq(iso_graph_op_count(graph), 1);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    iso_graph_destroy(graph);
}
END_TEST

/* A name that building set goes with what was built; one that was set later stays. */
START_TEST(names_set_later_stay)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4)), *y = iso_relu(x), *z = iso_relu(y);
    iso_savepoint *point = NULL;
    iso_tensor_set_name(y, "before");
    iso_tensor_set_name(z, "before");
    ck_assert_int_eq(iso_savepoint_create(graph, &point), ISO_OK);
    iso_tensor_set_name(y, "within");
    iso_tensor_set_name(z, "within");
    iso_savepoint_end(point);
    iso_tensor_set_name(z, "later");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(iso_savepoint_take_out(point), ISO_OK);
        ck_assert_str_eq(iso_tensor_name(y), "before");
        ck_assert_str_eq(iso_tensor_name(z), "later");
        iso_savepoint_put_back(point);
        ck_assert_str_eq(iso_tensor_name(y), "within");
        ck_assert_str_eq(iso_tensor_name(z), "later");
    }
    ck_assert_int_eq(iso_savepoint_take_out(point), ISO_OK);
    iso_savepoint_destroy(point);
    iso_graph_destroy(graph);
}
END_TEST

int main(void)
{
    return RUN_TESTS("savepoints", 30, discards_what_was_put_back_and_what_followed, names_set_later_stay);
}
