/* Layouts that users hold: made from text, with addends too, and by kind; printed as they are written; wrong
 * texts with their positions. Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_mesh *mesh;

static void check_printed(iso_layout *layout, const char *text)
{
    char *printed = NULL, wanted[256];
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    iso_layout_print(layout, out);
    fclose(out);
    snprintf(wanted, sizeof wanted, "layout '%s' on mesh data=4,model=2\n", text);
    ck_assert_str_eq(printed, wanted);
    free(printed);
    iso_layout_destroy(layout);
}

START_TEST(texts_come_back)
{
    static const char *const texts[][2] = {
        {"data, -", "data, -"},
        {"", ""},
        {" -,model+data ", "-, model+data"},
        {"data, -; partial(model)", "data, -; partial(model)"},
        {"-;partial ( model , data )", "-; partial(data, model)"},
        {"-, -; partial max(data)", "-, -; partial max(data)"},
        {"; partial(data)", "; partial(data)"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        iso_layout *layout;
        check_ok(iso_layout_create(mesh, texts[i][0], &layout));
        check_printed(layout, texts[i][1]);
    }
}
END_TEST

START_TEST(kinds_have_names)
{
    iso_layout *layout;
    check_ok(iso_layout_replicated(mesh, 3, &layout));
    check_printed(layout, "-, -, -");
    check_ok(iso_layout_replicated(mesh, 0, &layout));
    check_printed(layout, "");
    check_ok(iso_layout_batch_sharded(mesh, "model", 2, &layout));
    check_printed(layout, "model, -");
    iso_layout_print(NULL, stderr);
}
END_TEST

START_TEST(wrong_texts_are_refused)
{
    static const char *const texts[][2] = {
        {"data, -; partial(data)", "an axis for the second time at position 18"},
        {"-; partial(model, model)", "an axis for the second time at position 19"},
        {"-; partial()", "neither an axis nor '-' at position 12"},
        {"-; partial(modle)",
         "position 12: the mesh data=4,model=2 has no axis 'modle'; did you mean 'model'"},
        {"-; partial(model", "neither ',' nor ')' at position 17"},
        {"-; partial(model) x", "not the end at position 19"},
        {"-; partial model", "no '(' at position 12"},
        {"-; parts(model)", "not 'partial' at position 4"},
        {"-;", "not 'partial' at position 3"},
        {"data data", "neither ',' nor the end at position 6"},
        {"-, ", "neither an axis nor '-' at position 4"},
        {"-,-,-,-,-,-,-,-,-", "more than 8 dimensions at position 17"},
    };
    iso_layout *layout = NULL, plain;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_refused(iso_layout_create(mesh, texts[i][0], &layout), texts[i][1]);
    check_refused(iso_layout_create(NULL, "-", &layout), "needs a mesh");
    check_refused(iso_layout_create(mesh, NULL, &layout), "needs a text");
    check_refused(iso_layout_replicated(mesh, 9, &layout), "a layout of 9 dimensions");
    check_refused(iso_layout_replicated(mesh, -1, &layout), "a layout of -1 dimensions");
    check_refused(iso_layout_batch_sharded(mesh, "model", 0, &layout), "a layout of 0 dimensions");
    check_refused(iso_layout_batch_sharded(mesh, "batch", 1, &layout), "no axis 'batch'");
    check_refused(iso_layout_batch_sharded(mesh, NULL, 1, &layout), "cut along axis ''");
    ck_assert_ptr_null(layout);
    /* a weight has no addends */
    check_refused(iso_layout_parse(mesh, "-; partial(data)", &plain),
                  "neither ',' nor the end at position 2");
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = iso_mesh_create(ctx, "data=4,model=2", &mesh);
    if (status == ISO_OK &&
        RUN_TESTS("layout handles", 0, texts_come_back, kinds_have_names, wrong_texts_are_refused))
        status = iso_error(ISO_FAILED, "a test failed");
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
