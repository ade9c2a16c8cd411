/* config.json: a network's keys, to settings of a built-in model and back. The file is untrusted input. */
#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"

enum { MOST_CONFIG = 4 << 20, MOST_VOCABULARY = 1 << 24 };

iso_status iso_hf_refuse(const char *file, const char *key, const json_t *value, const char *supported)
{
    char is[200];
    return iso_error(ISO_INVALID, "%s: %s is %s; %s", file, key, iso_json_shown(value, is, sizeof is),
                     supported);
}

bool iso_hf_number(const json_t *config, const char *key, double fallback, double *number)
{
    const json_t *value = json_object_get(config, key);
    *number = fallback;
    if (!value)
        return true;
    if (!json_is_number(value))
        return false;
    *number = json_number_value(value);
    return isfinite(*number);
}

static bool is_count(double number, double least, double most)
{
    return number >= least && number <= most && number == floor(number);
}

static iso_status read_count(const char *file, const json_t *config, const char *key, double fallback,
                             double least, double most, double *count)
{
    bool number = iso_hf_number(config, key, fallback, count);
    if (number && is_count(*count, least, most))
        return ISO_OK;
    return iso_hf_refuse(file, key, json_object_get(config, key), "it must be a count");
}

iso_status iso_hf_count(const char *file, const json_t *config, const char *key, int64_t fallback,
                        int64_t *count)
{
    double number = 0;
    iso_status status =
        read_count(file, config, key, (double)fallback, ISO_BUILTIN_LEAST, ISO_BUILTIN_MOST, &number);
    if (status == ISO_OK)
        *count = (int64_t)number;
    return status;
}

iso_status iso_hf_positive(const char *file, const json_t *config, const char *key, double fallback,
                           double *number)
{
    if (iso_hf_number(config, key, fallback, number) && *number > 0)
        return ISO_OK;
    return iso_hf_refuse(file, key, json_object_get(config, key), "it must be a positive number");
}

iso_status iso_hf_read_flag(const char *file, const json_t *config, const char *key, bool fallback,
                            bool *flag)
{
    const json_t *value = json_object_get(config, key);
    if (value && !json_is_boolean(value))
        return iso_hf_refuse(file, key, value, "it must be true or false");
    *flag = value ? json_is_true(value) : fallback;
    return ISO_OK;
}

iso_status iso_hf_read_gelu(const char *file, const json_t *config, const char *key, const char *fallback,
                            bool *tanh)
{
    static const char *const by_tanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
    const json_t *value = json_object_get(config, key);
    const char *name = value ? json_string_value(value) : fallback;
    *tanh = false;
    for (size_t i = 0; name && i < sizeof by_tanh / sizeof *by_tanh; i++)
        *tanh = *tanh || strcmp(name, by_tanh[i]) == 0;
    return name && (*tanh || strcmp(name, "gelu") == 0)
               ? ISO_OK
               : iso_hf_refuse(file, key, value, "gelu and gelu_new are supported");
}

iso_status iso_hf_check_rates(const char *file, const json_t *config, const char *const *keys,
                              double fallback)
{
    double first = 0, rate = 0;
    for (int i = 0; keys[i]; i++) {
        if (!iso_hf_number(config, keys[i], fallback, &rate) || (i > 0 && rate != first)) {
            iso_text equal = {0};
            for (int k = 0; keys[k]; k++)
                iso_text_add(&equal, "%s%s", k == 0 ? "" : keys[k + 1] ? ", " : " and ", keys[k]);
            iso_text_add(&equal, " must be equal");
            iso_status status =
                iso_hf_refuse(file, keys[i], json_object_get(config, keys[i]), iso_text_get(&equal));
            iso_text_free(&equal);
            return status;
        }
        first = rate;
    }
    return ISO_OK;
}

/* ---- reading ---- */

static bool is_fixed(const json_t *value, const char *fixed)
{
    json_t *only = json_loads(fixed, JSON_DECODE_ANY, NULL);
    bool same = !value || json_equal(value, only) ||
                (json_is_number(value) && json_is_number(only) &&
                 json_number_value(value) == json_number_value(only));
    json_decref(only);
    return same;
}

static iso_status read_fixed(const char *file, const json_t *config, const iso_hf_key *key)
{
    char supported[80];
    const json_t *value = json_object_get(config, key->key);
    snprintf(supported, sizeof supported, "only %s is supported", key->fixed);
    return (key->zero_is_null && json_is_null(value)) || is_fixed(value, key->fixed)
               ? ISO_OK
               : iso_hf_refuse(file, key->key, value, supported);
}

static iso_status read_side(const char *file, const json_t *config, const iso_hf_key *key, double *side)
{
    const json_t *value = json_object_get(config, key->key);
    if (!json_is_array(value))
        return read_count(file, config, key->key, key->fallback, 1, ISO_BUILTIN_MOST, side);
    *side = json_number_value(json_array_get(value, 0));
    if (json_array_size(value) == 2 && json_number_value(json_array_get(value, 1)) == *side &&
        is_count(*side, 1, ISO_BUILTIN_MOST))
        return ISO_OK;
    return iso_hf_refuse(file, key->key, value, "it must be a count, or two equal ones: a square");
}

static iso_status read_key(const char *file, const json_t *config, const iso_hf_key *key, iso_pretrained *net)
{
    const json_t *value = json_object_get(config, key->key);
    double number = key->fallback;
    iso_status status = ISO_OK;
    switch (key->kind) {
    case ISO_HF_FIXED:
        return read_fixed(file, config, key);
    case ISO_HF_COUNT:
        if (key->zero_is_null && (value ? json_is_null(value) : number == 0))
            number = 0;
        else
            status = read_count(file, config, key->key, number, 1, ISO_BUILTIN_MOST, &number);
        break;
    case ISO_HF_SIDE:
        status = read_side(file, config, key, &number);
        break;
    case ISO_HF_FLAG:
        if (value && !json_is_boolean(value))
            status = iso_hf_refuse(file, key->key, value, "it must be true or false");
        number = value ? json_is_true(value) : key->fallback;
        break;
    case ISO_HF_POSITIVE:
        status = iso_hf_positive(file, config, key->key, key->fallback, &number);
        break;
    case ISO_HF_REAL:
        if (!iso_hf_number(config, key->key, key->fallback, &number))
            status = iso_hf_refuse(file, key->key, value, "it must be a number");
    }
    if (status == ISO_OK)
        iso_setting_set(iso_setting_of(net->model->settings, key->setting), &net->settings, number);
    return status;
}

/* A zero means the default in a model's options. */
static void keep_zeros(iso_pretrained *net)
{
    for (const iso_setting *s = net->model->settings; s->name; s++)
        if (s->fallback != 0 && iso_setting_get(s, &net->settings) == 0)
            iso_setting_set(s, &net->settings, ISO_ZERO);
}

static bool is_first_of_type(int number)
{
    for (int i = 0; i < number; i++)
        if (strcmp(iso_hf_architectures[i]->type, iso_hf_architectures[number]->type) == 0)
            return false;
    return true;
}

static iso_status unknown_type(const char *file, const json_t *config)
{
    iso_text known = {0};
    for (int i = 0; iso_hf_architectures[i]; i++)
        if (is_first_of_type(i))
            iso_text_add(&known, "%s\"%s\"", i ? ", " : "", iso_hf_architectures[i]->type);
    iso_text_add(&known, " are supported");
    iso_status status =
        iso_hf_refuse(file, "model_type", json_object_get(config, "model_type"), iso_text_get(&known));
    iso_text_free(&known);
    return status;
}

static const char *const problems[] = {[ISO_PROBLEM_REGRESSION] = "regression",
                                       [ISO_PROBLEM_SINGLE_LABEL] = "single_label_classification",
                                       [ISO_PROBLEM_MULTI_LABEL] = "multi_label_classification"};

/* ISO_PROBLEM_BY_LABELS: it is none of them. */
static iso_pretrained_problem problem_of(const json_t *value)
{
    for (int i = ISO_PROBLEM_REGRESSION; i <= ISO_PROBLEM_MULTI_LABEL && json_is_string(value); i++)
        if (strcmp(json_string_value(value), problems[i]) == 0)
            return (iso_pretrained_problem)i;
    return ISO_PROBLEM_BY_LABELS;
}

/* Missing or null: transformers decides by the labels. */
static iso_status read_problem(const char *file, const json_t *config, iso_pretrained_problem *problem)
{
    const json_t *value = json_object_get(config, "problem_type");
    *problem = problem_of(value);
    if (!value || json_is_null(value) || *problem != ISO_PROBLEM_BY_LABELS)
        return ISO_OK;
    return iso_hf_refuse(file, "problem_type", value,
                         "\"regression\", \"single_label_classification\" and \"multi_label_classification\" "
                         "are supported");
}

iso_status iso_hf_read_labels(const char *file, const json_t *config, iso_pretrained *net)
{
    const json_t *names = json_object_get(config, "id2label");
    double number = json_is_object(names) ? (double)json_object_size(names) : 2;
    iso_status status = read_problem(file, config, &net->problem);
    if (status == ISO_OK && !json_is_object(names))
        status = read_count(file, config, "num_labels", number, 1, ISO_BUILTIN_MOST, &number);
    if (status == ISO_OK && !(number >= 1 && number <= ISO_BUILTIN_MOST))
        status = iso_hf_refuse(file, "id2label", names, "it must have labels");
    net->labels = (int)number;
    return status;
}

static iso_status read_outputs(const char *file, const json_t *config, const iso_hf_architecture *a,
                               iso_pretrained *net)
{
    double vocabulary = 0;
    iso_status status = ISO_OK;
    if (a->labels || net->model->labels)
        status = iso_hf_read_labels(file, config, net);
    net->outputs = net->labels;
    if (status == ISO_OK && !a->labels) {
        status = read_count(file, config, "vocab_size", 0, 1, MOST_VOCABULARY, &vocabulary);
        net->outputs = net->vocabulary = (int)vocabulary;
    }
    return status;
}

/* Copies values of other names of keys to the keys. */
static iso_status take_aliases(const char *file, const iso_hf_alias *aliases, json_t *config)
{
    for (const iso_hf_alias *alias = aliases; alias && alias->alias; alias++) {
        json_t *value = json_object_get(config, alias->alias), *own = json_object_get(config, alias->key);
        if (value && own && !json_equal(value, own))
            return iso_hf_refuse(file, alias->alias, value, "the other name of this key has another value");
        if (value)
            json_object_set(config, alias->key, value);
    }
    return ISO_OK;
}

static iso_status read_config(const char *file, json_t *config, iso_pretrained *net)
{
    const iso_hf_architecture *a = iso_hf_architecture_find(config);
    iso_status status = a ? iso_builtin_model_find(a->builtin, &net->model) : unknown_type(file, config);
    if (status != ISO_OK)
        return status;
    ISO_TRY(take_aliases(file, a->aliases, config));
    for (const iso_setting *s = net->model->settings; s->name; s++)
        iso_setting_set(s, &net->settings, s->fallback);
    for (const iso_hf_key *key = a->keys; key->key; key++)
        ISO_TRY(read_key(file, config, key, net));
    ISO_TRY(a->read(file, config, &net->settings));
    if (net->model->labels)
        ISO_TRY(iso_hf_read_classifier_dropout(file, config, net));
    ISO_TRY(read_outputs(file, config, a, net));
    if (a->labels && net->model->tokens)
        net->vocabulary =
            (int)iso_setting_get(iso_setting_of(net->model->settings, "vocabulary"), &net->settings);
    keep_zeros(net);
done:
    return status;
}

iso_status iso_hf_read_json(const char *path, size_t most, json_t **value)
{
    char *text = NULL;
    size_t bytes = 0;
    iso_status status = iso_hf_read_text(path, most, &text, &bytes);
    if (status == ISO_OK)
        status = iso_json_parse(path, text, bytes, value);
    iso_free(text);
    return status;
}

iso_status iso_hf_write_json(const char *folder, const char *name, json_t *object)
{
    iso_text text = {0};
    char *path = iso_file_join(folder, name);
    iso_status status = path ? ISO_OK : iso_no_memory("the name of '%s'", folder);
    iso_json_add(&text, object, JSON_INDENT(2) | JSON_SORT_KEYS);
    iso_text_add(&text, "\n");
    if (status == ISO_OK)
        status = text.failed ? iso_no_memory("the text of '%s'", path)
                             : iso_file_replace(path, text.data, text.length);
    iso_text_free(&text);
    iso_free(path);
    return status;
}

iso_status iso_hf_config_parse(const char *name, const char *text, size_t bytes, iso_pretrained *net)
{
    json_t *root = NULL;
    iso_pretrained read = {0};
    iso_status status = iso_json_parse(name, text, bytes, &root);
    if (status == ISO_OK)
        status = read_config(name, root, &read);
    json_decref(root);
    if (status == ISO_OK)
        *net = read;
    return status;
}

iso_status iso_pretrained_read(iso_context *ctx, const char *folder, iso_pretrained *net)
{
    ISO_DEFAULT_MODES();
    char *path = NULL, *text = NULL;
    size_t bytes = 0;
    iso_status status;
    ISO_NEED_AGREED(ctx, folder, net);
    path = iso_file_join(folder, ISO_HF_CONFIG);
    ISO_TRY(iso_agree(ctx, path ? ISO_OK : iso_no_memory("the name of '%s'", folder)));
    status = iso_is_chief(ctx) ? iso_hf_read_text(path, MOST_CONFIG, &text, &bytes) : ISO_OK;
    ISO_TRY(iso_share_text(ctx, status, path, &text, &bytes));
    ISO_TRY(iso_agree(ctx, iso_hf_config_parse(path, text, bytes, net)));
done:
    iso_free(text);
    iso_free(path);
    return status;
}

/* ---- what it is trained for ---- */

static bool classifies_rows(const iso_pretrained *net)
{
    return strcmp(net->model->name, "vit") == 0 ||
           (net->model->labels && net->settings.bert.head == ISO_BERT_SEQUENCE_CLASSIFICATION);
}

int iso_pretrained_objective(const iso_pretrained *net, int outputs, iso_compile_options *options)
{
    if (ISO_ANY_NULL(net, options) || ISO_ANY_NULL_AS("net->model", net->model))
        return 0;
    const int decided = iso_builtin_model_objective(net->model, &net->settings, options);
    const bool one = net->problem == ISO_PROBLEM_BY_LABELS && outputs == 1;
    if (!classifies_rows(net))
        return decided;
    if (net->problem == ISO_PROBLEM_REGRESSION || one) {
        options->loss = ISO_LOSS_MSE;
        options->metrics[0] = ISO_METRIC_MAE;
    } else if (net->problem == ISO_PROBLEM_MULTI_LABEL) {
        options->loss = ISO_LOSS_BINARY_CROSSENTROPY_LOGITS;
        options->metrics[0] = ISO_METRIC_BINARY_ACCURACY;
        options->metric_settings[0].threshold = ISO_ZERO; /* of logits */
    }
    return decided;
}

/* ---- writing ---- */

static json_t *value_of(const iso_hf_key *key, double number)
{
    if (key->kind == ISO_HF_REAL || key->kind == ISO_HF_POSITIVE)
        return json_real(number);
    if (key->kind == ISO_HF_FLAG)
        return json_boolean(number != 0);
    return key->zero_is_null && number == 0 ? json_null() : json_integer((json_int_t)number);
}

void iso_hf_write_labels(int64_t count, json_t *config)
{
    const json_t *names = json_object_get(config, "id2label");
    json_t *of_number = json_object(), *numbers = json_object();
    json_object_del(config, "num_labels");
    for (int64_t i = 0; i < count; i++) {
        char number[24], name[32];
        snprintf(number, sizeof number, "%lld", (long long)i);
        snprintf(name, sizeof name, "LABEL_%lld", (long long)i);
        json_object_set_new(of_number, number, json_string(name));
        json_object_set_new(numbers, name, json_integer((json_int_t)i));
    }
    if (json_is_object(names) && (int64_t)json_object_size(names) == count) {
        json_decref(of_number);
        json_decref(numbers);
        return;
    }
    json_object_set_new(config, "id2label", of_number);
    json_object_set_new(config, "label2id", numbers);
}

/* ISO_PROBLEM_BY_LABELS: transformers has no such loss. */
static iso_pretrained_problem problem_of_loss(iso_loss loss)
{
    switch (loss) {
    case ISO_LOSS_MSE:
    case ISO_LOSS_MAE:
    case ISO_LOSS_HUBER:
    case ISO_LOSS_LOG_COSH:
        return ISO_PROBLEM_REGRESSION;
    case ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS:
    case ISO_LOSS_CROSSENTROPY_LOGITS:
        return ISO_PROBLEM_SINGLE_LABEL;
    case ISO_LOSS_BINARY_CROSSENTROPY_LOGITS:
        return ISO_PROBLEM_MULTI_LABEL;
    default:
        return ISO_PROBLEM_BY_LABELS;
    }
}

void iso_hf_write_problem(iso_loss loss, int64_t labels, json_t *config)
{
    const iso_pretrained_problem trained = problem_of_loss(loss);
    iso_pretrained_problem said = problem_of(json_object_get(config, "problem_type"));
    if (said == ISO_PROBLEM_BY_LABELS)
        said = labels == 1 ? ISO_PROBLEM_REGRESSION : ISO_PROBLEM_SINGLE_LABEL;
    if (trained != ISO_PROBLEM_BY_LABELS && trained != said)
        json_object_set_new(config, "problem_type", json_string(problems[trained]));
}

void iso_hf_config_write(const iso_hf_architecture *a, const iso_builtin_settings *settings,
                         const char *dtype, json_t *config)
{
    const iso_builtin_model *model = NULL;
    iso_builtin_model_find(a->builtin, &model);
    json_object_set_new(config, "model_type", json_string(a->type));
    json_object_set_new(config, "architectures", json_pack("[s]", a->class));
    for (const iso_hf_key *key = a->keys; key->key; key++)
        json_object_set_new(
            config, key->key,
            key->kind == ISO_HF_FIXED
                ? json_loads(key->fixed, JSON_DECODE_ANY, NULL)
                : value_of(key, iso_setting_get(iso_setting_of(model->settings, key->setting), settings)));
    a->write(settings, config);
    json_object_del(config, "dtype");
    json_object_set_new(config, "torch_dtype", json_string(dtype));
}
