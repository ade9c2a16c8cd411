/* A program that was built for a newer Isogrid: options that are longer than the library's are taken while what
 * it does not know is zero; else every rank gets the error once, also where one rank alone gave such options,
 * and those of local functions are reported by the next collective call. Ranks: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

typedef struct newer_options {
    iso_dataset_random_options known;
    double added;
} newer_options;

typedef struct newer_layer {
    iso_rescaling_options known;
    double added;
} newer_layer;

static iso_status open_random(double added)
{
    iso_dataset *data = NULL;
    newer_options options = {.known = {.dataset = &data}, .added = added};
    iso_status status = iso_dataset_random_with(ctx, 12, &options.known, sizeof options);
    iso_dataset_destroy(data);
    return status;
}

START_TEST(options_of_a_newer_header)
{
    bool last = iso_rank(ctx) == iso_ranks(ctx) - 1;
    iso_graph *g = iso_graph_create(ctx);
    newer_layer layer = {.known = {.x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4)), .scale = 2},
                         .added = last ? 1 : 0};
    ck_assert_int_eq(open_random(0), ISO_OK);
    ck_assert_ptr_nonnull(
        iso_rescaling_with(&layer.known, sizeof layer)); /* local: on the last rank it is wrong */
    ck_assert_int_eq(open_random(0), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(),
                         "iso_rescaling was given options that Isogrid " ISO_VERSION " does not know: the "
                         "program was built for a newer Isogrid"),
                  "%s", iso_error_message());
    ck_assert_int_eq(open_random(0), ISO_OK); /* reported once */
    ck_assert_int_eq(open_random(1), ISO_INVALID);
    ck_assert_int_eq(open_random(0), ISO_OK);
    iso_graph_destroy(g);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("newer options", 0, options_of_a_newer_header))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
