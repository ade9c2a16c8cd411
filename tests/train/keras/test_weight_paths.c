/* Where variables lie in Keras's files: against listings of files that Keras wrote (tests/keras/places.json).
 * Ranks: 1 */
#include <check.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "runtime/train/keras/weight_paths.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static json_t *listing;

/* ---- the models of make_places.py ---- */

static iso_model *branches(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *b = iso_relu(iso_batch_norm(iso_dense(x, 3)));
    iso_tensor *a = iso_dropout(iso_dense(x, 3, .activation = ISO_RELU, .name = "left"), 0.3);
    iso_tensor *both[] = {a, b};
    return iso_model_create(g, x, iso_dense(iso_merge_add(both, 2), 2));
}

static iso_model *depths(iso_graph *g)
{
    iso_tensor *unused = iso_input(g, "unused", ISO_F32, ISO_SHAPE(5));
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *near = iso_dense(x, 3, .name = "short");
    iso_tensor *late = iso_dense(near, 2, .name = "early");
    iso_tensor *far = iso_dense(iso_relu(iso_tanh(x)), 4, .name = "long1");
    iso_tensor *both[] = {iso_dense(far, 4, .name = "long2"), near};
    iso_tensor *last[] = {iso_dense(iso_concatenate(both, 2), 2, .name = "late"), late};
    iso_tensor *y = iso_merge_multiply(last, 2), *inputs[] = {x, unused};
    return iso_model_create_several(g, inputs, 2, &y, 1);
}

static iso_model *chain(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_name_scope_note(g, true, NULL, 0, -1);
    iso_graph_set_name(g, "mlp");
    iso_tensor *y = iso_batch_norm(iso_dropout(iso_dense(x, 3), 0.2), .no_center = true);
    y = iso_activation(y, ISO_RELU);
    return iso_model_create(g, x, iso_dense(y, 2, .no_bias = true, .name = "last"));
}

static iso_tensor *inner(iso_graph *g, iso_tensor *x)
{
    iso_name_scope_begin(g, "inner");
    iso_name_scope_note(g, true, NULL, 0, -1);
    x = iso_activation(iso_dense(x, 4), ISO_RELU);
    return iso_name_scope_end(g, iso_dense(x, 4));
}

static iso_tensor *graph(iso_graph *g, iso_tensor *x)
{
    iso_name_scope_begin(g, "graph");
    iso_tensor *y = iso_dense(x, 4, .name = "dense_2");
    iso_name_scope_begin(g, "deepest");
    iso_name_scope_note(g, true, NULL, 0, -1);
    y = iso_name_scope_end(g, iso_dense(y, 4, .name = "d"));
    iso_tensor *both[] = {y, x};
    return iso_name_scope_end(g, iso_merge_add(both, 2));
}

static iso_model *nested(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *y = graph(g, inner(g, iso_dense(x, 4, .name = "shared")));
    iso_share_begin(g);
    y = iso_dense(y, 4, .name = "shared");
    iso_share_end(g);
    return iso_model_create(g, x, y);
}

static iso_tensor *tower(iso_graph *g, iso_tensor *x)
{
    iso_name_scope_begin(g, "tower");
    iso_name_scope_note(g, true, NULL, 0, -1);
    return iso_name_scope_end(g, iso_dense(iso_dense(x, 3), 2));
}

static iso_model *shared_block(iso_graph *g)
{
    iso_tensor *inputs[] = {iso_input(g, "a", ISO_F32, ISO_SHAPE(4)),
                            iso_input(g, "b", ISO_F32, ISO_SHAPE(4))};
    iso_tensor *both[] = {tower(g, inputs[1]), NULL};
    iso_share_begin(g);
    both[1] = tower(g, inputs[0]);
    iso_share_end(g);
    iso_tensor *y = iso_dense(iso_concatenate(both, 2), 1, .name = "dense_2");
    return iso_model_create_several(g, inputs, 2, &y, 1);
}

static iso_model *frozen(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_freeze_begin(g);
    iso_tensor *y = iso_batch_norm(iso_dense(x, 3, .name = "fixed"));
    iso_freeze_end(g);
    return iso_model_create(g, x, iso_dense(y, 2));
}

static iso_model *two_heads(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *heads[] = {iso_dense(x, 2, .name = "a"), iso_dense(x, 3, .name = "b")};
    return iso_model_create_several(g, &x, 1, heads, 2);
}

static iso_model *images(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(8, 8, 3));
    iso_name_scope_note(g, true, NULL, 0, -1);
    iso_graph_set_name(g, "images");
    iso_tensor *y = iso_max_pooling2d(iso_activation(iso_conv2d(x, 3, 2), ISO_TANH));
    y = iso_global_average_pooling2d(iso_layer_norm(iso_activation(y, ISO_ELU)));
    return iso_model_create(g, x, iso_dense(y, 2));
}

static iso_model *recurrent(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(5, 3));
    iso_name_scope_note(g, true, NULL, 0, -1);
    iso_graph_set_name(g, "recurrent");
    iso_tensor *y = iso_gru(iso_lstm(x, 4, .return_sequences = true), 3, .return_sequences = true);
    y = iso_simple_rnn(iso_lstm(y, 2, .no_bias = true, .return_sequences = true), 3);
    return iso_model_create(g, x, iso_dense(y, 2));
}

static iso_tensor *two_wide(iso_tensor *x, void *user)
{
    (void)user;
    return iso_conv1d(x, 4, 2);
}

static iso_tensor *normal(iso_tensor *x, void *user)
{
    (void)user;
    return iso_batch_norm(x);
}

static iso_tensor *flat(iso_tensor *x, void *user)
{
    (void)user;
    return iso_flatten(x);
}

static iso_model *wrappers(iso_graph *g)
{
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(5, 3, 4));
    iso_name_scope_note(g, true, NULL, 0, -1);
    iso_graph_set_name(g, "wrappers");
    iso_tensor *y = iso_time_distributed(iso_time_distributed(x, two_wide), normal);
    y = iso_time_distributed(y, flat);
    y = iso_bidirectional(y, .layer = {.units = 3, .return_sequences = true});
    y = iso_bidirectional(y, ISO_CELL_GRU, .layer = {.units = 2}, .backward = {.units = 2, .name = "gru_1"});
    return iso_model_create(g, x, iso_dense(y, 2));
}

/* ---- comparing ---- */

static json_t *shape_json(const iso_shape *shape)
{
    json_t *list = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(list, json_integer(shape->dim[i]));
    return list;
}

/* The item of a list of lists that begins with this text. */
static json_t *item_of(const json_t *list, const char *first)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(list, i), 0)), first) == 0)
            return json_array_get(list, i);
    return NULL;
}

static void compare(const char *name, const iso_weight_paths *paths)
{
    const json_t *kept = json_object_get(listing, name), *groups = json_object_get(kept, "groups");
    const json_t *tensors = json_object_get(kept, "tensors");
    size_t listed = 0;
    for (int i = 0; i < paths->n_groups; i++) {
        json_t *group = item_of(groups, paths->groups[i].h5_path);
        ck_assert_msg(group != NULL, "%s: Keras has no group '%s'", name, paths->groups[i].h5_path);
        if (!strstr(paths->groups[i].h5_path, "/functional/layers/input_layer")) /* here it has no name */
            ck_assert_str_eq(paths->groups[i].name, json_string_value(json_array_get(group, 1)));
    }
    ck_assert_int_eq(paths->n_groups, (int)json_array_size(groups));
    for (int i = 0; i < paths->n_tensors; i++) {
        const iso_saved_tensor *tensor = &paths->tensors[i];
        json_t *item = item_of(tensors, tensor->h5_path), *shape = shape_json(&tensor->shape);
        if (strncmp(tensor->h5_path, "/isogrid/variables/", 19) == 0) {
            json_decref(shape);
            continue;
        }
        ck_assert_msg(item != NULL, "%s: Keras has no tensor '%s'", name, tensor->h5_path);
        ck_assert_msg(json_equal(shape, json_array_get(item, 2)), "%s: '%s' has another shape", name,
                      tensor->h5_path);
        ck_assert_msg(tensor->path || paths->constant[i], "%s: '%s' is from nowhere", name, tensor->h5_path);
        if (tensor->path)
            ck_assert_str_eq(tensor->path, json_string_value(json_array_get(item, 1)));
        ck_assert_int_eq(iso_weight_paths_find(paths, tensor->h5_path), i);
        json_decref(shape);
        listed++;
    }
    ck_assert_int_eq(listed, json_array_size(tensors));
}

typedef struct net_case {
    const char *name;
    iso_model *(*build)(iso_graph *g);
    iso_optimizer optimizer;
    int extra; /* tensors that Keras does not have */
} net_case;

static void check_case(const net_case *c)
{
    iso_weight_paths paths;
    iso_graph *g = iso_graph_create(ctx);
    if (strncmp(c->name, "chain", 5) != 0 && strcmp(c->name, "images") != 0 &&
        strcmp(c->name, "recurrent") != 0)
        iso_graph_set_name(g, "net");
    iso_model *model = c->build(g);
    if (strcmp(c->name, "two_heads") == 0)
        check_ok(iso_compile(model, c->optimizer, .outputs = {{.loss = ISO_LOSS_MSE}}));
    else
        check_ok(iso_compile(model, c->optimizer, ISO_LOSS_MSE));
    check_ok(iso_weight_paths_create(model, &paths));
    compare(c->name, &paths);
    int extra = 0;
    for (int i = 0; i < paths.n_tensors; i++)
        extra += strncmp(paths.tensors[i].h5_path, "/isogrid/variables/", 19) == 0;
    ck_assert_int_eq(extra, c->extra);
    iso_weight_paths_free(&paths);
    iso_model_destroy(model);
}

START_TEST(as_keras)
{
    const net_case cases[] = {
        {"branches", branches, iso_adam(), 0},
        {"depths", depths, iso_sgd(0.1), 0},
        {"chain", chain, iso_rmsprop(.momentum = 0.9, .centered = true), 0},
        {"nested", nested, iso_adam(.amsgrad = true), 0},
        {"shared_block", shared_block, iso_sgd(0.1, .momentum = 0.9), 0},
        {"frozen", frozen, iso_adamw(.accumulation = 2, .use_ema = true), 0},
        {"two_heads", two_heads, iso_adagrad(.initial_accumulator = 3), 0},
        {"images", images, iso_rmsprop(.schedule = iso_cosine_decay(0.1, 10)), 1},
        {"recurrent", recurrent, iso_adam(), 0},
        {"wrappers", wrappers, iso_adam(), 0},
        {"chain_nadam", chain, iso_nadam(.accumulation = 2), 0},
        {"chain_lion", chain, iso_lion(), 0},
        {"chain_adamax", chain, iso_adamax(), 0},
        {"chain_adadelta", chain, iso_adadelta(), 0},
        {"chain_ftrl", chain, iso_ftrl(), 0},
        {"images_adafactor", images, iso_adafactor(), 0},
        {"images_muon", images, iso_muon(), 0},
        {"frozen_lamb", frozen, iso_lamb(.accumulation = 2, .use_ema = true), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
    ck_assert_int_eq(json_object_size(listing), sizeof cases / sizeof *cases);
}
END_TEST

/* A slot of a variable that no loss depends on has its initial value in the file. */
START_TEST(unused)
{
    iso_weight_paths paths;
    iso_graph *g = iso_graph_create(ctx);
    iso_model *model = two_heads(g);
    check_ok(iso_compile(model, iso_adagrad(.initial_accumulator = 3), .outputs = {{.loss = ISO_LOSS_MSE}}));
    check_ok(iso_weight_paths_create(model, &paths));
    int slot = iso_weight_paths_find(&paths, "/optimizer/vars/4"); /* of b/kernel */
    ck_assert_int_ge(slot, 0);
    ck_assert_ptr_null(paths.tensors[slot].path);
    ck_assert(((const float *)paths.constant[slot])[11] == 3);
    iso_weight_paths_free(&paths);
    iso_model_destroy(model);
}
END_TEST

static void check_found(const iso_weight_paths *paths)
{
    for (int i = 0; i < paths->n_tensors; i++) {
        ck_assert_int_eq(iso_weight_paths_find(paths, paths->tensors[i].h5_path), i);
        ck_assert_int_eq(iso_weight_paths_of(paths, paths->tensors[i].path), i);
    }
}

/* Every shard of the state has a place, and no two have the same. */
START_TEST(shards_have_h5_paths)
{
    iso_weight_paths paths;
    iso_state_shards shards;
    iso_graph *g = iso_graph_create(ctx);
    iso_variable *odd[] = {iso_variable_create(g, "a", ISO_F32, ISO_SCALAR, (iso_initializer){0}, false),
                           iso_variable_create(g, "a/b", ISO_I32, ISO_SHAPE(3), (iso_initializer){0}, false),
                           iso_variable_create(g, "c/./d", ISO_F32, ISO_SCALAR, (iso_initializer){0}, false)};
    (void)odd;
    iso_model *model = branches(g);
    check_ok(iso_compile(model, iso_adam(.accumulation = 3), ISO_LOSS_MSE));
    check_ok(iso_weight_paths_create(model, &paths));
    check_ok(iso_graph_shards(g, &shards));
    for (int i = 0; i < shards.count; i++) {
        int found = 0;
        for (int k = 0; k < paths.n_tensors; k++)
            found += strcmp(paths.tensors[k].path, shards.shards[i].path) == 0;
        ck_assert_msg(found == 1, "'%s' has %d places", shards.shards[i].path, found);
    }
    check_found(&paths);
    ck_assert_int_ge(iso_weight_paths_find(&paths, "/isogrid/variables/variable 0"), 0);
    ck_assert_int_ge(iso_weight_paths_find(&paths, "/isogrid/variables/a/b"), 0);
    ck_assert_int_eq(iso_weight_paths_find(&paths, "/isogrid/variables/c/./d"), -1);
    iso_weight_paths_drop(&paths, "/optimizer/");
    ck_assert_int_eq(iso_weight_paths_find(&paths, "/optimizer/vars/0"), -1);
    ck_assert_int_ge(iso_weight_paths_find(&paths, "/layers/dense/vars/0"), 0);
    ck_assert_int_eq(iso_weight_paths_of(&paths, "optimizer/iteration"), -1);
    check_found(&paths);
    iso_state_shards_free(&shards);
    iso_weight_paths_free(&paths);
    iso_model_destroy(model);
}
END_TEST

START_TEST(errors)
{
    iso_weight_paths paths;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4)), *z = iso_input(g, "z", ISO_F32, ISO_SHAPE(4));
    iso_model *model = iso_model_create(g, x, iso_dense(z, 2));
    check_refused(iso_weight_paths_create(model, &paths),
                  "'z' does not follow from the inputs of the network");
    iso_model_destroy(model);
}
END_TEST

START_TEST(snake_case)
{
    static const char *const names[][2] = {{"Dense", "dense"},
                                           {"Conv2D", "conv2d"},
                                           {"LeakyReLU", "leaky_re_lu"},
                                           {"PReLU", "p_re_lu"},
                                           {"RMSprop", "rm_sprop"},
                                           {"GlobalAveragePooling2D", "global_average_pooling2d"},
                                           {"ELU", "elu"},
                                           {"InputLayer", "input_layer"},
                                           {"AdamW", "adam_w"}};
    char text[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        iso_text_snake_case(names[i][0], text, sizeof text);
        ck_assert_str_eq(text, names[i][1]);
    }
    iso_text_snake_case("GlobalAveragePooling2D", text, 8);
    ck_assert_int_lt(strlen(text), 8);
}
END_TEST

int main(void)
{
    json_error_t error;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    listing = json_load_file("tests/keras/places.json", 0, &error);
    int failed =
        !listing || RUN_TESTS("places", 0, as_keras, unused, shards_have_h5_paths, errors, snake_case);
    json_decref(listing);
    return iso_finish(ctx, ISO_OK) || failed;
}
