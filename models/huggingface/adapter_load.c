/* Loads the tensors of a folder of PEFT. */
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/adapter_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/pending.h"
#include "runtime/train/weights.h"

typedef struct loading {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    iso_saved_file *file;
} loading;

static int find_tensor(const iso_saved_file *file, const char *name)
{
    for (int i = 0; i < iso_saved_file_tensors(file); i++)
        if (strcmp(iso_saved_file_tensor(file, i)->h5_path + 1, name) == 0)
            return i;
    return -1;
}

/* The file must have the matrices of all adapters, and may have whole layers. */
static iso_status check_variable(const loading *l, const iso_variable *variable)
{
    iso_adapter_tensor m;
    char have[160], want[160];
    const char *path = iso_variable_path(variable), *file = iso_saved_file_path(l->file);
    const bool found = iso_adapter_find(l->architecture, path, &m);
    if (!found && iso_variable_is_adapter(variable))
        return iso_adapter_none(l->architecture, path);
    const int tensor = found ? find_tensor(l->file, m.name) : -1;
    if (tensor < 0 && !iso_variable_is_adapter(variable))
        return ISO_OK;
    if (tensor < 0)
        return iso_error(ISO_INVALID, "'%s' has no '%s', where '%s' of the model would be", file, m.name,
                         path);
    const iso_shape shape = iso_hf_shape(&m.row, &l->settings, iso_variable_shape(variable)),
                    *theirs = &iso_saved_file_tensor(l->file, tensor)->shape;
    if (iso_shape_equal(theirs, &shape))
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s': '%s' has the shape %s; '%s' of the model needs %s", file, m.name,
                     iso_shape_text(theirs, have, sizeof have), path,
                     iso_shape_text(&shape, want, sizeof want));
}

/* Whether the file has the matrices of all adapters under an architecture's names. */
static bool has_names(const loading *l, const iso_hf_architecture *a, iso_graph *graph)
{
    bool has = true;
    for (int i = 0; i < iso_graph_variable_count(graph) && has; i++) {
        iso_adapter_tensor m;
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (iso_variable_is_adapter(variable))
            has = iso_adapter_find_matrix(a, iso_variable_path(variable), &m) &&
                  find_tensor(l->file, m.name) >= 0;
    }
    return has;
}

/* Architectures that have the same network differ in the names of their tensors. */
static void choose_by_names(loading *l, iso_graph *graph)
{
    const iso_hf_architecture *first = l->architecture;
    for (int i = 0; iso_hf_architectures[i]; i++)
        if (iso_hf_architecture_fits(iso_hf_architectures[i], first, &l->settings) &&
            has_names(l, iso_hf_architectures[i], graph)) {
            l->architecture = iso_hf_architectures[i];
            return;
        }
}

/* Each tensor of the file must be one of the model's. */
static iso_status check_known(const loading *l, iso_graph *graph)
{
    for (int t = 0; t < iso_saved_file_tensors(l->file); t++) {
        const char *name = iso_saved_file_tensor(l->file, t)->h5_path + 1;
        bool known = false;
        for (int i = 0; i < iso_graph_variable_count(graph) && !known; i++) {
            iso_adapter_tensor m;
            const iso_variable *variable = iso_graph_variable(graph, i);
            known = iso_adapter_find(l->architecture, iso_variable_path(variable), &m) &&
                    strcmp(m.name, name) == 0;
        }
        if (!known)
            return iso_error(ISO_INVALID, "'%s' holds '%s', which the model does not have",
                             iso_saved_file_path(l->file), name);
    }
    return ISO_OK;
}

static iso_status check(const loading *l, iso_graph *graph)
{
    iso_status status = ISO_OK;
    int count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        ISO_TRY(check_variable(l, variable));
        count += iso_variable_is_adapter(variable);
    }
    if (count == 0)
        status = iso_error(ISO_INVALID, "'%s': the model has no adapters", iso_saved_file_path(l->file));
    else
        status = check_known(l, graph);
done:
    return status;
}

static iso_status read_part(void *user, const iso_state_shard *shard)
{
    const loading *l = user;
    iso_adapter_tensor m;
    const int tensor = iso_adapter_find(l->architecture, shard->path, &m) ? find_tensor(l->file, m.name) : -1;
    if (tensor < 0 || shard->count == 0)
        return ISO_OK;
    return iso_hf_read_shard(&m.row, &l->settings, l->file, tensor, shard);
}

iso_status iso_pretrained_load_adapter(iso_model *model, const char *folder)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    loading l = {.file = NULL};
    iso_hf_files files = {0};
    iso_graph *graph = iso_model_graph(model);
    iso_context *ctx = iso_graph_context(graph);
    iso_status status;
    ISO_NEED_AGREED(ctx, folder);
    ISO_TRY(iso_agree(ctx, iso_graph_take_error(graph)));
    ISO_TRY(iso_agree(ctx, iso_hf_architecture_of(model, folder, &l.architecture, &l.settings)));
    ISO_TRY(iso_adapter_open(ctx, folder, &files));
    l.file = files.files[0];
    choose_by_names(&l, graph);
    ISO_TRY(iso_agree(ctx, check(&l, graph)));
    ISO_TRY(iso_model_visit_weights(model, "load_adapter", ISO_WEIGHTS_REPLACE, read_part, &l));
done:
    iso_hf_files_close(&files);
    return status;
}
