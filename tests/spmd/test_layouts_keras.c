/* Layout maps against Keras: the same keys and paths give the same layouts or the same kind of error.
 * tests/keras/layouts.json is what Keras answered (tests/keras/README.md). Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/layout_map_impl.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_mesh *mesh;
static json_t *file;

static json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "the file has no '%s'", key);
    return value;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(get(object, key));
}

START_TEST(the_file_is_read)
{
    const char *name = "tests/keras/layouts.json";
    FILE *from = fopen(name, "rb");
    ck_assert_msg(from != NULL, "%s cannot be opened", name);
    fseek(from, 0, SEEK_END);
    size_t size = (size_t)ftell(from);
    char *text = malloc(size);
    rewind(from);
    ck_assert_uint_eq(fread(text, 1, size, from), size);
    fclose(from);
    check_ok(iso_json_parse(name, text, size, &file));
    free(text);
    ck_assert_ptr_nonnull(
        strstr(text_of(file, "versions"), "keras 3.15.")); /* as pinned in requirements.txt */
    check_ok(iso_mesh_create(ctx, text_of(file, "mesh"), &mesh));
}
END_TEST

/* Keras's tuple as our text. */
static char *layout_text(const json_t *axes, iso_text *text)
{
    size_t i;
    json_t *axis;
    *text = (iso_text){0};
    json_array_foreach(axes, i, axis)
        iso_text_add(text, "%s%s", i ? ", " : "", json_is_null(axis) ? "-" : json_string_value(axis));
    iso_text_add(text, "%s", "");
    return text->data;
}

/* The kind of what the library refused last. */
static const char *kind(void)
{
    static const char *const kinds[][2] = {
        {"is set twice", "key twice"},
        {"has no axis", "no such axis"},
        {"two layout keys match", "several keys"},
        {"an axis for the second time", "axis twice"},
        {"not a regular expression", "no expression"},
        {"neither an axis nor '-'", "no such axis"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(iso_error_message(), kinds[i][0]))
            return kinds[i][1];
    return iso_error_message();
}

/* ---- maps ---- */

static void set_keys(const char *name, const json_t *rows, iso_layout_map *map)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        iso_text layout;
        const char *key = text_of(row, "key"), *wanted = text_of(row, "result");
        iso_status status = iso_layout_map_set(map, key, layout_text(get(row, "axes"), &layout));
        const char *found = status == ISO_OK ? "ok" : kind();
        ck_assert_msg(strcmp(found, wanted) == 0, "%s: setting '%s' to '%s': '%s', with Keras '%s'", name,
                      key, iso_text_get(&layout), found, wanted);
        iso_text_free(&layout);
    }
}

/* What the map has for a path, whatever the shape: layouts of other ranks are refused for their rank alone.
 */
static iso_status look_up(iso_layout_map *map, const char *path, iso_layout *layout, const char **key)
{
    iso_status status = ISO_OK;
    for (int rank = 0; rank <= ISO_MAX_RANK; rank++) {
        iso_shape shape = {.rank = rank, .dim = {8, 8, 8, 8, 8, 8, 8, 8}};
        status = iso_layout_map_find(map, path, &shape, layout, key);
        if ((status == ISO_OK && *key) || (status != ISO_OK && !strstr(iso_error_message(), "has the shape")))
            return status;
    }
    return status;
}

/* The public look-up, LayoutMap.__getitem__. */
static void get_item(const char *name, const json_t *row, iso_layout_map *map)
{
    const iso_layout *layout = NULL;
    iso_text wanted = {0};
    char found[ISO_LAYOUT_TEXT] = "";
    const char *path = text_of(row, "path");
    iso_status status = iso_layout_map_get(map, path, &layout);
    ck_assert_msg((status != ISO_OK) == (json_object_get(row, "error") != NULL), "%s: '%s': status %d", name,
                  path, (int)status);
    if (status != ISO_OK) {
        ck_assert_str_eq(kind(), text_of(row, "error"));
        return;
    }
    ck_assert_msg((layout == NULL) == json_is_null(get(row, "axes")), "%s: '%s' is%s found", name, path,
                  layout ? "" : " not");
    if (!layout)
        return;
    layout_text(get(row, "axes"), &wanted);
    ck_assert_str_eq(iso_layout_describe(layout, found, sizeof found), iso_text_get(&wanted));
    ck_assert_ptr_eq(iso_layout_mesh(layout), mesh);
    iso_text_free(&wanted);
}

static void ask(const char *name, const json_t *row, iso_layout_map *map)
{
    iso_layout layout;
    iso_text wanted = {0};
    char found[ISO_LAYOUT_TEXT];
    const char *key, *path = text_of(row, "path");
    iso_status status = look_up(map, path, &layout, &key);
    const json_t *error = json_object_get(row, "error");
    if (error) {
        ck_assert_msg(status != ISO_OK && strcmp(kind(), json_string_value(error)) == 0,
                      "%s: '%s' should be refused as %s", name, path, json_string_value(error));
        return;
    }
    ck_assert_msg(status == ISO_OK, "%s: '%s': %s", name, path, iso_error_message());
    const json_t *axes = get(row, "axes");
    if (json_is_null(axes)) {
        ck_assert_msg(!key, "%s: '%s' matches '%s', with Keras nothing", name, path, key);
        return;
    }
    ck_assert_msg(key != NULL, "%s: '%s' matches nothing", name, path);
    iso_layout_text(mesh, &layout, found, sizeof found);
    layout_text(axes, &wanted);
    ck_assert_msg(strcmp(found, iso_text_get(&wanted)) == 0, "%s: '%s' lies as '%s', with Keras as '%s'",
                  name, path, found, iso_text_get(&wanted));
    iso_text_free(&wanted);
}

START_TEST(maps_answer_as_keras_does)
{
    size_t i, k;
    json_t *row, *question;
    int refused = 0, found = 0;
    json_array_foreach(get(file, "maps"), i, row)
    {
        iso_layout_map *map;
        const char *name = text_of(row, "name");
        check_ok(iso_layout_map_create(mesh, &map));
        set_keys(name, get(row, "set"), map);
        json_array_foreach(get(row, "ask"), k, question)
        {
            ask(name, question, map);
            get_item(name, question, map);
            refused += json_object_get(question, "error") != NULL;
            found += json_is_array(json_object_get(question, "axes"));
        }
        iso_layout_map_destroy(map);
    }
    ck_assert_int_gt(refused, 20); /* the file is not one that everything passes */
    ck_assert_int_gt(found, 100);
}
END_TEST

/* LayoutMapTest.test_len, test_iter and test_delete of Keras. */
START_TEST(keys_are_counted_listed_and_removed)
{
    iso_layout_map *map;
    iso_shape shape = ISO_SHAPE(8, 8);
    iso_layout layout;
    const char *key;
    check_ok(iso_layout_map_create(mesh, &map));
    ck_assert_int_eq(iso_layout_map_count(map), 0);
    check_ok(iso_layout_map_set(map, "dense/kernel", "-, model"));
    check_ok(iso_layout_map_set(map, "dense/bias", "model"));
    ck_assert_int_eq(iso_layout_map_count(map), 2);
    ck_assert_str_eq(iso_layout_map_key(map, 0), "dense/kernel");
    ck_assert_str_eq(iso_layout_map_layout(map, 0), "-, model");
    ck_assert_str_eq(iso_layout_map_key(map, 1), "dense/bias");
    check_ok(iso_layout_map_remove(map, "dense/kernel"));
    ck_assert_int_eq(iso_layout_map_remove(map, ".*bias"),
                     ISO_INVALID); /* the key itself, not what it matches */
    ck_assert_msg(strstr(iso_error_message(), "no layout key '.*bias'; "), "%s", iso_error_message());
    check_ok(iso_layout_map_find(map, "dense/kernel", &shape, &layout, &key));
    ck_assert_ptr_null(key);
    check_ok(iso_layout_map_set(map, "dense/kernel", "model, -")); /* free again */
    ck_assert_str_eq(iso_layout_map_key(map, 0), "dense/bias");
    check_ok(iso_layout_map_remove(map, "dense/bias"));
    check_ok(iso_layout_map_remove(map, "dense/kernel"));
    ck_assert_int_eq(iso_layout_map_count(map), 0);
    iso_layout_map_destroy(map);
}
END_TEST

/* ---- expressions ---- */

/* Where Keras takes an expression and the library says that it does not: never silently. */
static bool unsupported(void)
{
    return strstr(iso_error_message(), "not supported") != NULL;
}

START_TEST(expressions_match_as_in_python)
{
    size_t i, k;
    json_t *row, *path;
    int refused = 0;
    json_array_foreach(get(file, "expressions"), i, row)
    {
        iso_pattern *pattern = NULL;
        const char *text = json_string_value(json_array_get(row, 0));
        const char *matches = json_string_value(json_array_get(row, 1));
        iso_status status = iso_pattern_create(text, &pattern);
        if (!matches) {
            ck_assert_msg(status == ISO_INVALID && strstr(iso_error_message(), "not a regular expression") &&
                              strstr(iso_error_message(), "at position"),
                          "'%s' is none in Python and was taken, or the message is '%s'", text,
                          iso_error_message());
            refused++;
            continue;
        }
        ck_assert_msg(status == ISO_OK || unsupported(), "'%s' is one in Python: %s", text,
                      iso_error_message());
        json_array_foreach(get(file, "paths"), k, path)
        {
            bool found = false;
            if (status == ISO_OK)
                check_ok(iso_pattern_match(pattern, json_string_value(path), &found));
            ck_assert_msg(status != ISO_OK || found == (matches[k] == '1'), "'%s' %s '%s', in Python not so",
                          text, found ? "matches" : "does not match", json_string_value(path));
        }
        iso_pattern_destroy(pattern);
    }
    ck_assert_int_gt(refused, 20);
}
END_TEST

/* An expression that takes for ever in Python is an error here, on every rank alike. */
START_TEST(matching_has_an_end)
{
    iso_pattern *pattern;
    bool found;
    check_ok(iso_pattern_create("(a+)+b", &pattern));
    iso_status status =
        iso_pattern_match(pattern, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &found);
    ck_assert_msg(status == ISO_INVALID || !found, "status %d", (int)status);
    iso_pattern_destroy(pattern);
    check_ok(iso_pattern_create("(.*a){30}", &pattern));
    status = iso_pattern_match(pattern, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &found);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "could not be matched") && strstr(iso_error_message(), "limit"),
                  "%s", iso_error_message());
    iso_pattern_destroy(pattern);
    check_ok(iso_pattern_create("a.", &pattern));
    ck_assert_int_eq(iso_pattern_match(pattern, "a\xff", &found), ISO_INVALID); /* no UTF-8 */
    iso_pattern_destroy(pattern);
    ck_assert_int_eq(iso_pattern_create("a\xff", &pattern), ISO_INVALID);
}
END_TEST

/* ---- ranks: with Keras on JAX a layout may be shorter than a shape; here every dimension has its entry ----
 */

START_TEST(ranks_must_be_equal)
{
    size_t i;
    json_t *row;
    json_array_foreach(get(file, "ranks"), i, row)
    {
        iso_text text;
        iso_layout layout;
        iso_layout_map *map;
        iso_shape shape = {.rank = (int)json_array_size(json_array_get(row, 1)), .dim = {8, 8, 8}};
        bool equal = json_array_size(json_array_get(row, 0)) == (size_t)shape.rank;
        check_ok(iso_layout_map_create(mesh, &map));
        check_ok(iso_layout_map_set(map, "v", layout_text(json_array_get(row, 0), &text)));
        iso_status status = iso_layout_map_find(map, "v", &shape, &layout, NULL);
        ck_assert_msg(!equal || strcmp(json_string_value(json_array_get(row, 2)), "ok") == 0,
                      "equal ranks fail in Keras");
        ck_assert_msg((status == ISO_OK) == equal, "layout '%s' for rank %d: status %d", iso_text_get(&text),
                      shape.rank, (int)status);
        iso_layout_map_destroy(map);
        iso_text_free(&text);
    }
}
END_TEST

/* ---- paths: what Keras names the variables and outputs of a network ---- */

static iso_tensor *chain(iso_tensor *x)
{
    x = iso_dropout(iso_dense(x, 4, .name = "feature"), 0.1);
    return iso_dense(iso_dense(x, 3), 2);
}

static iso_tensor *block(iso_tensor *x, const char *name)
{
    iso_name_scope_begin(iso_tensor_graph(x), name);
    x = iso_dense(iso_dense(x, 4, .name = "feature"), 4, .name = "feature_2");
    return iso_name_scope_end(iso_tensor_graph(x), x);
}

static iso_tensor *nested(iso_tensor *x)
{
    return block(block(x, "inner"), "outer");
}

/* Keras's Sequential is a layer whose name stands in front: here a block around the table. */
static iso_tensor *table(iso_tensor *x)
{
    iso_name_scope_begin(iso_tensor_graph(x), "table");
    x = iso_sequential(x, ISO_LAYER(dense, 4, .name = "feature"), ISO_LAYER(dense, 3));
    return iso_name_scope_end(iso_tensor_graph(x), x);
}

static bool among(const json_t *paths, const char *path)
{
    size_t i;
    json_t *each;
    json_array_foreach(paths, i, each) if (strcmp(json_string_value(each), path) == 0) return true;
    return false;
}

static bool is_output(const iso_graph *g, const char *path)
{
    for (int t = 0; t < g->n_tensors; t++) {
        if (g->tensors[t]->name && strcmp(g->tensors[t]->name, path) == 0)
            return true;
        for (const iso_tensor_path *p = g->tensors[t]->paths; p; p = p->next)
            if (strcmp(p->text, path) == 0)
                return true;
    }
    return false;
}

START_TEST(paths_are_keras_s)
{
    static const struct {
        const char *name;
        iso_tensor *(*build)(iso_tensor *x);
    } models[] = {{"chain", chain}, {"nested", nested}, {"table", table}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        size_t i;
        json_t *path, *keras = get(get(file, "models"), models[m].name);
        iso_graph *g = iso_graph_create(ctx);
        models[m].build(iso_input(g, "x", ISO_F32, ISO_SHAPE(8)));
        check_ok(iso_graph_error(g));
        ck_assert_uint_eq((size_t)iso_graph_variable_count(g), json_array_size(get(keras, "variables")));
        for (int v = 0; v < iso_graph_variable_count(g); v++)
            ck_assert_msg(among(get(keras, "variables"), iso_variable_path(iso_graph_variable(g, v))),
                          "Keras has no variable '%s'", iso_variable_path(iso_graph_variable(g, v)));
        json_array_foreach(get(keras, "asked"), i, path) ck_assert_msg(
            iso_graph_find_variable(g, json_string_value(path)) || is_output(g, json_string_value(path)),
            "%s: Keras looks for '%s', which is no path here", models[m].name, json_string_value(path));
        iso_graph_destroy(g);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_THREADS", "1", 1);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("layouts as Keras's", 60, the_file_is_read, maps_answer_as_keras_does,
                                      keys_are_counted_listed_and_removed, expressions_match_as_in_python,
                                      matching_has_an_end, ranks_must_be_equal, paths_are_keras_s))
        status = iso_error(ISO_FAILED, "a test failed");
    json_decref(file);
    iso_mesh_destroy(mesh);
    return iso_finish(ctx, status);
}
