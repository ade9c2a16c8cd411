/* The folders of tests/huggingface, which transformers wrote: logits and steps of training are those of PyTorch, in
 * float64, on one slot and with layouts for data, tensor and fully sharded training. A folder that is written holds
 * the same weights, with the same bytes on any mesh, and reads as the same network. What is refused.
 * Ranks: 1, 3   More: 4
 * Sanitize: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/memory.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/pretrained.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64], token_file[96];

static const struct network {
    const char *folder, *layouts;
} networks[] = {
    {"tests/huggingface/gpt2", "models/layouts/gpt-tensor.json"},
    {"tests/huggingface/gpt2-other", "models/layouts/gpt-tensor.json"},
    {"tests/huggingface/gpt2-base", "models/layouts/gpt-tensor.json"},
    {"tests/huggingface/llama", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/llama-3", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/llama-tied", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/mistral", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/phi3", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/qwen2", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/qwen3", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/mixtral", "models/layouts/llama-expert.json"},
    {"tests/huggingface/qwen3-moe", "models/layouts/llama-expert-tensor.json"},
    {"tests/huggingface/gemma", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/gemma2", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/gemma3", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/olmo2", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/granite", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/olmoe", "models/layouts/llama-expert.json"},
    {"tests/huggingface/qwen2-moe", "models/layouts/llama-expert-shared.json"},
    {"tests/huggingface/gpt-neox", "models/layouts/gpt-untied-tensor.json"},
    {"tests/huggingface/gpt-neox-other", "models/layouts/gpt-tensor.json"},
    {"tests/huggingface/starcoder2", "models/layouts/gpt-tensor.json"},
    {"tests/huggingface/olmo3", "models/layouts/llama-tensor.json"},
    {"tests/huggingface/smollm3", "models/layouts/llama-tensor.json"},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- models ---- */

/* A compiled model of the folder, without its weights. */
static job begin_job(const struct network *net, const pretrained_setting *s, iso_dtype precision)
{
    job j = pretrained_begin_job(ctx, s, net->layouts);
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, net->folder, &read));
    ck_assert_int_eq(read.vocabulary, VOCABULARY);
    if (strcmp(read.model->name, "gpt") == 0)
        read.settings.gpt.dropout = 0;
    j.model = iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), read.vocabulary, precision,
                                       &read.settings);
    check_ok(iso_compile(j.model, .optimizer = iso_sgd(0.1), .loss = read.model->loss,
                         .distribution = j.distribution));
    return j;
}

static void check_training(const struct network *net, const pretrained_setting *s)
{
    const pretrained_expected e =
        pretrained_read_expected("tests/huggingface/expected.txt", strrchr(net->folder, '/') + 1);
    job j = begin_job(net, s, ISO_F64);
    curve c = {0};
    iso_callback *callbacks[] = {
        iso_callback_create(.batch_end = pretrained_note_loss, .user = &c, .collective = true), NULL};
    iso_dataset *data = pretrained_open_tokens(ctx, token_file);
    check_ok(iso_pretrained_load_weights(j.model, net->folder));
    pretrained_check_logits(net->folder, &e.before, j.model, ctx, token_file);
    check_ok(iso_fit(j.model, data, .epochs = 1, .callbacks = callbacks, .verbose = ISO_ZERO));
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(fabs(c.loss[i] - e.loss[i]) < 1e-8, "%s, mesh %s, step %d: loss %.12f, expected %.12f",
                      net->folder, s->mesh, i, c.loss[i], e.loss[i]);
    pretrained_check_logits(net->folder, &e.after, j.model, ctx, token_file);
    iso_dataset_destroy(data);
    pretrained_end_job(&j);
}

START_TEST(logits_and_steps_are_those_of_pytorch)
{
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s < SETTINGS; s++)
            if (takes_case(iso_ranks(ctx), n + s))
                check_training(&networks[n], &pretrained_settings[s]);
}
END_TEST

/* ---- writing ---- */

static double *read_variable(iso_variable *variable, int64_t *count)
{
    check_ok(iso_shape_count(iso_variable_shape(variable), count));
    double *values = calloc((size_t)*count, sizeof *values);
    check_ok(iso_variable_read(variable, values, *count));
    return values;
}

static void check_same_weights(iso_model *a, iso_model *b)
{
    iso_graph *graph = iso_model_graph(a);
    for (int v = 0; v < iso_graph_variable_count(graph); v++) {
        const char *path = iso_variable_path(iso_graph_variable(graph, v));
        int64_t count = 0;
        if (iso_path_below_optimizer(path))
            continue;
        double *ours = read_variable(iso_graph_variable(graph, v), &count);
        double *theirs = read_variable(iso_model_variable(b, path), &count);
        ck_assert_msg(memcmp(ours, theirs, (size_t)count * sizeof *ours) == 0, "%s differs", path);
        free(ours);
        free(theirs);
    }
}

static char *read_file(const char *path, long *bytes)
{
    FILE *in = fopen(path, "rb");
    ck_assert_msg(in, "%s cannot be read", path);
    fseek(in, 0, SEEK_END);
    *bytes = ftell(in);
    rewind(in);
    char *data = malloc((size_t)*bytes + 1);
    ck_assert_int_eq((long)fread(data, 1, (size_t)*bytes, in), *bytes);
    data[*bytes] = 0;
    fclose(in);
    return data;
}

static void check_same_file(const char *path, char **first, long *first_bytes)
{
    long bytes;
    char *data = read_file(path, &bytes);
    if (!*first) {
        *first = data;
        *first_bytes = bytes;
        return;
    }
    ck_assert_int_eq(bytes, *first_bytes);
    ck_assert_msg(memcmp(data, *first, (size_t)bytes) == 0, "%s depends on the mesh", path);
    free(data);
}

/* Written from the model of a job, and read again on another mesh. */
static void check_written(const struct network *net, const job *j, const pretrained_setting *other)
{
    char out[96];
    snprintf(out, sizeof out, "%s/%s", folder, strrchr(net->folder, '/') + 1);
    const struct network written = {out, net->layouts};
    check_ok(iso_pretrained_save(j->model, out, .source = net->folder));
    job again = begin_job(&written, other, ISO_F32);
    check_ok(iso_pretrained_load_weights(again.model, out));
    check_same_weights(j->model, again.model);
    pretrained_end_job(&again);
}

START_TEST(a_written_folder_is_the_same_on_any_mesh)
{
    for (int n = 0; n < NETWORKS; n++) {
        char *first = NULL, path[128];
        long bytes = 0;
        for (int s = 0; s < SETTINGS; s++) {
            if (s > 0 && !takes_case(iso_ranks(ctx), n + s)) /* the others are compared with the first */
                continue;
            job j = begin_job(&networks[n], &pretrained_settings[s], ISO_F32);
            check_ok(iso_pretrained_load_weights(j.model, networks[n].folder));
            check_written(&networks[n], &j, &pretrained_settings[(s + 1) % SETTINGS]);
            snprintf(path, sizeof path, "%s/%s/model.safetensors", folder,
                     strrchr(networks[n].folder, '/') + 1);
            check_same_file(path, &first, &bytes);
            pretrained_end_job(&j);
        }
        free(first);
    }
}
END_TEST

START_TEST(a_saved_config_has_the_types_of_layers)
{
    const struct network net = {"tests/huggingface/smollm3", "models/layouts/llama-tensor.json"};
    char path[128], out[96];
    long bytes;
    job j = begin_job(&net, &pretrained_settings[0], ISO_F32);
    snprintf(out, sizeof out, "%s/types", folder);
    check_ok(iso_pretrained_save(j.model, out, .source = net.folder));
    snprintf(path, sizeof path, "%s/config.json", out);
    char *text = read_file(path, &bytes);
    ck_assert_msg(strstr(text, "\"layer_types\": ["), "%s", text);
    free(text);
    pretrained_end_job(&j);
}
END_TEST

/* The weights of one rank's slots are in a file of their own, too, and a model that is not compiled has them. */
START_TEST(a_file_of_weights_alone)
{
    const struct network *net = &networks[0];
    const char *path = in_folder(folder, "alone.safetensors");
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, net->folder, &read));
    iso_model *a =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(5), VOCABULARY, ISO_F32, &read.settings);
    iso_model *b =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(7), VOCABULARY, ISO_F32, &read.settings);
    check_ok(iso_pretrained_load_weights(a, net->folder));
    check_ok(iso_pretrained_save_check(a, path));
    check_ok(iso_pretrained_save(a, path));
    check_ok(iso_pretrained_load_weights(b, path));
    check_same_weights(a, b);
    iso_model_destroy(a);
    iso_model_destroy(b);
}
END_TEST

static const char *write_text(const char *name, const char *text)
{
    const char *path = in_folder(folder, name);
    FILE *out = iso_is_chief(ctx) ? fopen(path, "wb") : NULL;
    if (out) {
        fputs(text, out);
        fclose(out);
    }
    check_ok(iso_agree(ctx, ISO_OK));
    return path;
}

static void check_filled(const char *path, const char *variable, double value)
{
    const struct network net = {path, "models/layouts/llama-tensor.json"};
    int64_t count = 0;
    job j = begin_job(&net, &pretrained_settings[1], ISO_F32);
    double *values = read_variable(iso_model_variable(j.model, variable), &count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_double_eq(values[i], value);
    free(values);
    pretrained_end_job(&j);
}

/* Those that multiply by 1 + scale, too. */
START_TEST(normalisations_multiply_by_one_at_first)
{
    check_filled("tests/huggingface/llama", "block_1/norm/scale", 1);
    check_filled("tests/huggingface/qwen3", "block_1/attention/key_norm/scale", 1);
    check_filled("tests/huggingface/gemma", "block_1/norm/scale", 0);
    check_filled("tests/huggingface/gemma3", "block_1/attention_post_norm/scale", 0);
    check_filled("tests/huggingface/gemma3", "block_1/attention/key_norm/scale", 0);
}
END_TEST

static void check_names(const char *path, const char *names)
{
    check_ok(iso_agree(ctx, ISO_OK)); /* the chief removes files at the end */
    ck_assert_str_eq(names_in(path), names);
    check_ok(iso_agree(ctx, ISO_OK));
}

/* b has the weights of a, rounded to 8 bits. */
static void check_rounded(iso_model *a, iso_model *b)
{
    int64_t count = 0;
    double *exact = read_variable(iso_model_variable(a, "block_1/up/kernel"), &count),
           *rounded = read_variable(iso_model_variable(b, "block_1/up/kernel"), &count);
    bool differ = false;
    for (int64_t i = 0; i < count; i++) {
        differ = differ || exact[i] != rounded[i];
        ck_assert_double_le(fabs(exact[i] - rounded[i]), ldexp(fabs(exact[i]), -8));
    }
    ck_assert(differ);
    free(exact);
    free(rounded);
}

/* Saved in several files, in several others, and in one: the folder has the last ones alone, with the same bytes on
 * all meshes. */
START_TEST(types_and_files_of_weights)
{
    static const char one[] = "config.json model.safetensors",
                      three[] =
                          "config.json model-00001-of-00003.safetensors model-00002-of-00003.safetensors "
                          "model-00003-of-00003.safetensors model.safetensors.index.json";
    const struct network *net = &networks[3];
    char *first[2] = {NULL}, out[80], path[128];
    long bytes[2];
    snprintf(out, sizeof out, "%s/split", folder);
    for (int s = 0; s < SETTINGS; s++) {
        job j = begin_job(net, &pretrained_settings[s], ISO_F32);
        job again = begin_job(net, &pretrained_settings[(s + 1) % SETTINGS], ISO_F32);
        check_ok(iso_pretrained_load_weights(j.model, net->folder));
        check_ok(iso_pretrained_save(j.model, out, .source = net->folder, .max_shard_size = 9000));
        check_ok(iso_pretrained_save(j.model, out, .dtype = "float64", .max_shard_size = 14000));
        check_names(out, three);
        check_ok(iso_pretrained_load_weights(again.model, out));
        check_same_weights(j.model, again.model);
        snprintf(path, sizeof path, "%s/model-00002-of-00003.safetensors", out);
        check_same_file(path, &first[0], &bytes[0]);
        write_text("split/model-00007-of-00009.safetensors", "of a run that was killed");
        write_text("split/config.json.123.new", "of a run that was killed");
        write_text("split/model.safetensors.index.json.77.new", "");
        check_ok(iso_pretrained_save(j.model, out, .dtype = "bfloat16", .max_shard_size = 9000));
        check_names(out, one);
        check_ok(iso_pretrained_load_weights(again.model, out));
        check_rounded(j.model, again.model);
        snprintf(path, sizeof path, "%s/model.safetensors", out);
        check_same_file(path, &first[1], &bytes[1]);
        check_ok(iso_pretrained_save(j.model, out, .max_shard_size = 7000));
        check_names(out, three);
        pretrained_end_job(&j);
        pretrained_end_job(&again);
    }
    free(first[0]);
    free(first[1]);
}
END_TEST

static void put_weight(iso_model *model, const char *name, double value)
{
    iso_variable *variable = iso_model_variable(model, name);
    int64_t count = 0;
    double *values = read_variable(variable, &count);
    values[1] = value;
    check_ok(iso_variable_assign(variable, values, count));
    free(values);
}

START_TEST(what_cannot_be_saved)
{
    const struct network *net = &networks[3];
    char out[80];
    snprintf(out, sizeof out, "%s/refused", folder);
    job j = begin_job(net, &pretrained_settings[1], ISO_F32);
    check_ok(iso_pretrained_load_weights(j.model, net->folder));
    check_refused(iso_pretrained_save(j.model, out, .dtype = "int8"), "the type 'int8' is none of float32");
    check_ok(iso_pretrained_save(j.model, out, .max_shard_size = 1));
    put_weight(j.model, "block_0/up/kernel", -7e4);
    check_refused(
        iso_pretrained_save(j.model, out, .dtype = "float16"),
        "tensor 'model.layers.0.mlp.up_proj.weight', [20, 12], has -70000 as its element 12; float16");
    check_refused(iso_pretrained_save(j.model, out, .dtype = "float16", .max_shard_size = 3000),
                  "has -70000");
    check_ok(iso_agree(ctx, ISO_OK)); /* the chief has removed what was begun */
    ck_assert_ptr_null(strstr(names_in(out), ".saving"));
    check_ok(iso_pretrained_load_weights(j.model, out)); /* those before are there */
    pretrained_end_job(&j);
}
END_TEST

/* ---- config.json ---- */

static const char gpt_config[] = "tests/huggingface/gpt2/config.json",
                  olmo3_config[] = "tests/huggingface/olmo3/config.json",
                  smollm3_config[] = "tests/huggingface/smollm3/config.json",
                  starcoder_config[] = "tests/huggingface/starcoder2/config.json",
                  neox_config[] = "tests/huggingface/gpt-neox/config.json",
                  llama_config[] = "tests/huggingface/llama/config.json",
                  mistral_config[] = "tests/huggingface/mistral/config.json",
                  phi3_config[] = "tests/huggingface/phi3/config.json",
                  experts_config[] = "tests/huggingface/qwen3-moe/config.json",
                  qwen2_config[] = "tests/huggingface/qwen2/config.json",
                  qwen3_config[] = "tests/huggingface/qwen3/config.json",
                  olmoe_config[] = "tests/huggingface/olmoe/config.json",
                  granite_config[] = "tests/huggingface/granite/config.json",
                  qwen2_moe_config[] = "tests/huggingface/qwen2-moe/config.json",
                  gemma_config[] = "tests/huggingface/gemma/config.json",
                  gemma2_config[] = "tests/huggingface/gemma2/config.json",
                  gemma3_config[] = "tests/huggingface/gemma3/config.json";

/* The text of a config.json with one text replaced by another, parsed. */
static iso_status parse_altered(const char *path, const char *old, const char *new, iso_pretrained *net)
{
    long bytes;
    char *text = read_file(path, &bytes), *at = strstr(text, old);
    ck_assert_msg(at, "%s has no %s", path, old);
    iso_text altered = {0};
    iso_text_add(&altered, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    iso_status status = iso_hf_config_parse("config.json", altered.data, altered.length, net);
    iso_text_free(&altered);
    free(text);
    return status;
}

START_TEST(what_a_config_cannot_have)
{
    const struct {
        const char *file, *old, *new, *message;
    } cases[] = {
        {gpt_config, "gelu_new", "relu", "activation_function is \"relu\"; gelu and gelu_new are supported"},
        {gpt_config, "\"gelu_new\"", "3", "activation_function is 3"},
        {gpt_config, "\"n_layer\": 2", "\"n_layer\": \"two\"", "n_layer is \"two\"; it must be a count"},
        {gpt_config, "\"n_layer\": 2", "\"n_layer\": 0", "n_layer is 0; it must be a count"},
        {gpt_config, "\"n_layer\": 2", "\"n_layer\": 1e300", "n_layer is"},
        {gpt_config, "\"n_layer\": 2", "\"n_layer\": 2, \"n_layer\": 2", "duplicate"},
        {gpt_config, "\"n_inner\": null", "\"n_inner\": 1.5", "n_inner is 1.5; it must be a count"},
        {gpt_config, "\"attn_pdrop\": 0.0", "\"attn_pdrop\": 0.5", "must be equal"},
        {gpt_config, "\"attn_pdrop\": 0.0", "\"attn_pdrop\": \"no\"", "attn_pdrop is \"no\""},
        {gpt_config, "layer_idx\": false", "layer_idx\": true",
         "scale_attn_by_inverse_layer_idx is true; only false"},
        {gpt_config, "weights\": true", "weights\": false",
         "scale_attn_weights is false; only true is supported"},
        {gpt_config, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
         "tie_word_embeddings is false"},
        {gpt_config, "\"model_type\": \"gpt2\"", "\"model_type\": \"t5\"",
         "model_type is \"t5\"; \"gpt2\", \"gpt_neox\", \"starcoder2\", \"llama\", \"mistral\""},
        {gpt_config, "\"model_type\": \"gpt2\",", "", "model_type is null"},
        {gpt_config, "\"vocab_size\": 61", "\"vocab_size\": 1e30", "vocab_size is"},
        {gpt_config, "\"vocab_size\": 61", "\"other\": 61", "vocab_size is null; it must be a count"},
        {gpt_config, "{", "[", "line"},
        {gpt_config, "epsilon\": 1e-05", "epsilon\": 0",
         "layer_norm_epsilon is 0; it must be a positive number"},
        {llama_config, "eps\": 1e-05", "eps\": 0", "rms_norm_eps is 0; it must be a positive number"},
        {llama_config, "eps\": 1e-05", "eps\": null", "rms_norm_eps is null; it must be a positive number"},
        {olmo3_config, "\"full_attention\",", "\"linear_attention\",",
         "layer_types is [\"sliding_attention\","},
        {olmo3_config, "\"default\"", "\"linear\", \"factor\": 2", "the type \"default\" is supported"},
        {smollm3_config, "\"use_sliding_window\": false", "\"use_sliding_window\": true",
         "use_sliding_window is true; only false is supported"},
        {smollm3_config, "\"full_attention\"", "\"sliding_attention\"",
         "layer_types is [\"sliding_attention\", \"full_attention\", \"full_attention\"]; it must be "
         "\"full_attention\" for each layer"},
        {smollm3_config, "\"full_attention\",", "",
         "layer_types is [\"full_attention\", \"full_attention\"]"},
        {smollm3_config, "\"no_rope_layers\": [", "\"no_rope_layers\": [0, 0, 1], \"old\": [",
         "no_rope_layers is [0, 0, 1]; supported: for each layer 1, but for every n-th one 0"},
        {smollm3_config, "\"no_rope_layers\": [", "\"no_rope_layers\": [1, 0], \"old\": [",
         "no_rope_layers is [1, 0]"},
        {smollm3_config, "\"no_rope_layers\": [", "\"no_rope_layer_interval\": 0, \"old\": [", "duplicate"},
        {starcoder_config, "\"sliding_window\": 5", "\"sliding_window\": 0",
         "sliding_window is 0; it must be a count"},
        {starcoder_config, "\"use_bias\": true", "\"use_bias\": false", "use_bias is false; only true"},
        {starcoder_config, "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2",
         "num_key_value_heads is 2; it must divide num_attention_heads"},
        {starcoder_config, "\"num_attention_heads\": 3", "\"num_attention_heads\": 4",
         "num_attention_heads is 4; hidden_size / num_attention_heads must be even"},
        {starcoder_config, "\"residual_dropout\": 0.0", "\"residual_dropout\": 0.5",
         "residual_dropout is 0.5; attention_dropout, residual_dropout and embedding_dropout must be equal"},
        {starcoder_config, "\"default\"", "\"linear\", \"factor\": 2",
         "of StarCoder2 the type \"default\" is supported"},
        {neox_config, "\"gelu\"", "\"relu\"", "hidden_act is \"relu\"; gelu and gelu_new are supported"},
        {neox_config, "\"attention_bias\": true", "\"attention_bias\": false",
         "attention_bias is false; only true is supported"},
        {neox_config, "\"hidden_dropout\": 0.0", "\"hidden_dropout\": 0.1",
         "attention_dropout is 0; hidden_dropout and attention_dropout must be equal"},
        {neox_config, "\"num_attention_heads\": 3", "\"num_attention_heads\": 5",
         "num_attention_heads is 5; it must divide hidden_size"},
        {neox_config, "\"default\"", "\"linear\", \"factor\": 2",
         "of GPT-NeoX the type \"default\" is supported"},
        {neox_config, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.375",
         "partial_rotary_factor is 0.375; it must be an even number of the 8 features of a head"},
        {neox_config, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5",
         "partial_rotary_factor is 1.5"},
        {llama_config, "\"attention_bias\": false", "\"attention_bias\": 3",
         "attention_bias is 3; it must be true or false"},
        {llama_config, "\"mlp_bias\": false", "\"mlp_bias\": true",
         "mlp_bias is true; only false is supported"},
        {llama_config, "\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1", "attention_dropout is"},
        {llama_config, "\"silu\"", "\"gelu\"", "hidden_act is \"gelu\"; only \"silu\" is supported"},
        {llama_config, "\"head_dim\": 4", "\"head_dim\": 7",
         "head_dim is 7; features of a head, or hidden_size / num_attention_heads, must be even"},
        {llama_config, "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"",
         "the types \"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\" are supported"},
        {llama_config, "\"default\"", "\"linear\"", "factor is null; it must be a positive number"},
        {llama_config, "\"default\"", "\"dynamic\", \"factor\": \"2\"",
         "factor is \"2\"; it must be a positive number"},
        {llama_config, "\"default\"", "\"yarn\", \"factor\": 0", "factor is 0; it must be a positive number"},
        {llama_config, "\"default\"", "\"yarn\", \"beta_fast\": 1",
         "beta_fast is 1; it must be above beta_slow"},
        {llama_config, "\"default\"", "\"yarn\", \"attention_factor\": -1", "attention_factor is -1"},
        {llama_config, "\"default\"", "\"yarn\", \"mscale\": []", "mscale is []; it must be a number"},
        {llama_config, "\"default\"", "\"yarn\", \"truncate\": false",
         "truncate is false; only true is supported"},
        {llama_config, "\"default\"", "\"default\", \"partial_rotary_factor\": 0.5",
         "partial_rotary_factor is 0.5; only 1 is supported"},
        {llama_config, "\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5",
         "partial_rotary_factor is 0.5"},
        {llama_config, "\"default\"", "\"llama3\", \"factor\": -1",
         "factor is -1; it must be a positive number"},
        {llama_config, "\"default\"", "\"llama3\", \"factor\": 8",
         "original_max_position_embeddings is null; it must be a count"},
        {llama_config, "\"rope_parameters\": {",
         "\"rope_parameters\": null, \"rope_scaling\": {\"type\": \"su\"}, \"old\": {",
         "rope_scaling is {\"type\": \"su\"}"},
        {phi3_config, "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.1", "resid_pdrop is 0.1"},
        {phi3_config, "\"default\"", "\"linear\", \"factor\": 2",
         "of Phi-3 the type \"default\" is supported"},
        {qwen2_config, "\"use_sliding_window\": true", "\"use_sliding_window\": 1",
         "use_sliding_window is 1"},
        {qwen2_config, "\"use_sliding_window\": true", "\"use_sliding_window\": false",
         "layer_types is [\"full_attention\", \"sliding_attention\"]; supported"},
        {qwen2_config, "\"max_window_layers\": 1", "\"max_window_layers\": -1", "max_window_layers is -1"},
        {qwen2_config, "\"full_attention\",", "", "layer_types is [\"sliding_attention\"]; supported"},
        {qwen2_config, "\"full_attention\"", "\"linear_attention\"", "layer_types is [\"linear_attention\""},
        {qwen2_config, "\"sliding_window\": 5", "\"sliding_window\": 0",
         "sliding_window is 0; it must be a count"},
        {experts_config, "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 5",
         "num_experts_per_tok is 5; it must not be greater than the number of experts"},
        {experts_config, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2",
         "decoder_sparse_step is 2; only 1 is supported"},
        {experts_config, "\"norm_topk_prob\": false", "\"norm_topk_prob\": 0",
         "norm_topk_prob is 0; it must be true or false"},
        {experts_config, "\"router_aux_loss_coef\": 0.001", "\"router_aux_loss_coef\": -1",
         "router_aux_loss_coef is -1; it must not be negative"},
        {llama_config, "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2",
         "num_key_value_heads is 2; it must divide num_attention_heads"},
        {llama_config, "\"num_attention_heads\": 3", "\"num_attention_heads\": 5",
         "num_attention_heads is 5; it must divide hidden_size"},
        {gpt_config, "\"n_head\": 3", "\"n_head\": 5", "n_head is 5; it must divide n_embd"},
        {llama_config, "\"rope_theta\": 1000.0", "\"rope_theta\": 0",
         "rope_theta is 0; it must be a positive number"},
        {llama_config, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 1",
         "it must be true or false"},
        {olmoe_config, "\"clip_qkv\": null", "\"clip_qkv\": 8", "clip_qkv is 8; only null is supported"},
        {olmoe_config, "\"hidden_size\": 12", "\"hidden_size\": 12, \"head_dim\": 6",
         "head_dim is 6; it must be hidden_size / num_attention_heads"},
        {granite_config, "\"residual_multiplier\": 0.4", "\"residual_multiplier\": 0",
         "residual_multiplier is 0; it must be a positive number"},
        {granite_config, "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true; only false"},
        {qwen2_moe_config, "\"use_sliding_window\": false", "\"use_sliding_window\": true",
         "use_sliding_window is true; only false is supported"},
        {qwen2_moe_config, "\"full_attention\"", "\"sliding_attention\"",
         "layer_types is [\"sliding_attention\", \"full_attention\"]; it must be \"full_attention\" for each "
         "layer"},
        {qwen2_moe_config, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [1]", "mlp_only_layers is [1]"},
        {gemma_config, "gelu_pytorch_tanh", "silu",
         "hidden_act is \"silu\"; only \"gelu_pytorch_tanh\" is supported"},
        {gemma_config, "\"head_dim\": 6", "\"head_dim\": 6, \"hidden_activation\": \"gelu\"",
         "hidden_activation is \"gelu\"; only"},
        {gemma_config, "\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": true",
         "use_bidirectional_attention is true; only false is supported"},
        {gemma_config, "\"num_key_value_heads\": 1,", "", "num_key_value_heads is null; it must divide"},
        {gemma2_config, "\"attn_logit_softcapping\": 1.5", "\"attn_logit_softcapping\": -1",
         "attn_logit_softcapping is -1; it must be a positive number"},
        {gemma2_config, "gelu_pytorch_tanh", "silu", "hidden_activation is \"silu\"; only"},
        {gemma3_config, "gelu_pytorch_tanh", "gelu", "hidden_activation is \"gelu\"; only"},
        {gemma3_config, "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50",
         "attn_logit_softcapping is 50; only null is supported"},
        {gemma3_config, "\"final_logit_softcapping\": 2.0", "\"final_logit_softcapping\": 0",
         "final_logit_softcapping is 0; it must be a positive number"},
        {gemma3_config, "\"sliding_window\": 5", "\"sliding_window\": null",
         "sliding_window is null; it must be a count"},
        {gemma3_config, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "layer_types is ["},
        {gemma3_config, "\"full_attention\",", "\"full_attention\", \"full_attention\",",
         "for each layer \"sliding_attention\", but for every n-th one \"full_attention\""},
        {gemma3_config, "\"rope_type\": \"linear\"", "\"rope_type\": \"longrope\"",
         "rope_parameters is {\"factor\": 2.0"},
        {gemma3_config, "\"rope_type\": \"default\"", "\"rope_type\": \"linear\"",
         "sliding_attention is {\"rope_theta\": 20.0, \"rope_type\": \"linear\"}; the type \"default\""},
        {gemma3_config, "\"rope_parameters\": {", "\"rope_parameters\": {\"rope_theta\": 5}, \"x\": {",
         "it must hold the objects \"full_attention\" and \"sliding_attention\""},
        {olmo3_config, "\"rope_parameters\": {", "\"rope_theta\": 50, \"x\": {",
         "rope_theta is 50; versions of transformers differ in the base of layers with a window"},
        {gemma3_config, "\"sliding_window\": 5", "\"sliding_window\": 5, \"rope_scaling\": \"linear\"",
         "rope_scaling is \"linear\"; it must be an object"},
        {gemma3_config, "\"rope_theta\": 20.0", "\"rope_theta\": 0",
         "rope_theta is 0; it must be a positive"},
        {gemma3_config, "\"num_attention_heads\": 3", "\"num_attention_heads\": 5",
         "num_attention_heads is 5; it must divide hidden_size"},
    };
    iso_pretrained net = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(parse_altered(cases[i].file, cases[i].old, cases[i].new, &net), cases[i].message);
    ck_assert_ptr_null(net.model);
}
END_TEST

/* transformers refuses null, or it is another value than that of a file without the key. */
START_TEST(null_in_a_config)
{
    const struct {
        const char *file, *key, *value;
    } cases[] = {{gpt_config, "n_layer", "2"},
                 {gpt_config, "attn_pdrop", "0.0"},
                 {gpt_config, "layer_norm_epsilon", "1e-05"},
                 {llama_config, "rms_norm_eps", "1e-05"},
                 {llama_config, "max_position_embeddings", "16"},
                 {llama_config, "tie_word_embeddings", "false"},
                 {llama_config, "hidden_act", "\"silu\""},
                 {llama_config, "rope_theta", "1000.0"},
                 {mistral_config, "num_key_value_heads", "1"},
                 {qwen2_config, "max_window_layers", "1"},
                 {qwen2_config, "use_sliding_window", "true"},
                 {qwen3_config, "head_dim", "6"},
                 {qwen3_config, "factor", "3.0"},
                 {experts_config, "num_key_value_heads", "1"},
                 {experts_config, "num_experts_per_tok", "3"},
                 {experts_config, "norm_topk_prob", "false"},
                 {experts_config, "router_aux_loss_coef", "0.001"},
                 {experts_config, "output_router_logits", "false"},
                 {gemma_config, "head_dim", "6"},
                 {gemma_config, "num_key_value_heads", "1"},
                 {gemma3_config, "query_pre_attn_scalar", "10"},
                 {gemma3_config, "hidden_activation", "\"gelu_pytorch_tanh\""}};
    iso_pretrained net = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char old[80], new[80], message[80];
        snprintf(old, sizeof old, "\"%s\": %s", cases[i].key, cases[i].value);
        snprintf(new, sizeof new, "\"%s\": null", cases[i].key);
        snprintf(message, sizeof message, "%s is null; ", cases[i].key);
        check_refused(parse_altered(cases[i].file, old, new, &net), message);
    }
    check_ok(
        parse_altered(llama_config, "\"num_key_value_heads\": 1", "\"num_key_value_heads\": null", &net));
    ck_assert_int_eq(net.settings.llama.kv_heads, 3);
    check_ok(parse_altered(llama_config, "\"head_dim\": 4", "\"head_dim\": null", &net));
    ck_assert_int_eq(net.settings.llama.head_dim, 4);
    check_ok(parse_altered(qwen2_moe_config, "\"mlp_only_layers\": []", "\"mlp_only_layers\": null", &net));
    check_ok(parse_altered(gemma3_config, "\"final_logit_softcapping\": 2.0",
                           "\"final_logit_softcapping\": null", &net));
    ck_assert_double_eq(net.settings.llama.logit_cap, 0);
}
END_TEST

/* Keys of other versions of transformers, and those that a file may lack. */
START_TEST(what_a_config_may_have)
{
    iso_pretrained net;
    check_ok(parse_altered(gpt_config, "\"n_layer\": 2,", "", &net));
    ck_assert_int_eq(net.settings.gpt.layers, 12);
    ck_assert(net.settings.gpt.gelu_tanh);
    check_ok(parse_altered(gpt_config, "\"activation_function\": \"gelu_new\",", "", &net));
    ck_assert(net.settings.gpt.gelu_tanh);
    check_ok(parse_altered(gpt_config, "\"n_inner\": null", "\"n_inner\": 7", &net));
    ck_assert_int_eq(net.settings.gpt.hidden, 7);
    check_ok(parse_altered(mistral_config, "\"sliding_window\": 5", "\"sliding_window\": null", &net));
    ck_assert_int_eq(net.settings.llama.window, 0);
    check_ok(parse_altered(mistral_config, "\"sliding_window\": 5", "\"window\": 5", &net));
    ck_assert_int_eq(net.settings.llama.window, 4096);
    check_ok(parse_altered(experts_config, "num_local_experts", "num_experts", &net));
    ck_assert_int_eq(net.settings.llama.experts, 4);
    check_ok(parse_altered(experts_config, "\"num_local_experts\": 4,", "", &net));
    ck_assert_int_eq(net.settings.llama.experts, 128);
    check_ok(parse_altered(experts_config, "\"norm_topk_prob\": false", "\"norm_topk_prob\": true", &net));
    ck_assert(!net.settings.llama.raw_shares);
    check_ok(parse_altered(llama_config, "\"num_key_value_heads\": 1,", "", &net));
    ck_assert_int_eq(net.settings.llama.kv_heads, 3);
    check_ok(parse_altered(llama_config, "rope_parameters", "rope_scaling", &net)); /* as in transformers */
    ck_assert_double_eq(net.settings.llama.wavelength, 1000);
    check_ok(parse_altered(llama_config, "\"rope_theta\": 1000", "\"theta\": 1000", &net));
    ck_assert_double_eq(net.settings.llama.wavelength, 10000);
    check_ok(parse_altered("tests/huggingface/mixtral/config.json", "\"rope_theta\": 1000000.0",
                           "\"theta\": 1000", &net)); /* MixtralConfig.default_theta */
    ck_assert_double_eq(net.settings.llama.wavelength, 1e6);
    check_ok(parse_altered(llama_config, "\"rope_parameters\": {", "\"rope_theta\": 500, \"old\": {", &net));
    ck_assert_double_eq(net.settings.llama.wavelength, 500);
    check_ok(parse_altered(llama_config, "\"head_dim\": 4", "\"head_dim\": 10", &net));
    ck_assert_int_eq(net.settings.llama.head_dim, 10);
    check_ok(parse_altered(llama_config, "\"attention_bias\": false", "\"attention_bias\": true", &net));
    ck_assert(net.settings.llama.qkv_bias && net.settings.llama.output_bias);
}
END_TEST

/* Qwen's windows of attention. */
START_TEST(windows_of_some_layers)
{
    iso_pretrained net;
    check_ok(parse_altered(qwen2_config, "\"max_window_layers\": 1", "\"max_window_layers\": 2", &net));
    ck_assert_int_eq(net.settings.llama.full_layers, 1);
    check_ok(parse_altered(qwen2_config, "\"layer_types\": [", "\"layer_types\": null, \"types\": [", &net));
    ck_assert_int_eq(net.settings.llama.full_layers, 1);
    ck_assert_int_eq(net.settings.llama.window, 5);
    check_ok(parse_altered(qwen3_config, "\"head_dim\": 6,", "", &net));
    ck_assert_int_eq(net.settings.llama.head_dim, 128);
    ck_assert_int_eq(net.settings.llama.window, 0);
}
END_TEST

/* The sizes of a file that has none are those of transformers' class. */
START_TEST(sizes_that_a_config_lacks)
{
    static const struct {
        const char *type;
        int64_t layers, heads, kv_heads, width, hidden, context;
    } cases[] = {{"llama", 32, 32, 32, 4096, 11008, 2048},      {"mistral", 32, 32, 8, 4096, 14336, 131072},
                 {"qwen2", 32, 32, 32, 4096, 22016, 32768},     {"qwen3", 32, 32, 32, 4096, 22016, 32768},
                 {"phi3", 32, 32, 32, 3072, 8192, 4096},        {"mixtral", 32, 32, 8, 4096, 14336, 131072},
                 {"qwen3_moe", 24, 32, 4, 2048, 768, 32768},    {"qwen2_moe", 24, 16, 16, 2048, 1408, 32768},
                 {"gemma", 28, 16, 16, 3072, 24576, 8192},      {"gemma2", 26, 8, 4, 2304, 9216, 8192},
                 {"gemma3_text", 26, 8, 4, 2304, 9216, 131072}, {"olmo2", 32, 32, 32, 4096, 11008, 2048},
                 {"olmoe", 16, 16, 16, 2048, 2048, 4096},       {"granite", 32, 32, 32, 4096, 11008, 2048}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[80];
        iso_pretrained net = {0};
        const iso_llama_options *o = &net.settings.llama;
        int length =
            snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"vocab_size\": 9}", cases[i].type);
        check_ok(iso_hf_config_parse("config.json", text, (size_t)length, &net));
        ck_assert_msg(o->layers == cases[i].layers && o->heads == cases[i].heads &&
                          o->kv_heads == cases[i].kv_heads && o->width == cases[i].width &&
                          o->hidden == cases[i].hidden && o->context == cases[i].context,
                      "%s", cases[i].type);
    }
}
END_TEST

/* Gemma's, and those of files of other versions of transformers. */
START_TEST(layers_and_positions_of_gemma)
{
    iso_pretrained net;
    const iso_llama_options *o = &net.settings.llama;
    check_ok(parse_altered(gemma_config, "gelu_pytorch_tanh", "gelu", &net));
    ck_assert(o->gelu_tanh && o->zero_centered && o->tied && !o->post_norm && o->attention_scale == 0);
    check_ok(parse_altered(gemma_config, "\"tie_word_embeddings\": true,", "", &net));
    ck_assert(o->tied);
    check_ok(parse_altered(gemma2_config, "\"layer_types\": [", "\"x\": [", &net));
    ck_assert(o->full_every == 2 && o->window == 5 && o->attention_cap == 1.5 && o->logit_cap == 3);
    check_ok(parse_altered(gemma2_config, "\"attn_logit_softcapping\": 1.5,", "", &net));
    ck_assert(o->attention_cap == 50 && !o->qk_norm && o->local_wavelength == 0);
    check_ok(parse_altered(gemma3_config, "\"layer_types\": [",
                           "\"sliding_window_pattern\": 3, \"layer_types\": null, \"x\": [", &net));
    ck_assert(o->full_every == 3 && o->window == 5 && o->post_norm && o->qk_norm);
    check_ok(parse_altered(gemma3_config, "\"layer_types\": [", "\"x\": [", &net));
    ck_assert_int_eq(o->full_every, 6);
    check_ok(parse_altered(gemma3_config, "\"full_attention\",", "\"sliding_attention\",", &net));
    ck_assert(o->full_every == 0 && o->window == 5);
    check_ok(parse_altered(gemma3_config, "\"query_pre_attn_scalar\": 10", "\"x\": 10", &net));
    ck_assert_double_eq(o->attention_scale, 1.0 / 16);
    check_ok(parse_altered(gemma3_config, "\"rope_parameters\": {",
                           "\"rope_theta\": 500, \"rope_local_base_freq\": 30, \"rope_scaling\": "
                           "{\"rope_type\": \"linear\", \"factor\": 8}, \"x\": {",
                           &net));
    ck_assert(o->wavelength == 500 && o->local_wavelength == 30 && o->rope_linear == 8);
    check_ok(parse_altered(gemma3_config, "\"rope_parameters\": {", "\"x\": {", &net));
    ck_assert(o->wavelength == 1e6 && o->local_wavelength == 1e4 && o->rope_linear == 1);
}
END_TEST

/* The factors of rotary positions that a file may lack are those of transformers. */
START_TEST(rotary_positions_of_a_config)
{
    iso_pretrained net;
    const iso_llama_options *o = &net.settings.llama;
    check_ok(parse_altered(llama_config, "\"default\"", "\"dynamic\", \"factor\": 4", &net));
    ck_assert(o->rope_factor == 0 && o->rope_linear == 1);
    check_ok(parse_altered(llama_config, "\"default\"", "\"yarn\", \"original_max_position_embeddings\": 4",
                           &net));
    ck_assert(o->rope_yarn && o->rope_factor == 4 && o->rope_context == 4 && o->rope_attention == 0);
    ck_assert(o->rope_low == 1 && o->rope_high == 32);
    check_ok(parse_altered(llama_config, "\"default\"",
                           "\"yarn\", \"factor\": 40, \"mscale\": 1, \"mscale_all_dim\": 0.5", &net));
    ck_assert_double_eq_tol(o->rope_attention, (0.1 * log(40) + 1) / (0.05 * log(40) + 1), 1e-15);
    ck_assert_int_eq(o->rope_context, CONTEXT);
    check_ok(parse_altered(llama_config, "\"default\"", "\"yarn\", \"factor\": 2, \"attention_factor\": 1.5",
                           &net));
    ck_assert_double_eq(o->rope_attention, 1.5);
}
END_TEST

/* Of OLMo 3: of blocks without a window and of the others; what transformers 5 keeps beside them does not count. */
START_TEST(rotary_positions_of_olmo3)
{
    iso_pretrained net;
    const iso_llama_options *o = &net.settings.llama;
    check_ok(parse_altered(olmo3_config, "\"rope_parameters\": {",
                           "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 64.0,", &net));
    ck_assert(o->wavelength == 100 && o->local_wavelength == 50 && o->rope_yarn);
    check_ok(parse_altered(olmo3_config, "\"rope_parameters\": {", "\"rope_theta\": 5e5, \"x\": {", &net));
    ck_assert(o->wavelength == 500000 && o->local_wavelength == 500000);
    check_ok(parse_altered(olmo3_config, "\"rope_theta\": 50.0,", "", &net));
    ck_assert(o->wavelength == 100 && o->local_wavelength == 500000);
}
END_TEST

/* Of GPT-NeoX they turn a part of the features, in files of all versions. */
START_TEST(rotary_positions_of_gpt_neox)
{
    iso_pretrained net;
    const iso_gpt_options *o = &net.settings.gpt;
    check_ok(parse_altered(neox_config, "\"vocab_size\"", "\"vocab_size\"", &net));
    ck_assert(o->rotary == 4 && o->wavelength == 100 && o->parallel && o->untied);
    check_ok(parse_altered(neox_config, "\"rope_parameters\": {",
                           "\"rotary_pct\": 0.75, \"rotary_emb_base\": 50, \"old\": {", &net));
    ck_assert(o->rotary == 6 && o->wavelength == 50);
    check_ok(parse_altered(neox_config, "\"rope_parameters\": {", "\"old\": {", &net));
    ck_assert(o->rotary == 2 && o->wavelength == 10000);
    check_ok(parse_altered(neox_config, "\"use_parallel_residual\": true",
                           "\"use_parallel_residual\": false, \"rope_scaling\": null", &net));
    ck_assert(!o->parallel);
}
END_TEST

/* ---- other files ---- */

static iso_model *make_gpt(iso_gpt_options options)
{
    const iso_builtin_model *gpt;
    iso_builtin_settings given = {.gpt = options};
    check_ok(iso_builtin_model_find("gpt", &gpt));
    return iso_builtin_model_create(ctx, gpt, ISO_SHAPE(8), VOCABULARY, ISO_F32, &given);
}

static void check_no_weights(iso_gpt_options options, const char *path, const char *message)
{
    iso_model *model = make_gpt(options);
    check_refused(iso_pretrained_load_weights(model, path), message);
    iso_model_destroy(model);
}

static void check_other_settings(iso_llama_options options, const char *message)
{
    const iso_builtin_model *llama;
    const iso_builtin_settings given = {.llama = options};
    check_ok(iso_builtin_model_find("llama", &llama));
    iso_model *model = iso_builtin_model_create(ctx, llama, ISO_SHAPE(8), VOCABULARY, ISO_F32, &given);
    if (message)
        check_refused(iso_pretrained_load_weights(model, "tests/huggingface/qwen3"), message);
    else
        check_ok(iso_pretrained_load_weights(model, "tests/huggingface/qwen3"));
    check_ok(iso_pretrained_load_weights(model, "tests/huggingface/qwen3/model.safetensors"));
    iso_model_destroy(model);
}

/* Weights of the same shapes in another network than the one of config.json. */
START_TEST(settings_that_config_json_contradicts)
{
    const iso_llama_options fits = {.layers = 2,
                                    .heads = 3,
                                    .kv_heads = 1,
                                    .width = 12,
                                    .hidden = 20,
                                    .context = 8,
                                    .wavelength = 100,
                                    .rope_linear = 3,
                                    .head_dim = 6,
                                    .qkv_bias = true,
                                    .output_bias = true,
                                    .qk_norm = true};
    iso_llama_options smooth = fits, fast = fits, narrow = fits, scaled = fits;
    check_other_settings(fits, NULL);
    smooth.epsilon = 1e-3;
    check_other_settings(smooth, "qwen3/config.json': by its rms_norm_eps, epsilon is 1e-05; the model has "
                                 "epsilon=0.001");
    fast.wavelength = 10000;
    check_other_settings(fast, "by its rope_theta, wavelength is 100; the model has wavelength=10000");
    narrow.window = 4;
    check_other_settings(narrow, "by its sliding_window, window is 0; the model has window=4");
    scaled.rope_linear = 1;
    check_other_settings(scaled, "by its rope_scaling, rope_linear is 3; the model has rope_linear=1");
}
END_TEST

START_TEST(weights_that_do_not_fit)
{
    const iso_gpt_options fits = {.layers = 2, .heads = 3, .width = 12, .context = CONTEXT};
    iso_gpt_options deeper = fits, shallower = fits, wider = fits;
    const char *gpt = networks[0].folder;
    deeper.layers = 3;
    shallower.layers = 1;
    wider.hidden = 50;
    check_no_weights(deeper, gpt,
                     "has no tensor 'transformer.h.2.ln_1.weight', where 'block_2/attention_norm/gamma'");
    check_no_weights(shallower, gpt, "which the model does not have");
    check_no_weights(wider, gpt,
                     "'transformer.h.0.mlp.c_fc.weight' has the shape [12, 48]; 'block_0/up/kernel' of the "
                     "model needs [12, 50]");
    check_no_weights(fits, networks[3].folder, "has no tensor 'transformer.wte.weight'");
    check_no_weights(fits, "tests/huggingface",
                     "has neither model.safetensors nor model.safetensors.index.json");
    check_no_weights(fits, "tests/huggingface/none.safetensors", "none.safetensors");
    check_no_weights(
        fits, write_text("up.safetensors.index.json", "{\"weight_map\": {\"a\": \"../a.safetensors\"}}"),
        "it must be the name of a .safetensors file beside the index");
    check_no_weights(fits, write_text("no.safetensors.index.json", "{\"weight_map\": {}}"), "names 0 files");
    check_no_weights(
        fits, write_text("x.safetensors.index.json", "{\"weight_map\": {\"a\": \"gone.safetensors\"}}"),
        "gone.safetensors");
}
END_TEST

START_TEST(a_model_of_another_kind)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 2));
    check_refused(iso_pretrained_load_weights(model, networks[0].folder), "is not a built-in gpt, llama");
    check_refused(iso_pretrained_save(model, in_folder(folder, "dense")), "is not a built-in gpt, llama");
    check_refused(iso_pretrained_save_check(model, "dense"), "is not a built-in gpt, llama");
    iso_model_destroy(model);
    const iso_builtin_model *llama;
    const iso_builtin_settings biased = {.llama = {.layers = 1,
                                                   .heads = 2,
                                                   .kv_heads = 1,
                                                   .width = 8,
                                                   .hidden = 8,
                                                   .window = 3,
                                                   .qkv_bias = true,
                                                   .output_bias = true}};
    check_ok(iso_builtin_model_find("llama", &llama));
    model = iso_builtin_model_create(ctx, llama, ISO_SHAPE(4), VOCABULARY, ISO_F32, &biased);
    check_refused(iso_pretrained_save_check(model, "other"),
                  "no model of transformers that is supported has this");
    iso_model_destroy(model);
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
    int code = RUN_TESTS_WITH(
        "huggingface", 120, set_up, tear_down, logits_and_steps_are_those_of_pytorch,
        a_written_folder_is_the_same_on_any_mesh, a_saved_config_has_the_types_of_layers,
        a_file_of_weights_alone, types_and_files_of_weights, normalisations_multiply_by_one_at_first,
        what_cannot_be_saved, what_a_config_cannot_have, what_a_config_may_have, null_in_a_config,
        sizes_that_a_config_lacks, windows_of_some_layers, layers_and_positions_of_gemma,
        rotary_positions_of_a_config, rotary_positions_of_olmo3, rotary_positions_of_gpt_neox,
        settings_that_config_json_contradicts, weights_that_do_not_fit, a_model_of_another_kind);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
