/* Layout files: the same map as by iso_layout_map_set(), or a message with file, line, column, key and value,
 * alike on all ranks. Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_mesh *mesh;

static iso_layout_map *new_map(void)
{
    iso_layout_map *map;
    if (!mesh)
        check_ok(iso_mesh_create(ctx, "data=2,model=3", &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    return map;
}

static void check_layout(iso_layout_map *map, const char *path, int rank, const char *wanted)
{
    iso_layout layout;
    const char *key;
    char text[ISO_LAYOUT_TEXT];
    iso_shape shape = {.rank = rank, .dim = {4, 4, 4, 4}};
    check_ok(iso_layout_map_find(map, path, &shape, &layout, &key));
    ck_assert_msg(key != NULL, "no key matches '%s'", path);
    ck_assert_str_eq(iso_layout_text(mesh, &layout, text, sizeof text), wanted);
}

/* ---- what is taken ---- */

static const char good[] = "{\n"
                           "  \"d1/kernel\": [null, \"model\"],\n"
                           "  \"d2/kernel\": [[\"data\", \"model\"], null],\n"
                           "  \"d3/kernel\": [[\"model\", \"data\"], []],\n"
                           "  \".*/bias\": [\"model\"], \"scale\": [],\n"
                           "  \"gr\\u00f6\\u00dfe/kernel\": \"data+model, -\",\n"
                           "  \"optimizer:.*velocity\": \" - , data \"\n"
                           "}\n";

static void check_good(iso_layout_map *map)
{
    check_layout(map, "d1/kernel", 2, "-, model");
    check_layout(map, "d2/kernel", 2, "data+model, -");
    check_layout(map, "d3/kernel", 2, "model+data, -");
    check_layout(map, "d1/bias", 1, "model");
    check_layout(map, "scale", 0, "");
    check_layout(map, "größe/kernel", 2, "data+model, -");
    iso_layout layout;
    const char *key;
    check_ok(iso_layout_map_find(map, "optimizer:d1/kernel/velocity", &ISO_SHAPE(4, 4), &layout, &key));
    ck_assert_str_eq(key, "optimizer:.*velocity");
    check_ok(iso_layout_map_find(map, "optimizer:d1/kernel/momentum", &ISO_SHAPE(4, 4), &layout, &key));
    ck_assert_ptr_null(key);
}

START_TEST(tuples_and_texts_are_read)
{
    iso_layout_map *map = new_map();
    check_ok(iso_layout_map_parse(map, "f", good, sizeof good - 1));
    check_good(map);
    iso_layout_map_destroy(map);
    map = new_map();
    check_ok(iso_layout_map_parse(map, "f", "{}", 2));
    iso_layout_map_destroy(map);
}
END_TEST

/* Rank 0 alone needs the file. */
START_TEST(files_are_read_once_for_all)
{
    char name[] = "/tmp/isogrid-layouts-XXXXXX";
    iso_layout_map *map = new_map();
    int fd = iso_rank(ctx) == 0 ? mkstemp(name) : -1;
    if (fd >= 0) {
        ck_assert_int_eq(write(fd, good, sizeof good - 1), (ssize_t)sizeof good - 1);
        close(fd);
    }
    check_ok(iso_layout_map_read(map, name)); /* elsewhere the name is one of no file */
    check_good(map);
    iso_status status = iso_layout_map_read(map, name);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(
        strstr(iso_error_message(), "line 2, column 16: layout key 'd1/kernel' is set twice: to '-, model'"),
        "%s", iso_error_message());
    if (fd >= 0)
        unlink(name);
    ck_assert_int_eq(iso_layout_map_read(map, "/nowhere/at/all"), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "cannot open the layouts in '/nowhere/at/all': No such file"),
                  "%s", iso_error_message());
    ck_assert_int_eq(iso_layout_map_read(map, "/tmp"), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "'/tmp': Is a directory"), "%s", iso_error_message());
    iso_layout_map_destroy(map);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(wrong_files_are_named_with_line_and_column)
{
    static const char *const wrong[][2] = {
        {"", "f, line 1, column 0: "},
        {"no JSON", "f, line 1, column 2: "},
        {"{\"a\": [null,\n \"data\"]\n", "f, line 3, column 0: "},
        {"\xff\xfe{}", "f, line 1, column 0: unable to decode byte 0xff"},
        {"{} {}", "f, line 1, column 4: end of file expected"},
        {"{\"a\": [\"data\"],\n \"a\": [null]}", "f, line 2, column 4: duplicate object key near '\"a\"'"},
        {"{\"a\\u0000b\": [\"data\"]}", "f, line 1, column 11: NUL byte in object key not supported"},
        {"[1, 2]", "f, line 1, column 1: a list; expected an object of layouts by key"},
        {"  7", "f, line 1, column 3: '[' or '{' expected"},
        {"{\"a\": 7}", "f, line 1, column 7: layout key 'a': a number; expected a list such as"},
        {"{\"a\": null}", "f, line 1, column 7: layout key 'a': null; expected"},
        {"{\"a\": true}", "f, line 1, column 7: layout key 'a': true or false; expected"},
        {"{\"a\": {\"b\": null}}", "f, line 1, column 7: layout key 'a': an object; expected"},
        {"{\"a\": [1.5]}",
         "f, line 1, column 8: layout key 'a': a number; expected null, an axis or a list of axes"},
        {"{\"x\": [\"data\"],\n  \"a\": [null, [\"data\", 3]]}",
         "f, line 2, column 24: layout key 'a': a number; expected the name of an axis"},
        {"{\"x\": [[\"data\"], \"model\"],\n  \"a\": [null, \"modle\"]}",
         "f, line 2, column 15: layout key 'a': the mesh data=2,model=3 has no axis 'modle'; did you mean "
         "'model'?"},
        {"{\"a\": [\"data+model\"]}",
         "f, line 1, column 8: layout key 'a': the mesh data=2,model=3 has no axis 'data+model'"},
        {"{\"a\": [\"-\"]}", "f, line 1, column 8: layout key 'a': the mesh data=2,model=3 has no axis '-'"},
        {"{\"a\": [\"\"]}", "has no axis ''"},
        {"{\"a\": [\"data\", \"data\"]}", "f, line 1, column 7: layout key 'a': layout 'data, data': an axis "
                                          "for the second time at position 7"},
        {"{\"a\": [[\"data\", \"data\"]]}",
         "layout key 'a': layout 'data+data': an axis for the second time at position 6"},
        {"{\"a\": [null,null,null,null,null,null,null,null,null]}", "more than 8 dimensions"},
        {"{\"a\": \"-, depth\"}", "f, line 1, column 7: layout key 'a': layout '-, depth', position 4: the "
                                  "mesh data=2,model=3 has no axis 'depth'"},
        {"{\"a\": \"-; partial(data)\"}", "f, line 1, column 7: layout key 'a': layout '-; partial(data)': "
                                          "neither ',' nor the end at position 2"},
        {"{\"a\": \"data,\"}", "layout 'data,': neither an axis nor '-' at position 6"},
        {"{\"ö\": \"-\", \"a(b\": [null]}",
         "f, line 1, column 19: layout key 'a(b': not a regular expression: "
         "missing closing parenthesis at position 4"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        iso_layout_map *map = new_map();
        iso_status status = iso_layout_map_parse(map, "f", wrong[i][0], strlen(wrong[i][0]));
        ck_assert_msg(status == ISO_INVALID, "status %d for %s", (int)status, wrong[i][0]);
        ck_assert_msg(strstr(iso_error_message(), wrong[i][1]), "%s: '%s' without '%s'", wrong[i][0],
                      iso_error_message(), wrong[i][1]);
        iso_layout_map_destroy(map);
    }
}
END_TEST

START_TEST(depth_has_an_end)
{
    enum { DEEP = 100000 };
    iso_layout_map *map = new_map();
    char *text = malloc(DEEP);
    memset(text, '[', DEEP);
    ck_assert_int_eq(iso_layout_map_parse(map, "f", text, DEEP), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "maximum parsing depth"), "%s", iso_error_message());
    free(text);
    iso_layout_map_destroy(map);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("layout files", 30, tuples_and_texts_are_read, files_are_read_once_for_all,
                  wrong_files_are_named_with_line_and_column, depth_has_an_end))
        status = iso_error(ISO_FAILED, "a test failed");
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
