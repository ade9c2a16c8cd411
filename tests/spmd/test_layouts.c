/* Meshes and layouts as text, and what a layout map gives to a path. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

static iso_mesh *make_mesh(const char *text)
{
    iso_mesh *mesh = NULL;
    check_ok(iso_mesh_create(ctx, text, &mesh));
    return mesh;
}

/* ---- meshes ---- */

START_TEST(meshes_are_read)
{
    iso_mesh *mesh = make_mesh(" data = 2 ,model_1=3,x=1");
    ck_assert_int_eq(iso_mesh_axes(mesh), 3);
    ck_assert_int_eq(iso_mesh_slots(mesh), 6);
    ck_assert_str_eq(iso_mesh_axis_name(mesh, 1), "model_1");
    ck_assert_int_eq(iso_mesh_axis_size(mesh, 1), 3);
    ck_assert_str_eq(iso_mesh_text(mesh), "data=2,model_1=3,x=1");
    ck_assert_int_eq(iso_mesh_coordinate(mesh, 5, 0), 1);
    ck_assert_int_eq(iso_mesh_coordinate(mesh, 5, 1), 2);
    ck_assert_int_eq(iso_mesh_with_coordinate(mesh, 5, 0, 0), 2);
    ck_assert_int_eq(iso_mesh_find_axis(mesh, "x"), 2);
    ck_assert_int_eq(iso_mesh_find_axis(mesh, "y"), -1);
    for (int s = 0; s < 6; s++)
        ck_assert_int_eq(iso_mesh_rank_of_slot(mesh, s), 0);
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(a_star_is_what_is_left)
{
    iso_mesh *mesh = make_mesh("data=*");
    ck_assert_int_eq(iso_mesh_axis_size(mesh, 0), 6); /* main() asks for 6 threads */
    iso_mesh_destroy(mesh);
    mesh = make_mesh("data=*,model=3");
    ck_assert_str_eq(iso_mesh_text(mesh), "data=2,model=3");
    iso_mesh_destroy(mesh);
    check_refused(iso_mesh_create(ctx, "data=*,model=4", &mesh),
                  "6 threads are not a multiple of the other axes' 4 slots");
    check_refused(iso_mesh_create(ctx, "data=*,model=5", &mesh),
                  "6 threads are not a multiple of the other axes' 5 slots");
    check_refused(iso_mesh_create(ctx, "a=*,b=*", &mesh), "only one axis may be '*'");
}
END_TEST

START_TEST(wrong_meshes_are_named)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "the mesh is empty"},
        {"data", "mesh 'data': no '=' at position 5"},
        {"data=", "no positive size at position 6"},
        {"data=0", "no positive size at position 6"},
        {"data=-2", "no positive size at position 6"},
        {"data=2x", "neither ',' nor the end at position 7"},
        {"data=2,", "no axis name at position 8"},
        {"=2", "no axis name at position 1"},
        {"data=2,data=3", "an axis name for the second time at position 8"},
        {"a=1,b=1,c=1,d=1,e=1,f=1,g=1", "7 axes, at most 6 are possible"},
        {"data=99999999999", "a size above 2147483647 at position 6"},
        {"data=65536,model=65536", "more than 16777216 slots"},
        {"an_axis_with_a_name_of_33_letters=2", "an axis name of 33 characters, at most 31 are possible"},
    };
    iso_mesh *mesh = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(iso_mesh_create(ctx, wrong[i].text, &mesh), wrong[i].message);
    ck_assert_ptr_null(mesh);
}
END_TEST

START_TEST(wrong_lists_of_ranks_are_named)
{
    iso_mesh *mesh = NULL;
    check_refused(iso_mesh_create_on(ctx, "data=2", (const int[]){0, 0, 0}, 3, &mesh),
                  "mesh 'data=2' has 2 slots, the list of ranks has 3 entries");
    check_refused(iso_mesh_create_on(ctx, "data=2", (const int[]){0, 1}, 2, &mesh),
                  "slot 1 is listed on rank 1");
    check_refused(iso_mesh_create_on(ctx, "data=2", (const int[]){-1, 0}, 2, &mesh),
                  "slot 0 is listed on rank -1");
    ck_assert_ptr_null(mesh);
}
END_TEST

START_TEST(lists_of_devices_are_read)
{
    static const struct {
        const char *text;
        int count, rank[8];
    } lists[] = {
        {"0", 1, {0}},
        {"3,1,2", 3, {3, 1, 2}},
        {" 0 - 2 , 2-0 ", 6, {0, 1, 2, 2, 1, 0}},
        {"0x3,1", 4, {0, 0, 0, 1}},
        {"2x2, 0x1, 1 x 3", 6, {2, 2, 0, 1, 1, 1}},
        {"5-5", 1, {5}},
    };
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "--devices '': no rank at position 1"},
        {"0,", "no rank at position 3"},
        {"0,-1", "no rank at position 3"},
        {"0 1", "neither ',' nor the end at position 3"},
        {"0-", "no rank after '-' at position 3"},
        {"0x", "no number of slots after 'x' at position 3"},
        {"0x0", "no slot at position 3"},
        {"0-3x2", "neither ',' nor the end at position 4"},
        {"99999999999999999999", "a number that is too large at position 1"},
        {"0x16777216,1", "more than 16777216 slots"},
        {"1,cpu:0", "no rank at position 3"},
    };
    int *ranks = NULL, count = -1;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        check_ok(iso_devices_parse(lists[i].text, &ranks, &count));
        ck_assert_int_eq(count, lists[i].count);
        ck_assert_mem_eq(ranks, lists[i].rank, (size_t)count * sizeof *ranks);
        iso_free(ranks);
    }
    count = -1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(iso_devices_parse(wrong[i].text, &ranks, &count), wrong[i].message);
    check_refused(iso_devices_parse(NULL, &ranks, &count), "iso_devices_parse: text is NULL");
    ck_assert_int_eq(count, -1);
}
END_TEST

/* Of ranks and hosts that there are not. */
START_TEST(meshes_are_abstract)
{
    iso_mesh *mesh = NULL;
    int host[8], wanted[8] = {1, 0, 0, 1, 2, 2, 0, 1}; /* ranks 1 and 2, 0, 3: in the order of ranks */
    check_ok(iso_mesh_abstract_on(ctx, "data=4,model=*", "1,0,0,2,3,3,0,2", &mesh));
    ck_assert_str_eq(iso_mesh_text(mesh), "data=4,model=2");
    ck_assert_int_eq(iso_mesh_rank_of_slot(mesh, 4), 3);
    check_ok(iso_mesh_abstract_hosts(mesh, 0, host));
    for (int s = 0; s < 8; s++)
        ck_assert_int_eq(host[s], 0);
    check_ok(iso_mesh_abstract_hosts(mesh, 3, host));
    ck_assert_mem_eq(host, wanted, sizeof host);
    check_refused(iso_mesh_abstract_hosts(mesh, 5, host),
                  "with 5 slots on each host, rank 2, which has 2, would be on two hosts");
    iso_mesh_destroy(mesh);
    mesh = NULL;
    check_refused(iso_mesh_abstract_on(ctx, "data=3", "2,0,2", &mesh),
                  "--devices '2,0,2': mesh 'data=3': rank 1 hosts no slot");
    check_refused(iso_mesh_abstract_on(ctx, "data=2,model=*", "2,0,1", &mesh),
                  "3 slots in the list are not a multiple of the other axes' 2 slots");
    ck_assert_ptr_null(mesh);
    check_ok(iso_mesh_abstract(ctx, "data=8", &mesh)); /* in the order of the mesh */
    check_ok(iso_mesh_abstract_hosts(mesh, 3, host));
    for (int s = 0; s < 8; s++)
        ck_assert_int_eq(host[s], s / 3);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- layouts ---- */

START_TEST(layouts_are_read)
{
    static const char *const texts[] = {"-",      "model", "-, model", "data+model, -", "model+data, -, -, x",
                                        "-, -, -"};
    iso_mesh *mesh = make_mesh("data=2,model=3,x=1");
    iso_layout layout;
    char text[64];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_ok(iso_layout_parse(mesh, texts[i], &layout));
        ck_assert_str_eq(iso_layout_text(mesh, &layout, text, sizeof text), texts[i]);
    }
    check_ok(iso_layout_parse(mesh, "  model + data ,-", &layout));
    ck_assert_str_eq(iso_layout_text(mesh, &layout, text, sizeof text), "model+data, -");
    ck_assert_uint_eq(iso_layout_sharded_axes(&layout), 3);
    check_ok(iso_layout_parse(mesh, "", &layout));
    ck_assert_int_eq(layout.rank, 0);
    iso_mesh_destroy(mesh);
}
END_TEST

/* A window of 3 over 7 rows, every second place: what its 4 places read, cut in 3. */
START_TEST(windows_overlap)
{
    iso_mesh *mesh = make_mesh("data=2,h=3");
    iso_shape shape = ISO_SHAPE(5, 7);
    iso_layout layout;
    char text[96];
    check_ok(iso_layout_parse(mesh, "data, h", &layout));
    layout.dim[1].window =
        (iso_sliding_window){.positions = 4, .size = 3, .stride = 2, .dilation = 1, .before = 1};
    ck_assert_str_eq(iso_layout_text(mesh, &layout, text, sizeof text), "data, h; halo(h)");
    static const int64_t begin[] = {0, 3, 7}, extent[] = {4, 4, 0};
    for (int slot = 0; slot < 6; slot++) {
        iso_box box = iso_layout_box(mesh, &layout, &shape, slot);
        ck_assert_int_eq(box.extent[1], extent[slot % 3]);
        ck_assert_int_eq(box.offset[1], begin[slot % 3]);
    }
    iso_layout sum = layout;
    sum.dim[1].addends = true;
    sum.partial = 1;
    sum.dim[0].count = 0;
    ck_assert(!iso_layout_equal(&layout, &sum));
    ck_assert_str_eq(iso_layout_text(mesh, &sum, text, sizeof text), "-, h; halo sum(h); partial(data)");
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(wrong_layouts_are_named)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"model, model", "an axis for the second time at position 8"},
        {"data+data", "an axis for the second time at position 6"},
        {"-, modle", "position 4: the mesh data=2,model=3 has no axis 'modle'; did you mean 'model'"},
        {"-,", "neither an axis nor '-' at position 3"},
        {"-; data", "neither ',' nor the end at position 2"},
        {"data+", "neither an axis nor '-' at position 6"},
        {"- data", "neither ',' nor the end at position 3"},
        {"-,-,-,-,-,-,-,-,-", "more than 8 dimensions at position 17"},
        /* as long as a name may be, and longer by one */
        {"-, a123456789b123456789c123456789d", "position 4: the mesh data=2,model=3 has no axis"},
        {"-, a123456789b123456789c123456789de", "neither an axis nor '-' at position 4"},
    };
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout layout;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(iso_layout_parse(mesh, wrong[i].text, &layout), wrong[i].message);
    iso_mesh_destroy(mesh);
}
END_TEST

/* The first axis of a dimension cuts it, the next cuts its parts; ceil(n / parts) each. */
START_TEST(boxes_are_cut_axis_by_axis)
{
    iso_mesh *mesh = make_mesh("a=2,b=3");
    iso_layout layout;
    iso_shape shape = ISO_SHAPE(7, 5);
    static const int64_t first[6][2] = {{0, 2}, {2, 2}, {4, 0}, {4, 1}, {5, 1}, {6, 1}};
    check_ok(iso_layout_parse(mesh, "a+b, -", &layout));
    for (int s = 0; s < 6; s++) {
        iso_box box = iso_layout_box(mesh, &layout, &shape, s);
        ck_assert_int_eq(box.extent[0], first[s][1]);
        ck_assert_int_eq(box.extent[1], 5);
        if (box.extent[0] > 0)
            ck_assert_int_eq(box.offset[0], first[s][0]);
    }
    ck_assert_int_eq(iso_layout_largest(mesh, &layout, &shape), 10);
    check_ok(iso_layout_parse(mesh, "-, b+a", &layout)); /* 5 by b: 2, 2, 1; then by a */
    for (int s = 0; s < 6; s++)
        ck_assert_int_eq(iso_layout_box(mesh, &layout, &shape, s).extent[1], s == 5 ? 0 : 1);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- maps ---- */

/* The key that gives a path its layout; "" for none. */
static const char *key_of(iso_layout_map *map, const char *path, int rank)
{
    iso_shape shape = {.rank = rank, .dim = {4, 4, 4, 4}};
    iso_layout layout;
    const char *key;
    check_ok(iso_layout_map_find(map, path, &shape, &layout, &key));
    ck_assert(key || iso_layout_sharded_axes(&layout) == 0);
    return key ? key : "";
}

START_TEST(keys_are_exact_or_match_the_whole_path)
{
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "d1/kernel", "-, model"));
    check_ok(iso_layout_map_set(map, "d[0-9]+/kernel", "model, -"));
    check_ok(iso_layout_map_set(map, ".*/bias", "model"));
    ck_assert_str_eq(key_of(map, "d1/kernel", 2), "d1/kernel"); /* the exact one wins over the pattern */
    ck_assert_str_eq(key_of(map, "d22/kernel", 2), "d[0-9]+/kernel");
    ck_assert_str_eq(key_of(map, "d22/kernel/more", 2), ""); /* anchored at both ends */
    ck_assert_str_eq(key_of(map, "a/d2/kernel", 2), "");
    ck_assert_str_eq(key_of(map, "a/bias", 1), ".*/bias");
    ck_assert_str_eq(key_of(map, "a/biases", 1), "");
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(wrong_keys_are_named)
{
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    iso_layout layout;
    const iso_layout *got = NULL;
    iso_shape shape = ISO_SHAPE(4, 4), vector = ISO_SHAPE(4);
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "d.*", "-, model"));
    check_ok(iso_layout_map_set(map, ".*kernel", "model, -"));
    check_refused(iso_layout_map_find(map, "d1/kernel", &shape, &layout, NULL),
                  "two layout keys match 'd1/kernel': 'd.*' and '.*kernel'");
    check_refused(iso_layout_map_get(map, "d1/kernel", &got),
                  "two layout keys match 'd1/kernel': 'd.*' and '.*kernel'");
    check_refused(iso_layout_map_get(map, NULL, &got), "iso_layout_map_get: path is NULL");
    check_refused(iso_layout_map_get(NULL, "d1/kernel", &got), "iso_layout_map_get: map is NULL");
    check_refused(iso_layout_map_get(map, "d1/kernel", NULL), "iso_layout_map_get: layout is NULL");
    ck_assert_ptr_null(got);
    check_refused(iso_layout_map_find(map, "d1/bias", &vector, &layout, NULL),
                  "layout '-, model' of key 'd.*' has 2 entries, but 'd1/bias' has the shape [4]");
    check_refused(iso_layout_map_set(map, "d.*", "-"), "layout key 'd.*' is set twice");
    check_refused(iso_layout_map_set(map, "a/b", "-, depth"),
                  "layout key 'a/b': layout '-, depth', position 4: the mesh");
    check_refused(iso_layout_map_set(map, "a(b", "-"),
                  "layout key 'a(b': not a regular expression: missing closing parenthesis at position 4");
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* What the map warns of, on standard error. */
static char *reported(iso_layout_map *map, const char **paths, int count, iso_status *status)
{
    static char text[2048];
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    *status = iso_layout_map_report_unmatched_keys(map, paths, count, true);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

START_TEST(keys_that_match_nothing_are_reported_once)
{
    static const char *paths[] = {"d1/kernel", "d1/bias", "conv/kernel"};
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    const iso_layout *asked;
    iso_status status;
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "d1/bias", "model"));
    check_ok(iso_layout_map_set(map, "d1/kernal", "-, model"));
    ck_assert_str_eq(key_of(map, "d1/bias", 1), "d1/bias");
    check_ok(iso_layout_map_get(map, "d1/kernal", &asked)); /* a question of the user is no use of the key */
    ck_assert_ptr_nonnull(asked);
    const char *text = reported(map, paths, 3, &status);
    check_ok(status);
    ck_assert_msg(
        strstr(
            text,
            "layout key 'd1/kernal' (-, model) matches no variable and no output; did you mean 'd1/kernel'"),
        "printed: %s", text);
    ck_assert_ptr_null(strstr(text, "'d1/bias' matches"));
    ck_assert_str_eq(reported(map, paths, 3, &status), "");
    check_ok(iso_layout_map_set(map, "d3/kernel", "-, model"));
    iso_layout_map_set_strict(map, true);
    check_refused(iso_layout_map_report_unmatched_keys(map, paths, 3, true),
                  "layout key 'd3/kernel' (-, model) matches no variable");
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* Where there is such a path, a key that may match nothing is as any other. */
START_TEST(a_key_with_a_question_mark_may_match_nothing)
{
    static const char *paths[] = {"d1/kernel", "d1/bias"};
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    iso_status status;
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "?d1/bias", "model"));
    check_ok(iso_layout_map_set(map, "?(d1|d2)/kernel", "-, model"));
    check_ok(iso_layout_map_set(map, "?logits/.*", "-, model"));
    ck_assert_str_eq(key_of(map, "d1/bias", 1), "d1/bias");
    ck_assert_str_eq(key_of(map, "d1/kernel", 2), "(d1|d2)/kernel");
    iso_layout_map_set_strict(map, true);
    ck_assert_str_eq(reported(map, paths, 2, &status), "");
    check_ok(status);
    ck_assert_str_eq(iso_layout_map_key(map, 2), "?logits/.*");
    check_refused(iso_layout_map_set(map, "logits/.*", "-"), "layout key 'logits/.*' is set twice");
    check_refused(iso_layout_map_set(map, "?d1/bias", "-"), "layout key 'd1/bias' is set twice");
    check_refused(iso_layout_map_set(map, "?", "-"), "layout key '?': the key after the '?' is missing");
    check_ok(iso_layout_map_remove(map, "logits/.*"));
    check_ok(iso_layout_map_remove(map, "?d1/bias"));
    ck_assert_int_eq(iso_layout_map_count(map), 1);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* A key that is a part of paths, or has one within it, says so; one of an optimizer's slot waits for an
 * optimizer. */
START_TEST(what_a_key_comes_near_to_is_told)
{
    static const struct {
        const char *key, *said;
    } cases[] = {
        {"kernel", "; it matches a part of 'd1/kernel', 'block/d2/kernel' (a key must match the whole path)"},
        {"d2/.*", "; it matches a part of 'block/d2/kernel', 'block/d2/bias', 'block/d2/output' (a key"},
        {"d", "'d1/kernel', 'block/d2/kernel', 'block/d2/bias' and 1 more (a key"},
        {"model/d1/kernel", "; it contains 'd1/kernel'\n"},
        {"block/d2/bias/kernel",
         "; it contains 'block/d2/bias'\n"}, /* and not: did you mean block/d2/kernel */
        {"block/d2/kernal", "; did you mean 'block/d2/kernel'"},
        {"d2/bias", "; it matches a part of 'block/d2/bias' (a key must match the whole path)"},
        {"nothing", "; there are 5, such as 'd1/kernel', 'block/d2/kernel', 'block/d2/bias'"},
        {"optimizer:d1/kernel/momentun", "; did you mean 'optimizer:d1/kernel/momentum'?"},
    };
    iso_mesh *mesh = make_mesh("data=2,model=3");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *paths[] = {"d1/kernel",    "block/d2/kernel", "block/d2/bias",
                               "image/output", "block/d2/output", "optimizer:d1/kernel/momentum"};
        char wanted[512];
        iso_status status;
        iso_layout_map *map;
        check_ok(iso_layout_map_create(mesh, &map));
        check_ok(iso_layout_map_set(map, cases[i].key, "-, model"));
        check_ok(iso_layout_map_set(map, ".*/output", "data, -")); /* matches, and is not reported */
        check_ok(iso_layout_map_set(map, "optimizer:.*momentum", "-, model")); /* nor is this one */
        const char *text = reported(map, paths, 6, &status);
        check_ok(status);
        snprintf(wanted, sizeof wanted, "layout key '%s' (-, model) matches no %s", cases[i].key,
                 strncmp(cases[i].key, "optimizer:", 10) ? "variable and no output" : "slot of an optimizer");
        ck_assert_msg(strstr(text, wanted) && strstr(text, cases[i].said), "without '%s': %s", cases[i].said,
                      text);
        ck_assert_msg(strchr(text, '\n') == strrchr(text, '\n'), "more than one line: %s", text);
        iso_layout_map_destroy(map);
    }
    iso_layout_map *map;
    iso_status status;
    const char *paths[] = {"d1/kernel", "optimizer:d1/kernel/velocity"};
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "optimizer:.*momentum", "-, model"));
    ck_assert_str_eq(reported(map, paths, 1, &status), ""); /* no optimizer so far */
    ck_assert_ptr_nonnull(strstr(reported(map, paths, 2, &status), "'optimizer:.*momentum'"));
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* Keys of optimizers are for nothing else, and no others are for them. */
START_TEST(optimizers_have_keys_of_their_own)
{
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    iso_layout layout;
    const char *key;
    iso_shape shape = ISO_SHAPE(4, 4);
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, ".*kernel.*", "-, model"));
    check_ok(iso_layout_map_set(map, "optimizer:.*/velocity", "model, -"));
    check_ok(iso_layout_map_set(map, "optimizer:d2/kernel/.*", "data, -"));
    ck_assert_str_eq(key_of(map, "d1/kernel", 2), ".*kernel.*");
    check_ok(iso_layout_map_find(map, "optimizer:d1/kernel/momentum", &shape, &layout, &key));
    ck_assert_ptr_null(key);
    check_ok(iso_layout_map_find(map, "optimizer:d1/kernel/velocity", &shape, &layout, &key));
    ck_assert_str_eq(key, "optimizer:.*/velocity");
    check_ok(iso_layout_map_find(map, "optimizer:d2/kernel/momentum", &shape, &layout, &key));
    ck_assert_str_eq(key, "optimizer:d2/kernel/.*");
    check_refused(iso_layout_map_find(map, "optimizer:d2/kernel/velocity", &shape, &layout, &key),
                  "two layout keys match 'optimizer:d2/kernel/velocity'");
    shape = ISO_SHAPE(4);
    check_refused(iso_layout_map_find(map, "optimizer:d1/bias/velocity", &shape, &layout, &key),
                  "has 2 entries, but 'optimizer:d1/bias/velocity' has the shape [4]");
    check_ok(iso_layout_map_find(NULL, "optimizer:d1/bias/velocity", &shape, &layout, &key));
    ck_assert_ptr_null(key);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* The mesh of --mesh, where a program names none. */
START_TEST(the_default_mesh_is_the_option_s)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    check_ok(iso_mesh_create(ctx, NULL, &mesh));
    ck_assert_str_eq(iso_mesh_text(mesh), "data=3,model=2"); /* main() gave it */
    iso_mesh_destroy(mesh);
    check_ok(iso_data_parallel_create(NULL, &distribution));
    ck_assert_ptr_null(iso_distribution_mesh(distribution));
    check_ok(iso_distribution_resolve(distribution, ctx));
    ck_assert_str_eq(iso_mesh_text(iso_distribution_mesh(distribution)), "data=3,model=2");
    iso_distribution_destroy(distribution);
}
END_TEST

START_TEST(a_batch_axis_is_an_axis)
{
    iso_mesh *mesh = make_mesh("data=2,model=3");
    iso_layout_map *map;
    iso_distribution *distribution;
    check_ok(iso_layout_map_create(mesh, &map));
    check_refused(iso_model_parallel_create(map, &distribution, .batch_axis = "date"),
                  "the batch axis: the mesh data=2,model=3 has no axis 'date'; did you mean 'data'");
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_THREADS", "6", 1);
    char *arguments[] = {argv[0], (char *)"--mesh", (char *)"data=3,model=2", NULL};
    argc = 3;
    argv = arguments;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("layouts", 10, meshes_are_read, a_star_is_what_is_left, wrong_meshes_are_named,
                  wrong_lists_of_ranks_are_named, lists_of_devices_are_read, meshes_are_abstract,
                  layouts_are_read, windows_overlap, wrong_layouts_are_named, boxes_are_cut_axis_by_axis,
                  keys_are_exact_or_match_the_whole_path, wrong_keys_are_named,
                  keys_that_match_nothing_are_reported_once, a_key_with_a_question_mark_may_match_nothing,
                  what_a_key_comes_near_to_is_told, optimizers_have_keys_of_their_own,
                  the_default_mesh_is_the_option_s, a_batch_axis_is_an_axis))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
