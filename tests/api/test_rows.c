/* The rows of losses, metrics, optimizers, schedules, activations and initializers: each name and each class of Keras
 * stands in one source file of the product, and docs/losses-metrics-optimizers.md is what the rows say.
 * `build/tests/api/test_rows --write` writes that page. Ranks: 1 */
#include <check.h>
#include <ftw.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers/config.h"
#include "runtime/base/text.h"
#include "runtime/graph/initializers.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/train/loss.h"
#include "tests/support/run_tests.h"

#define PAGE "docs/losses-metrics-optimizers.md"
enum { MAX_FILES = 2000 };

/* ---- families ---- */

typedef struct family {
    const char *title;
    const iso_descriptor *row[ISO_MAX_ROWS];
    int count;
} family;

static family families[] = {{.title = "Losses"},    {.title = "Metrics"},     {.title = "Optimizers"},
                            {.title = "Schedules"}, {.title = "Activations"}, {.title = "Initializers"}};
enum { LOSSES, METRICS, OPTIMIZERS, SCHEDULES, ACTIVATIONS, INITIALIZERS, FAMILIES };

static void add_row(int which, const iso_descriptor *row)
{
    family *f = &families[which];
    if (f->count < ISO_MAX_ROWS)
        f->row[f->count++] = row;
}

static void add_rows(int which, const iso_descriptor *const *rows)
{
    for (; *rows; rows++)
        add_row(which, *rows);
}

static void list_families(void)
{
    for (int i = 1; iso_loss_type_of((iso_loss)i); i++)
        add_row(LOSSES, &iso_loss_type_of((iso_loss)i)->row);
    for (int i = 1; iso_metric_type_of((iso_metric)i); i++)
        add_row(METRICS, &iso_metric_type_of((iso_metric)i)->row);
    add_rows(OPTIMIZERS, iso_optimizer_rows);
    add_rows(SCHEDULES, iso_schedule_rows);
    add_rows(ACTIVATIONS, iso_activations);
    add_rows(INITIALIZERS, iso_initializers);
}

/* ---- names in sources ---- */

/* Names that are also an op's own, which stands in the files of ops and of kernels. */
static const char *const ops[] = {
#define OP(name) #name,
#include "runtime/graph/ops/list.h"
};

/* Names that mean something else in one more file, or in a folder. */
static const struct {
    const char *name, *file;
} exceptions[] = {
    {"constant", "runtime/graph/planner_ops.c"},    /* the op */
    {"constant", "models/layers/random_warps.c"},   /* a fill_mode */
    {"constant", "models/keras/bare_ops.c"},        /* the mode of Pad, */
    {"constant", "models/keras/functions_shape.c"}, /* which is read here */
    {"Softmax", "models/keras/functions_reduce.c"}, /* the function of keras.ops */
    {"precision", "launch/"},                       /* --precision */
    {"precision", "runtime/train/state"},           /* the same in a checkpoint */
    {"gelu", "models/huggingface/"},                /* the name of Hugging Face */
    {"top_k", "runtime/train/losses/confusion.c"},  /* a setting of Precision and Recall */
    {"precision", "runtime/train/losses/auc.c"},    /* a setting of RecallAtPrecision */
    {"recall", "runtime/train/losses/auc.c"},       /* of PrecisionAtRecall */
    {"linear", "models/layers/rotary_embedding.c"}, /* the kind of scaling of KerasHub's RotaryEmbedding */
    {"linear", "models/huggingface/rotary.c"},      /* the same of transformers */
    {"linear", "runtime/graph/optimizers/ftrl.c"},  /* a slot */
    {"identity", "models/layers/identity.c"},       /* the layer of that name */
    {"Identity", "models/layers/identity.c"},
};

static char *source[MAX_FILES], *path[MAX_FILES];
static int sources;

static char *read_text(const char *name)
{
    FILE *file = fopen(name, "r");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    char *text = calloc(size + 1, 1);
    rewind(file);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    fclose(file);
    return text;
}

/* The end of a comment, text or character constant that begins at p; p itself where none does. */
static char *end_of_token(char *p)
{
    char *end = p;
    if (p[0] == '/' && p[1] == '/')
        return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*')
        return (end = strstr(p + 2, "*/")) ? end + 2 : p + strlen(p);
    if (*p != '"' && *p != '\'')
        return p;
    for (end = p + 1; *end && *end != *p; end++)
        end += *end == '\\' && end[1];
    return *end ? end + 1 : end;
}

/* Comments become blanks. */
static void blank_comments(char *text)
{
    for (char *p = text, *end; *p; p = end > p ? end : p + 1) {
        end = end_of_token(p);
        if (*p == '/')
            memset(p, ' ', (size_t)(end - p));
    }
}

static int take_source(const char *name, const struct stat *info, int type, struct FTW *at)
{
    const char *dot = strrchr(name, '.');
    (void)info, (void)at;
    if (type != FTW_F || !dot || (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0))
        return 0;
    ck_assert_int_lt(sources, MAX_FILES);
    path[sources] = strdup(name);
    source[sources] = read_text(name);
    blank_comments(source[sources++]);
    return 0;
}

static bool is_exception(const char *name, const char *file)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (strcmp(exceptions[i].name, name) == 0 &&
            strncmp(exceptions[i].file, file, strlen(exceptions[i].file)) == 0)
            return true;
    if (strncmp(file, "runtime/graph/ops/", 18) != 0 && strncmp(file, "runtime/backend/", 16) != 0)
        return false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i], name) == 0)
            return true;
    return false;
}

/* How many families have a row of this name or class. */
static int owners(const char *name)
{
    int count = 0;
    for (int f = 0; f < FAMILIES; f++) {
        bool has = false;
        for (int i = 0; i < families[f].count; i++)
            has = has || strcmp(families[f].row[i]->name, name) == 0 ||
                  (families[f].row[i]->keras && strcmp(families[f].row[i]->keras, name) == 0);
        count += has;
    }
    return count;
}

/* Adds where the name stands if that is not in one file of each family that has it. */
static void check_name(const char *name, iso_text *wrong)
{
    char quoted[80];
    iso_text where = {0};
    int count = 0;
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    for (int i = 0; i < sources; i++)
        if (strstr(source[i], quoted) && !is_exception(name, path[i])) {
            iso_text_add(&where, " %s", path[i]);
            count++;
        }
    if (count < 1 || count > owners(name))
        iso_text_add(wrong, "\n  %s in %d files:%s", quoted, count, iso_text_get(&where));
    iso_text_free(&where);
}

START_TEST(a_name_stands_in_one_file)
{
    static const char *const folders[] = {"collectives", "launch", "models", "runtime"};
    iso_text wrong = {0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        ck_assert_int_eq(nftw(folders[i], take_source, 16, FTW_PHYS), 0);
    ck_assert_int_gt(sources, 200);
    for (int f = 0; f < FAMILIES; f++) {
        ck_assert(families[f].count > 2 && families[f].count < ISO_MAX_ROWS);
        for (int i = 0; i < families[f].count; i++) {
            check_name(families[f].row[i]->name, &wrong);
            if (families[f].row[i]->keras)
                check_name(families[f].row[i]->keras, &wrong);
        }
    }
    ck_assert_msg(!wrong.length, "names that stand in no file or in more files than one:%s",
                  iso_text_get(&wrong));
}
END_TEST

/* ---- the page ---- */

/* " `delta` 1" */
static void add_number(iso_text *text, const char *name, double value, const iso_setting *setting)
{
    iso_setting_kind kind = setting ? setting->kind : ISO_SETTING_REAL;
    bool nullable = kind == ISO_SETTING_OPTIONAL || kind == ISO_SETTING_NULLABLE ||
                    kind == ISO_SETTING_INDEX || kind == ISO_SETTING_BITS;
    bool none = isinf(value) || (nullable && value == 0);
    iso_text_add(text, "%s`%s` ", text->length ? ", " : "", name);
    if (none)
        iso_text_add(text, "none");
    else if (kind == ISO_SETTING_CHOICE)
        iso_text_add(text, "%s", setting->words[(int)value]);
    else if (kind == ISO_SETTING_FLAG || kind == ISO_SETTING_NOT)
        iso_text_add(text, value != 0 ? "true" : "false");
    else
        iso_text_add(text, "%.9g", value);
}

static void add_setting(iso_text *text, int which, const iso_descriptor *row, int i)
{
    const iso_setting *setting = &row->setting[i];
    const char *name = iso_setting_keras(setting);
    const iso_initializer_type *type = which == INITIALIZERS ? (const iso_initializer_type *)row : NULL;
    const bool value = which == METRICS && setting->offset == offsetof(iso_metric_settings, value);
    if (value || (which == SCHEDULES && i <= ((const iso_schedule_rule *)row)->needed))
        iso_text_add(text, "%s`%s` required", text->length ? ", " : "", name);
    else if (type && type->choice[i])
        iso_text_add(text, "%s`%s` %s", text->length ? ", " : "", name,
                     type->choice[i][(int)setting->fallback]);
    else
        add_number(text, name, setting->fallback, setting);
}

static void add_settings(iso_text *text, int which, const iso_descriptor *row)
{
    if (which == OPTIMIZERS) {
        const iso_optimizer_rule *rule = (const iso_optimizer_rule *)row;
        add_number(text, "learning_rate", rule->learning_rate, NULL);
        add_number(text, "weight_decay", rule->weight_decay, NULL);
    }
    for (int i = 0; row->setting && row->setting[i].name; i++)
        add_setting(text, which, row, i);
    if (which == SCHEDULES && ((const iso_schedule_rule *)row)->piecewise)
        iso_text_add(text, "`boundaries` and `values` required");
}

static void add_table(iso_text *page, int which)
{
    iso_text_add(page, "\n## %s\n| name | %s | settings and defaults |\n|---|---|---|\n",
                 families[which].title, which == ACTIVATIONS ? "Keras's layer" : "Keras's class");
    for (int i = 0; i < families[which].count; i++) {
        const iso_descriptor *row = families[which].row[i];
        iso_text settings = {0};
        add_settings(&settings, which, row);
        iso_text_add(page, "| `%s` | %s%s%s | %s |\n", row->name, row->keras ? "`" : "",
                     row->keras ? row->keras : "", row->keras ? "`" : "", iso_text_get(&settings));
        iso_text_free(&settings);
    }
    if (which == ACTIVATIONS)
        iso_text_add(page, "\nThe defaults are those of Keras's layers. The name `leaky_relu` alone means "
                           "Keras's function, whose "
                           "slope is 0.2. `gelu_tanh` is Keras's\n`gelu` with `approximate=True`; Keras's "
                           "files cannot hold it.\n");
    if (which == LOSSES)
        iso_text_add(
            page,
            "\nWithout `axis`, `dice` and `tversky` are one number for the whole global batch, as "
            "in Keras: it depends on the size of the batch, not on the mesh. If all targets of a "
            "batch are 0 or 1, `hinge` and `squared_hinge` take 0 as -1. Where `mape` or a hinge loss has no "
            "derivative, its gradient is that of Keras on JAX; but that of `cosine_similarity` is "
            "finite at predictions that are all 0, where Keras's is NaN.\n");
    if (which == METRICS)
        iso_text_add(
            page,
            "\nWhat gives several numbers in Keras (several `thresholds`, `average` or "
            "`class_aggregation` none) does not exist here. The IoU metrics need\n`num_classes`, "
            "unless predictions have a dimension of classes, and `iou` and `one_hot_iou` need "
            "`target_class_ids`. A metric's name in logs\nis the one by which it was chosen: `mean_iou` of "
            "this list, and Keras's, `mean_io_u`, from a file of Keras.\n");
    if (which == OPTIMIZERS) {
        iso_text_add(page, "\nAll optimizers also take");
        for (const iso_setting *s = iso_optimizer_settings; s->name; s++)
            if (strcmp(s->name, "learning_rate") != 0 && strcmp(s->name, "weight_decay") != 0)
                iso_text_add(page, "%s `%s`", s == iso_optimizer_settings + 2 ? "" : ",",
                             iso_setting_keras(s));
        iso_text_add(page, "; without them nothing is clipped, accumulated or averaged "
                           "([averages of the weights](callbacks.md#averages-of-the-weights)).\n");
    }
}

static void make_page(iso_text *page)
{
    iso_text_add(
        page,
        "# Losses, metrics, optimizers, schedules, activations, initializers\n\n"
        "`build/tests/api/test_rows --write` writes this page from the rows of the program; a test compares "
        "them. Names are those of\nthe command line and of messages. Settings have Keras's names, as in "
        "files.\n"
        "\n"
        "In C a setting is a member of the options, of `iso_adam()`, `iso_exponential_decay()` or "
        "`iso_compile()` for example, and has the same name, but for\n`.huber_delta` (`delta`), "
        "`.loss_alpha`, `.loss_beta`, `.loss_gamma`, `.loss_q`, `.loss_axes` (`axis`, whose bits it has), "
        "`.initial_accumulator` (`initial_accumulator_value`), `.l1`, `.l2`, `.l2_shrinkage` "
        "(`l1_regularization_strength` and so on), `.clip_norm`, `.global_clip_norm` and\n"
        "`.clip_value` (`clipnorm`, `global_clipnorm`, `clipvalue`), `.accumulation` "
        "(`gradient_accumulation_steps`), and in an initializer `.low`, `.high`\n(`minval`, `maxval`), "
        "`.scale` (`gain`) and `.stft.side` and its like.\n"
        "Settings of metric i are members of `.metric_settings[i]`: `.top_k` (also `k`), `.threshold` (also "
        "`thresholds`), `.value` (the given rate),\n`.target_classes` (the bits of `target_class_ids`), "
        "`.dense_y_true` and `.dense_y_pred` (the opposites of `sparse_y_true` and `sparse_y_pred`).\n"
        "\n"
        "On the command line, losses and metrics take their settings in parentheses: `--loss "
        "'huber(delta=0.5)'`.\n`--schedule` takes the settings of a schedule except the initial learning "
        "rate, which is `--learning-rate`.\n`--weight-decay`, `--clip-norm`, `--global-clip-norm`, "
        "`--clip-value`, `--accumulate`, `--ema-momentum` and `--ema-overwrite-frequency` are settings of "
        "all optimizers.\nThe other settings are set in C, or are read from a `.keras` file.\n");
    for (int f = 0; f < FAMILIES; f++)
        add_table(page, f);
}

START_TEST(the_page_is_what_the_rows_say)
{
    iso_text page = {0};
    char *written = read_text(PAGE);
    make_page(&page);
    ck_assert_ptr_nonnull(written);
    ck_assert_msg(strcmp(written, iso_text_get(&page)) == 0,
                  PAGE " is not what the rows say: build/tests/api/test_rows --write");
    free(written);
    iso_text_free(&page);
}
END_TEST

static int write_page(void)
{
    iso_text page = {0};
    FILE *file = fopen(PAGE, "w");
    make_page(&page);
    int failed = !file || fputs(iso_text_get(&page), file) < 0;
    iso_text_free(&page);
    return (file && fclose(file) != 0) || failed;
}

int main(int argc, char **argv)
{
    list_families();
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_page();
    return RUN_TESTS("rows", 0, a_name_stands_in_one_file, the_page_is_what_the_rows_say);
}
