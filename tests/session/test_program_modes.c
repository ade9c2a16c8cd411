/* Modes that a program has set do not reach Isogrid's numbers, files and messages: rounding, denormal numbers as 0,
 * traps, a locale with a decimal comma; on all ranks or on one. Weights, losses, predictions and files are those of
 * a program that has set nothing, and training resumes from files that were written in other modes. Calls leave the
 * modes and the flags of exceptions as they are. Callbacks have the program's modes; functions that give numbers
 * have the default ones, in each thread. Ranks: 1, 3 */
#include <check.h>
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/layers.h"
#include "runtime/isogrid_extend.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/folder.h"
#include "tests/support/modes.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 52, INPUTS = 7, CLASSES = 3 };

static int rank;

__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* MPI keeps memory */
}

/* ---- modes ---- */

typedef enum mode { DEFAULT, UPWARD, FLUSH, TRAPS, COMMA, MODES } mode;
static const char *const mode_name[] = {"default", "upward", "flush", "traps", "comma"};

static void set_mode(mode wanted, int on_rank)
{
    fesetenv(FE_DFL_ENV);
    setlocale(LC_ALL, "C");
    if (on_rank >= 0 && on_rank != rank)
        return;
    if (wanted == UPWARD)
        fesetround(FE_UPWARD);
    if (wanted == FLUSH)
        flush_denormals();
    if (wanted == TRAPS)
        feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    if (wanted == COMMA)
        ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "comma"));
}

typedef struct state {
    number_modes numbers;
    char point;
} state;

static state state_now(void)
{
    return (state){number_modes_now(), localeconv()->decimal_point[0]};
}

static bool is_same(state a, state b)
{
    return a.numbers.modes == b.numbers.modes && a.numbers.flags == b.numbers.flags && a.point == b.point;
}

static bool is_default(state is)
{
    return is.numbers.modes == DEFAULT_NUMBER_MODES && is.point == '.';
}

/* A locale of which only the numbers are defined. localedef, which comes with the C library, complains of the rest,
 * but makes it. */
static bool make_locale(const char *folder)
{
    char command[1000];
    if (rank == 0) {
        snprintf(command, sizeof command,
                 "cd '%s' && printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \".\"\\n"
                 "grouping 3\\nEND LC_NUMERIC\\n' >source && printf '<code_set_name> ASCII\\nCHARMAP\\n"
                 "<U0000>..<U007F> /x00\\nEND CHARMAP\\n' >characters && "
                 "localedef -c --no-archive -i source -f characters ./comma >log 2>&1",
                 folder);
        if (system(command) == -1)
            return false;
    }
    setenv("LOCPATH", folder, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    bool made = setlocale(LC_NUMERIC, "comma") && localeconv()->decimal_point[0] == ',';
    setlocale(LC_ALL, "C");
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return made;
}

/* ---- functions of the program ---- */

static _Atomic int wrong_modes; /* calls of the program's functions in other modes than they should have */
static state of_program;

static iso_status halve(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    wrong_modes += !is_default(state_now());
    for (int i = 0; i < INPUTS; i++)
        ((float *)out[0])[i] = ((const float *)in->data[0])[i] / 2;
    memcpy(out[1], in->data[1], sizeof(int32_t));
    return ISO_OK;
}

static double slow_down(void *user, int epoch, double rate)
{
    (void)user;
    wrong_modes += !is_default(state_now());
    return epoch ? rate / 1.1 : rate;
}

static iso_status look(void *user, iso_fit_state *fit)
{
    (void)user;
    (void)fit;
    wrong_modes += !is_same(state_now(), of_program);
    return ISO_OK;
}

/* ---- one training ---- */

typedef struct outcome {
    iso_fingerprint weights;
    double loss;
    float predicted[ROWS][CLASSES];
} outcome;

static float x[ROWS][INPUTS];
static int32_t y[ROWS];

typedef struct training {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_dataset *data;
    iso_model *model;
} training;

/* Some inputs are denormal, and are made normal before they are used. */
static training begin_training(void)
{
    training t;
    char *list[] = {"test", "--threads", "2", NULL}, **options = list;
    int count = 3;
    check_ok(iso_init_on(MPI_COMM_WORLD, &count, &options, &t.ctx));
    check_ok(iso_mesh_create(t.ctx, "data=4", &t.mesh));
    check_ok(iso_data_parallel_create(t.mesh, &t.distribution));
    check_ok(iso_dataset_arrays(t.ctx, &t.data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, INPUTS)},
                                .y = {y, ISO_I32, ISO_SHAPE(ROWS)}));
    check_ok(iso_dataset_map(t.data, halve, .threads = 2));
    check_ok(iso_dataset_batch(t.data, 16));
    iso_graph *g = iso_graph_create(t.ctx);
    iso_tensor *in = iso_input(g, "x", ISO_F32, ISO_SHAPE(INPUTS));
    iso_tensor *h = iso_dense(iso_affine(iso_affine(in, 1e-37, 0), 1e37, 0), 11, .activation = ISO_GELU);
    h = iso_dense(iso_dropout(iso_layer_norm(h), 0.15), CLASSES, .activation = ISO_SOFTMAX,
                  .kernel_l2 = 0.015);
    t.model = iso_model_create(g, in, h);
    check_ok(iso_compile(t.model, .optimizer = iso_adam(0.0125, .global_clip_norm = 1.5),
                         .loss = ISO_LOSS_SPARSE_CROSSENTROPY, .metrics = {ISO_METRIC_ACCURACY},
                         .distribution = t.distribution));
    return t;
}

static void end_training(training *t)
{
    iso_model_destroy(t->model);
    iso_dataset_destroy(t->data);
    iso_distribution_destroy(t->distribution);
    iso_mesh_destroy(t->mesh);
    ck_assert_int_eq(iso_finish(t->ctx, ISO_OK), 0);
}

/* Names of the files of a training: "FOLDER/LOCATION/NAME". */
static const char *path_of(const char *folder, const char *name)
{
    static char path[8][200];
    static int next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static void fit(training *t, const char *folder, int epochs)
{
    iso_callback *callbacks[] = {
        iso_model_checkpoint(path_of(folder, "{epoch:02d}-{val_loss:.4f}.weights.h5"), .best = "val_loss"),
        iso_csv_logger(path_of(folder, "log.csv"), .append = true),
        iso_history_file(path_of(folder, "log.jsonl")),
        iso_learning_rate_scheduler(slow_down),
        iso_early_stopping(.patience = 3, .min_delta = 0.0005),
        iso_callback_create(.train_begin = look, .epoch_end = look, .batch_end = look),
        NULL};
    check_ok(iso_fit(t->model, t->data, .epochs = epochs, .validation = t->data,
                     .resume = epochs > 2 ? path_of(folder, "latest") : NULL, .callbacks = callbacks));
}

/* Texts with real numbers, in a file of their own. */
static void write_texts(training *t, const char *folder)
{
    iso_text text = {0};
    iso_plan_report *report;
    iso_layout *layout;
    char number[40];
    double rate;
    iso_attribute attribute = {.kind = ISO_ATTRIBUTE_REAL, .real = 0.1};
    check_ok(iso_function_report(iso_model_training_function(t->model), 16, &report));
    check_ok(iso_plan_report_json(report, &text));
    iso_plan_report_print(report, &text);
    iso_plan_report_destroy(report);
    iso_attribute_print(&attribute, &text);
    check_ok(iso_model_learning_rate(t->model, &rate));
    iso_error(ISO_FAILED, "%.17g", rate);
    iso_text_add(&text, "%s %s\n", iso_error_message(), iso_text_scaled(1500, "B", number, sizeof number));
    check_ok(iso_layout_create(t->mesh, "data, -", &layout));
    check_ok(iso_layout_visualize_svg(layout, ISO_SHAPE(7, 3), path_of(folder, "layout.svg"), NULL, 0));
    iso_layout_destroy(layout);
    FILE *file = fopen(path_of(folder, rank ? "texts of others" : "texts"), "w");
    fputs(iso_text_get(&text), file);
    fclose(file);
    iso_text_free(&text);
}

/* Two epochs in the modes `first`; then, in a new context in the modes `then`, a third one and all else. */
static outcome train(const char *folder, mode first, mode then, int on_rank)
{
    outcome result;
    if (rank == 0)
        mkdir(folder, 0777);
    MPI_Barrier(MPI_COMM_WORLD);
    set_mode(first, on_rank);
    of_program = state_now();
    training t = begin_training();
    fit(&t, folder, 2);
    end_training(&t);
    ck_assert(is_same(state_now(), of_program));
    set_mode(then, on_rank);
    of_program = state_now();
    t = begin_training();
    fit(&t, folder, 3);
    ck_assert(is_same(state_now(), of_program));
    check_ok(iso_evaluate(t.model, t.data, .loss = &result.loss));
    check_ok(iso_predict(t.model, t.data, .outputs = {result.predicted}));
    check_ok(iso_graph_fingerprint(iso_model_graph(t.model), &result.weights));
    write_texts(&t, folder);
    end_training(&t);
    ck_assert(is_same(state_now(), of_program));
    set_mode(DEFAULT, -1);
    return result;
}

/* ---- comparison ---- */

static char *read_whole(const char *path, size_t *size)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &about))
        ck_abort_msg("%s cannot be read", path);
    *size = (size_t)about.st_size;
    char *bytes = malloc(*size + 1);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void check_same_files(const char *folder, const char *as)
{
    size_t size, expected;
    DIR *open = opendir(as);
    int count = 0;
    for (struct dirent *entry = readdir(open); entry; entry = readdir(open)) {
        if (entry->d_type != DT_REG)
            continue;
        char *bytes = read_whole(path_of(folder, entry->d_name), &size);
        char *wanted = read_whole(path_of(as, entry->d_name), &expected);
        ck_assert_msg(size == expected && !memcmp(bytes, wanted, size), "%s/%s differs", folder,
                      entry->d_name);
        free(bytes);
        free(wanted);
        count++;
    }
    closedir(open);
    ck_assert_int_ge(count, 7); /* 3 checkpoints, 2 logs, the texts, the picture */
}

static void check_same(const char *folder, mode first, mode then, int on_rank, const char *as,
                       const outcome *expected)
{
    char name[100];
    snprintf(name, sizeof name, "%s-%s-%d", mode_name[first], mode_name[then], on_rank);
    char *own = strdup(path_of(folder, name));
    outcome is = train(own, first, then, on_rank);
    ck_assert_msg(!memcmp(&is.weights, &expected->weights, sizeof is.weights), "%s: other weights", name);
    ck_assert_msg(!memcmp(&is.loss, &expected->loss, sizeof is.loss), "%s: another loss", name);
    ck_assert_msg(!memcmp(is.predicted, expected->predicted, sizeof is.predicted), "%s: other predictions",
                  name);
    if (rank == 0)
        check_same_files(own, as);
    free(own);
}

static char folder[64];

START_TEST(numbers_and_files_are_the_same_in_all_modes)
{
    bool has_comma = make_locale(folder);
    if (!has_comma && rank == 0)
        report_skipped("a locale with a decimal comma", "localedef has made none");
    char *as = strdup(path_of(folder, "as"));
    outcome expected = train(as, DEFAULT, DEFAULT, -1);
    for (mode set = UPWARD; set < MODES; set++) {
        if (set == COMMA && !has_comma)
            continue;
        check_same(folder, set, set, -1, as, &expected);
        check_same(folder, DEFAULT, set, 0, as, &expected);
    }
    ck_assert_int_eq(wrong_modes, 0);
    free(as);
}
END_TEST

/* ---- generators, and callbacks that change modes ---- */

static iso_status read_thirds(const iso_batch *batch, int component, int64_t begin, int64_t count,
                              iso_dtype dtype, void *out)
{
    (void)batch;
    ck_assert_int_eq(dtype, ISO_F32);
    wrong_modes += !is_default(state_now());
    for (int64_t i = 0; i < count; i++)
        ((float *)out)[i] = (float)(begin + i + component) / 3;
    return ISO_OK;
}

static iso_status next_thirds(void *user, int64_t epoch, int64_t number, iso_batch *batch)
{
    (void)user;
    (void)epoch;
    (void)number;
    wrong_modes += !is_same(state_now(), of_program);
    batch->read = read_thirds;
    return ISO_OK;
}

static iso_status take_part(void *user, const iso_output_part *part)
{
    (void)user;
    (void)part;
    wrong_modes += !is_same(state_now(), of_program);
    return ISO_OK;
}

static iso_status change_modes(void *user, iso_fit_state *fit)
{
    (void)fit;
    fesetround(*(int *)user);
    of_program = state_now();
    return ISO_OK;
}

static iso_fingerprint train_on_thirds(int rounding)
{
    iso_context *ctx;
    iso_dataset *data;
    iso_fingerprint weights;
    set_mode(DEFAULT, -1);
    of_program = state_now();
    check_ok(iso_init_on(MPI_COMM_WORLD, NULL, NULL, &ctx));
    check_ok(iso_dataset_generator(ctx, &data, .next = next_thirds, .batch_size = 6, .batches = 3,
                                   .shape = {ISO_SHAPE(1), ISO_SHAPE(1)}, .dtype = {ISO_F32, ISO_F32}));
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *in = iso_input(g, "x", ISO_F32, ISO_SHAPE(1));
    iso_model *model = iso_model_create(g, in, iso_dense(iso_dense(in, 5, .activation = ISO_TANH), 1));
    check_ok(iso_compile(model, .optimizer = iso_sgd(0.01), .loss = ISO_LOSS_MSE));
    iso_callback *callbacks[] = {iso_callback_create(.batch_begin = change_modes, .user = &rounding), NULL};
    check_ok(iso_fit(model, data, .epochs = 2, .callbacks = callbacks));
    ck_assert_int_eq(fegetround(), rounding);
    check_ok(iso_predict(model, data, .part = take_part));
    check_ok(iso_graph_fingerprint(g, &weights));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
    ck_assert_int_eq(fegetround(), rounding);
    set_mode(DEFAULT, -1);
    return weights;
}

START_TEST(functions_of_the_program_have_its_modes)
{
    wrong_modes = 0;
    iso_fingerprint expected = train_on_thirds(FE_TONEAREST), is = train_on_thirds(FE_DOWNWARD);
    ck_assert_mem_eq(&is, &expected, sizeof is);
    ck_assert_int_eq(wrong_modes, 0);
}
END_TEST

/* Layers and functions outside of a training that compute a number by themselves. */
START_TEST(numbers_of_single_calls_are_the_same)
{
    char text[2][80];
    double mean[2], rate[2];
    iso_optimizer optimizer = iso_sgd(.schedule = iso_cosine_decay(0.3, 7));
    for (int i = 0; i < 2; i++) {
        set_mode(i ? UPWARD : DEFAULT, -1);
        rate[i] = iso_schedule_rate(&optimizer, 3, 0);
        mean[i] = iso_metric_result(ISO_METRIC_MAE, NULL, (const double[]){1}, 1, 3);
        iso_text_seconds(0.12345, text[i], sizeof text[i]);
    }
    set_mode(DEFAULT, -1);
    ck_assert_mem_eq(&rate[0], &rate[1], sizeof rate[0]);
    ck_assert_mem_eq(&mean[0], &mean[1], sizeof mean[0]);
    ck_assert_str_eq(text[0], text[1]);
}
END_TEST

static void set_up(void)
{
    for (int i = 0; i < ROWS; i++) {
        y[i] = i * 31 % 7 % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            x[i][k] = (float)((i * INPUTS + k) * 37 % 101) / 101 * (k % 2 ? 1e-3F : 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        check_ok(make_test_folder(NULL, folder));
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    int failed =
        RUN_TESTS_WITH("modes of the program", 300, set_up, NULL, numbers_and_files_are_the_same_in_all_modes,
                       functions_of_the_program_have_its_modes, numbers_of_single_calls_are_the_same);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        check_ok(remove_test_folder(NULL, folder));
    MPI_Finalize();
    return failed;
}
