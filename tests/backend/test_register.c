/* Ops that a program registers: what is refused, with a message that names the op and the reason; ops whose
 * inputs the rule does not fit; ranks that registered different ops. What such ops compute is tested by
 * docs/samples/own_op.c (tests/launch/test_install). Ranks: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid_extend.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

static bool same(iso_op *op)
{
    return iso_infer_same(op);
}
static bool forgets(iso_op *op)
{
    (void)op;
    return true;
}
static void run(const iso_kernel_call *call)
{
    memcpy(call->out[0].data, call->in[0].data,
           (size_t)(call->out[0].dim[0] * call->out[0].dim[1]) * iso_dtype_size(call->in[0].dtype));
}
static void part(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent, bool add,
                 void *to, void *scratch)
{
    (void)call, (void)offset, (void)extent, (void)add, (void)to, (void)scratch;
}

static void run_block(const iso_kernel_call *call, int64_t block)
{
    (void)call, (void)block;
}

static int64_t rows_of(const iso_kernel_call *call)
{
    return call->out[0].dim[0];
}

static size_t scratch_of_part(const iso_kernel_call *call)
{
    (void)call;
    return 0;
}

static const iso_kernel good = {.name = "plain", .run = run};

#define REFUSED(message, kernel, count, ...)                                                                 \
    do {                                                                                                     \
        static const iso_op_type type = {__VA_ARGS__};                                                       \
        ck_assert_int_eq(iso_op_register(&type, kernel, count), ISO_INVALID);                                \
        ck_assert_msg(strstr(iso_error_message(), message) != NULL, "'%s' is not in '%s'", message,          \
                      iso_error_message());                                                                  \
    } while (0)

START_TEST(types_that_make_no_sense_are_refused)
{
    ck_assert_int_eq(iso_op_register(NULL, &good, 1), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "iso_op_register: type is NULL");
    REFUSED("the type has no name", &good, 1, .infer = same, .rule = "ab->ab");
    REFUSED("the name of an op is empty", &good, 1, .name = "", .infer = same, .rule = "ab->ab");
    REFUSED("op 'a b': a name may have only letters", &good, 1, .name = "a b", .infer = same,
            .rule = "ab->ab");
    REFUSED("op 'matmul': there is an op of this name", &good, 1, .name = "matmul", .infer = same,
            .rule = "ab->ab");
    REFUSED("op 'input': there is an op of this name", &good, 1, .name = "input", .infer = same,
            .rule = "ab->ab");
    REFUSED("op 'own': .infer is NULL", &good, 1, .name = "own", .rule = "ab->ab");
    REFUSED("op 'own': .n_outputs is 6, at most 5", &good, 1, .name = "own", .infer = same, .rule = "ab->ab",
            .n_outputs = 6);
    REFUSED("op 'own': .no_kernel is for", &good, 1, .name = "own", .infer = same, .rule = "ab->ab",
            .no_kernel = true);
    static const iso_op_type type = {.name = "own", .infer = same, .rule = "ab->ab"};
    ck_assert_int_eq(iso_op_register_with(&type, sizeof type + 8, &good, sizeof good, 1), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "the headers of another version than " ISO_VERSION));
}
END_TEST

START_TEST(rules_that_cannot_be_read_are_refused)
{
#define RULE(rule_text, message)                                                                             \
    REFUSED("op 'own': the rule '" rule_text "': " message, &good, 1, .name = "own", .infer = same,          \
            .rule = rule_text)
    REFUSED("op 'own': one of .rule and .rule_of must be given", &good, 1, .name = "own", .infer = same);
    RULE("ab", "it has no '->'");
    RULE("", "it has no '->'");
    RULE("ab->ab->ab", "operands have letters");
    RULE("a b->ab", "operands have letters");
    RULE("ab>ab", "operands have letters");
    RULE("a1->a1", "operands have letters");
    RULE("aa->a", "a letter occurs twice in one operand");
    RULE("...,ab->ab", "either all operands are '...'");
    RULE("ab->ab,ab", "it does not have as many outputs");
    RULE("abcdefghi->a", "an operand has too many dimensions");
    RULE("abcdefgh,ijklmnop,q->a", "it has too many letters");
    RULE("a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a->a", "it has too many operands");
    REFUSED("op 'own': the rule 'ab,b->ab': .linear names an input", &good, 1, .name = "own", .infer = same,
            .rule = "ab,b->ab", .linear = 1 << 2);
    REFUSED(".in_place names an input that it does not have", &good, 1, .name = "own", .infer = same,
            .rule = "ab->ab", .in_place = 1 << 20);
    RULE("mk->z", "an output has a letter that no input has");
}
END_TEST

START_TEST(kernels_that_cannot_run_are_refused)
{
#define KERNEL(message, ...)                                                                                 \
    REFUSED("op 'own': " message, (&(iso_kernel){__VA_ARGS__}), 1, .name = "own", .infer = same,             \
            .rule = "ab->ab")
    REFUSED("op 'own': there is no kernel", NULL, 1, .name = "own", .infer = same, .rule = "ab->ab");
    REFUSED("op 'own': there is no kernel", &good, 0, .name = "own", .infer = same, .rule = "ab->ab");
    KERNEL("kernel 0: .run is NULL", .name = "plain");
    KERNEL("kernel 0: it has no name", .run = run);
    KERNEL("kernel 0: its .op is another one", .name = "plain", .op = "relu", .run = run);
    KERNEL("kernel 0: either all or none of .part_rows", .name = "plain", .run = run, .run_part = part);
    KERNEL("kernel 0: .part_scratch is given without .run_part", .name = "plain", .run = run,
           .part_scratch = scratch_of_part);
    KERNEL("kernel 0: either both or none of .blocks and .run_block", .name = "plain", .run = run,
           .blocks = rows_of);
    KERNEL("kernel 0: at most one of .run_part and .run_block", .name = "plain", .run = run,
           .part_rows = rows_of, .prepare_parts = run, .run_part = part, .blocks = rows_of,
           .run_block = run_block);
    KERNEL("kernel 0: .finish is given without .run_block, or .shared without .finish", .name = "plain",
           .run = run, .finish = run);
}
END_TEST

/* The error that the graph has after an op was made of `type` on x [batch, 4] and w [3, 4]. */
static void expect_graph_error(const iso_op_type *type, const char *message)
{
    static const double zeros[12];
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_op_2(type, x, iso_constant(g, ISO_F32, ISO_SHAPE(3, 4), zeros), NULL);
    ck_assert_int_eq(iso_graph_error(g), message ? ISO_INVALID : ISO_OK);
    if (message)
        ck_assert_msg(strstr(iso_error_message(), message) != NULL, "'%s' is not in '%s'", message,
                      iso_error_message());
    iso_graph_destroy(g);
}

START_TEST(ops_that_do_not_fit_their_rule_are_errors_of_the_graph)
{
    static const iso_op_type unknown = {.name = "unknown", .infer = same, .rule = "mk,nk->mk"};
    static const iso_op_type fits = {.name = "fits", .infer = same, .rule = "mk,nk->mk"};
    static const iso_op_type wide = {.name = "wide", .infer = same, .rule = "mkc,nk->mk"};
    static const iso_op_type unequal = {.name = "unequal", .infer = same, .rule = "mk,kn->mk"};
    static const iso_op_type three = {.name = "three", .infer = same, .rule = "mk,nk,k->mk"};
    static const iso_op_type untyped = {.name = "untyped", .infer = forgets, .rule = "mk,nk->mk"};
    static const iso_op_type broadcasts = {.name = "broadcasts", .infer = same, .rule = "...,...->..."};
    const iso_op_type *const types[] = {&fits, &wide, &unequal, &three, &untyped, &broadcasts};
    expect_graph_error(&unknown, "the op 'unknown' is not registered");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        ck_assert_msg(iso_op_register(types[i], &good, 1) == ISO_OK, "%s", iso_error_message());
    ck_assert_int_eq(iso_op_register(&fits, &good, 1), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), "op 'fits': there is an op of this name");
    expect_graph_error(&fits, NULL);
    static iso_op_type copy;
    copy = fits;
    expect_graph_error(&copy, "the op 'fits' is not registered");
    expect_graph_error(&wide, "its rule 'mkc,nk->mk' has 3 dimensions for input 0, which has 2");
    expect_graph_error(&unequal, "in its rule 'mk,kn->mk' the dimensions 'k' have different extents");
    expect_graph_error(&three, "its rule 'mk,nk,k->mk' is for 3 inputs");
    expect_graph_error(&untyped, "its .infer gave output 0 no type");
    expect_graph_error(&broadcasts, "by its rule '...,...->...' the inputs must broadcast");
}
END_TEST

/* The last rank registers one op more, or in another way: every rank gets the error, and none waits. */
START_TEST(ranks_must_register_alike)
{
    static const iso_op_type one = {.name = "one", .infer = same, .rule = "ab->ab"};
    static const iso_op_type other = {.name = "one", .infer = same, .rule = "a.->a."};
    bool last = iso_rank(ctx) == iso_ranks(ctx) - 1;
    iso_function *f = NULL;
    ck_assert_int_eq(iso_op_register(last ? &other : &one, &good, 1), ISO_OK);
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *y = iso_op_1(last ? &other : &one, x, NULL);
    iso_status status = iso_function_create(g, &f, .inputs = {x}, .outputs = {y}, .parts = true);
    ck_assert_int_eq(status, iso_ranks(ctx) == 1 ? ISO_OK : ISO_INVALID);
    if (status != ISO_OK)
        ck_assert_msg(strstr(iso_error_message(), "the registered ops") &&
                          strstr(iso_error_message(), "op 'one'"),
                      "%s", iso_error_message());
    iso_function_destroy(f);
    iso_graph_destroy(g);
}
END_TEST

static bool to_rank(iso_op *op)
{
    return iso_op_set_output(op, ISO_F32, &(iso_shape){.rank = 99});
}
static bool to_negative(iso_op *op)
{
    return iso_op_set_output(op, ISO_F32, &(iso_shape){.rank = 2, .dim = {ISO_BATCH, -7}});
}

START_TEST(results_that_are_no_shapes_are_errors_of_the_graph)
{
    static const iso_op_type rank = {.name = "rank99", .infer = to_rank, .rule = "mk,nk->mk"};
    static const iso_op_type negative = {.name = "negative7", .infer = to_negative, .rule = "mk,nk->mk"};
    ck_assert_int_eq(iso_op_register(&rank, &good, 1), ISO_OK);
    ck_assert_int_eq(iso_op_register(&negative, &good, 1), ISO_OK);
    expect_graph_error(&rank, "rank99: the result would have 99 dimensions; 0 to 8 are possible");
    expect_graph_error(&negative, "negative7: the result [batch, -7] would have a negative dimension");
}
END_TEST

static void to_scalar(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    (void)op;
    dx[0] = iso_sum(dy[0]);
}

START_TEST(gradients_of_another_shape_are_errors_of_the_graph)
{
    static const iso_op_type type = {
        .name = "shrinks", .infer = same, .rule = "ab->ab", .gradient = to_scalar};
    ck_assert_int_eq(iso_op_register(&type, &good, 1), ISO_OK);
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4)), *gradient;
    iso_gradients(iso_sum(iso_matmul(iso_op_1(&type, x, NULL), iso_transpose(x, (int[]){1, 0}))), &x, 1,
                  &gradient);
    ck_assert_int_eq(iso_graph_error(g), ISO_INVALID);
    ck_assert_str_eq(iso_error_message(),
                     "shrinks: its .gradient gave [] for input 0, whose shape is [batch, 4]");
    iso_graph_destroy(g);
}
END_TEST

static void fails(const iso_kernel_call *call)
{
    run(call);
    if (call->in[0].offset[0] == 0)
        iso_fault_raise(call->fault, "the first row is %s", "bad");
}

/* One slot raises it; the op before and the op after are others. */
START_TEST(a_kernel_s_fault_names_its_op)
{
    static const iso_kernel failing = {.name = "fails", .run = fails};
    static const iso_op_type type = {.name = "picky", .infer = same, .rule = "ab->ab"};
    ck_assert_int_eq(iso_op_register(&type, &failing, 1), ISO_OK);
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *y = iso_relu(iso_op_1(&type, iso_square(x), NULL));
    iso_function *f = NULL;
    iso_dataset *data = NULL;
    const iso_batch *batch;
    double sum;
    ck_assert_int_eq(iso_function_create(g, &f, .inputs = {x}, .outputs = {iso_sum(y)}), ISO_OK);
    ck_assert_int_eq(iso_dataset_random(ctx, 6, &data, .shape = ISO_SHAPE(4), .no_targets = true), ISO_OK);
    ck_assert_int_eq(iso_dataset_batch(data, 6), ISO_OK);
    ck_assert_int_eq(iso_dataset_next(data, &batch), ISO_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(iso_function_run(f, batch, &sum), ISO_INVALID);
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "picky: the first row is bad"));
    }
    iso_dataset_destroy(data);
    iso_function_destroy(f);
    iso_graph_destroy(g);
}
END_TEST

/* Functions that a program calls, not only an op's own functions. */
START_TEST(null_is_refused)
{
    static const iso_op_type type = {.name = "taken", .infer = same, .rule = "ab->ab"};
    ck_assert_int_eq(iso_op_register(&type, &good, 1), ISO_OK);
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    ck_assert(iso_graph_op_count(NULL) == 0 && iso_graph_tensor_count(NULL) == 0);
    ck_assert(!iso_graph_op(NULL, 0) && !iso_graph_op(g, -1) && !iso_graph_op(g, 1) && iso_graph_op(g, 0));
    ck_assert_int_eq(iso_axis(NULL, 0), -1);
    ck_assert_ptr_null(iso_op_create(NULL, &type, &x, 1, NULL));
    ck_assert_ptr_null(iso_op_1(&type, NULL, NULL));
    ck_assert_ptr_null(iso_op_2(&type, NULL, NULL, NULL));
    ck_assert_ptr_null(iso_op_3(&type, NULL, NULL, NULL, NULL));
    ck_assert_ptr_null(iso_sum_to_shape(NULL, &(iso_shape){0}));
    ck_assert_int_eq(iso_graph_error(g), ISO_OK);
    for (int i = 0; i < 4; i++) {
        static const char *const messages[] = {"iso_op_create: type is NULL", "iso_op_create: inputs is NULL",
                                               "iso_op_3: c is NULL", "iso_sum_to_shape: shape is NULL"};
        iso_graph *other = iso_graph_create(ctx);
        iso_tensor *z = iso_input(other, "z", ISO_F32, ISO_SHAPE(4));
        iso_tensor *y = i == 0   ? iso_op_1(NULL, z, NULL)
                        : i == 1 ? iso_op_create(other, &type, NULL, 1, NULL)
                        : i == 2 ? iso_op_3(&type, z, z, NULL, NULL)
                                 : iso_sum_to_shape(z, NULL);
        ck_assert(y == iso_graph_bad_tensor(other));
        ck_assert_int_eq(iso_graph_error(other), ISO_INVALID);
        ck_assert_str_eq(iso_error_message(), messages[i]);
        iso_graph_destroy(other);
    }
    iso_graph_destroy(g);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("register", 0, types_that_make_no_sense_are_refused, rules_that_cannot_be_read_are_refused,
                  kernels_that_cannot_run_are_refused, ops_that_do_not_fit_their_rule_are_errors_of_the_graph,
                  results_that_are_no_shapes_are_errors_of_the_graph,
                  gradients_of_another_shape_are_errors_of_the_graph, a_kernel_s_fault_names_its_op,
                  null_is_refused, ranks_must_register_alike))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
