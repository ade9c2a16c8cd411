/* Low-rank adapters. Layers: outputs and gradients of Keras's enable_lora (tests/keras/lora.h5). Models: logits
 * and steps of AdamW of PEFT (tests/huggingface/adapter-*), in float64, on one slot and with layouts for data,
 * tensor and fully sharded training; folders that are written read as the same adapters on
 * another mesh. What is frozen stays, what is merged computes the same. What is refused. Ranks: 1, 3, 4 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface.h"
#include "models/keras/keras.h"
#include "models/layers.h"
#include "runtime/base/memory.h"
#include "runtime/data/data.h"
#include "runtime/graph/lora.h"
#include "runtime/session/session.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/pretrained.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static oracle *file;
static char folder[64], token_file[96];

/* ---- layers against Keras ---- */

static iso_tensor *layer_of(const char *name, iso_tensor *x, const iso_shape *y)
{
    const char *kind = oracle_text(file, name, "kind"), *axes = oracle_text(file, name, "bias_axes");
    const iso_activation_kind activation =
        strcmp(oracle_text(file, name, "activation"), "tanh") == 0 ? ISO_TANH : ISO_LINEAR;
    if (strcmp(kind, "embedding") == 0) {
        iso_shape table;
        oracle_data(file, name, "embeddings", &table);
        return iso_embedding(x, table.dim[0], table.dim[1], .name = "l");
    }
    if (strcmp(kind, "dense") == 0)
        return iso_dense(x, (int64_t)oracle_number(file, name, "units", 0), .activation = activation,
                         .name = "l", .no_bias = oracle_number(file, name, "use_bias", 0) == 0);
    iso_shape output = {.rank = y->rank - 1};
    memcpy(output.dim, y->dim + 1, (size_t)output.rank * sizeof *output.dim);
    if (strstr(oracle_text(file, name, "equation"), "...")) /* which stands for the first of them */
        memmove(output.dim, output.dim + 1, (size_t)--output.rank * sizeof *output.dim);
    return iso_einsum_dense(x, oracle_text(file, name, "equation"), output, .bias_axes = axes, .name = "l");
}

static iso_shape row_of(iso_shape shape)
{
    memmove(shape.dim, shape.dim + 1, (size_t)--shape.rank * sizeof *shape.dim);
    return shape;
}

static void set(iso_graph *graph, const char *name)
{
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_shape shape;
        iso_variable *variable = iso_graph_variable(graph, i);
        const double *values = oracle_data(file, name, iso_variable_path(variable) + 2, &shape);
        ck_assert_msg(values && iso_shape_equal(&shape, iso_variable_shape(variable)), "%s: %s", name,
                      iso_variable_path(variable));
        check_ok(iso_variable_assign(variable, values, oracle_elements(&shape)));
    }
}

static void compare(const char *name, const char *dataset, const double *values)
{
    iso_shape shape;
    char what[160];
    const double *expected = oracle_data(file, name, dataset, &shape);
    snprintf(what, sizeof what, "%s: %s", name, dataset);
    check_near(what, values, expected, oracle_elements(&shape), 1e-11);
}

/* Variables are l/kernel, l/lora_kernel_a and so on. */
static void check_layer(const char *name)
{
    iso_shape in, out;
    iso_graph *g = iso_graph_create(ctx);
    iso_function *function = NULL;
    memory_batch batch = {.batch = {.rows = 0}};
    double *x = oracle_data(file, name, "x", &in), *dy = oracle_data(file, name, "dy", &out);
    iso_graph_set_precision(g, ISO_F64);
    memory_batch_begin(&batch, in.dim[0]);
    memory_batch_add(&batch, row_of(in), x);
    memory_batch_add(&batch, row_of(out), dy);
    iso_tensor *input = iso_input(g, "x", oracle_is_integer(file, name, "x") ? ISO_I32 : ISO_F64, row_of(in)),
               *slope = iso_input(g, "dy", ISO_F64, row_of(out));
    iso_lora_begin(g, .rank = (int64_t)oracle_number(file, name, "rank", 0),
                   .alpha = oracle_number(file, name, "alpha", 0));
    iso_tensor *y = layer_of(name, input, &out), *gradient[2];
    iso_lora_end(g);
    const bool table = strcmp(oracle_text(file, name, "kind"), "embedding") == 0;
    const char *const which[] = {table ? "l/lora_embeddings_a" : "l/lora_kernel_a",
                                 table ? "l/lora_embeddings_b" : "l/lora_kernel_b"};
    check_ok(iso_graph_error(g));
    iso_variable *a = iso_graph_find_variable(g, which[0]), *b = iso_graph_find_variable(g, which[1]);
    iso_gradients(iso_sum(iso_multiply(y, slope)),
                  (iso_tensor *[]){iso_variable_value(a), iso_variable_value(b)}, 2, gradient);
    check_ok(iso_function_create(g, &function, .inputs = {input, slope},
                                 .outputs = {y, gradient[0], gradient[1]}));
    set(g, name);
    double *result[3] = {calloc((size_t)oracle_elements(&out), sizeof(double)), calloc(4096, sizeof(double)),
                         calloc(4096, sizeof(double))};
    check_ok(iso_function_evaluate(function, &batch.batch, result));
    compare(name, "y", result[0]);
    compare(name, table ? "dlora_embeddings_a" : "dlora_kernel_a", result[1]);
    compare(name, table ? "dlora_embeddings_b" : "dlora_kernel_b", result[2]);
    for (int i = 0; i < 3; i++)
        free(result[i]);
    iso_function_destroy(function);
    iso_graph_destroy(g);
}

START_TEST(layers_are_those_of_keras)
{
    ck_assert_int_ge(oracle_cases(file), 6);
    for (int i = 0; i < oracle_cases(file); i++)
        check_layer(oracle_case(file, i));
}
END_TEST

/* ---- models against PEFT ---- */

static const struct network {
    const char *base, *adapter, *layouts;
    bool fused; /* PEFT has one A for kernels that have their own here: only the forward pass is the same */
} networks[] = {
    {"llama", "adapter-llama", "models/layouts/llama-tensor.json", false},
    {"qwen3", "adapter-qwen3", "models/layouts/llama-tensor.json", false},
    {"gpt2", "adapter-gpt2", "models/layouts/gpt-tensor.json", false},
    {"gpt2", "adapter-gpt2-fused", "models/layouts/gpt-tensor.json", true},
    {"gpt-neox", "adapter-gpt-neox", "models/layouts/gpt-untied-tensor.json", false},
    {"gpt-neox", "adapter-gpt-neox-fused", "models/layouts/gpt-untied-tensor.json", true},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

static const char *stored(const char *name)
{
    enum { KEPT = 8 };
    static char path[KEPT][96];
    static int which;
    which = (which + 1) % KEPT;
    snprintf(path[which], sizeof path[which], "tests/huggingface/%s", name);
    return path[which];
}

/* A compiled model with an adapter, whose matrices are those of the folder. */
static job begin_job(const struct network *net, const pretrained_setting *s, const char *adapter,
                     iso_dtype precision)
{
    job j = pretrained_begin_job(ctx, s, net->layouts);
    iso_pretrained read;
    iso_pretrained_adapter its;
    check_ok(iso_pretrained_read(ctx, stored(net->base), &read));
    check_ok(iso_pretrained_read_adapter(ctx, adapter, &its));
    if (strcmp(read.model->name, "gpt") == 0)
        read.settings.gpt.dropout = 0;
    const iso_lora_options lora = {
        .rank = its.rank, .alpha = its.alpha, .target = its.target, .trained = its.trained};
    j.model = iso_builtin_model_create_adapted(ctx, read.model, ISO_SHAPE(CONTEXT), read.vocabulary,
                                               precision, &read.settings, &lora);
    check_ok(iso_compile(j.model, .optimizer = iso_adamw(0.02, .epsilon = 1e-12, .weight_decay = 0.1),
                         .loss = read.model->loss, .distribution = j.distribution));
    check_ok(iso_pretrained_load_weights(j.model, stored(net->base)));
    check_ok(iso_pretrained_load_adapter(j.model, adapter));
    iso_free(its.target);
    iso_free(its.trained);
    return j;
}

static void train(iso_model *model, curve *c)
{
    iso_callback *callbacks[] = {
        iso_callback_create(.batch_end = pretrained_note_loss, .user = c, .collective = true), NULL};
    iso_dataset *data = pretrained_open_tokens(ctx, token_file);
    check_ok(iso_fit(model, data, .epochs = 1, .callbacks = callbacks, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

/* The variables without the adapters', hashed, and the number of elements of the optimizer's that are not scalars. */
static uint64_t frozen_bits(iso_model *model)
{
    iso_graph *g = iso_model_graph(model);
    uint64_t bits = 1;
    for (int i = 0; i < iso_graph_variable_count(g); i++) {
        iso_variable *variable = iso_graph_variable(g, i);
        const char *path = iso_variable_path(variable);
        int64_t count = 0;
        if (strncmp(path, "optimizer/", 10) == 0 || iso_variable_is_adapter(variable))
            continue;
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        double *values = calloc((size_t)count, sizeof *values);
        check_ok(iso_variable_read(variable, values, count));
        for (int64_t k = 0; k < count; k++) {
            uint64_t of_value;
            memcpy(&of_value, &values[k], sizeof of_value);
            bits = (bits ^ of_value) * 1099511628211u;
        }
        free(values);
    }
    return bits;
}

static void check_training(const struct network *net, const pretrained_setting *s)
{
    const pretrained_expected e =
        pretrained_read_expected("tests/huggingface/expected_adapters.txt", net->adapter);
    job j = begin_job(net, s, stored(net->adapter), ISO_F64);
    curve c = {0};
    pretrained_check_logits(net->adapter, &e.before, j.model, ctx, token_file);
    const uint64_t frozen = frozen_bits(j.model);
    train(j.model, &c);
    ck_assert(frozen_bits(j.model) == frozen);
    for (int i = 0; i < STEPS && !net->fused; i++)
        ck_assert_msg(fabs(c.loss[i] - e.loss[i]) < 1e-7, "%s, mesh %s, step %d: loss %.12f, expected %.12f",
                      net->adapter, s->mesh, i, c.loss[i], e.loss[i]);
    if (!net->fused)
        pretrained_check_logits(net->adapter, &e.after, j.model, ctx, token_file);
    check_ok(iso_model_merge_adapters(j.model));
    ck_assert(frozen_bits(j.model) != frozen);
    if (!net->fused)
        pretrained_check_logits("merged", &e.after, j.model, ctx, token_file);
    pretrained_end_job(&j);
}

START_TEST(logits_and_steps_are_those_of_peft)
{
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s < SETTINGS; s++)
            if (takes_case(iso_ranks(ctx), n + s))
                check_training(&networks[n], &pretrained_settings[s]);
}
END_TEST

/* ---- files ---- */

static void check_same_adapters(iso_model *a, iso_model *b)
{
    iso_graph *g = iso_model_graph(a);
    for (int i = 0; i < iso_graph_variable_count(g); i++) {
        iso_variable *variable = iso_graph_variable(g, i);
        int64_t count = 0;
        if (!iso_variable_is_adapter(variable))
            continue;
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        double *x = calloc((size_t)count * 2, sizeof *x), *y = x + count;
        check_ok(iso_variable_read(variable, x, count));
        check_ok(iso_variable_read(iso_model_variable(b, iso_variable_path(variable)), y, count));
        ck_assert_msg(memcmp(x, y, (size_t)count * sizeof *x) == 0, "%s differs",
                      iso_variable_path(variable));
        free(x);
    }
}

static void predict(iso_model *model, double *logits)
{
    static float values[ROWS * CONTEXT * VOCABULARY];
    iso_dataset *data = pretrained_open_tokens(ctx, token_file);
    check_ok(iso_predict(model, data, .outputs = {values}, .verbose = ISO_ZERO));
    for (int i = 0; i < ROWS * CONTEXT * VOCABULARY; i++)
        logits[i] = (double)values[i];
    iso_dataset_destroy(data);
}

static void check_same_logits(iso_model *a, iso_model *b)
{
    static double x[ROWS * CONTEXT * VOCABULARY], y[ROWS * CONTEXT * VOCABULARY];
    predict(a, x);
    predict(b, y);
    check_near("logits", x, y, ROWS * CONTEXT * VOCABULARY, 1e-4);
}

START_TEST(a_written_folder_has_the_same_adapters)
{
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s + 1 < SETTINGS; s++) {
            char out[96];
            snprintf(out, sizeof out, "%s/%s", folder, networks[n].adapter);
            job j = begin_job(&networks[n], &pretrained_settings[s], stored(networks[n].adapter), ISO_F32);
            check_ok(iso_pretrained_save_adapter(j.model, out, NULL));
            job again = begin_job(&networks[n], &pretrained_settings[s + 1], out, ISO_F32);
            if (networks[n].fused) /* three ranks in one */
                check_same_logits(j.model, again.model);
            else
                check_same_adapters(j.model, again.model);
            pretrained_end_job(&again);
            pretrained_end_job(&j);
        }
}
END_TEST

/* A checkpoint holds adapters apart; a merged file is that of a model without. */
START_TEST(checkpoints_and_merged_files)
{
    const struct network *net = &networks[0];
    const char *apart = in_folder(folder, "apart.weights.h5");
    char merged[96];
    curve c = {0};
    snprintf(merged, sizeof merged, "%s/merged.weights.h5", folder);
    job j = begin_job(net, &pretrained_settings[1], stored(net->adapter), ISO_F32);
    train(j.model, &c);
    check_ok(iso_model_save_weights(j.model, apart));
    job again = begin_job(net, &pretrained_settings[3], stored(net->adapter), ISO_F32);
    check_ok(iso_model_load_weights(again.model, apart));
    check_same_adapters(j.model, again.model);
    check_refused(iso_pretrained_save(again.model, in_folder(folder, "whole")), "iso_model_merge_adapters");
    check_ok(iso_model_merge_adapters(again.model));
    check_ok(iso_model_save_weights(again.model, merged));
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, stored(net->base), &read));
    iso_model *plain = iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), read.vocabulary, ISO_F32,
                                                &read.settings);
    check_refused(iso_model_load_weights(plain, apart), "lora_kernel_");
    check_ok(iso_model_load_weights(plain, merged));
    iso_model_destroy(plain);
    pretrained_end_job(&again);
    pretrained_end_job(&j);
}
END_TEST

/* ---- what is refused ---- */

static void write_file(const char *name, const char *text, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = iso_is_chief(ctx) ? fopen(path, "wb") : NULL;
    if (out) {
        ck_assert_int_eq((int)fwrite(text, 1, bytes, out), (int)bytes);
        fclose(out);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}

/* The matrices of a stored adapter, of which the file is cut off after `bytes`, if that is not 0. */
static void copy_weights(const char *adapter, size_t bytes)
{
    static char data[1 << 14];
    char path[128];
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", stored(adapter));
    FILE *in = fopen(path, "rb");
    ck_assert_ptr_nonnull(in);
    const size_t all = fread(data, 1, sizeof data, in);
    fclose(in);
    ck_assert(all < sizeof data);
    write_file("adapter_model.safetensors", data, bytes ? bytes : all);
}

static void check_config(const char *text, const char *message)
{
    iso_pretrained_adapter adapter = {.rank = 0};
    write_file("adapter_config.json", text, strlen(text));
    iso_status status = iso_pretrained_read_adapter(ctx, folder, &adapter);
    if (message)
        check_refused(status, message);
    else
        check_ok(status);
    iso_free(adapter.target);
    iso_free(adapter.trained);
}

#define LORA "{\"peft_type\": \"LORA\", \"r\": 3"
START_TEST(folders_that_do_not_fit)
{
    copy_weights("adapter-llama", 0);
    check_config("{", "adapter_config.json");
    check_config("[]", "it is no object");
    check_config("{\"r\": 3}", "peft_type is null");
    check_config(LORA ", \"init_lora_weights\": \"pissa\"}", "init_lora_weights is \"pissa\"");
    check_config(LORA ", \"alora_invocation_tokens\": [5]}", "alora_invocation_tokens is [5]");
    check_config(LORA ", \"use_rslora\": \"yes\"}", "use_rslora is \"yes\"");
    check_config(LORA ", \"init_lora_weights\": \"gaussian\", \"target_parameters\": []}", NULL);
    check_config("{\"peft_type\": \"IA3\", \"r\": 3}", "peft_type is \"IA3\"");
    check_config("{\"peft_type\": \"LORA\", \"r\": 0}", "r is 0");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": -1}", "lora_alpha is -1");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"bias\": \"all\"}", "bias is \"all\"");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"use_dora\": true}", "use_dora is true");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"rank_pattern\": {\"q_proj\": 2}}", "rank_pattern");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"modules_to_save\": \"lm_head\"}",
                 "modules_to_save is \"lm_head\"");
    check_config("{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 5}", NULL);
    const struct network *llama = &networks[0];
    job j = begin_job(llama, &pretrained_settings[0], stored("adapter-llama"), ISO_F32);
    copy_weights("adapter-gpt2", 0);
    check_refused(iso_pretrained_load_adapter(j.model, folder), "has no 'base_model.model.model.layers.0.");
    copy_weights("adapter-llama", 900);
    check_refused(iso_pretrained_load_adapter(j.model, folder), "adapter_model.safetensors");
    pretrained_end_job(&j);
    copy_weights("adapter-llama", 0);
    check_config("{\"peft_type\": \"LORA\", \"r\": 4}", NULL);
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, stored("llama"), &read));
    const iso_lora_options other = {.rank = 4, .target = "query|value|attention_output|down"},
                           fewer = {.rank = 3, .target = "query"};
    const iso_lora_options *const adapters[] = {&other, &fewer, NULL};
    static const char *const messages[] = {"has the shape [3, 12]", "which the model does not have",
                                           "has no adapters"};
    for (int i = 0; i < 3; i++) {
        iso_model *model = iso_builtin_model_create_adapted(
            ctx, read.model, ISO_SHAPE(CONTEXT), read.vocabulary, ISO_F32, &read.settings, adapters[i]);
        check_refused(iso_pretrained_load_adapter(model, folder), messages[i]);
        if (!adapters[i])
            check_refused(iso_pretrained_save_adapter(model, folder, NULL), "has no adapters");
        iso_model_destroy(model);
    }
}
END_TEST

static iso_graph *graph;
static iso_tensor *input;

static void begin_graph(void)
{
    graph = iso_graph_create(ctx);
    input = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 6));
}

static void check_graph_refuses(const char *message)
{
    check_refused(iso_graph_error(graph), message);
    iso_graph_destroy(graph);
}

START_TEST(refusals)
{
    begin_graph();
    iso_lora_begin(graph, .rank = -1);
    check_graph_refuses("rank is -1");
    begin_graph();
    iso_lora_begin(graph, .rank = 2, .target = "(");
    check_graph_refuses("target '('");
    begin_graph();
    iso_lora_begin(graph, .rank = 2, .target = "other");
    iso_dense(input, 3, .name = "d1");
    iso_lora_end(graph);
    check_graph_refuses("there are: d1");
    begin_graph();
    iso_lora_begin(graph, .rank = 2);
    iso_relu(input);
    iso_lora_end(graph);
    check_graph_refuses("no layer has a kernel");
    begin_graph();
    iso_lora_begin(graph, .rank = 2);
    iso_dense(input, 3, .name = "d1", .kernel_constraint = {.kind = ISO_CONSTRAINT_NON_NEG});
    check_graph_refuses("has a constraint");
    begin_graph();
    iso_lora_begin(graph, .rank = 2);
    iso_einsum_dense(input, "abc,ec->aeb", ISO_SHAPE(5, 4), .name = "e");
    check_graph_refuses("same letter");
    begin_graph();
    iso_lora_end(graph);
    check_graph_refuses("iso_lora_end without");
    begin_graph();
    iso_lora_begin(graph, .rank = 2);
    iso_model_destroy(iso_model_create(graph, input, iso_dense(input, 3)));
}
END_TEST

/* Without `trained`, only the kernels are frozen, as in Keras; with it, all but the adapters and the layers it
 * names. */
START_TEST(what_is_trained)
{
    for (int all = 0; all < 2; all++) {
        begin_graph();
        iso_lora_begin(graph, .rank = 2, .target = "d1", .trained = all ? NULL : "head");
        iso_dense(iso_dense(iso_dense(input, 5, .name = "d1"), 4, .name = "d2"), 3, .name = "head");
        iso_lora_end(graph);
        check_ok(iso_graph_error(graph));
        for (int i = 0; i < iso_graph_variable_count(graph); i++) {
            const iso_variable *variable = iso_graph_variable(graph, i);
            const char *path = iso_variable_path(variable);
            const bool trained = strncmp(path, "head/", 5) == 0 || iso_variable_is_adapter(variable) ||
                                 (all && strcmp(path, "d1/kernel") != 0);
            ck_assert_msg(iso_variable_trainable(variable) == trained, "%s", path);
        }
        ck_assert_int_eq(iso_graph_variable_count(graph), 8);
        iso_graph_destroy(graph);
    }
}
END_TEST

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    snprintf(token_file, sizeof token_file, "%s", in_folder(folder, "tokens.bin"));
    if (iso_is_chief(ctx))
        pretrained_write_tokens(token_file);
    check_ok(iso_agree(ctx, ISO_OK));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    file = oracle_open("lora.h5");
    int code =
        RUN_TESTS_WITH("LoRA", 0, set_up, tear_down, layers_are_those_of_keras,
                       logits_and_steps_are_those_of_peft, a_written_folder_has_the_same_adapters,
                       checkpoints_and_merged_files, folders_that_do_not_fit, refusals, what_is_trained);
    oracle_close(file);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
