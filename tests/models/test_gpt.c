/* The built-in gpt and llama: steps against PyTorch from the same weights on the same tokens (tests/torch), in
 * float64, on one slot and with layouts for data, tensor, sequence and fully sharded training, whose losses are
 * equal; logits and gradients of llama; their data from text and from files of tokens; what they refuse.
 * Ranks: 1, 3   More: 4 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/base/log.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "runtime/train/train.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { VOCABULARY = 64, CONTEXT = 16, BATCH = 8, STEPS = 200, LLAMA_STEPS = 60 };
enum { TOKENS = BATCH * STEPS * CONTEXT + 1 };

static iso_context *ctx;
static char folder[64], token_file[96];

/* A model of the settings that the scripts of tests/torch have. */
typedef struct network {
    const char *name, *results;    /* results: the file of PyTorch's */
    const char *tensor, *sequence; /* files of layouts */
    int steps;
    double decrease; /* the last loss is less than this times the first */
    iso_builtin_settings settings;
} network;

static const network networks[] = {
    {.name = "gpt",
     .results = "tests/torch/gpt.txt",
     .tensor = "models/layouts/gpt-tensor.json",
     .sequence = "models/layouts/gpt-sequence.json",
     .steps = STEPS,
     .decrease = 0.6,
     .settings = {.gpt = {.layers = 2, .heads = 2, .width = 32, .context = CONTEXT}}},
    {.name = "llama",
     .results = "tests/torch/llama.txt",
     .tensor = "models/layouts/llama-tensor.json",
     .sequence = "models/layouts/llama-sequence.json",
     .steps = LLAMA_STEPS,
     .decrease = 0.95,
     .settings = {.llama = {.layers = 2,
                            .heads = 4,
                            .kv_heads = 2,
                            .width = 32,
                            .hidden = 48,
                            .context = CONTEXT,
                            .wavelength = 100}}},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- what make_gpt.py and make_llama.py compute too ---- */

static bool is_scale(const char *path)
{
    return strstr(path, "gamma") || strstr(path, "scale");
}

static void assign_weights(iso_graph *graph)
{
    for (int v = 0, number = 0; v < iso_graph_variable_count(graph); v++) {
        iso_variable *variable = iso_graph_variable(graph, v);
        int64_t count = 0;
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        if (strncmp(iso_variable_path(variable), "optimizer/", 10) == 0)
            continue;
        double *values = calloc((size_t)count, sizeof *values);
        for (int64_t i = 0; i < count; i++)
            values[i] =
                oracle_weight((uint32_t)number, (uint32_t)i, 0.1) + is_scale(iso_variable_path(variable));
        check_ok(iso_variable_assign(variable, values, count));
        free(values);
        number++;
    }
}

/* 16-bit tokens, lowest byte first, as nanoGPT writes them. */
static void write_tokens(void)
{
    uint8_t bytes[2] = {0, 0};
    uint32_t state = 1;
    FILE *out = fopen(token_file, "wb");
    ck_assert_ptr_nonnull(out);
    for (int written = 0; written < TOKENS;) {
        state = (state * 1103515245u + 12345u) & 0x7fffffffu;
        uint32_t word = (state >> 8) % 40, letters = word % 7 + 1;
        for (uint32_t i = 0; i <= letters && written < TOKENS; i++, written++) {
            bytes[0] = i == letters ? 0 : (uint8_t)((word * 11 + i * i * 5 + 1) % (VOCABULARY - 1) + 1);
            fwrite(bytes, 1, sizeof bytes, out);
        }
    }
    ck_assert_int_eq(fclose(out), 0);
}

/* After the first line, which says who computed them; those of llama begin with lines of other numbers. */
static FILE *open_results(const network *net)
{
    char line[160];
    FILE *in = fopen(net->results, "r");
    ck_assert_msg(in, "%s cannot be read", net->results);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
    return in;
}

static void read_losses(const network *net, double *losses)
{
    char line[160], *end = line;
    FILE *in = open_results(net);
    for (int i = 0; i < net->steps;) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
        losses[i] = strtod(line, &end);
        i += end > line && *end == '\n';
    }
    fclose(in);
}

/* ---- training ---- */

/* The losses of single steps, from the running means of an epoch. */
typedef struct curve {
    int count;
    double sum, loss[STEPS];
} curve;

static iso_status note_loss(void *user, iso_fit_state *state)
{
    curve *c = user;
    ck_assert_int_lt(c->count, STEPS);
    c->loss[c->count] = iso_logs_get(&state->logs, "loss") * (c->count + 1) - c->sum;
    c->sum += c->loss[c->count++];
    return ISO_OK;
}

typedef struct setting {
    const network *net;
    const char *mesh, *layouts; /* layouts: a file, or NULL */
    int zero;
} setting;

static iso_model *make_model(const network *net, const iso_optimizer *other, iso_distribution *distribution)
{
    const iso_builtin_model *builtin;
    check_ok(iso_builtin_model_find(net->name, &builtin));
    iso_model *model =
        iso_builtin_model_create(ctx, builtin, ISO_SHAPE(CONTEXT), VOCABULARY, ISO_F64, &net->settings);
    iso_optimizer optimizer = other ? *other : builtin->optimizer();
    if (!other)
        optimizer.schedule = iso_cosine_decay(3e-3, net->steps, .alpha = 0.1);
    check_ok(iso_compile(model, .optimizer = optimizer, .loss = builtin->loss, .distribution = distribution));
    assign_weights(iso_model_graph(model));
    return model;
}

static iso_dataset *open_tokens(void)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_open(ctx, token_file, ISO_TRAIN, &data, .context = CONTEXT));
    check_ok(iso_dataset_batch(data, BATCH));
    return data;
}

/* `steps` steps on a mesh with layouts. */
static void train(const setting *s, int steps, curve *c)
{
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    iso_layout_map *map = NULL;
    iso_callback *callbacks[] = {iso_callback_create(.batch_end = note_loss, .user = c, .collective = true),
                                 NULL};
    *c = (curve){0};
    check_ok(iso_mesh_create(ctx, s->mesh, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    iso_layout_map_set_strict(map, true);
    if (s->layouts)
        check_ok(iso_layout_map_read(map, s->layouts));
    check_ok(iso_model_parallel_create(map, &distribution));
    check_ok(iso_distribution_set_zero(distribution, s->zero));
    iso_dataset *data = open_tokens();
    iso_model *model = make_model(s->net, NULL, distribution);
    check_ok(iso_fit(model, data, .epochs = 1, .steps_per_epoch = steps, .callbacks = callbacks,
                     .verbose = ISO_ZERO));
    ck_assert_int_eq(c->count, steps);
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static void compare(const setting *s, const curve *c, const double *expected, double tolerance)
{
    for (int i = 0; i < c->count; i++)
        ck_assert_msg(fabs(c->loss[i] - expected[i]) <= tolerance,
                      "%s: mesh %s, layouts %s, zero %d, step %d: loss %.12f, expected %.12f", s->net->name,
                      s->mesh, s->layouts ? s->layouts : "none", s->zero, i, c->loss[i], expected[i]);
}

/* Adam's epsilon and the one of clipping stand elsewhere in PyTorch. */
static void check_losses(const network *net)
{
    const setting s = {.net = net, .mesh = iso_ranks(ctx) > 1 ? "data=4" : "data=1", .zero = 1};
    double expected[STEPS];
    curve c;
    read_losses(net, expected);
    train(&s, net->steps, &c);
    compare(&s, &c, expected, 1e-4);
    ck_assert(c.loss[net->steps - 1] < net->decrease * c.loss[0]);
}

START_TEST(its_losses_are_those_of_pytorch)
{
    for (int i = 0; i < NETWORKS; i++)
        check_losses(&networks[i]);
}
END_TEST

/* The files beside the model, and ZeRO: other orders of the same sums. */
static void check_layouts(const network *net)
{
    enum { FEW = 12 };
    const setting settings[] = {
        {net, "data=4", NULL, 1},
        {net, "data=2,model=2", net->tensor, 1},
        {net, "data=1,model=5", net->tensor, 1},
        {net, "data=2,model=2", net->sequence, 1},
        {net, "data=1,model=5", net->sequence, 1},
        {net, "data=5", NULL, 3},
        {net, "data=2,model=2", net->tensor, 3},
    };
    curve first, c;
    train(&settings[0], FEW, &first);
    for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
        train(&settings[i], FEW, &c);
        compare(&settings[i], &c, first.loss, 1e-10);
    }
}

START_TEST(layouts_change_no_loss)
{
    for (int i = 0; i < NETWORKS; i++)
        check_layouts(&networks[i]);
}
END_TEST

/* The sum of the squares of values, and of their products with other numbers, as the next line of a file has them.
 * PyTorch has angles of rotary positions in float32. */
static void check_digest(FILE *results, const char *name, int number, const double *values, int64_t count)
{
    char line[160], path[100];
    double squares = 0, products = 0, of_squares, of_products;
    for (int64_t i = 0; i < count; i++) {
        squares += values[i] * values[i];
        products += values[i] * oracle_weight((uint32_t)number, (uint32_t)i, 1);
    }
    ck_assert_ptr_nonnull(fgets(line, sizeof line, results));
    ck_assert_int_eq(sscanf(line, "%99s %lf %lf", path, &of_squares, &of_products), 3);
    ck_assert_str_eq(path, name);
    ck_assert_msg(fabs(squares - of_squares) <= 1e-6 * of_squares &&
                      fabs(products - of_products) <= 1e-6 * sqrt(of_squares),
                  "%s: %.12g, %.12g; expected %.12g, %.12g", path, squares, products, of_squares,
                  of_products);
}

static double *read_variable(iso_variable *variable, int64_t *count)
{
    check_ok(iso_shape_count(iso_variable_shape(variable), count));
    double *values = calloc((size_t)*count, sizeof *values);
    check_ok(iso_variable_read(variable, values, *count));
    return values;
}

/* A step of SGD takes the gradients from the weights. */
static void check_gradients(FILE *results, iso_model *model, iso_dataset *data)
{
    iso_graph *graph = iso_model_graph(model);
    enum { VARIABLES = 40 };
    double *before[VARIABLES], *after;
    int64_t count;
    int variables = 0;
    for (; !strstr(iso_variable_path(iso_graph_variable(graph, variables)), "optimizer/"); variables++)
        before[variables] = read_variable(iso_graph_variable(graph, variables), &count);
    check_ok(iso_fit(model, data, .epochs = 1, .steps_per_epoch = 1, .verbose = ISO_ZERO));
    for (int v = 0; v < variables; v++) {
        after = read_variable(iso_graph_variable(graph, v), &count);
        for (int64_t i = 0; i < count; i++)
            after[i] = before[v][i] - after[i];
        check_digest(results, iso_variable_path(iso_graph_variable(graph, v)), v + 50, after, count);
        free(before[v]);
        free(after);
    }
}

START_TEST(logits_and_gradients_of_llama)
{
    const network *net = &networks[1];
    const iso_optimizer sgd = iso_sgd(1);
    iso_model *model = make_model(net, &sgd, NULL);
    iso_dataset *data = open_tokens();
    const int64_t of_row = CONTEXT * VOCABULARY;
    double *logits = calloc((size_t)(iso_dataset_rows(data) * of_row), sizeof *logits);
    FILE *results = open_results(net);
    check_ok(iso_predict(model, data, .outputs = {logits}, .verbose = ISO_ZERO));
    check_digest(results, "logits", 100, logits, BATCH * of_row);
    check_gradients(results, model, data);
    fclose(results);
    free(logits);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* ---- data ---- */

static const char *write_file(const char *name, const void *bytes, size_t count)
{
    const char *path = in_folder(folder, name);
    FILE *out = iso_is_chief(ctx) ? fopen(path, "wb") : NULL;
    if (out) {
        ck_assert_int_eq((int)fwrite(bytes, 1, count, out), (int)count);
        fclose(out);
    }
    check_ok(iso_agree(ctx, ISO_OK));
    return path;
}

static void check_rows(const char *path, int64_t context, int64_t rows, const int32_t *first)
{
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    int32_t x[8], y[8];
    check_ok(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = context));
    ck_assert_int_eq(iso_dataset_rows(data), rows);
    check_ok(iso_dataset_batch(data, 1));
    for (int64_t row = 0; row < rows; row++) {
        check_ok(iso_dataset_next(data, &batch));
        check_ok(batch->read(batch, 0, 0, 1, ISO_I32, x));
        check_ok(batch->read(batch, 1, 0, 1, ISO_I32, y));
        for (int64_t i = 0; i < context; i++) {
            ck_assert_int_eq(x[i], first[row * context + i]);
            ck_assert_int_eq(y[i], first[row * context + i + 1]);
        }
    }
    iso_dataset_destroy(data);
}

/* The tokens 1, 258, 65535, 4, 0, by Python's gzip. */
static const uint8_t gzipped[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff,
                                  0x63, 0x64, 0x60, 0x62, 0xfc, 0xff, 0x9f, 0x85, 0x81, 0x81,
                                  0x01, 0x00, 0x96, 0xf4, 0xd8, 0x49, 0x0a, 0x00, 0x00, 0x00};

START_TEST(rows_of_text_and_tokens)
{
    static const int32_t letters[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 0xfc},
                         numbers[] = {1, 258, 65535, 4, 0};
    static const uint8_t tokens[] = {1, 0, 2, 1, 255, 255, 4, 0, 0, 0};
    uint8_t with_header[1024 + sizeof tokens] = {0};
    const uint32_t header[] = {20240520, 1, 5};
    memcpy(with_header, header, sizeof header);
    memcpy(with_header + 1024, tokens, sizeof tokens);
    check_rows(write_file("text.md", "abcdefg\xfc", 8), 3, 2, letters);
    check_rows(write_file("text.txt", "abcdefg\xfc", 8), 7, 1, letters);
    check_rows(write_file("nano.bin", tokens, sizeof tokens), 2, 2, numbers);
    check_rows(write_file("nano.BIN", tokens, sizeof tokens), 2, 2, numbers);
    check_rows(write_file("llm.bin", with_header, sizeof with_header), 4, 1, numbers);
    check_rows(write_file("llm.tokens", with_header, sizeof with_header), 4, 1, numbers);
    check_rows(write_file("nano.bin.gz", gzipped, sizeof gzipped), 2, 2, numbers);
    check_rows(write_file("NANO.BIN.GZ", gzipped, sizeof gzipped), 2, 2, numbers);
}
END_TEST

static int warnings;

static void take_warning(void *user, const char *text)
{
    (void)user;
    warnings += strstr(text, "' is read as text, each byte as a token, and ") != NULL;
}

/* Opens it with all warnings counted. */
static int count_warnings(const char *path, int64_t vocabulary)
{
    iso_dataset *data = NULL;
    warnings = 0;
    iso_set_warning_handler(take_warning, NULL);
    check_ok(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = 2, .vocabulary = vocabulary));
    iso_set_warning_handler(NULL, NULL);
    iso_dataset_destroy(data);
    return warnings;
}

/* By the first rank of each host, which opens the file. */
START_TEST(tokens_read_as_text_are_warned_of)
{
    const int once = iso_is_chief(ctx);
    ck_assert_int_eq(count_warnings(write_file("words", "\1\0\2\1\5", 5), 256), once);
    ck_assert_int_eq(count_warnings(write_file("words.gz", gzipped, sizeof gzipped), 256), once);
    ck_assert_int_eq(count_warnings(write_file("text.txt", "abcde", 5), 257), once);
    ck_assert_int_eq(count_warnings(write_file("text.txt", "abcde", 5), 256), 0);
    ck_assert_int_eq(count_warnings(write_file("words.bin", "\1\0\2\1\5\0", 6), 65536), 0);
}
END_TEST

static void check_no_data(const char *path, int64_t context, const char *message)
{
    iso_dataset *data = NULL;
    check_refused(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = context), message);
}

START_TEST(what_is_refused)
{
    uint8_t header[1030] = {0};
    const uint32_t words[] = {20240520, 1, 4}, later[] = {20240520, 7, 3}, wide[] = {20240801, 7, 1},
                   wide_later[] = {20240801, 1, 1};
    check_no_data(write_file("short.txt", "abc", 3), 3, "has 3 tokens; a row of 3");
    check_no_data(write_file("none.txt", "", 0), 3, "has 0 tokens");
    check_no_data(write_file("some.txt", "abcdef", 6), 0, "for models that take rows of tokens, such as gpt");
    check_no_data(write_file("odd.bin", "abc", 3), 1, "no whole number of 16-bit tokens");
    memcpy(header, words, sizeof words);
    check_no_data(write_file("begun.bin", header, 500), 1, "has 500 of the 1024 bytes of their header");
    check_no_data(write_file("cut.bin", header, sizeof header), 1, "its header says 4 tokens, it has 3");
    memcpy(header, later, sizeof later);
    check_no_data(write_file("later.bin", header, sizeof header), 1, "version 7");
    memcpy(header, wide, sizeof wide);
    check_no_data(write_file("wide.bin", header, sizeof header), 1, "no whole number of 32-bit tokens");
    memcpy(header, wide_later, sizeof wide_later);
    check_no_data(write_file("wide.bin", header, sizeof header), 1,
                  "version 1 of llm.c's files of 32-bit tokens");
}
END_TEST

static iso_status open_within(const char *path, int64_t context, int64_t vocabulary, iso_dataset **data)
{
    return iso_dataset_open(ctx, path, ISO_TRAIN, data, .context = context, .vocabulary = vocabulary);
}

/* All tokens of rows and the last target; those after it are not used. */
START_TEST(tokens_outside_of_the_vocabulary)
{
    static const uint8_t tokens[] = {1, 0, 2, 1, 255, 255, 4, 0, 0, 0},
                         wide[] = {1, 0, 0, 0, 2, 1, 1, 0, 7, 0, 0, 0, 255, 255, 255, 255};
    const struct {
        const char *path;
        int64_t context, vocabulary;
        const char *message;
    } cases[] = {
        {"nano.bin", 2, 65536, NULL},
        {"nano.bin", 2, 65535, "token 65535 at position 2 (counted from 0)"},
        {"nano.bin", 1, 258, "token 258 at position 1"},
        {"nano.bin", 2, -1, "-1 tokens"},
        {"nano.bin", 2, 65537, "10 bytes, which are no whole number of 32-bit tokens; files for more"},
        {"wide.bin", 2, 65795, NULL},
        {"wide.bin", 2, 65794, "token 65794 at position 1"},
        {"wide.bin", 3, 70000, "token 4294967295 at position 3"},
        {"text.txt", 3, 104, NULL},
        {"text.txt", 3, 103, "token 103 at position 6"},
        {"text.txt", 7, 252, "token 252 at position 7"},
        {"text.txt", 7, 253, NULL}};
    write_file("nano.bin", tokens, sizeof tokens);
    write_file("text.txt", "abcdefg\xfc", 8);
    write_file("wide.bin", wide, sizeof wide);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_dataset *data = NULL;
        iso_status status =
            open_within(in_folder(folder, cases[i].path), cases[i].context, cases[i].vocabulary, &data);
        if (cases[i].message)
            check_refused_naming(status, cases[i].path, cases[i].message);
        else
            check_ok(status);
        iso_dataset_destroy(data);
    }
}
END_TEST

static void check_no_model_of(const char *name, iso_shape shape, iso_builtin_settings settings,
                              const char *message)
{
    const iso_builtin_model *builtin;
    check_ok(iso_builtin_model_find(name, &builtin));
    iso_model *model = iso_builtin_model_create(ctx, builtin, shape, VOCABULARY, ISO_F32, &settings);
    check_refused(iso_graph_error(iso_model_graph(model)), message);
    iso_model_destroy(model);
}

static void check_no_model(iso_shape shape, iso_gpt_options options, const char *message)
{
    check_no_model_of("gpt", shape, (iso_builtin_settings){.gpt = options}, message);
}

static void check_no_llama(int64_t tokens, iso_llama_options options, const char *message)
{
    check_no_model_of("llama", ISO_SHAPE(tokens), (iso_builtin_settings){.llama = options}, message);
}

START_TEST(models_that_cannot_be)
{
    check_no_model(ISO_SHAPE(28, 28, 1), (iso_gpt_options){0}, "takes rows of tokens, [t]");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.layers = 1, .heads = 5},
                   "width 768 is not a multiple of its 5 heads");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.layers = -1}, "layers is -1; it must be from 1 to 10000");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.layers = 10001},
                   "layers is 10001; it must be from 1 to 10000");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.layers = 1, .dropout = 1},
                   "dropout 1; it must be from 0 to below 1");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.layers = 1, .heads = 1, .width = 1 << 21},
                   "from 1 to 1048576");
    check_no_model(ISO_SHAPE(9), (iso_gpt_options){.layers = 1, .width = 24, .context = 8},
                   "has 9 positions, and sequence_length is 8");
    check_no_model(ISO_SHAPE(9), (iso_gpt_options){.layers = 1, .context = 8, .rotary = 4},
                   "gpt: rows of 9 tokens, and context is 8");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.rotary = 3},
                   "rotary is 3; it must be an even number of the 64 features of a head, or 0");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.rotary = 66}, "rotary is 66; it must be an even");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.epsilon = ISO_ZERO},
                   "gpt: epsilon is 0; it must be above 0 and below 1");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.wavelength = -1}, "wavelength is -1; it must be");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.kv_heads = 5},
                   "heads 12 is not a multiple of kv_heads, 5");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.kv_heads = -1}, "kv_heads is -1; it must be from 1");
    check_no_model(ISO_SHAPE(8), (iso_gpt_options){.window = -1}, "sliding_window is -1");
    check_no_model_of("llama", ISO_SHAPE(8, 2), (iso_builtin_settings){0}, "takes rows of tokens, [t]");
    check_no_llama(8, (iso_llama_options){.heads = 5}, "width 768 is not a multiple of its 5 heads");
    check_no_llama(8, (iso_llama_options){.kv_heads = 5}, "heads 12 is not a multiple of kv_heads, 5");
    check_no_llama(8, (iso_llama_options){.width = 36}, "a head has 3 features, width / heads");
    check_no_llama(8, (iso_llama_options){.head_dim = 5},
                   "a head has 5 features, head_dim; it must be an even");
    check_no_llama(8, (iso_llama_options){.head_dim = -2}, "head_dim is -2; it must be from 1 to 1048576");
    check_no_llama(8, (iso_llama_options){.output_bias = true}, "output_bias needs qkv_bias");
    check_no_llama(8, (iso_llama_options){.experts = -1}, "experts is -1; it must be from 0, for none");
    check_no_llama(8, (iso_llama_options){.experts = 4, .experts_per_token = 5},
                   "experts_per_token is 5; it must be from 1 to experts, 4");
    check_no_llama(8, (iso_llama_options){.balance = 0.1}, "balance needs experts");
    check_no_llama(8, (iso_llama_options){.experts = 4, .balance = -1}, "balance is -1");
    check_no_llama(8, (iso_llama_options){.full_layers = -1}, "full_layers is -1; it must not be negative");
    check_no_llama(8, (iso_llama_options){.rope_linear = -1}, "rope_linear is -1; it must be positive");
    check_no_llama(8, (iso_llama_options){.full_every = -1}, "full_every is -1; it must not be negative");
    check_no_llama(8, (iso_llama_options){.nope_every = -1}, "nope_every is -1; it must not be negative");
    check_no_llama(8, (iso_llama_options){.no_pre_norm = true}, "no_pre_norm needs post_norm");
    check_no_llama(8, (iso_llama_options){.qk_norm_whole = true}, "qk_norm_whole needs qk_norm");
    check_no_llama(8, (iso_llama_options){.embedding_scale = -1},
                   "embedding_scale is -1; it must be positive");
    check_no_llama(8, (iso_llama_options){.attention_cap = -1},
                   "attention_cap is -1; it must be positive, or 0 for its default");
    check_no_llama(8, (iso_llama_options){.logit_divisor = -2}, "logit_divisor is -2; it must be positive");
    check_no_llama(8, (iso_llama_options){.shared_hidden = 4}, "shared_hidden needs experts");
    check_no_llama(8, (iso_llama_options){.experts = 2, .shared_hidden = -1}, "shared_hidden is -1");
    check_no_llama(8, (iso_llama_options){.rope_factor = 2, .rope_yarn = true, .wavelength = 0.5},
                   "with yarn the wavelength, 0.5, above 1");
    check_no_llama(8, (iso_llama_options){.layers = 10001}, "layers is 10001; it must be from 1 to 10000");
    check_no_llama(8, (iso_llama_options){.hidden = -1}, "hidden is -1; it must be from 1 to 1048576");
    check_no_llama(8, (iso_llama_options){.wavelength = -2}, "wavelength -2; it must be positive");
    check_no_llama(9, (iso_llama_options){.layers = 1, .context = 8}, "rows of 9 tokens, and context is 8");
}
END_TEST

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    snprintf(token_file, sizeof token_file, "%s", in_folder(folder, "tokens.bin"));
    if (iso_is_chief(ctx))
        write_tokens();
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
    int code = RUN_TESTS_WITH("gpt", 120, set_up, tear_down, its_losses_are_those_of_pytorch,
                              layouts_change_no_loss, logits_and_gradients_of_llama, rows_of_text_and_tokens,
                              tokens_read_as_text_are_warned_of, tokens_outside_of_the_vocabulary,
                              what_is_refused, models_that_cannot_be);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
