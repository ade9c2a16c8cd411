/* NULL for every pointer parameter of every public function: an error that names function and parameter, the
 * same on all ranks where the function is collective, and never a crash. The calls are made from the public
 * headers (make_null_calls.py). So are calls with indexes before the first and behind the last part of
 * something: each says that there is no such part. Ranks: 1, 3 */
#include <check.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/isogrid_extend.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

/* What calls hand out: the fixture takes it back. */
typedef struct made_things {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_layout *layout;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_value *value;
    iso_graph *graph;
    iso_model *model;
    iso_function *function;
    iso_suggestion *suggestion;
    iso_plan_report *report;
    iso_state_shards shards;
    iso_dataset *data;
    const iso_batch *batch; /* lent */
    iso_progress *progress;
    iso_callback *callback;
    iso_saved_file *file;
    iso_tokenizer *tokenizer;
    char *characters;
    int *integers;
    int32_t *ids;
} made_things;

/* Valid arguments for every type of parameter. */
typedef struct fixture {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_layout *layout;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_value *value, *same; /* same: of the type and shape of `trained` */
    int own_slot;
    iso_graph *graph; /* another for each call, with the members up to `update` */
    iso_tensor *x, *y;
    iso_tensor *tensors[2];
    iso_variable *variable;
    iso_update *update;
    iso_model *model; /* compiled */
    iso_variable *trained;
    iso_function *function, *whole;
    iso_function_options function_options;
    iso_suggest_options suggest_options;
    iso_plan_facts facts;
    iso_plan_report *report;
    iso_fingerprint fingerprint;
    iso_state_shards shards;
    iso_dataset *data;
    const iso_batch *batch;
    iso_data_array array;
    iso_history *history;
    iso_logs logs;
    iso_fit_state state;
    iso_progress *progress;
    iso_saved_file *file;
    iso_keras_unpacked unpacked;
    iso_optimizer optimizer;
    iso_loss loss;
    iso_metric metric;
    const iso_builtin_model *builtin;
    iso_builtin_settings settings;
    iso_pretrained pretrained;
    iso_pretrained_adapter adapter;
    iso_lora_options lora;
    iso_compile_options compile;
    iso_layer_record layer;
    iso_attribute attribute;
    iso_layer_row rows[1];
    iso_conv_geometry conv;
    iso_attention_form attention;
    iso_experts_form experts;
    iso_rotary_stretch stretch;
    iso_weight_constraint constraint;
    iso_recurrence_form recurrence;
    iso_warp_form warp;
    iso_metric_settings metric_settings;
    iso_pool_geometry pool;
    iso_unfold_geometry unfold;
    iso_text text;
    iso_shape shape;
    iso_box box;
    iso_sliding_window window;
    iso_status status;
    const iso_layout *lent;
    const char *names[2];
    char characters[512];
    double numbers[4096], *outputs[8];
    int integers[8];
    iso_tokenizer *tokenizer;
    int32_t ids[8];
    int64_t longs[8];
    uint64_t number;
    size_t size;
    bool flag;
    char bytes[4096];
    FILE *out;
    char folder[64], file_name[128], keras_name[128], cache_name[128], history_name[128], picture[128],
        missing[128], followed[128]; /* followed: a folder in which training has ended */
    made_things made;
} fixture;

static iso_model *build_model(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    return iso_model_create(g, x, iso_dense(x, 1));
}

static iso_status map_nothing(const iso_element *in, void *const *out, void *user)
{
    (void)in;
    (void)out;
    (void)user;
    return ISO_OK;
}

typedef struct null_call {
    const char *function, *parameter;
    int (*call)(fixture *f,
                bool give); /* give: without the NULL. Returns the status, -1: the function gives none */
    bool may_be_null;       /* as the header says */
    bool gives_status, agreed /* the same status on all ranks */, in_graph /* the error stays in f->graph */;
} null_call;

typedef struct index_call {
    const char *function, *parameter;
    bool (*nothing)(fixture *f, int index); /* whether it says that there is nothing at this index */
    int (*count)(fixture *f);
} index_call;

#include "tests/api/null_calls.h"

static fixture f;
static sigjmp_buf before_call;

static void on_crash(int signal)
{
    siglongjmp(before_call, signal);
}

static void new_graph(void)
{
    iso_graph_destroy(f.graph);
    f.graph = iso_graph_create(f.ctx);
    f.x = iso_input(f.graph, "x", ISO_F32, f.shape);
    f.y = iso_relu(f.x);
    f.tensors[0] = f.x;
    f.experts = (iso_experts_form){.up = f.tensors[0], .down = f.tensors[0]};
    f.tensors[1] = f.y;
    f.variable = iso_variable_create(f.graph, "w", ISO_F32, f.shape, (iso_initializer){0}, true);
    f.update = iso_assign(f.variable, iso_variable_value(f.variable));
    f.layer = (iso_layer_record){.type = "Dense", .name = "d", .output = f.y, .again = -1};
    f.function_options = (iso_function_options){.inputs = {f.x}, .outputs = {f.y}, .parts = true};
}

static void take_back(void)
{
    made_things *made = &f.made;
    if (made->model && iso_model_graph(made->model) == f.graph)
        f.graph = NULL; /* the model owned it */
    iso_model_destroy(made->model);
    iso_function_destroy(made->function);
    iso_graph_destroy(made->graph);
    iso_suggestion_destroy(made->suggestion);
    iso_plan_report_destroy(made->report);
    iso_state_shards_free(&made->shards);
    iso_dataset_destroy(made->data);
    iso_progress_destroy(made->progress);
    iso_callback_destroy(made->callback);
    iso_saved_file_close(made->file);
    iso_value_destroy(made->value);
    iso_distribution_destroy(made->distribution);
    iso_layout_destroy(made->layout);
    iso_layout_map_destroy(made->map);
    iso_mesh_destroy(made->mesh);
    if (made->ctx)
        iso_finish(made->ctx, ISO_OK);
    iso_tokenizer_close(made->tokenizer);
    iso_free(made->ids);
    iso_free(made->integers);
    iso_free(made->characters);
    memset(made, 0, sizeof *made);
}

static iso_status set_up_model(void)
{
    static const float numbers[24];
    char followed[160];
    iso_status status = ISO_OK;
    snprintf(followed, sizeof followed, "%s/{epoch}.weights.h5", f.followed);
    iso_callback *callbacks[] = {iso_model_checkpoint(followed), NULL};
    f.array = (iso_data_array){numbers, ISO_F32, ISO_SHAPE(6, 4)};
    f.model = build_model(f.ctx);
    f.trained = iso_model_variable(f.model, "dense/kernel");
    ISO_TRY(iso_compile(f.model, .loss = ISO_LOSS_MSE));
    ISO_TRY(iso_dataset_arrays(f.ctx, &f.data, .x = f.array, .y = {numbers, ISO_F32, ISO_SHAPE(6, 1)}));
    ISO_TRY(iso_fit(f.model, f.data, .verbose = ISO_ZERO, .callbacks = callbacks, .history = &f.history));
    ISO_TRY(iso_dataset_rewind(f.data, 0));
    ISO_TRY(iso_dataset_next(f.data, &f.batch));
    ISO_TRY(iso_variable_read_value(f.trained, &f.same));
    f.function = iso_model_training_function(f.model);
    ISO_TRY(iso_function_create(iso_model_graph(f.model), &f.whole, .inputs = {iso_model_input(f.model)},
                                .outputs = {iso_model_output(f.model)}));
    ISO_TRY(iso_function_report(f.function, 6, &f.report));
    ISO_TRY(iso_graph_shards(iso_model_graph(f.model), &f.shards));
    ISO_TRY(iso_model_save_weights(f.model, f.file_name));
    ISO_TRY(iso_saved_file_open(f.ctx, f.file_name, &f.file));
    ISO_TRY(iso_keras_save(f.model, f.keras_name));
done:
    return status;
}

static iso_status set_up_layouts(void)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_mesh_create(f.ctx, NULL, &f.mesh));
    ISO_TRY(iso_layout_create(f.mesh, "data", &f.layout));
    ISO_TRY(iso_layout_map_create(f.mesh, &f.map));
    ISO_TRY(iso_layout_map_set(f.map, "d/kernel", "-, -"));
    ISO_TRY(iso_data_parallel_create(f.mesh, &f.distribution));
    ISO_TRY(iso_value_create(f.layout, ISO_F32, ISO_SHAPE(12), &f.value));
    f.own_slot = iso_rank(f.ctx);
    ISO_TRY(iso_progress_create(f.ctx, &f.progress, .verbose = ISO_ZERO));
done:
    return status;
}

static void name_files(void)
{
    snprintf(f.file_name, sizeof f.file_name, "%s/a.weights.h5", f.folder);
    snprintf(f.keras_name, sizeof f.keras_name, "%s/a.keras", f.folder);
    snprintf(f.cache_name, sizeof f.cache_name, "%s/cache", f.folder);
    snprintf(f.history_name, sizeof f.history_name, "%s/history", f.folder);
    snprintf(f.picture, sizeof f.picture, "%s/a.svg", f.folder);
    snprintf(f.missing, sizeof f.missing, "%s/missing", f.folder);
    snprintf(f.followed, sizeof f.followed, "%s/followed", f.folder);
}

static void set_up(void)
{
    f.shape = ISO_SHAPE(4);
    f.box = iso_box_whole(&f.shape);
    f.window = (iso_sliding_window){1, 1, 1, 1, 0};
    f.optimizer = iso_sgd();
    f.conv = (iso_conv_geometry){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    f.attention = (iso_attention_form){.scale = 1, .masked = -1e9};
    f.pool = (iso_pool_geometry){.size = {1, 1}, .stride = {1, 1}};
    f.unfold = (iso_unfold_geometry){.size = 1, .stride = 1, .dilation = 1};
    f.names[0] = f.names[1] = "name";
    f.unpacked.file = -1;
    f.suggest_options.rows = 6;
    for (int i = 0; i < 8; i++)
        f.outputs[i] = f.numbers;
    for (int i = 0; i < 8; i++)
        f.longs[i] = 1;
    strcpy(f.characters, "text");
    ck_assert_ptr_nonnull(f.out = fopen("/dev/null", "w"));
    ck_assert_msg(make_test_folder(f.ctx, f.folder) == ISO_OK, "%s", iso_error_message());
    name_files();
    ck_assert_msg(iso_tokenizer_open("tests/tokenizers/gpt2", &f.tokenizer) == ISO_OK, "%s",
                  iso_error_message());
    ck_assert_msg(set_up_layouts() == ISO_OK, "%s", iso_error_message());
    ck_assert_msg(set_up_model() == ISO_OK, "%s", iso_error_message());
}

static void tear_down(void)
{
    iso_graph_destroy(f.graph);
    f.graph = NULL; /* new_graph of the next test destroys what is there */
    iso_function_destroy(f.whole);
    iso_plan_report_destroy(f.report);
    iso_state_shards_free(&f.shards);
    iso_saved_file_close(f.file);
    iso_progress_destroy(f.progress);
    iso_history_destroy(f.history);
    iso_model_destroy(f.model);
    iso_dataset_destroy(f.data);
    iso_value_destroy(f.value);
    iso_value_destroy(f.same);
    iso_distribution_destroy(f.distribution);
    iso_layout_map_destroy(f.map);
    iso_layout_destroy(f.layout);
    iso_mesh_destroy(f.mesh);
    iso_tokenizer_close(f.tokenizer);
    iso_text_free(&f.text);
    iso_keras_unpacked_remove(&f.unpacked);
    fclose(f.out);
    remove_test_folder(f.ctx, f.folder);
}

/* Makes a call; whether all is as it should be. */
static bool try_call(const null_call *c, bool give)
{
    char wanted[256];
    new_graph();
    strcpy(f.characters, "text");
    iso_error(ISO_OK, "nothing");
    int signal = sigsetjmp(before_call, 1);
    if (signal) {
        fprintf(stderr, "%s: %s NULL: signal %d\n", c->function, c->parameter, signal);
        memset(&f.made, 0, sizeof f.made);
        return false;
    }
    int status = c->call(&f, give);
    bool said = strstr(iso_error_message(), c->parameter) && strstr(iso_error_message(), c->function);
    bool kept = !c->in_graph || iso_graph_error(f.graph) == ISO_INVALID;
    bool good = c->may_be_null || (said && kept && (!c->gives_status || status == ISO_INVALID));
    snprintf(wanted, sizeof wanted, "%s: %s is NULL", c->function, c->parameter);
    if (!good)
        fprintf(stderr, "rank %d: wanted '%s': status %d, '%s'%s\n", iso_rank(f.ctx), wanted, status,
                iso_error_message(), kept ? "" : ", and the graph does not know");
    if (!strcmp(c->function, "iso_value_pack"))
        iso_value_fetch(f.value, f.numbers); /* what went wrong in a local call is told once more */
    take_back();
    return good;
}

/* Makes a call; whether it says that there is nothing there. */
static bool try_index(const index_call *c, int index)
{
    new_graph();
    int signal = sigsetjmp(before_call, 1);
    bool good = !signal && c->nothing(&f, index);
    if (!good)
        fprintf(stderr, "rank %d: %s: %s %d: %s %d\n", iso_rank(f.ctx), c->function, c->parameter, index,
                signal ? "signal" : "wrong", signal);
    return good;
}

START_TEST(every_index_is_checked)
{
    int bad = 0;
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER}, old[2];
    sigaction(SIGSEGV, &action, &old[0]);
    sigaction(SIGABRT, &action, &old[1]);
    for (int i = 0; i < INDEX_CALLS; i++) {
        const index_call *c = &index_calls[i];
        const int indexes[] = {-1, INT_MIN, c->count(&f), INT_MAX};
        for (int k = 0; k < 4; k++)
            bad += !try_index(c, indexes[k]);
    }
    sigaction(SIGSEGV, &old[0], NULL);
    sigaction(SIGABRT, &old[1], NULL);
    iso_value_fetch(f.value, f.numbers); /* tells what went wrong in iso_value_pack */
    ck_assert_int_ge(INDEX_CALLS, 40);
    ck_assert_msg(bad == 0, "%d of %d calls", bad, 4 * INDEX_CALLS);
}
END_TEST

START_TEST(every_pointer_is_checked)
{
    int bad = 0, tried = 0, last = iso_ranks(f.ctx) - 1;
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER}, old[2];
    sigaction(SIGSEGV, &action, &old[0]);
    sigaction(SIGABRT, &action, &old[1]);
    for (int i = 0; i < NULL_CALLS; i++) {
        const null_call *c = &null_calls[i];
        if (last > 0 && !(c->agreed && !c->may_be_null))
            continue; /* on several ranks: what they must agree on, where the last one alone gives NULL */
        tried++;
        bad += !try_call(c, last > 0 && iso_rank(f.ctx) != last);
    }
    sigaction(SIGSEGV, &old[0], NULL);
    sigaction(SIGABRT, &old[1], NULL);
    ck_assert_int_ge(PUBLIC_FUNCTIONS, 469);
    ck_assert_int_ge(tried, last > 0 ? 40 : NULL_CALLS);
    ck_assert_msg(bad == 0, "%d of %d calls", bad, tried);
}
END_TEST

int main(int argc, char **argv)
{
    int failed = 1;
    iso_status status = iso_init(&argc, &argv, &f.ctx);
    if (status == ISO_OK)
        failed =
            RUN_TESTS_WITH("null", 0, set_up, tear_down, every_pointer_is_checked, every_index_is_checked);
    int code = iso_finish(f.ctx, status);
    return code ? code : failed;
}
