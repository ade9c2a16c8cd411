/* Layouts that users hold: made from text, with addends too, and by kind; printed as they are written; wrong
 * texts with their positions. What
 * they say of themselves, against their texts and plain arithmetic. Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"
#include "tests/support/dice.h"
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
    check_refused(iso_layout_create(NULL, "-", &layout), "mesh is NULL");
    check_refused(iso_layout_create(mesh, NULL, &layout), "text is NULL");
    check_refused(iso_layout_replicated(mesh, 9, &layout), "a layout of 9 dimensions");
    check_refused(iso_layout_replicated(mesh, -1, &layout), "a layout of -1 dimensions");
    check_refused(iso_layout_batch_sharded(mesh, "model", 0, &layout), "a layout of 0 dimensions");
    check_refused(iso_layout_batch_sharded(mesh, "batch", 1, &layout), "no axis 'batch'");
    check_refused(iso_layout_batch_sharded(mesh, NULL, 1, &layout), "axis is NULL");
    ck_assert_ptr_null(layout);
    /* a weight has no addends */
    check_refused(iso_layout_parse(mesh, "-; partial(data)", &plain),
                  "neither ',' nor the end at position 2");
}
END_TEST

/* ---- what they say ---- */

/* The entry of one dimension, from what the layout says: "model+data", "-". */
static void entry_text(const iso_layout *layout, int dimension, char *text, size_t size)
{
    snprintf(text, size, "%s", iso_layout_axes(layout, dimension) ? "" : "-");
    for (int i = 0; i < iso_layout_axes(layout, dimension); i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? "+" : "",
                 iso_mesh_axis_name(iso_layout_mesh(layout), iso_layout_axis(layout, dimension, i)));
}

/* Its text, put together from what it says. */
static void check_says(const iso_layout *layout, const char *text)
{
    char said[256] = "", entry[64];
    const char *lead[] = {"; partial(", "; partial max("};
    const iso_mesh *on = iso_layout_mesh(layout);
    bool any = false;
    for (int d = 0; d < iso_layout_rank(layout); d++) {
        entry_text(layout, d, entry, sizeof entry);
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", d ? ", " : "", entry);
    }
    for (int a = 0; a < iso_mesh_axes(on); a++) {
        iso_placement placement = iso_layout_placement(layout, a);
        int dimension = iso_layout_dimension_of(layout, a);
        ck_assert((placement == ISO_SHARDED) == (dimension >= 0));
        if (placement != ISO_PARTIAL_SUM && placement != ISO_PARTIAL_MAX)
            continue;
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s",
                 any ? ", " : lead[placement == ISO_PARTIAL_MAX], iso_mesh_axis_name(on, a));
        any = true;
    }
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s", any ? ")" : "");
    ck_assert_str_eq(said, text);
}

/* A slot's coordinate along an axis of row-major data=4,model=2. */
static int64_t coordinate(int slot, int axis)
{
    return axis == 0 ? slot / 2 : slot % 2;
}

/* Its range of n elements, cut as the axes of a text say: ceil(n / parts) each. */
static void cut_range(const char *entry, int slot, int64_t *offset, int64_t *extent)
{
    char axes[64], *rest = axes;
    snprintf(axes, sizeof axes, "%s", entry);
    for (char *axis; strcmp(entry, "-") != 0 && (axis = strsep(&rest, "+"));) {
        int64_t parts = strcmp(axis, "data") ? 2 : 4, at = coordinate(slot, parts == 4 ? 0 : 1);
        int64_t part = (*extent + parts - 1) / parts, begin = at * part < *extent ? at * part : *extent;
        int64_t end = begin + part < *extent ? begin + part : *extent;
        *offset += begin;
        *extent = end - begin;
    }
}

static void check_boxes(const iso_layout *layout, iso_shape shape)
{
    for (int slot = 0; slot < 8; slot++) {
        iso_box box, wanted = iso_box_whole(&shape);
        char entry[64];
        for (int d = 0; d < shape.rank; d++) {
            entry_text(layout, d, entry, sizeof entry);
            cut_range(entry, slot, &wanted.offset[d], &wanted.extent[d]);
        }
        check_ok(iso_layout_local_box(layout, shape, slot, &box));
        ck_assert(iso_box_equal(&box, &wanted));
    }
}

START_TEST(layouts_tell_what_they_say)
{
    dice luck = {.key = 4};
    char text[256];
    for (int i = 0; i < 200; i++) {
        iso_shape shape = {.rank = throw_dice(&luck, 4)};
        iso_layout *layout = throw_handle(&luck, mesh, shape.rank), *again;
        for (int d = 0; d < shape.rank; d++)
            shape.dim[d] = throw_dice(&luck, 12);
        check_says(layout, iso_layout_describe(layout, text, sizeof text));
        check_boxes(layout, shape);
        check_ok(iso_layout_create(mesh, text, &again));
        ck_assert(iso_layout_equal(layout, again));
        iso_layout_destroy(again);
        iso_layout_destroy(layout);
    }
}
END_TEST

START_TEST(layouts_are_of_a_kind)
{
    static const struct kind {
        const char *text;
        int parts; /* of the first dimension */
        bool replicated, sharded, partial;
    } kinds[] = {
        {"-, -", 1, true, false, false},
        {"data, -", 4, false, true, false},
        {"one, -", 1, true, false, false},
        {"model+data, -", 8, false, true, false},
        {"-, model", 1, false, true, false},
        {"-, -; partial(data)", 1, false, false, true},
        {"-, -; partial(one)", 1, true, false, false},
        {"data, -; partial max(model)", 4, false, true, true},
    };
    iso_mesh *three;
    check_ok(iso_mesh_abstract(ctx, "data=4,one=1,model=2", &three));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        iso_layout *layout;
        check_ok(iso_layout_create(three, kinds[i].text, &layout));
        ck_assert_int_eq(iso_layout_parts(layout, 0), kinds[i].parts);
        ck_assert(iso_layout_is_replicated(layout) == kinds[i].replicated);
        ck_assert(iso_layout_is_sharded(layout) == kinds[i].sharded);
        ck_assert(iso_layout_is_partial(layout) == kinds[i].partial);
        iso_layout_destroy(layout);
    }
    iso_mesh_destroy(three);
}
END_TEST

START_TEST(layouts_are_compared)
{
    static const char *const texts[] = {"-, -",
                                        "data, -",
                                        "-, data",
                                        "data+model, -",
                                        "model+data, -",
                                        "-",
                                        "-, -; partial(data)",
                                        "-, -; partial max(data)"};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    iso_mesh *equal, *other;
    iso_layout *a, *b;
    check_ok(iso_mesh_create(ctx, "data=4,model=2", &equal));
    check_ok(iso_mesh_create(ctx, "model=4,data=2", &other));
    ck_assert(iso_mesh_equal(mesh, equal) && !iso_mesh_equal(mesh, other) && !iso_mesh_equal(mesh, NULL));
    for (int i = 0; i < TEXTS; i++)
        for (int k = 0; k < 3 * TEXTS; k++) {
            iso_mesh *of[] = {mesh, equal, other};
            check_ok(iso_layout_create(mesh, texts[i], &a));
            check_ok(iso_layout_create(of[k / TEXTS], texts[k % TEXTS], &b));
            ck_assert(iso_layout_equal(a, b) == (k % TEXTS == i && k / TEXTS < 2));
            iso_layout_destroy(a);
            iso_layout_destroy(b);
        }
    iso_mesh_destroy(equal);
    iso_mesh_destroy(other);
}
END_TEST

/* What there is not tells nothing. */
START_TEST(wrong_questions_are_answered)
{
    iso_layout *layout;
    iso_box box = {.rank = 77};
    check_ok(iso_layout_create(mesh, "data, -", &layout));
    ck_assert_int_eq(iso_layout_rank(NULL), 0);
    ck_assert_ptr_null(iso_layout_mesh(NULL));
    for (int d = -1; d < 3; d += 3) { /* -1 and 2 */
        ck_assert_int_eq(iso_layout_axes(layout, d), 0);
        ck_assert_int_eq(iso_layout_axis(layout, d, 0), -1);
        ck_assert_int_eq(iso_layout_parts(layout, d), 0);
        ck_assert(iso_layout_placement(layout, d) == ISO_REPLICATED);
    }
    ck_assert_int_eq(iso_layout_axis(layout, 0, 1), -1);
    ck_assert_int_eq(iso_layout_axis(layout, 0, -1), -1);
    ck_assert_int_eq(iso_layout_dimension_of(layout, 1), -1);
    ck_assert_int_eq(iso_layout_dimension_of(NULL, 0), -1);
    ck_assert(!iso_layout_is_replicated(NULL) && !iso_layout_is_sharded(NULL) &&
              !iso_layout_is_partial(NULL));
    ck_assert(!iso_layout_equal(layout, NULL) && !iso_layout_equal(NULL, layout));
    check_refused(iso_layout_local_box(layout, ISO_SHAPE(4, 4), 8, &box),
                  "slot 8 on mesh data=4,model=2, whose slots are 0 to 7");
    check_refused(iso_layout_local_box(layout, ISO_SHAPE(4, 4), -1, &box), "slot -1");
    check_refused(iso_layout_local_box(layout, ISO_SHAPE(4), 0, &box),
                  "a tensor of shape [4] in a layout of 2 dimensions");
    check_refused(iso_layout_local_box(layout, ISO_SHAPE(ISO_BATCH, 4), 0, &box), "[batch, 4]");
    check_refused(iso_layout_local_box(layout, (iso_shape){.rank = 99}, 0, &box), "a shape of 99 dimensions");
    check_refused(iso_layout_local_box(NULL, ISO_SHAPE(4), 0, &box), "layout is NULL");
    check_refused(iso_layout_local_box(layout, ISO_SHAPE(4, 4), 0, NULL), "box is NULL");
    ck_assert_int_eq(box.rank, 77); /* written on success only */
    iso_layout_destroy(layout);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = iso_mesh_create(ctx, "data=4,model=2", &mesh);
    if (status == ISO_OK &&
        RUN_TESTS("layout handles", 0, texts_come_back, kinds_have_names, wrong_texts_are_refused,
                  layouts_tell_what_they_say, layouts_are_of_a_kind, layouts_are_compared,
                  wrong_questions_are_answered))
        status = iso_error(ISO_FAILED, "a test failed");
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
