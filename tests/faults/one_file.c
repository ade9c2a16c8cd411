/* Writes the same file again and again, with what the injector does meanwhile.
 *
 *   one_file sweep KIND FOLDER RANK HOW    lets each call fail so, one after the other
 *   one_file go KIND FOLDER FAULTS         as the job that comes next: what is there is whole, and not older
 *                                          than what was written last; it is replaced twice, the second time
 *                                          with these faults: to be killed
 *
 * RANK: 0, 1, ... or all. KIND: rows (predictions, FOLDER/y.h5, written by all ranks), keras (a compiled
 * model, FOLDER/net.keras) or safetensors (weights, FOLDER/net.safetensors, written by all ranks). All values in a
 * file tell which write made it.
 * FOLDER.last is the number of the last write that was reported.
 * Exit codes: 0 all was well, 9 (go) no fault was met, else something was lost. */
#include <dirent.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/checkpoint/rows_file.h"
#include "runtime/data/data.h"
#include "runtime/isogrid.h"
#include "runtime/session/session.h"
#include "tests/faults/faults.h"

enum { ROWS = 11, WIDTH = 3, UNITS = 7, NOT_MET = 9 };

/* read: the number of the file that is there. */
typedef struct kind {
    const char *name, *file;
    iso_status (*write)(int number);
    int (*read)(void);
} kind;

static iso_context *ctx;
static const kind *what;
static const char *folder;
static iso_model *model; /* of a .keras file */
static char path[4096];
static const char *fault = "";

static void lost(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void lost(const char *format, ...)
{
    va_list arguments;
    char text[4096];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "one_file: rank %d, faults '%s': %s\n", iso_rank(ctx), fault, text);
    fflush(NULL);
    _exit(1);
}

/* The largest of all ranks' values. */
static int most(int value)
{
    int all = value;
    MPI_Comm *workers = iso_communicator(ctx);
    if (workers)
        MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MAX, *workers);
    return all;
}

static void arm(const char *spec)
{
    fault = spec;
    if (faults_arm)
        faults_arm(spec);
}

/* ---- rows ---- */

/* This rank's rows; of `a` in two parts that are cut in both dimensions. */
static iso_status write_rows(iso_rows_file *file, int number)
{
    int64_t begin, count;
    float a[ROWS * WIDTH];
    int64_t b[ROWS];
    iso_status status = ISO_OK;
    iso_part_range(ROWS, iso_ranks(ctx), iso_rank(ctx), &begin, &count);
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        a[i] = (float)number;
    for (int64_t i = 0; i < ROWS; i++)
        b[i] = number;
    ISO_TRY(iso_rows_file_write(file, 0, &(iso_box){2, {begin, 0}, {count, 2}}, a));
    ISO_TRY(iso_rows_file_write(file, 0, &(iso_box){2, {begin, 2}, {count, 1}}, a));
    ISO_TRY(iso_rows_file_write(file, 1, &(iso_box){1, {begin}, {count}}, b));
done:
    return status;
}

static iso_status write_rows_file(int number)
{
    const iso_rows_array arrays[] = {{"a", ISO_F32, ISO_SHAPE(ROWS, WIDTH)},
                                     {"deep/b", ISO_I64, ISO_SHAPE(ROWS)}};
    iso_rows_file *file = NULL;
    iso_status status = iso_rows_file_create(ctx, path, arrays, 2, &file);
    return status == ISO_OK ? iso_rows_file_finish(file, write_rows(file, number)) : status;
}

static int read_rows_file(void)
{
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    double a[ROWS * WIDTH], b[ROWS];
    if (iso_dataset_open(ctx, path, ISO_TRAIN, &data, .x = "a,deep/b", .no_targets = true) ||
        iso_dataset_batch(data, ROWS) || iso_dataset_next(data, &batch) ||
        batch->read(batch, 0, 0, ROWS, ISO_F64, a) || batch->read(batch, 1, 0, ROWS, ISO_F64, b))
        lost("what is there cannot be read: %s", iso_error_message());
    for (int i = 0; i < ROWS * WIDTH; i++)
        if (a[i] != b[0] || b[i % ROWS] != b[0])
            lost("the file is of writes %g and %g", a[i], b[0]);
    iso_dataset_destroy(data);
    return (int)b[0];
}

/* ---- a model of Keras's ---- */

static iso_status assign(iso_variable *variable, int number)
{
    double values[UNITS * WIDTH];
    for (int i = 0; i < UNITS * WIDTH; i++)
        values[i] = number;
    return iso_variable_assign(variable, values,
                               iso_variable_shape(variable)->rank > 1 ? UNITS * WIDTH : UNITS);
}

static iso_status write_model(int number)
{
    iso_status status = ISO_OK;
    if (!model) {
        iso_graph *graph = iso_graph_create(ctx);
        iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
        model = iso_model_create(graph, x, iso_dense(x, UNITS, .name = "d"));
        ISO_TRY(iso_compile(model, iso_adam(0.01), ISO_LOSS_MSE));
    }
    ISO_TRY(assign(iso_model_variable(model, "d/kernel"), number));
    ISO_TRY(assign(iso_model_variable(model, "d/bias"), number));
    ISO_TRY(iso_keras_save(model, path));
done:
    return status;
}

static int read_model(void)
{
    iso_model *there = NULL;
    iso_compile_options compile;
    double kernel[WIDTH * UNITS], bias[UNITS];
    if (iso_keras_load(ctx, path, &there, .compile = &compile) ||
        iso_compile_with(there, &compile, sizeof compile) || iso_keras_load_weights(there, path) ||
        iso_variable_read(iso_model_variable(there, "d/kernel"), kernel, WIDTH * UNITS) ||
        iso_variable_read(iso_model_variable(there, "d/bias"), bias, UNITS))
        lost("what is there cannot be read: %s", iso_error_message());
    for (int i = 0; i < WIDTH * UNITS; i++)
        if (kernel[i] != bias[0] || bias[i % UNITS] != bias[0])
            lost("the file is of writes %g and %g", kernel[i], bias[0]);
    iso_model_destroy(there);
    return (int)bias[0];
}

/* ---- weights in a .safetensors file ---- */

static iso_model *make_gpt(void)
{
    const iso_builtin_model *gpt;
    const iso_builtin_settings settings = {
        .gpt = {.layers = 1, .heads = 1, .width = WIDTH, .context = UNITS}};
    return iso_builtin_model_find("gpt", &gpt)
               ? NULL
               : iso_builtin_model_create(ctx, gpt, ISO_SHAPE(2), UNITS, ISO_F32, &settings);
}

/* Calls `use` for each variable with its values, of which there are few. */
static iso_status each_variable(iso_model *of, iso_status (*use)(iso_variable *, double *, int64_t, void *),
                                void *user)
{
    iso_graph *graph = iso_model_graph(of);
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_graph_variable_count(graph) && status == ISO_OK; i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        double values[64];
        int64_t count = 0;
        if (iso_path_below_optimizer(iso_variable_path(variable)))
            continue;
        if (iso_shape_count(iso_variable_shape(variable), &count) || count > 64)
            lost("a variable is too large");
        status = use(variable, values, count, user);
    }
    return status;
}

static iso_status set_number(iso_variable *variable, double *values, int64_t count, void *number)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = *(int *)number;
    return iso_variable_assign(variable, values, count);
}

static iso_status write_weights(int number)
{
    iso_status status;
    if (!model) {
        model = make_gpt();
        ISO_TRY(iso_compile(model, iso_sgd(0.01), ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS));
    }
    ISO_TRY(each_variable(model, set_number, &number));
    ISO_TRY(iso_pretrained_save(model, path));
done:
    return status;
}

static iso_status get_number(iso_variable *variable, double *values, int64_t count, void *number)
{
    iso_status status = iso_variable_read(variable, values, count);
    for (int64_t i = 0; i < count && status == ISO_OK; i++) {
        if (*(int *)number >= 0 && values[i] != *(int *)number)
            lost("the file is of writes %g and %d", values[i], *(int *)number);
        *(int *)number = (int)values[i];
    }
    return status;
}

static int read_weights(void)
{
    int number = -1;
    iso_model *there = make_gpt();
    if (iso_pretrained_load_weights(there, path) || each_variable(there, get_number, &number))
        lost("what is there cannot be read: %s", iso_error_message());
    iso_model_destroy(there);
    return number;
}

static const kind kinds[] = {{"rows", "y.h5", write_rows_file, read_rows_file},
                             {"keras", "net.keras", write_model, read_model},
                             {"safetensors", "net.safetensors", write_weights, read_weights}};

/* ---- what must hold ---- */

/* 0: there is no file. */
static int read_file(void)
{
    return most(access(path, F_OK) != 0) ? 0 : what->read();
}

/* At most so many others are in the folder. */
static void check_tidy(int others)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, what->file) &&
            others-- == 0)
            lost("left behind: %s", entry->d_name);
    if (list)
        closedir(list);
    most(0); /* nobody goes on while others look */
}

static void write_well(int number)
{
    if (what->write(number))
        lost("after the fault: %s", iso_error_message());
    if (read_file() != number)
        lost("the file is not that of the write before");
}

static void check_message(const char *rank, const char *how)
{
    char who[32];
    const char *message = iso_error_message(), *words = !strcmp(how, "EIO")     ? "Input/output error"
                                                        : !strcmp(how, "EROFS") ? "Read-only file system"
                                                                                : "No space left on device";
    snprintf(who, sizeof who, "rank %s: ", rank);
    if (iso_ranks(ctx) > 1 && strcmp(rank, "all") && !strstr(message, who))
        lost("the message does not name the rank: %s", message);
    bool tells = strstr(message, words) || !strcmp(how, "short") || !strcmp(how, "EINTR") ||
                 strstr(message, "laid out"); /* HDF5's own words */
    if (!strstr(message, folder) || !tells)
        lost("the message does not name the file and the error: %s", message);
}

/* ---- the commands ---- */

/* The file has its name, and only whether that lasts is not known. */
static bool is_of_folder(const char *message)
{
    static const char *const words[] = {"to be synced", "it cannot be synced", "written to the disk"};
    for (int i = 0; i < 3; i++)
        if (strstr(message, words[i]) && !strstr(message, ".saving"))
            return true;
    return false;
}

/* One fault. Returns whether it was met. */
static bool try_fault(const char *rank, const char *how, int at)
{
    static char spec[128];
    snprintf(spec, sizeof spec, "rank=%s at=%d how=%s", rank, at, how);
    arm(spec);
    iso_status status = what->write(2 * at);
    bool met = faults_calls() >= at;
    const char *hit = faults_hit();
    bool undone = hit && strcmp(how, "short") && strcmp(how, "EINTR") &&
                  (!strncmp(hit, "pwrite", 6) || !strncmp(hit, "write", 5) || !strncmp(hit, "fsync", 5) ||
                   !strncmp(hit, "rename", 6));
    if (status == ISO_OK && undone)
        lost("'%s' failed, and success is reported", hit);
    if (status != ISO_OK)
        check_message(rank, how);
    if (faults_arm)
        faults_arm("");
    if (most((int)status) != -most(-(int)status))
        lost("ranks have different statuses; here: %d", (int)status);
    bool folder_alone = status != ISO_OK && is_of_folder(iso_error_message());
    int found = read_file(), wanted = status == ISO_OK || folder_alone ? 2 * at : 2 * at - 1;
    if (found != wanted)
        lost("write %d is found instead of %d", found, wanted);
    check_tidy(1);
    return most(met);
}

static int sweep(const char *rank, const char *how)
{
    int at = 1;
    for (;; at++) {
        write_well(2 * at - 1);
        check_tidy(0);
        if (!try_fault(rank, how, at))
            break;
    }
    if (iso_rank(ctx) == 0)
        printf("rank %s, %s: %d calls\n", rank, how, at - 1);
    return 0;
}

/* ---- going on after a kill ---- */

static FILE *open_last(const char *mode)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.last", folder);
    return fopen(name, mode);
}

static int last_written(void)
{
    int number = 0;
    FILE *in = open_last("r");
    if (in && fscanf(in, "%d", &number) != 1)
        lost("%s.last holds no number", folder);
    if (in)
        fclose(in);
    return number;
}

static void report(int number)
{
    FILE *out = iso_rank(ctx) == 0 ? open_last("w") : NULL;
    if (iso_rank(ctx) == 0 && (!out || fprintf(out, "%d\n", number) < 0 || fclose(out)))
        lost("%s.last cannot be written", folder);
    most(0); /* nobody is killed before */
}

static int go(const char *spec)
{
    int last = last_written(), number = read_file();
    check_tidy(1);
    if (number < last)
        lost("write %d is found, after %d was reported", number, last);
    write_well(++number);
    check_tidy(0);
    report(number);
    arm(spec);
    if (what->write(number + 1))
        lost("%s", iso_error_message());
    bool met = most(faults_hit && faults_hit());
    arm("");
    return met ? 0 : NOT_MET;
}

static int perform(int argc, char **argv)
{
    folder = argv[3];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[2], kinds[i].name))
            what = &kinds[i];
    if (!what)
        return 2;
    snprintf(path, sizeof path, "%s/%s", folder, what->file);
    if (!strcmp(argv[1], "sweep") && argc > 5)
        return sweep(argv[4], argv[5]);
    return !strcmp(argv[1], "go") && argc > 4 ? go(argv[4]) : 2;
}

int main(int argc, char **argv)
{
    if (argc < 4 || iso_init(NULL, NULL, &ctx))
        return 2;
    int code = perform(argc, argv);
    iso_model_destroy(model);
    iso_finish(ctx, ISO_OK);
    return code;
}
