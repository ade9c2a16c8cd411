/* The banner's comparison of layouts: an error of it is printed once, and ends nothing on any rank. Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* What the ranks alone print for these options; text: `size` bytes. */
static void print_hint(const iso_train_options *options, char *text, size_t size)
{
    const iso_shape row = {.rank = 0};
    const iso_resumption from = {.file = NULL};
    iso_mesh *mesh;
    FILE *file = tmpfile();
    fflush(stdout);
    int screen = dup(STDOUT_FILENO);
    ck_assert(file && screen >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    check_ok(iso_mesh_create(ctx, "data=2,model=2", &mesh));
    iso_layouts_print_hint(ctx, options, &row, &from, mesh);
    fflush(stdout);
    dup2(screen, STDOUT_FILENO);
    close(screen);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    iso_mesh_destroy(mesh);
}

START_TEST(an_error_ends_nothing)
{
    iso_train_options options = iso_train_options_default();
    char text[400];
    options.model = "none.json"; /* was there when the run itself read it */
    print_hint(&options, text, sizeof text);
    if (iso_is_chief(ctx)) {
        static const char begin[] = "layouts: data parallel; others could not be compared with it: ";
        ck_assert_msg(!strncmp(text, begin, sizeof begin - 1) && strstr(text, "none.json"), "%s", text);
        ck_assert(strchr(text, '\n') == text + strlen(text) - 1);
    } else {
        ck_assert_str_eq(text, "");
    }
    check_ok(iso_agree(ctx, ISO_OK)); /* the ranks are together */
}
END_TEST

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return 1;
    int failed = RUN_TESTS("layout_hint", 0, an_error_ends_nothing);
    return iso_finish(ctx, failed ? ISO_INVALID : ISO_OK) || failed;
}
