/* The classifiers of tests/encoders, which transformers wrote: logits, the gradients of all weights and losses of
 * AdamW are those of PyTorch, in float64, on one slot and with layouts for data, tensor and fully sharded training,
 * with activations that are computed again, and within rounding in bfloat16. A folder that is written holds the same
 * weights on any mesh. A classifier that a folder lacks is drawn. What is refused. Ranks: 1, 3   More: 8
 * Sanitize: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum {
    VOCABULARY = 31,
    CONTEXT = 10,
    BATCH = 5,
    CLASSES = 3,
    STEPS = 4,
    SEPARATOR = 2,
    SIDE = 12,
    CHANNELS = 3
};

static iso_context *ctx;
static char folder[64];

/* What the labels of its rows are. */
enum { A_CLASS, CLASS_OF_TOKENS, MASKED_TOKENS, NUMBERS, FLAGS };

static const struct network {
    const char *name, *layouts;
    int pad;          /* -1: it takes images */
    const char *base; /* the name is that of an adapter for this model; NULL: of a model */
    int labels;
} networks[] = {{"bert", "models/layouts/bert-tensor.json", 0, NULL, A_CLASS},
                {"roberta", "models/layouts/bert-tensor.json", 1, NULL, A_CLASS},
                {"xlm-roberta", "models/layouts/bert-tensor.json", 1, NULL, A_CLASS},
                {"distilbert", "models/layouts/bert-tensor.json", 0, NULL, A_CLASS},
                {"vit", "models/layouts/vit-tensor.json", -1, NULL, A_CLASS},
                {"vit-other", "models/layouts/vit-tensor.json", -1, NULL, A_CLASS},
                {"bert-tokens", "models/layouts/bert-tensor.json", 0, NULL, CLASS_OF_TOKENS},
                {"roberta-tokens", "models/layouts/bert-tensor.json", 1, NULL, CLASS_OF_TOKENS},
                {"distilbert-tokens", "models/layouts/bert-tensor.json", 0, NULL, CLASS_OF_TOKENS},
                {"bert-masked", "models/layouts/bert-tensor.json", 0, NULL, MASKED_TOKENS},
                {"roberta-masked", "models/layouts/bert-tensor.json", 1, NULL, MASKED_TOKENS},
                {"distilbert-masked", "models/layouts/bert-tensor.json", 0, NULL, MASKED_TOKENS},
                {"bert-regression", "models/layouts/bert-tensor.json", 0, NULL, NUMBERS},
                {"distilbert-multi", "models/layouts/bert-tensor.json", 0, NULL, FLAGS}};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* Of PEFT, with the classifiers as a whole. */
static const struct network adapters[] = {
    {"adapter-bert", "models/layouts/bert-tensor.json", 0, "bert", A_CLASS},
    {"adapter-roberta", "models/layouts/bert-tensor.json", 1, "roberta", A_CLASS},
    {"adapter-distilbert", "models/layouts/bert-tensor.json", 0, "distilbert", A_CLASS},
    {"adapter-roberta-tokens", "models/layouts/bert-tensor.json", 1, "roberta-tokens", CLASS_OF_TOKENS}};
enum { ADAPTERS = sizeof adapters / sizeof *adapters };

/* layouts: those of the network; otherwise all weights are replicated. */
static const struct setting {
    const char *mesh;
    int slots;
    bool layouts;
    int zero;
    bool recompute;
} settings[] = {{"data=1", 1, false, 1, false}, {"data=3", 3, false, 1, true},
                {"model=3", 3, true, 1, false}, {"data=5", 5, false, 3, false},
                {"data=8", 8, false, 3, true},  {"data=2,model=4", 8, true, 1, false}};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- what make.py computes too ---- */

static int below(uint32_t *state, int n)
{
    *state = (*state * 1103515245u + 12345u) & 0x7fffffffu;
    return (int)((*state >> 8) % (uint32_t)n);
}

typedef struct rows {
    int32_t token[BATCH][CONTEXT], label[BATCH], token_label[BATCH][CONTEXT];
    float number[BATCH][CLASSES];
    uint8_t image[BATCH][SIDE * SIDE * CHANNELS];
} rows;

static void make_other_labels(const struct network *net, uint32_t *state, rows *made)
{
    const int classes = net->labels == CLASS_OF_TOKENS ? CLASSES : VOCABULARY;
    for (int r = 0; r < BATCH; r++) {
        for (int i = 0; i < CLASSES && net->labels == NUMBERS; i++)
            made->number[r][i] = (float)below(state, 128) / 64 - 1;
        for (int i = 0; i < CLASSES && net->labels == FLAGS; i++)
            made->number[r][i] = (float)below(state, 2);
        for (int i = 0; i < CONTEXT && (net->labels == CLASS_OF_TOKENS || net->labels == MASKED_TOKENS);
             i++) {
            const int label = below(state, classes);
            made->token_label[r][i] = made->token[r][i] == net->pad || (r + i) % 3 == 0 ? -100 : label;
        }
    }
}

static rows make_rows(const struct network *net)
{
    rows made;
    uint32_t state = 1;
    for (int r = 0; r < BATCH; r++) {
        for (int i = 0; i < CONTEXT && net->pad >= 0; i++) {
            int token = 2 + below(&state, VOCABULARY - 2);
            bool padded = i >= 4 + 2 * r || (r == 1 && (i == 1 || i == 3));
            made.token[r][i] = padded ? net->pad : i == r + 1 ? SEPARATOR : token;
        }
        for (int i = 0; i < SIDE * SIDE * CHANNELS && net->pad < 0; i++)
            made.image[r][i] = (uint8_t)below(&state, 256);
        made.label[r] = below(&state, CLASSES);
    }
    make_other_labels(net, &state, &made);
    return made;
}

static bool labels_tokens(const struct network *net)
{
    return net->labels == CLASS_OF_TOKENS || net->labels == MASKED_TOKENS;
}

/* Logits that are compared: of masked tokens the first ones alone. */
static int logit_count(const struct network *net)
{
    return BATCH * CLASSES * (labels_tokens(net) ? CONTEXT : 1);
}

typedef struct expected {
    double logits[BATCH * CONTEXT * CLASSES], loss[STEPS];
} expected;

static void read_line(FILE *in, const char *want, double *values, int count)
{
    char name[60];
    do {
        ck_assert_int_eq(fscanf(in, " %59[^ \n]%*1[ ]", name), 1);
        for (int i = 0; i < count && strcmp(name, want) == 0; i++)
            ck_assert_int_eq(fscanf(in, "%lf", &values[i]), 1);
        ck_assert_int_ge(fscanf(in, "%*[^\n]"), EOF);
    } while (strcmp(name, want) != 0);
}

static expected read_expected(const struct network *net)
{
    expected e;
    FILE *in = fopen(net->base ? "tests/encoders/expected_adapters.txt" : "tests/encoders/expected.txt", "r");
    ck_assert_ptr_nonnull(in);
    read_line(in, net->name, e.logits, logit_count(net));
    read_line(in, net->name, e.loss, STEPS);
    fclose(in);
    return e;
}

/* ---- models ---- */

typedef struct job {
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_model *model;
} job;

static const char *folder_of(const char *name)
{
    static char path[80];
    snprintf(path, sizeof path, "tests/encoders/%s", name);
    return path;
}

static iso_shape row_of(const struct network *net)
{
    return net->pad < 0 ? ISO_SHAPE(SIDE, SIDE, CHANNELS) : ISO_SHAPE(CONTEXT);
}

/* No dropout, and what a folder does not say. */
static void set_options(const struct network *net, const struct setting *s, iso_builtin_settings *o)
{
    if (net->pad < 0) {
        o->vit.dropout = o->vit.attention_dropout = 0;
        o->vit.recompute = s->recompute;
        return;
    }
    o->bert.dropout = o->bert.attention_dropout = o->bert.classifier_dropout = 0;
    o->bert.recompute = s->recompute;
    o->bert.separator = o->bert.kind == ISO_BERT_PLAIN ? SEPARATOR : 0;
}

/* A compiled model with the weights of the folder, and those of an adapter; adapter: its folder, NULL: none. */
static job begin_job_with(const struct network *net, const char *adapter, const struct setting *s,
                          iso_dtype precision, iso_optimizer optimizer)
{
    job j = {0};
    iso_pretrained read;
    iso_pretrained_adapter its = {.rank = 0};
    const char *base = net->base ? net->base : net->name;
    check_ok(iso_mesh_create(ctx, s->mesh, &j.mesh));
    check_ok(iso_layout_map_create(j.mesh, &j.map));
    iso_layout_map_set_strict(j.map, true);
    if (s->layouts)
        check_ok(iso_layout_map_read(j.map, net->layouts));
    check_ok(iso_model_parallel_create(j.map, &j.distribution));
    check_ok(iso_distribution_set_zero(j.distribution, s->zero));
    check_ok(iso_pretrained_read(ctx, folder_of(base), &read));
    if (adapter)
        check_ok(iso_pretrained_read_adapter(ctx, adapter, &its));
    const iso_lora_options lora = {
        .rank = its.rank, .alpha = its.alpha, .target = its.target, .trained = its.trained};
    ck_assert_int_eq(read.vocabulary, net->pad < 0 ? 0 : VOCABULARY);
    ck_assert_int_eq(read.outputs, net->labels == MASKED_TOKENS ? VOCABULARY : CLASSES);
    set_options(net, s, &read.settings);
    j.model = iso_builtin_model_create_adapted(ctx, read.model, row_of(net), read.outputs, precision,
                                               &read.settings, adapter ? &lora : NULL);
    iso_compile_options options = {.optimizer = optimizer, .distribution = j.distribution};
    iso_pretrained_objective(&read, read.outputs, &options);
    check_ok(iso_compile_with(j.model, &options, sizeof options));
    check_ok(iso_pretrained_load_weights(j.model, folder_of(base)));
    if (adapter)
        check_ok(iso_pretrained_load_adapter(j.model, adapter));
    iso_free(its.target);
    iso_free(its.trained);
    return j;
}

static job begin_job(const struct network *net, const struct setting *s, iso_dtype precision,
                     iso_optimizer optimizer)
{
    char adapter[80];
    snprintf(adapter, sizeof adapter, "%s", folder_of(net->name));
    return begin_job_with(net, net->base ? adapter : NULL, s, precision, optimizer);
}

static void end_job(job *j)
{
    iso_model_destroy(j->model);
    iso_distribution_destroy(j->distribution);
    iso_layout_map_destroy(j->map);
    iso_mesh_destroy(j->mesh);
}

static iso_dataset *open_rows(const struct network *net, const rows *made)
{
    iso_dataset *data = NULL;
    const iso_data_array x =
        net->pad < 0 ? (iso_data_array){made->image, ISO_U8, ISO_SHAPE(BATCH, SIDE, SIDE, CHANNELS)}
                     : (iso_data_array){made->token, ISO_I32, ISO_SHAPE(BATCH, CONTEXT)};
    const iso_data_array y =
        labels_tokens(net)       ? (iso_data_array){made->token_label, ISO_I32, ISO_SHAPE(BATCH, CONTEXT)}
        : net->labels >= NUMBERS ? (iso_data_array){made->number, ISO_F32, ISO_SHAPE(BATCH, CLASSES)}
                                 : (iso_data_array){made->label, ISO_I32, ISO_SHAPE(BATCH)};
    check_ok(iso_dataset_arrays(ctx, &data, .x = x, .y = y));
    check_ok(iso_dataset_batch(data, BATCH));
    return data;
}

/* The first CLASSES logits of each row, or of each position. */
static void predict(const struct network *net, iso_model *model, iso_dataset *data, double *y)
{
    static double all[BATCH * CONTEXT * VOCABULARY];
    static float narrow[BATCH * CONTEXT * VOCABULARY];
    const bool wide = iso_tensor_dtype(iso_model_output(model)) == ISO_F64;
    const iso_shape *shape = iso_tensor_shape(iso_model_output(model));
    const int outputs = (int)shape->dim[shape->rank - 1];
    check_ok(iso_predict(model, data, .outputs = {wide ? (void *)all : narrow}, .verbose = ISO_ZERO));
    for (int i = 0; i < logit_count(net); i++) {
        const int at = i / CLASSES * outputs + i % CLASSES;
        y[i] = wide ? all[at] : (double)narrow[at];
    }
}

static void check_logits(const struct network *net, iso_model *model, iso_dataset *data, const expected *e,
                         double tolerance)
{
    double y[BATCH * CONTEXT * CLASSES];
    predict(net, model, data, y);
    check_near(net->name, y, e->logits, logit_count(net), tolerance);
}

/* The loss of the epoch, which is one step. */
static iso_status note_loss(void *user, iso_fit_state *state)
{
    *(double *)user = iso_logs_get(&state->logs, "loss");
    return ISO_OK;
}

static double step(iso_model *model, iso_dataset *data)
{
    double loss = NAN;
    iso_callback *callbacks[] = {
        iso_callback_create(.epoch_end = note_loss, .user = &loss, .collective = true), NULL};
    check_ok(iso_fit(model, data, .epochs = 1, .callbacks = callbacks, .verbose = ISO_ZERO));
    return loss;
}

/* ---- logits, losses, gradients ---- */

static void check_losses(const struct network *net, const struct setting *s)
{
    const expected e = read_expected(net);
    const rows made = make_rows(net);
    job j = begin_job(net, s, ISO_F64,
                      iso_adamw(0.01, .epsilon = 1e-20, .weight_decay = 0.1, .no_decay = "bias,gamma,beta"));
    iso_dataset *data = open_rows(net, &made);
    check_logits(net, j.model, data, &e, 1e-12);
    for (int i = 0; i < STEPS; i++) {
        double loss = step(j.model, data);
        ck_assert_msg(fabs(loss - e.loss[i]) < 1e-9, "%s, mesh %s, step %d: loss %.12f, expected %.12f",
                      net->name, s->mesh, i, loss, e.loss[i]);
    }
    iso_dataset_destroy(data);
    end_job(&j);
}

/* Whether a mesh has a slot for each rank. */
static bool takes(const struct setting *s, int number)
{
    return s->slots >= iso_ranks(ctx) && (iso_ranks(ctx) > 3 || takes_case(iso_ranks(ctx), number));
}

START_TEST(logits_and_losses_are_those_of_pytorch)
{
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s < SETTINGS; s++)
            if (takes(&settings[s], n + s))
                check_losses(&networks[n], &settings[s]);
}
END_TEST

START_TEST(adapters_and_whole_classifiers_are_those_of_peft)
{
    for (int n = 0; n < ADAPTERS; n++)
        for (int s = 0; s < SETTINGS; s++)
            if (takes(&settings[s], n + s))
                check_losses(&adapters[n], &settings[s]);
}
END_TEST

/* What is trained besides the adapters is in the folder, and with PEFT's names all that these stand for. */
static void check_saved_adapter(const struct network *net, const char *trained)
{
    const rows made = make_rows(net);
    char out[96];
    const iso_optimizer optimizer = iso_sgd(0.1);
    iso_pretrained_adapter its;
    iso_dataset *data = open_rows(net, &made);
    job j = begin_job(net, &settings[0], ISO_F64, optimizer);
    expected e;
    snprintf(out, sizeof out, "%s", in_folder(folder, net->name));
    step(j.model, data);
    predict(net, j.model, data, e.logits);
    check_ok(iso_pretrained_save_adapter_check(j.model, out, NULL));
    check_ok(iso_pretrained_save_adapter(j.model, out, NULL));
    check_ok(iso_pretrained_read_adapter(ctx, out, &its));
    ck_assert_str_eq(its.trained, trained);
    iso_free(its.target);
    iso_free(its.trained);
    job again = begin_job_with(net, out, &settings[2], ISO_F64, optimizer);
    check_logits(net, again.model, data, &e, 1e-12);
    end_job(&again);
    end_job(&j);
    iso_dataset_destroy(data);
}

START_TEST(a_saved_adapter_has_the_classifier)
{
    static const char *const trained[ADAPTERS] = {"classifier", "pooler|classifier", "pooler|classifier",
                                                  "classifier"};
    for (int n = 0; n < ADAPTERS && iso_ranks(ctx) == 1; n++)
        check_saved_adapter(&adapters[n], trained[n]);
}
END_TEST

static double *read_tensor(iso_saved_file *file, int tensor, int64_t *count)
{
    const iso_box box = iso_box_whole(&iso_saved_file_tensor(file, tensor)->shape);
    double *values = calloc((size_t)iso_box_count(&box), sizeof *values);
    *count = iso_box_count(&box);
    check_ok(iso_saved_file_read(file, tensor, &box, ISO_F64, values));
    return values;
}

/* All tensors of both files. */
static void check_same_tensors(const char *what, const char *path, const char *expected_path)
{
    iso_saved_file *ours = NULL, *theirs = NULL;
    check_ok(iso_saved_file_open(ctx, path, &ours));
    check_ok(iso_saved_file_open(ctx, expected_path, &theirs));
    ck_assert_int_eq(iso_saved_file_tensors(ours), iso_saved_file_tensors(theirs));
    for (int i = 0; i < iso_saved_file_tensors(theirs); i++) {
        const iso_saved_tensor *tensor = iso_saved_file_tensor(theirs, i);
        int64_t count, other;
        char text[200];
        int found = iso_saved_file_at(ours, tensor->h5_path);
        ck_assert_msg(found >= 0, "%s: no %s", what, tensor->h5_path);
        ck_assert(iso_shape_equal(&iso_saved_file_tensor(ours, found)->shape, &tensor->shape));
        double *a = read_tensor(ours, found, &count), *b = read_tensor(theirs, i, &other);
        snprintf(text, sizeof text, "%s: %s", what, tensor->h5_path);
        check_near(text, a, b, count, 1e-11);
        free(a);
        free(b);
    }
    iso_saved_file_close(ours);
    iso_saved_file_close(theirs);
}

/* A step of plain descent with the rate 1: the weights are then less their gradients. */
START_TEST(gradients_are_those_of_pytorch)
{
    char out[96], path[128], theirs[128];
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s < SETTINGS; s++) {
            const struct network *net = &networks[n];
            if (!takes(&settings[s], n + s + 1))
                continue;
            const rows made = make_rows(net);
            job j = begin_job(net, &settings[s], ISO_F64, iso_sgd(1));
            iso_dataset *data = open_rows(net, &made);
            step(j.model, data);
            snprintf(out, sizeof out, "%s/%s", folder, net->name);
            check_ok(iso_pretrained_save(j.model, out, .dtype = "float64"));
            snprintf(path, sizeof path, "%s/model.safetensors", out);
            snprintf(theirs, sizeof theirs, "%s/stepped.safetensors", folder_of(net->name));
            check_same_tensors(net->name, path, theirs);
            iso_dataset_destroy(data);
            end_job(&j);
        }
}
END_TEST

/* Other labels have no layers of their own. */
static bool is_of_precisions(const struct network *net)
{
    return net->labels == A_CLASS || net->labels == MASKED_TOKENS;
}

START_TEST(other_precisions)
{
    static const struct {
        iso_dtype dtype;
        double tolerance;
    } precisions[] = {{ISO_F32, 1e-5}, {ISO_BF16, 0.03}};
    for (int n = 0; n < NETWORKS; n++)
        for (int p = 0; p < 2 && is_of_precisions(&networks[n]); p++) {
            const struct setting *s = &settings[iso_ranks(ctx) > 3 ? 4 : 1 + p];
            const expected e = read_expected(&networks[n]);
            const rows made = make_rows(&networks[n]);
            job j = begin_job(&networks[n], s, precisions[p].dtype, iso_sgd(0.1));
            iso_dataset *data = open_rows(&networks[n], &made);
            check_logits(&networks[n], j.model, data, &e, precisions[p].tolerance);
            double loss = step(j.model, data);
            ck_assert_double_le(fabs(loss - e.loss[0]), precisions[p].tolerance);
            iso_dataset_destroy(data);
            end_job(&j);
        }
}
END_TEST

/* ---- files ---- */

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

/* In the type of the folder: exactly those of transformers. */
START_TEST(a_written_folder_has_the_same_weights_on_any_mesh)
{
    char out[96], path[128], theirs[128];
    for (int n = 0; n < NETWORKS; n++)
        for (int s = 0; s < SETTINGS; s++) {
            if (!takes(&settings[s], n + s + 2))
                continue;
            job j = begin_job(&networks[n], &settings[s], ISO_F32, iso_sgd(1));
            snprintf(out, sizeof out, "%s/again-%s", folder, networks[n].name);
            check_ok(iso_pretrained_save(j.model, out, .source = folder_of(networks[n].name)));
            snprintf(path, sizeof path, "%s/model.safetensors", out);
            snprintf(theirs, sizeof theirs, "%s/model.safetensors", folder_of(networks[n].name));
            check_same_tensors(networks[n].name, path, theirs);
            end_job(&j);
        }
}
END_TEST

static double *read_variable(iso_model *model, const char *path, int64_t *count)
{
    iso_variable *variable = iso_model_variable(model, path);
    ck_assert_msg(variable, "no %s", path);
    check_ok(iso_shape_count(iso_variable_shape(variable), count));
    double *values = calloc((size_t)*count, sizeof *values);
    check_ok(iso_variable_read(variable, values, *count));
    return values;
}

static void check_variable(iso_model *a, iso_model *b, const char *path, bool same)
{
    int64_t count, other;
    double *x = read_variable(a, path, &count), *y = read_variable(b, path, &other);
    ck_assert_int_eq(count, other);
    ck_assert_msg((memcmp(x, y, (size_t)count * sizeof *x) == 0) == same, "%s %s", path,
                  same ? "differs" : "is the same");
    free(x);
    free(y);
}

static char warned[2000];

static void take_warning(void *user, const char *text)
{
    (void)user;
    const size_t length = strlen(warned);
    snprintf(warned + length, sizeof warned - length, "%s\n", text);
}

/* A folder without a classifier, or with another one: what it has is read, what it lacks is as in a new model. */
static void check_new_classifier(const char *name, const char *pooler, const char *warning)
{
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of(name), &read));
    if (read.model->tokens)
        read.settings.bert.head = ISO_BERT_SEQUENCE_CLASSIFICATION;
    iso_model *model[2];
    const iso_shape row = read.model->tokens ? ISO_SHAPE(CONTEXT) : ISO_SHAPE(SIDE, SIDE, CHANNELS);
    for (int i = 0; i < 2; i++) {
        model[i] = iso_builtin_model_create(ctx, read.model, row, 7, ISO_F32, &read.settings);
        check_ok(iso_compile(model[i], .optimizer = iso_sgd(1), .loss = read.model->loss));
    }
    warned[0] = 0;
    iso_set_warning_handler(take_warning, NULL);
    check_ok(iso_pretrained_load_weights(model[0], folder_of(name)));
    iso_set_warning_handler(NULL, NULL);
    if (iso_is_chief(ctx))
        ck_assert_msg(strstr(warned, warning), "'%s'", warned);
    check_variable(model[0], model[1], "classifier/kernel", true);
    if (pooler)
        check_variable(model[0], model[1], "pooler/kernel", strcmp(pooler, "new") == 0);
    check_variable(model[0], model[1], "position_embedding/embeddings", false);
    check_variable(model[0], model[1], "block_1/norm/beta", false);
    iso_model_destroy(model[0]);
    iso_model_destroy(model[1]);
}

START_TEST(classifiers_that_a_folder_lacks)
{
    check_new_classifier("bert-base", "read", "bert-base' has no 'classifier.weight', 'classifier.bias'");
    check_new_classifier("bert-old", "read", "bert-old' has no 'classifier.weight', 'classifier.bias'");
    check_new_classifier("vit-base", NULL, "vit-base' has no 'classifier.weight', 'classifier.bias'");
    check_new_classifier("roberta-lm", "new",
                         "has no 'classifier.dense.weight', 'classifier.dense.bias', "
                         "'classifier.out_proj.weight', 'classifier.out_proj.bias'");
    check_new_classifier("distilbert-lm", "new", "has no 'pre_classifier.weight', 'pre_classifier.bias'");
}
END_TEST

/* The weights of a folder in a model with another head. */
static void check_other_head(const char *name, iso_bert_head head, const char *ignored, const char *new)
{
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of(name), &read));
    read.settings.bert.head = head;
    iso_model *model =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT),
                                 head == ISO_BERT_MASKED_LM ? 0 : CLASSES, ISO_F32, &read.settings);
    warned[0] = 0;
    iso_set_warning_handler(take_warning, NULL);
    check_ok(iso_pretrained_load_weights(model, folder_of(name)));
    iso_set_warning_handler(NULL, NULL);
    if (iso_is_chief(ctx)) {
        ck_assert_msg(ignored ? !!strstr(warned, ignored) : !strstr(warned, "ignored"), "%s: '%s'", name,
                      warned);
        ck_assert_msg(new ? !!strstr(warned, new) : !strstr(warned, "new"), "%s: '%s'", name, warned);
    }
    iso_model_destroy(model);
}

/* As in transformers, tensors of another head are ignored; those of the same name and shape are read. */
START_TEST(heads_that_a_model_does_not_have)
{
    const iso_bert_head of_rows = ISO_BERT_SEQUENCE_CLASSIFICATION, tokens = ISO_BERT_TOKEN_CLASSIFICATION,
                        masked = ISO_BERT_MASKED_LM;
    check_other_head("bert", masked, "has 'classifier.bias', 'classifier.weight' of another head",
                     "has no 'cls.predictions.transform.dense.weight'");
    check_other_head("bert", tokens, NULL, NULL);
    check_other_head("bert-tokens", masked, "has 'classifier.bias', 'classifier.weight' of another head",
                     "has no 'cls.");
    check_other_head("bert-tokens", of_rows, NULL,
                     "has no 'bert.pooler.dense.weight', 'bert.pooler.dense.bias':");
    check_other_head("roberta", tokens,
                     "has 'classifier.dense.bias', 'classifier.dense.weight', 'classifier.out_proj.bias', "
                     "'classifier.out_proj.weight' of another head",
                     "has no 'classifier.weight', 'classifier.bias':");
    check_other_head("roberta-tokens", of_rows, "has 'classifier.bias', 'classifier.weight' of another head",
                     "has no 'classifier.dense.weight'");
    check_other_head("xlm-roberta", masked, "'classifier.out_proj.weight' of another head",
                     "has no 'lm_head.dense.weight'");
    check_other_head("distilbert", tokens,
                     "has 'pre_classifier.bias', 'pre_classifier.weight' of another head", NULL);
    check_other_head("distilbert", masked, "'pre_classifier.weight' of another head",
                     "has no 'vocab_transform.weight'");
    check_other_head("distilbert-tokens", of_rows, NULL,
                     "has no 'pre_classifier.weight', 'pre_classifier.bias':");
    check_other_head("bert-masked", tokens, NULL, "has no 'classifier.weight', 'classifier.bias':");
}
END_TEST

START_TEST(a_classifier_of_other_labels)
{
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of("bert"), &read));
    iso_model *model =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), 4, ISO_F32, &read.settings);
    check_refused(
        iso_pretrained_load_weights(model, folder_of("bert")),
        "tensor 'classifier.weight' has the shape [3, 12]; 'classifier/kernel' of the model needs [4, 12]");
    iso_model_destroy(model);
    model = iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), 3, ISO_F32, &read.settings);
    check_refused(iso_pretrained_load_weights(model, folder_of("roberta")),
                  "has no tensor 'bert.embeddings.word_embeddings.weight'");
    iso_model_destroy(model);
}
END_TEST

/* A saved folder is for the labels that its loss has. outputs: of the model */
static void check_problem(const char *name, int outputs, iso_loss loss, iso_pretrained_problem problem)
{
    const char *out = in_folder(folder, "problem");
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of(name), &read));
    iso_model *model =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), outputs, ISO_F32, &read.settings);
    check_ok(iso_compile(model, .optimizer = iso_sgd(1), .loss = loss));
    check_ok(iso_pretrained_save(model, out, .source = folder_of(name)));
    check_ok(iso_pretrained_read(ctx, out, &read));
    ck_assert_msg(read.problem == problem, "%s, loss %d: %d", name, (int)loss, (int)read.problem);
    iso_model_destroy(model);
}

START_TEST(problems_of_saved_folders)
{
    check_problem("bert", 3, ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, ISO_PROBLEM_BY_LABELS);
    check_problem("bert", 3, ISO_LOSS_BINARY_CROSSENTROPY_LOGITS, ISO_PROBLEM_MULTI_LABEL);
    check_problem("bert", 3, ISO_LOSS_MSE, ISO_PROBLEM_REGRESSION);
    check_problem("bert", 1, ISO_LOSS_HUBER, ISO_PROBLEM_BY_LABELS);
    check_problem("bert", 1, ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, ISO_PROBLEM_SINGLE_LABEL);
    check_problem("distilbert-multi", 3, ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, ISO_PROBLEM_SINGLE_LABEL);
    check_problem("distilbert-multi", 3, ISO_LOSS_POISSON, ISO_PROBLEM_MULTI_LABEL);
    check_problem("bert-regression", 3, ISO_LOSS_BINARY_CROSSENTROPY_LOGITS, ISO_PROBLEM_MULTI_LABEL);
    check_problem("bert-tokens", 3, ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, ISO_PROBLEM_BY_LABELS);
}
END_TEST

/* ---- the two names of a bias of masked tokens ---- */

/* A copy of a folder's weights whose header has one text replaced by another, with some bytes of 0 at its end. */
static const char *write_weights(const char *name, const char *old, const char *new, int zeros)
{
    char path[128];
    long bytes;
    snprintf(path, sizeof path, "%s/model.safetensors", folder_of(name));
    char *data = read_file(path, &bytes), *header = data + sizeof(uint64_t);
    uint64_t length;
    memcpy(&length, data, sizeof length);
    const char *at = memmem(header, length, old, strlen(old)), *rest = at + strlen(old);
    ck_assert_msg(at, "%s has no %s", path, old);
    const char *out_path = in_folder(folder, "altered.safetensors");
    FILE *out = iso_is_chief(ctx) ? fopen(out_path, "wb") : NULL;
    if (out) {
        const uint64_t other = length + strlen(new) - strlen(old);
        fwrite(&other, sizeof other, 1, out);
        fprintf(out, "%.*s%s", (int)(at - header), header, new);
        fwrite(rest, 1, (size_t)(data + bytes - rest), out);
        for (int i = 0; i < zeros; i++)
            fputc(0, out);
        fclose(out);
    }
    free(data);
    check_ok(iso_agree(ctx, ISO_OK));
    return out_path;
}

static iso_model *make_masked(const char *name)
{
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of(name), &read));
    return iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), 0, ISO_F32, &read.settings);
}

/* Only the other name is there: it is read. Both are, with other values: refused. size: of the bias's elements */
static void check_bias(const char *name, const char *bias, const char *other, const char *dtype, int size)
{
    char old[80], new[200], message[160];
    long bytes;
    uint64_t length;
    iso_model *model = make_masked(name), *usual = make_masked(name);
    check_ok(iso_pretrained_load_weights(usual, folder_of(name)));
    snprintf(old, sizeof old, "\"%s\"", bias);
    snprintf(new, sizeof new, "\"%s\"", other);
    check_ok(iso_pretrained_load_weights(model, write_weights(name, old, new, 0)));
    check_variable(model, usual, "logits/bias", true);
    snprintf(new, sizeof new, "%s/model.safetensors", folder_of(name));
    char *data = read_file(new, &bytes);
    memcpy(&length, data, sizeof length);
    free(data);
    const int end = (int)((uint64_t)bytes - length - sizeof length);
    snprintf(new, sizeof new, "\"%s\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%d,%d]},\"%s\"",
             other, dtype, VOCABULARY, end, end + VOCABULARY * size, bias);
    snprintf(message, sizeof message, "'%s' differs from '%s'; the model has one tensor for both", other,
             bias);
    check_refused(iso_pretrained_load_weights(model, write_weights(name, old, new, VOCABULARY * size)),
                  message);
    iso_model_destroy(model);
    iso_model_destroy(usual);
}

START_TEST(biases_of_masked_tokens_under_both_names)
{
    check_bias("bert-masked", "cls.predictions.bias", "cls.predictions.decoder.bias", "F32", 4);
    check_bias("roberta-masked", "lm_head.bias", "lm_head.decoder.bias", "BF16", 2);
}
END_TEST

/* ---- config.json ---- */

static iso_status parse_altered(const char *name, const char *old, const char *new, iso_pretrained *net)
{
    char path[128], changed[8000];
    long bytes;
    snprintf(path, sizeof path, "%s/config.json", folder_of(name));
    char *text = read_file(path, &bytes), *at = strstr(text, old);
    ck_assert_msg(at, "%s has no %s", path, old);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    free(text);
    return iso_hf_config_parse(name, changed, strlen(changed), net);
}

static void check_no_config(const char *name, const char *old, const char *new, const char *message)
{
    iso_pretrained net;
    check_refused(parse_altered(name, old, new, &net), message);
}

START_TEST(what_a_config_cannot_have)
{
    check_no_config("bert", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"",
                    "bert: hidden_act is \"relu\"; gelu and gelu_new are supported");
    check_no_config("bert", "\"num_attention_heads\": 3", "\"num_attention_heads\": 5",
                    "num_attention_heads is 5; it must divide");
    check_no_config("bert", "\"is_decoder\": false", "\"is_decoder\": true",
                    "is_decoder is true; only false");
    check_no_config("bert", "\"is_decoder\": false", "\"position_embedding_type\": \"relative_key\"",
                    "position_embedding_type is \"relative_key\"; only \"absolute\" is supported");
    check_no_config("bert", "\"is_decoder\": false", "\"problem_type\": \"ranking\"",
                    "problem_type is \"ranking\"; \"regression\", \"single_label_classification\" and "
                    "\"multi_label_classification\" are supported");
    check_no_config("bert", "\"is_decoder\": false", "\"problem_type\": 1", "problem_type is 1");
    check_no_config("bert-masked", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
                    "tie_word_embeddings is false; only true is supported");
    check_no_config("roberta", "\"pad_token_id\": 1", "\"pad_token_id\": null",
                    "pad_token_id is null; it must be a token of the vocabulary");
    check_no_config("bert", "\"pad_token_id\": 0", "\"pad_token_id\": -1",
                    "pad_token_id is -1; it must be a token of the vocabulary");
    check_no_config("distilbert", "\"n_heads\": 3", "\"n_heads\": 3, \"num_attention_heads\": 2",
                    "num_attention_heads is 2; the other name of this key has another value");
    check_no_config("bert", "\"pad_token_id\": 0", "\"pad_token_id\": 31",
                    "pad_token_id is 31; it must be a token of the vocabulary");
    check_no_config("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": \"a\"",
                    "classifier_dropout is \"a\"; it must be a number");
    check_no_config("roberta", "\"max_position_embeddings\": 12", "\"max_position_embeddings\": 2",
                    "max_position_embeddings is 2; it must be more than pad_token_id + 1");
    check_no_config("distilbert", "\"activation\": \"gelu\"", "\"activation\": \"relu\"",
                    "activation is \"relu\"; gelu and gelu_new are supported");
    check_no_config("distilbert", "\"n_heads\": 3", "\"n_heads\": 7", "n_heads is 7; it must divide");
    check_no_config("bert", "\"id2label\"", "\"num_labels\": 0, \"names\"",
                    "num_labels is 0; it must be a count");
    check_no_config("vit", "\"qkv_bias\": true", "\"qkv_bias\": false", "qkv_bias is false; only true");
    check_no_config("vit", "\"patch_size\": 4", "\"patch_size\": 5",
                    "patch_size is 5; it must divide image_size");
    check_no_config("vit", "\"image_size\": 12", "\"image_size\": [12, 16]",
                    "image_size is [12, 16]; it must be a count, or two equal ones: a square");
    check_no_config("vit", "\"image_size\": 12", "\"image_size\": [12]", "image_size is [12]; it must be");
    check_no_config("vit", "\"image_size\": 12", "\"image_size\": [12, 12, 12]",
                    "image_size is [12, 12, 12]; it must be");
    check_no_config("vit", "\"patch_size\": 4", "\"patch_size\": [0, 0]", "patch_size is [0, 0]; it must be");
    check_no_config("vit", "\"patch_size\": 4", "\"patch_size\": [\"4\", \"4\"]",
                    "patch_size is [\"4\", \"4\"]");
    check_no_config("vit", "\"patch_size\": 4", "\"patch_size\": [5, 5]",
                    "patch_size is [5, 5]; it must divide image_size");
    check_no_config("vit", "\"num_channels\": 3", "\"num_channels\": [3, 3]",
                    "num_channels is [3, 3]; it must be a count");
    check_no_config("vit", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"swish\"",
                    "hidden_act is \"swish\"; gelu and gelu_new are supported");
}
END_TEST

START_TEST(what_a_config_may_have)
{
    iso_pretrained net;
    const iso_bert_options *o = &net.settings.bert;
    check_ok(parse_altered("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": null", &net));
    ck_assert_double_eq(o->classifier_dropout, 0.1);
    ck_assert_double_eq(o->attention_dropout, 0.2);
    check_ok(parse_altered("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": 0", &net));
    ck_assert_double_eq(o->classifier_dropout, 0);
    check_ok(parse_altered("bert", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"gelu_new\"", &net));
    ck_assert(o->gelu_tanh);
    check_ok(parse_altered("bert", "\"id2label\"", "\"num_labels\": 5, \"names\"", &net));
    ck_assert_int_eq(net.outputs, 5);
    check_ok(parse_altered("bert", "\"id2label\"", "\"names\"", &net));
    ck_assert_int_eq(net.outputs, 2);
    check_ok(parse_altered("roberta", "\"pad_token_id\": 1", "\"pad_token_id\": 4", &net));
    ck_assert_int_eq(o->context, 7);
    check_ok(parse_altered("distilbert", "\"seq_classif_dropout\": 0.2", "\"a\": 0", &net));
    ck_assert_double_eq(o->classifier_dropout, 0.2);
    check_ok(parse_altered("distilbert", "\"n_heads\"", "\"num_hidden_layers\": 2, \"num_attention_heads\"",
                           &net));
    ck_assert(o->heads == 3 && o->layers == 2);
    check_ok(parse_altered("distilbert", "\"dim\"", "\"hidden_size\"", &net));
    ck_assert_int_eq(o->width, 12);
    check_ok(parse_altered("bert", "\"pad_token_id\": 0", "\"pad_token_id\": null", &net));
    ck_assert_int_eq(o->pad, ISO_BERT_NO_PAD);
    check_ok(parse_altered("distilbert", "\"pad_token_id\": 0", "\"pad_token_id\": null", &net));
    ck_assert_int_eq(o->pad, ISO_BERT_NO_PAD);
    check_ok(parse_altered("vit", "\"image_size\": 12", "\"image_size\": [24, 24.0]", &net));
    ck_assert_int_eq(net.settings.vit.image, 24);
    check_ok(parse_altered("vit", "\"patch_size\": 4", "\"patch_size\": [3, 3]", &net));
    ck_assert(net.settings.vit.patch == 3 && net.settings.vit.image == 12);
}
END_TEST

static void check_rate(iso_pretrained net, iso_bert_head head, double rate)
{
    net.settings.bert.head = head;
    net.settings.bert.dropout = 0.7;
    ck_assert_double_eq(iso_pretrained_classifier_dropout(&net), rate);
}

/* Before the classifier: that of the file, or that of other layers, also when that is changed. */
START_TEST(rates_of_dropout_before_classifiers)
{
    iso_pretrained net;
    check_ok(parse_altered("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": 0.3", &net));
    check_rate(net, ISO_BERT_SEQUENCE_CLASSIFICATION, 0.3);
    check_rate(net, ISO_BERT_TOKEN_CLASSIFICATION, 0.3);
    check_ok(parse_altered("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": null", &net));
    check_rate(net, ISO_BERT_SEQUENCE_CLASSIFICATION, 0.7);
    check_ok(parse_altered("bert", "\"classifier_dropout\": 0.3,", "", &net));
    check_rate(net, ISO_BERT_TOKEN_CLASSIFICATION, 0.7);
    check_ok(parse_altered("distilbert-tokens", "\"dropout\": 0.1", "\"dropout\": 0.4", &net));
    ck_assert_double_eq(net.settings.bert.classifier_dropout, 0.4);
    check_rate(net, ISO_BERT_TOKEN_CLASSIFICATION, 0.7);
    check_rate(net, ISO_BERT_SEQUENCE_CLASSIFICATION, 0.2);
    check_ok(iso_pretrained_read(ctx, folder_of("distilbert-masked"), &net));
    check_rate(net, ISO_BERT_SEQUENCE_CLASSIFICATION, 0.2);
    check_refused(parse_altered("bert", "\"classifier_dropout\": 0.3", "\"classifier_dropout\": -1", &net),
                  "classifier_dropout is -1; it must be a number, 0 or more");
}
END_TEST

START_TEST(rates_that_no_config_says)
{
    iso_pretrained read;
    check_ok(iso_pretrained_read(ctx, folder_of("distilbert-tokens"), &read));
    read.settings.bert.classifier_dropout = 0.9;
    iso_model *model =
        iso_builtin_model_create(ctx, read.model, ISO_SHAPE(CONTEXT), CLASSES, ISO_F32, &read.settings);
    check_refused(iso_pretrained_save_check(model, "out"),
                  "classifier_dropout is 0.9 and dropout is 0.1; config.json has one rate for both");
    check_ok(iso_pretrained_save_check(model, "out.safetensors"));
    check_ok(iso_pretrained_load_weights(model, folder_of("distilbert-tokens")));
    iso_model_destroy(model);
}
END_TEST

/* ---- what the network refuses ---- */

static void check_no_network(iso_bert_options o, iso_shape row, const char *message)
{
    const iso_builtin_model *bert;
    const iso_builtin_settings given = {.bert = o};
    check_ok(iso_builtin_model_find("bert", &bert));
    iso_model *model = iso_builtin_model_create(ctx, bert, row, 2, ISO_F32, &given);
    check_refused(iso_compile(model, .optimizer = iso_sgd(1), .loss = bert->loss), message);
    iso_model_destroy(model);
}

START_TEST(settings_that_do_not_fit)
{
    const iso_bert_options fits = {.layers = 1, .heads = 2, .width = 8, .vocabulary = 9, .context = 4};
    iso_bert_options o = fits;
    check_no_network(fits, ISO_SHAPE(5), "bert: rows of 5 tokens, and context is 4");
    check_no_network(fits, ISO_SHAPE(2, 2), "takes rows of tokens, [t]");
    o.heads = 3;
    check_no_network(o, ISO_SHAPE(4), "bert: width 8 is not a multiple of its 3 heads");
    o = fits;
    o.pad = 9;
    check_no_network(o, ISO_SHAPE(4), "pad 9 and separator 0 must be tokens of the vocabulary of 9");
    o = fits;
    o.attention_dropout = 1;
    check_no_network(o, ISO_SHAPE(4), "bert: attention_dropout 1; it must be from 0 to below 1");
    o = fits;
    o.separator = 2;
    o.kind = ISO_BERT_DISTILBERT;
    check_no_network(o, ISO_SHAPE(4), "separator is 2, and kind=distilbert has no types of tokens");
}
END_TEST

static void check_no_images(iso_vit_options o, iso_shape row, const char *message)
{
    const iso_builtin_model *vit;
    const iso_builtin_settings given = {.vit = o};
    check_ok(iso_builtin_model_find("vit", &vit));
    iso_model *model = iso_builtin_model_create(ctx, vit, row, 2, ISO_F32, &given);
    check_refused(iso_compile(model, .optimizer = iso_sgd(1), .loss = vit->loss), message);
    iso_model_destroy(model);
}

START_TEST(images_that_do_not_fit)
{
    const iso_vit_options fits = {.layers = 1, .heads = 2, .width = 8, .patch = 4};
    iso_vit_options o = fits;
    check_no_images(fits, ISO_SHAPE(8, 9, 1), "and patch, 4, does not divide height and width");
    check_no_images(fits, ISO_SHAPE(8), "it must be [batch, height, width, channels]");
    o.image = 8;
    check_no_images(o, ISO_SHAPE(8, 12, 1),
                    "vit: its input is [batch, 8, 12, 1], and image is 8, channels 0");
    o = fits;
    o.channels = 3;
    check_no_images(o, ISO_SHAPE(8, 8, 1), "and image is 0, channels 3");
    o = fits;
    o.heads = 3;
    check_no_images(o, ISO_SHAPE(8, 8, 1), "vit: width 8 is not a multiple of its 3 heads");
}
END_TEST

/* Images of any sides that patches divide are trained on, but only squares are exchanged. */
START_TEST(images_that_are_no_squares)
{
    const iso_builtin_model *vit;
    const iso_builtin_settings given = {.vit = {.layers = 1, .heads = 2, .width = 8, .patch = 4}};
    check_ok(iso_builtin_model_find("vit", &vit));
    iso_model *model = iso_builtin_model_create(ctx, vit, ISO_SHAPE(8, 12, 1), 2, ISO_F32, &given);
    check_ok(iso_compile(model, .optimizer = iso_sgd(1), .loss = vit->loss));
    check_refused(iso_pretrained_save_check(model, "out"), "has images of ViT that are no squares");
    iso_model_destroy(model);
}
END_TEST

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
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
        "encoders", 120, set_up, tear_down, logits_and_losses_are_those_of_pytorch,
        adapters_and_whole_classifiers_are_those_of_peft, a_saved_adapter_has_the_classifier,
        gradients_are_those_of_pytorch, other_precisions, a_written_folder_has_the_same_weights_on_any_mesh,
        classifiers_that_a_folder_lacks, heads_that_a_model_does_not_have, a_classifier_of_other_labels,
        problems_of_saved_folders, biases_of_masked_tokens_under_both_names, what_a_config_cannot_have,
        what_a_config_may_have, rates_of_dropout_before_classifiers, rates_that_no_config_says,
        settings_that_do_not_fit, images_that_do_not_fit, images_that_are_no_squares);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
