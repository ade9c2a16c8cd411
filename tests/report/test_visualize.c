/* Pictures of layouts: each cell names the slots whose box it is, and no slot is forgotten; what is left out
 * of large meshes; wrong shapes. Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/report/visualize_impl.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static dice luck = {.key = 31};

enum { MOST_SLOTS = 12, CASES = 400 };

/* "0+1, 4-6": counts each slot; sums: the number of the sum that each is in. False where some are left out.
 */
static bool read_slots(const char *text, int seen[MOST_SLOTS], int sum[MOST_SLOTS])
{
    int sums = 0;
    if (strstr(text, "..."))
        return false;
    for (char *end; *text; text = end) {
        int first = (int)strtol(text, &end, 10), last = first;
        ck_assert_ptr_ne(end, text);
        if (*end == '-')
            last = (int)strtol(end + 1, &end, 10);
        for (int s = first; s <= last; s++) {
            ck_assert_int_lt(s, MOST_SLOTS);
            seen[s]++;
            sum[s] = sums;
        }
        sums += *end == ',';
        end += strspn(end, ",+| ");
    }
    return true;
}

/* The part of a dimension that a cell's slots should have. */
static void check_range(const iso_picture *picture, int direction, int part, const iso_box *box)
{
    const iso_picture_side *side = &picture->side[direction];
    if (side->dim < 0)
        return;
    ck_assert_int_eq(box->offset[side->dim], side->part[part].begin);
    ck_assert_int_eq(box->extent[side->dim], side->part[part].count);
}

/* Slots of one sum differ along the partial axes only. */
static void check_sums(const iso_picture *picture, const int seen[MOST_SLOTS], const int sum[MOST_SLOTS])
{
    const iso_mesh *mesh = picture->mesh;
    uint32_t partial = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        partial |= mesh->size[a] > 1 ? picture->layout->partial & 1u << a : 0;
    for (int s = 0; s < mesh->n_slots && partial; s++)
        for (int t = 0; t < s; t++) {
            bool same = true;
            for (int a = 0; a < mesh->n_axes; a++)
                if (!(partial & 1u << a))
                    same &= iso_mesh_coordinate(mesh, s, a) == iso_mesh_coordinate(mesh, t, a);
            if (seen[s] && seen[t])
                ck_assert_int_eq(same, sum[s] == sum[t]);
        }
}

static void check_picture(const iso_picture *picture)
{
    int total[MOST_SLOTS] = {0}, none[MOST_SLOTS];
    bool all = picture->n_slices == picture->n_shown_slices && read_slots(picture->idle_slots, total, none);
    for (int s = 0; s < picture->mesh->n_slots; s++) {
        iso_box box = iso_layout_box(picture->mesh, picture->layout, &picture->shape, s);
        ck_assert(!all || total[s] == (iso_box_count(&box) == 0));
    }
    for (int k = 0; k < picture->n_shown_slices; k++)
        for (int r = 0; r < picture->side[0].shown; r++)
            for (int c = 0; c < picture->side[1].shown; c++) {
                int seen[MOST_SLOTS] = {0}, sum[MOST_SLOTS];
                all &= read_slots(iso_picture_at(picture, k, r, c)->slots, seen, sum);
                for (int s = 0; s < picture->mesh->n_slots; s++) {
                    iso_box box = iso_layout_box(picture->mesh, picture->layout, &picture->shape, s);
                    total[s] += seen[s];
                    if (seen[s])
                        check_range(picture, 0, r, &box);
                    if (seen[s])
                        check_range(picture, 1, c, &box);
                }
                check_sums(picture, seen, sum);
            }
    for (int s = 0; s < picture->mesh->n_slots && all; s++)
        ck_assert_int_eq(total[s], 1);
}

START_TEST(cells_name_their_slots)
{
    static const char *const meshes[] = {"a=1", "a=5", "a=2,b=4", "a=3,b=2", "a=2,b=2,c=3", "a=1,b=3,c=2"};
    const iso_visualize_options options = {0};
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        iso_mesh *mesh;
        check_ok(iso_mesh_create(ctx, meshes[m], &mesh));
        for (int i = 0; i < CASES; i++) {
            iso_shape shape = {.rank = throw_dice(&luck, 5)};
            iso_picture *picture;
            for (int d = 0; d < shape.rank; d++)
                shape.dim[d] = throw_dice(&luck, 8);
            iso_layout *layout = throw_handle(&luck, mesh, shape.rank);
            check_ok(iso_picture_create(layout, &shape, &options, 20, 20, &picture));
            check_picture(picture);
            iso_picture_destroy(picture);
            iso_layout_destroy(layout);
        }
        iso_mesh_destroy(mesh);
    }
}
END_TEST

START_TEST(the_middle_is_left_out)
{
    const iso_visualize_options options = {.slots_per_rank = 2, .slots_per_host = 16};
    iso_mesh *mesh;
    iso_layout *layout;
    iso_picture *picture;
    iso_text notes = {0};
    iso_shape shape = ISO_SHAPE(1000, 40, 7);
    check_ok(iso_mesh_abstract(ctx, "a=1000,b=10,c=10", &mesh));
    check_ok(iso_layout_create(mesh, "a, b, c", &layout));
    check_ok(iso_picture_create(layout, &shape, &options, 6, 3, &picture));
    ck_assert_int_eq(picture->side[0].shown, 6);
    ck_assert_int_eq(picture->side[1].shown, 3);
    ck_assert_int_eq(picture->side[0].part[4].skipped, 994);
    ck_assert_int_eq(picture->side[0].part[5].begin, 999);
    ck_assert_int_eq(picture->side[1].part[2].begin, 36);
    ck_assert_int_eq(picture->idle, 30000); /* 7 of 10 parts hold something */
    const iso_picture_cell *last = iso_picture_at(picture, picture->n_shown_slices - 1, 5, 2);
    ck_assert_str_eq(last->slots, "99996");
    ck_assert_str_eq(last->ranks, "49998");
    ck_assert_str_eq(last->hosts, "6249");
    iso_picture_notes(picture, false, &notes);
    ck_assert_str_eq(
        iso_text_get(&notes),
        "slots 7-9, 17-19, 27-29, ..., 99999 hold nothing\n994 of 1000 rows of parts are left out\n"
        "7 of 10 columns of parts are left out\n3 of 7 grids are left out\n");
    iso_text_free(&notes);
    iso_picture_destroy(picture);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(wrong_shapes_are_refused)
{
    iso_mesh *mesh;
    iso_layout *layout;
    FILE *out = tmpfile();
    check_ok(iso_mesh_create(ctx, "a=2", &mesh));
    check_ok(iso_layout_create(mesh, "a, -", &layout));
    check_refused(iso_layout_visualize(layout, ISO_SHAPE(3), out),
                  "a layout of 2 dimensions for the shape [3]");
    check_refused(iso_layout_visualize(layout, ISO_SHAPE(3, ISO_BATCH), out), "dimension 1 is not known");
    check_refused(iso_layout_visualize(NULL, ISO_SHAPE(3), out), "iso_layout_visualize: layout is NULL");
    ck_assert_int_eq(ftell(out), 0);
    fclose(out);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("visualize", 0, cells_name_their_slots, the_middle_is_left_out, wrong_shapes_are_refused))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
