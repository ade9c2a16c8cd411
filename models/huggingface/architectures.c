/* The architectures: for each the keys of config.json and the names of its tensors. The same rows serve to read
 * and to write. Names and their meaning are those of transformers' models/gpt2, llama, gemma and so on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/huggingface/huggingface_impl.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/origin.h"

/* For a model without a file the first that has it is taken. */
const iso_hf_architecture *const iso_hf_architectures[] = {ISO_HF_DECODERS, ISO_HF_ENCODERS, NULL};

static bool is_type(const iso_hf_architecture *a, const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type && strcmp(a->type, type) == 0;
}

const iso_hf_architecture *iso_hf_architecture_find(const json_t *config)
{
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    const iso_hf_architecture *first = NULL;
    for (int i = 0; iso_hf_architectures[i]; i++) {
        const iso_hf_architecture *a = iso_hf_architectures[i];
        if (!is_type(a, config))
            continue;
        if (class && strcmp(a->class, class) == 0)
            return a;
        first = first ? first : a;
    }
    return first;
}

const iso_hf_architecture *iso_hf_architecture_like(const json_t *config, const iso_hf_architecture *other,
                                                    const iso_builtin_settings *settings)
{
    for (int i = 0; iso_hf_architectures[i]; i++)
        if (is_type(iso_hf_architectures[i], config) &&
            iso_hf_architecture_fits(iso_hf_architectures[i], other, settings))
            return iso_hf_architectures[i];
    return NULL;
}

iso_status iso_hf_architecture_of(iso_model *model, const char *use, const iso_hf_architecture **architecture,
                                  iso_builtin_settings *settings)
{
    bool one = iso_model_input_count(model) == 1 && iso_model_output_count(model) == 1;
    const char *lacks = NULL;
    for (int i = 0; one && iso_hf_architectures[i]; i++) {
        const iso_hf_architecture *a = iso_hf_architectures[i];
        const void *options = iso_graph_origin(iso_model_input(model), iso_model_output(model), a->builtin);
        if (!options)
            continue;
        lacks = a->lacks;
        *settings = (iso_builtin_settings){0};
        memcpy(settings, options, a->size);
        if (a->has && !a->has(settings))
            continue;
        *architecture = a;
        return ISO_OK;
    }
    if (lacks)
        return iso_error(ISO_INVALID, "'%s': no model of transformers that is supported has %s", use, lacks);
    return iso_error(ISO_INVALID,
                     "'%s': the model is not a built-in gpt, llama, bert or vit, which alone are exchanged "
                     "with Hugging Face",
                     use);
}

bool iso_hf_architecture_fits(const iso_hf_architecture *other, const iso_hf_architecture *architecture,
                              const iso_builtin_settings *settings)
{
    return strcmp(other->builtin, architecture->builtin) == 0 && (!other->has || other->has(settings));
}

/* The digits at the beginning of a text as a number, as it is written here: without zeros before it. Returns what
 * follows them; NULL: there are none. */
static const char *read_number(const char *text, int64_t *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    *number = strtoll(text, &end, 10);
    return *text == '0' && end != text + 1 ? NULL : end;
}

/* Whether a text is the pattern with numbers in the places of '#' and '@', and any end in the place of a last '*'. */
static bool fits(const char *pattern, const char *text, int64_t *block, int64_t *expert)
{
    *block = *expert = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '#')
            text = read_number(text, block);
        else if (*pattern == '@')
            text = read_number(text, expert);
        else if (*pattern == '*' && !pattern[1])
            return true;
        else if (*text++ != *pattern)
            return false;
        if (!text)
            return false;
    }
    return *text == '\0';
}

/* The same for a name that may lack the prefix. */
static bool fits_name(const iso_hf_architecture *a, const char *pattern, const char *name, int64_t *block,
                      int64_t *expert)
{
    const size_t prefix = strlen(a->prefix);
    return fits(pattern, name, block, expert) ||
           (strncmp(pattern, a->prefix, prefix) == 0 && fits(pattern + prefix, name, block, expert));
}

const iso_hf_tensor *iso_hf_tensor_of(const iso_hf_architecture *a, const char *path, int64_t *block)
{
    int64_t expert;
    for (const iso_hf_tensor *t = a->tensors; t->ours; t++)
        if (fits(t->ours, path, block, &expert))
            return t;
    return NULL;
}

bool iso_hf_is_theirs(const iso_variable *variable)
{
    return !iso_path_below_optimizer(iso_variable_path(variable)) && !iso_variable_is_adapter(variable);
}

/* Copies a pattern with the numbers in the places of '#' and '@'. */
static char *fill_in_name(const char *pattern, int64_t block, int64_t expert, char text[ISO_HF_NAME])
{
    size_t length = 0;
    for (; *pattern && length < ISO_HF_NAME; pattern++)
        if (*pattern == '#' || *pattern == '@')
            length += (size_t)snprintf(text + length, ISO_HF_NAME - length, "%lld",
                                       (long long)(*pattern == '#' ? block : expert));
        else
            text[length++] = *pattern;
    text[length < ISO_HF_NAME ? length : ISO_HF_NAME - 1] = '\0';
    return text;
}

bool iso_hf_name_fits(const iso_hf_tensor *row, const char *name, char ours[ISO_HF_NAME])
{
    int64_t block, expert;
    if (!fits(row->theirs, name, &block, &expert))
        return false;
    fill_in_name(row->ours, block, expert, ours);
    return true;
}

char *iso_hf_name(const iso_hf_tensor *row, int64_t block, int64_t expert, char text[ISO_HF_NAME])
{
    return fill_in_name(row->theirs, block, expert, text);
}

bool iso_hf_is_known(const iso_hf_architecture *a, iso_graph *graph, const char *name)
{
    char path[ISO_HF_NAME];
    int64_t block, expert;
    for (const iso_hf_tensor *t = a->tensors; t->ours; t++) {
        if (!fits_name(a, t->theirs, name, &block, &expert))
            continue;
        const iso_variable *variable =
            iso_graph_find_variable(graph, fill_in_name(t->ours, block, expert, path));
        if (variable && expert < iso_hf_tensor_count(t, iso_variable_shape(variable)))
            return true;
    }
    return false;
}

bool iso_hf_is_of_head(const iso_hf_architecture *architecture, const char *name)
{
    int64_t block, expert;
    for (int i = 0; iso_hf_architectures[i]; i++) {
        const iso_hf_architecture *a = iso_hf_architectures[i];
        for (const iso_hf_tensor *t = a->tensors; strcmp(a->type, architecture->type) == 0 && t->ours; t++)
            if (t->optional && fits(t->theirs, name, &block, &expert))
                return true;
    }
    return false;
}

bool iso_hf_is_ignored(const iso_hf_architecture *a, const char *name)
{
    int64_t block, expert;
    for (int i = 0; a->ignored[i]; i++)
        if (fits_name(a, a->ignored[i], name, &block, &expert))
            return true;
    return false;
}
