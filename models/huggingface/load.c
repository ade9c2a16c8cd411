/* Loads pretrained weights into a model. */
#include <string.h>

#include "collectives/control/control.h"
#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/weights.h"

typedef struct loading {
    const iso_hf_architecture *architecture;
    iso_builtin_settings settings;
    iso_hf_files files;
    const char *path;
} loading;

/* ---- checks before anything is read ---- */

static const iso_saved_tensor *find(const loading *l, const char *name, iso_saved_file **file)
{
    int found = iso_hf_files_find(&l->files, l->architecture->prefix, name, file);
    return found < 0 ? NULL : iso_saved_file_tensor(*file, found);
}

static iso_status check_tensor(const loading *l, const iso_hf_tensor *row, const iso_variable *variable,
                               const char *name)
{
    char have[160], want[160];
    iso_saved_file *file = NULL;
    const char *path = iso_variable_path(variable);
    const iso_saved_tensor *theirs = find(l, name, &file);
    if (!theirs && row->optional)
        return ISO_OK;
    if (!theirs)
        return iso_error(ISO_INVALID, "'%s' has no tensor '%s', where '%s' of the model would be", l->path,
                         name, path);
    iso_shape shape = iso_hf_shape(row, &l->settings, iso_variable_shape(variable));
    if (iso_shape_equal(&theirs->shape, &shape))
        return ISO_OK;
    return iso_error(ISO_INVALID, "'%s': tensor '%s' has the shape %s; '%s' of the model needs %s",
                     iso_saved_file_path(file), name, iso_shape_text(&theirs->shape, have, sizeof have), path,
                     iso_shape_text(&shape, want, sizeof want));
}

static iso_status check_variable(const loading *l, const iso_variable *variable)
{
    char name[ISO_HF_NAME];
    int64_t block;
    iso_status status = ISO_OK;
    const char *path = iso_variable_path(variable);
    const iso_hf_tensor *row = iso_hf_tensor_of(l->architecture, path, &block);
    if (!row)
        return iso_error(ISO_INVALID, "'%s': a %s of Hugging Face has no '%s'", l->path,
                         l->architecture->type, path);
    const int64_t count = iso_hf_tensor_count(row, iso_variable_shape(variable));
    for (int64_t i = 0; i < count && status == ISO_OK; i++)
        status = check_tensor(l, row, variable, iso_hf_name(row, block, i, name));
    return status;
}

/* Whether two tensors of one shape, vectors or matrices, have equal elements. On the chief. */
static iso_status compare(iso_saved_file *file, int tensor, iso_saved_file *other_file, int other,
                          bool *equal)
{
    enum { ROWS = 512 };
    const iso_shape *shape = &iso_saved_file_tensor(file, tensor)->shape;
    const int64_t width = shape->rank == 2 ? shape->dim[1] : 1;
    void *a = iso_new((size_t)(ROWS * width) * sizeof(float)),
         *b = iso_new((size_t)(ROWS * width) * sizeof(float));
    iso_status status = a && b ? ISO_OK : iso_no_memory("rows of two tensors");
    *equal = true;
    for (int64_t row = 0; status == ISO_OK && *equal && row < shape->dim[0]; row += ROWS) {
        const int64_t rows = shape->dim[0] - row < ROWS ? shape->dim[0] - row : ROWS;
        const iso_box box = {.rank = shape->rank, .offset = {row, 0}, .extent = {rows, width}};
        status = iso_saved_file_read(file, tensor, &box, ISO_F32, a);
        if (status == ISO_OK)
            status = iso_saved_file_read(other_file, other, &box, ISO_F32, b);
        *equal = memcmp(a, b, (size_t)(rows * width) * sizeof(float)) == 0;
    }
    iso_free(a);
    iso_free(b);
    return status;
}

/* A tensor of a file, a vector or a matrix, must equal the one that the model reads, `name`. On the chief. */
static iso_status check_copy(const loading *l, iso_saved_file *file, int tensor, const char *name)
{
    iso_saved_file *other_file = NULL;
    const iso_saved_tensor *theirs = iso_saved_file_tensor(file, tensor);
    const int other = iso_hf_files_find(&l->files, l->architecture->prefix, name, &other_file);
    bool equal = other >= 0 && (theirs->shape.rank == 1 || theirs->shape.rank == 2) &&
                 iso_shape_equal(&theirs->shape, &iso_saved_file_tensor(other_file, other)->shape);
    iso_status status = equal ? compare(file, tensor, other_file, other, &equal) : ISO_OK;
    if (status == ISO_OK && !equal)
        status = iso_error(ISO_INVALID, "'%s': '%s' differs from '%s'; the model has one tensor for both",
                           iso_saved_file_path(file), theirs->h5_path + 1, name);
    return status;
}

/* The tensor whose values one of a file must have, too: that of today's name, if the file has another one for it, or
 * the table for tokens and logits. NULL: none. */
static const char *copied(const loading *l, const char *name, const char *today, bool known)
{
    if (known)
        return strcmp(name, today) != 0 ? today : NULL;
    return l->architecture->copy && strcmp(today, l->architecture->copy) == 0 ? l->architecture->table : NULL;
}

/* Whether a tensor of a file is of a head that the model does not have, of a network of its type. */
static bool is_of_other_head(const loading *l, iso_graph *graph, const char *today)
{
    return !iso_hf_is_known(l->architecture, graph, today) && iso_hf_is_of_head(l->architecture, today);
}

/* A tensor that the model lacks means that the files belong to another network, unless it is of another head. */
static iso_status check_file(const loading *l, iso_graph *graph, iso_saved_file *file)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_saved_file_tensors(file) && status == ISO_OK; i++) {
        char today[ISO_HF_NAME];
        const char *name = iso_saved_file_tensor(file, i)->h5_path + 1;
        iso_hf_new_name(name, today);
        const bool known = iso_hf_is_known(l->architecture, graph, today);
        const char *of = copied(l, name, today, known);
        if (iso_hf_is_ignored(l->architecture, today) || is_of_other_head(l, graph, today) || (known && !of))
            continue;
        if (!of)
            status = iso_error(ISO_INVALID, "'%s' holds the tensor '%s', which the model does not have",
                               iso_saved_file_path(file), name);
        else if (iso_is_chief(iso_graph_context(graph)))
            status = check_copy(l, file, i, of);
    }
    return status;
}

/* Heads and the like change what weights of the same shapes compute. */
static iso_status check_config(const loading *l, iso_graph *graph)
{
    return iso_is_chief(iso_graph_context(graph))
               ? iso_hf_check_config(l->path, l->architecture->builtin, &l->settings)
               : ISO_OK;
}

static iso_status check(const loading *l, iso_graph *graph)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        if (iso_hf_is_theirs(iso_graph_variable(graph, i)))
            ISO_TRY(check_variable(l, iso_graph_variable(graph, i)));
    for (int i = 0; i < l->files.count; i++)
        ISO_TRY(check_file(l, graph, l->files.files[i]));
    ISO_TRY(check_config(l, graph));
done:
    return status;
}

/* The names of tensors that the files lack, of a classifier; the model's stay as they were drawn. */
static void warn_of_new(const loading *l, iso_graph *graph)
{
    iso_text names = {0};
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        char name[ISO_HF_NAME];
        int64_t block;
        iso_saved_file *file = NULL;
        const iso_hf_tensor *row =
            iso_hf_tensor_of(l->architecture, iso_variable_path(iso_graph_variable(graph, i)), &block);
        if (row && row->optional && !find(l, iso_hf_name(row, block, 0, name), &file))
            iso_text_add(&names, "%s'%s'", names.length ? ", " : "", name);
    }
    if (names.length)
        iso_warn("'%s' has no %s: their weights are new, drawn from the seed, and must be trained", l->path,
                 iso_text_get(&names));
    iso_text_free(&names);
}

/* The names of tensors of another head, which only the files have. */
static void warn_of_other_head(const loading *l, iso_graph *graph)
{
    iso_text names = {0};
    for (int f = 0; f < l->files.count; f++)
        for (int i = 0; i < iso_saved_file_tensors(l->files.files[f]); i++) {
            char today[ISO_HF_NAME];
            const char *name = iso_saved_file_tensor(l->files.files[f], i)->h5_path + 1;
            iso_hf_new_name(name, today);
            if (!iso_hf_is_ignored(l->architecture, today) && is_of_other_head(l, graph, today))
                iso_text_add(&names, "%s'%s'", names.length ? ", " : "", name);
        }
    if (names.length)
        iso_warn("'%s' has %s of another head: the model does not have them, they are ignored", l->path,
                 iso_text_get(&names));
    iso_text_free(&names);
}

/* Architectures that have the same network differ in the names of their tensors: takes the one whose name of a
 * product the files have. */
static void choose_by_names(loading *l)
{
    static const char kernel[] = "block_0/attention/query/kernel";
    const iso_hf_architecture *first = l->architecture;
    for (int i = 0; iso_hf_architectures[i]; i++) {
        char name[ISO_HF_NAME];
        int64_t block;
        iso_saved_file *file;
        const iso_hf_architecture *a = iso_hf_architectures[i];
        if (!iso_hf_architecture_fits(a, first, &l->settings))
            continue;
        const iso_hf_tensor *row = iso_hf_tensor_of(a, kernel, &block);
        if (iso_hf_files_find(&l->files, a->prefix, iso_hf_name(row, block, 0, name), &file) >= 0) {
            l->architecture = a;
            return;
        }
    }
}

/* ---- loading ---- */

static iso_status read_part(void *user, const iso_state_shard *shard)
{
    const loading *l = user;
    char name[ISO_HF_NAME];
    int64_t block;
    iso_status status = ISO_OK;
    const iso_hf_tensor *row = iso_hf_tensor_of(l->architecture, shard->path, &block);
    if (!row) /* of an adapter, which stays as it is */
        return ISO_OK;
    const int64_t count = iso_hf_tensor_count(row, &shard->shape);
    for (int64_t i = 0; i < count && status == ISO_OK; i++) {
        const iso_state_shard part = iso_hf_part(row, shard, i);
        iso_saved_file *file = NULL;
        if (part.count == 0)
            continue;
        const int tensor =
            iso_hf_files_find(&l->files, l->architecture->prefix, iso_hf_name(row, block, i, name), &file);
        if (tensor >= 0)
            status = iso_hf_read_shard(row, &l->settings, file, tensor, &part);
    }
    return status;
}

iso_status iso_pretrained_load_weights(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    loading l = {.path = path};
    iso_graph *graph = iso_model_graph(model);
    iso_context *ctx = iso_graph_context(graph);
    iso_status status;
    ISO_NEED_AGREED(ctx, path);
    ISO_TRY(iso_agree(ctx, iso_graph_take_error(graph)));
    ISO_TRY(iso_agree(ctx, iso_hf_architecture_of(model, path, &l.architecture, &l.settings)));
    ISO_TRY(iso_hf_files_open(ctx, path, &l.files));
    choose_by_names(&l);
    ISO_TRY(iso_agree(ctx, check(&l, graph)));
    if (iso_is_chief(ctx)) {
        warn_of_other_head(&l, graph);
        warn_of_new(&l, graph);
    }
    ISO_TRY(iso_model_visit_weights(model, "load_weights", ISO_WEIGHTS_REPLACE, read_part, &l));
done:
    iso_hf_files_close(&l.files);
    return status;
}
