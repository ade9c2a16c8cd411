/* The model of a folder of Hugging Face that --model names, perhaps with settings: gpt2:context=256. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "launch/settings.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"

/* Tokens of a row of a language model that has positions for more: a batch of rows of all 131072 positions of LLaMA 3
 * needs terabytes. It is the default of block_size in transformers' run_clm.py. */
enum { USUAL_CONTEXT = 1024 };

/* What is not the folder's: all else is in its config.json. */
typedef struct changes {
    int64_t context;
    bool recompute;
    double dropout, attention_dropout, classifier_dropout;
    int64_t separator;
    double scale, offset;
    iso_bert_head head;
} changes;

static const iso_setting change_rows[] = {ISO_SETTING(changes, COUNT, context, 0),
                                          ISO_SETTING(changes, FLAG, recompute, 0),
                                          ISO_SETTING(changes, REAL, dropout, 0),
                                          ISO_SETTING(changes, REAL, attention_dropout, 0),
                                          ISO_SETTING(changes, REAL, classifier_dropout, 0),
                                          ISO_SETTING(changes, COUNT, separator, 0),
                                          ISO_SETTING(changes, REAL, scale, 0),
                                          ISO_SETTING(changes, REAL, offset, 0),
                                          ISO_SETTING(changes, CHOICE, head, 0),
                                          {0}};

/* `context` is the rows' length, not the model's, which has positions for more. */
static bool is_of_rows(const iso_setting *row)
{
    return strcmp(row->name, "context") == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The length of the folder's name in the value of --model; 0: it names none. On the chief. */
static size_t find_folder(const char *model)
{
    const iso_builtin_model *builtin;
    char *name = iso_strdup(model);
    size_t length = 0;
    if (!name)
        return 0;
    char *colon = strrchr(name, ':');
    if (is_folder(name))
        length = strlen(name);
    else if (colon && (*colon = 0, is_folder(name)))
        length = strlen(name);
    if (iso_builtin_model_find(name, &builtin) == ISO_OK) /* "./gpt" is a folder, "gpt" is not */
        length = 0;
    iso_free(name);
    return length;
}

/* 0: all positions. */
static int64_t usual_context(const iso_named_model *named)
{
    const iso_setting *longest = iso_setting_of(named->builtin->settings, "context");
    bool language = named->builtin->tokens && !named->builtin->labels;
    return language && iso_setting_get(longest, &named->settings) > USUAL_CONTEXT ? USUAL_CONTEXT : 0;
}

/* The words of a choice are the model's. */
static iso_setting row_for(const iso_setting *change, const iso_setting *own)
{
    iso_setting row = *change;
    row.words = own->words;
    return row;
}

static bool has_file(const char *folder, const char *name)
{
    struct stat about;
    char *path = iso_file_join(folder, name);
    const bool found = path && stat(path, &about) == 0;
    iso_free(path);
    return found;
}

/* Whether the folder has a tokenizer.json, or a tokenizer that only other programs read. Collective. */
static iso_status find_tokenizer(iso_context *ctx, iso_named_model *named)
{
    static const char *const others[] = {"tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"};
    enum { NONE, READ, OTHER };
    uint64_t found = has_file(named->folder, "tokenizer.json") ? READ : NONE;
    for (size_t i = 0; i < sizeof others / sizeof *others && found == NONE; i++)
        found = has_file(named->folder, others[i]) ? OTHER : NONE;
    iso_status status = iso_agree(ctx, iso_broadcast(ctx, &found, sizeof found));
    named->tokenizer = found == READ;
    named->other_tokenizer = found == OTHER;
    return status;
}

/* The rate before an encoder's classifier follows the other settings, unless it is given (NaN: it is not). */
static void choose_rate(const iso_pretrained *net, iso_named_model *named)
{
    iso_pretrained changed = *net;
    changed.settings = named->settings;
    if (net->model->labels && isnan(named->settings.bert.classifier_dropout))
        named->settings.bert.classifier_dropout = iso_pretrained_classifier_dropout(&changed);
}

/* Reads "context=256,dropout=0", what stands behind the folder's name. */
static iso_status read_changes(const iso_train_options *options, const iso_pretrained *net, const char *text,
                               iso_named_model *named)
{
    iso_setting rows[sizeof change_rows / sizeof *change_rows] = {{0}};
    changes read = {0};
    int count = 0;
    for (const iso_setting *s = change_rows; s->name; s++)
        if (iso_setting_of(named->builtin->settings, s->name))
            rows[count++] = row_for(s, iso_setting_of(named->builtin->settings, s->name));
    for (const iso_setting *row = rows; row->name; row++)
        if (!is_of_rows(row))
            iso_setting_set(
                row, &read,
                iso_setting_get(iso_setting_of(named->builtin->settings, row->name), &named->settings));
    read.classifier_dropout = NAN;
    iso_status status =
        iso_settings_read_rows("model", options->model, text, rows,
                               (iso_count_range){ISO_BUILTIN_LEAST, ISO_BUILTIN_MOST}, 0, &read);
    if (status != ISO_OK)
        return status;
    named->context = read.context ? read.context : usual_context(named);
    for (const iso_setting *row = rows; row->name; row++)
        if (!is_of_rows(row))
            iso_setting_set(iso_setting_of(named->builtin->settings, row->name), &named->settings,
                            iso_setting_get(row, &read));
    choose_rate(net, named);
    return ISO_OK;
}

/* --classes of a model for masked tokens asks for a classifier of rows, unless the settings say another head. */
static void choose_head(const iso_train_options *options, iso_named_model *named)
{
    iso_bert_options *o = &named->settings.bert;
    if (named->builtin->labels && options->classes && o->head == ISO_BERT_MASKED_LM)
        o->head = ISO_BERT_SEQUENCE_CLASSIFICATION;
}

static iso_status take(const iso_train_options *options, const iso_pretrained *net, const char *settings,
                       iso_named_model *named)
{
    const bool labels = !net->model->tokens || net->model->labels;
    named->builtin = net->model;
    named->settings = net->settings;
    named->problem = net->problem;
    named->weights = true;
    if (!labels && options->classes && options->classes != net->vocabulary)
        return iso_error(ISO_INVALID, "--classes %lld: the vocab_size of '%s' is %d",
                         (long long)options->classes, named->folder, net->vocabulary);
    choose_head(options, named);
    named->n_outputs = !labels ? net->outputs : options->classes ? (int)options->classes : net->labels;
    return read_changes(options, net, settings, named);
}

iso_status iso_pretrained_model_find(iso_context *ctx, const iso_train_options *options,
                                     iso_named_model *named, bool *found)
{
    iso_pretrained net = {0};
    uint64_t length = iso_is_chief(ctx) ? find_folder(options->model) : 0;
    iso_status status;
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &length, sizeof length)));
    *found = length > 0;
    if (!*found)
        return ISO_OK;
    named->folder = iso_strdup(options->model);
    ISO_TRY(iso_agree(ctx, named->folder ? ISO_OK : iso_no_memory("the name '%s'", options->model)));
    named->folder[length] = 0;
    ISO_TRY(find_tokenizer(ctx, named));
    ISO_TRY(iso_pretrained_read(ctx, named->folder, &net));
    ISO_TRY(iso_agree(ctx,
                      take(options, &net, options->model + length + (options->model[length] == ':'), named)));
done:
    return status;
}
