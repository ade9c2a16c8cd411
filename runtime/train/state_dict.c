/* The state dict: a model's tensors as a checkpoint stores them; writing and reading. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/session/session.h"
#include "runtime/train/keras/weight_paths.h"
#include "runtime/train/snapshot.h"
#include "runtime/train/state_impl.h"

struct iso_state_dict {
    iso_model *model;
    bool weights_only;
    iso_weight_paths paths;
};

static bool starts_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Whether a variable of this path is that of an adapter that has been merged. */
static bool is_merged(const iso_model *model, const char *path)
{
    const iso_variable *variable = model->merged ? iso_graph_find_variable(model->graph, path) : NULL;
    return variable && iso_variable_is_adapter(variable);
}

static void drop_adapters(const iso_model *model, iso_weight_paths *paths)
{
    for (int i = paths->n_tensors - 1; i >= 0; i--) {
        const iso_saved_tensor *tensor = &paths->tensors[i];
        char h5_path[ISO_MAX_SLOT_PATH + 32];
        if (!tensor->path || !is_merged(model, tensor->path))
            continue;
        snprintf(h5_path, sizeof h5_path, "%s", tensor->h5_path);
        iso_weight_paths_drop(paths, h5_path);
    }
}

iso_status iso_state_dict_create(iso_model *model, bool weights_only, iso_state_dict **out)
{
    iso_state_dict *contents = iso_new(sizeof *contents);
    if (!contents)
        return iso_no_memory("a checkpoint's contents");
    *contents = (iso_state_dict){.model = model, .weights_only = weights_only};
    iso_status status = iso_weight_paths_create(model, &contents->paths);
    if (status != ISO_OK) {
        iso_state_dict_destroy(contents);
        return status;
    }
    if (weights_only || model->merged) {
        iso_weight_paths_drop(&contents->paths, "/optimizer/");
        iso_weight_paths_drop(&contents->paths,
                              "/isogrid/variables/optimizer/"); /* of variables of no layer */
    }
    if (model->merged)
        drop_adapters(model, &contents->paths);
    *out = contents;
    return ISO_OK;
}

void iso_state_dict_destroy(iso_state_dict *contents)
{
    if (!contents)
        return;
    iso_weight_paths_free(&contents->paths);
    iso_free(contents);
}

/* ---- saving ---- */

/* The content of one save: the model's tensors, followed by those that callbacks keep. */
typedef struct saving {
    iso_state_shards shards;
    int n_tensors;
    iso_saved_tensor *tensors;
    const void **constant;
    char **h5_paths; /* of the callbacks' tensors; owned */
    int n_h5_paths;
    iso_text state;
} saving;

static void free_saving(saving *s)
{
    for (int i = 0; i < s->n_h5_paths; i++)
        iso_free(s->h5_paths[i]);
    iso_free(s->h5_paths);
    iso_free(s->tensors);
    iso_free(s->constant);
    iso_state_shards_free(&s->shards);
    iso_text_free(&s->state);
}

static int by_path(const void *a, const void *b)
{
    return strcmp((*(const iso_state_shard *const *)a)->path, (*(const iso_state_shard *const *)b)->path);
}

/* The tensor of a callback's shard is stored below /isogrid/variables. */
static bool add_tensor(saving *s, const iso_state_shard *shard)
{
    iso_text h5_path = {0};
    iso_text_add(&h5_path, "/isogrid/variables/%s", shard->path);
    if (h5_path.failed) {
        iso_text_free(&h5_path);
        return false;
    }
    s->h5_paths[s->n_h5_paths++] = h5_path.data;
    s->tensors[s->n_tensors++] = (iso_saved_tensor){
        .h5_path = h5_path.data, .path = shard->path, .dtype = shard->dtype, .shape = shard->shape};
    return true;
}

/* Adds each path once, in an order that is the same on every rank. */
static iso_status add_callbacks(saving *s, const iso_state_shards *kept)
{
    const iso_state_shard **sorted = iso_new((size_t)(kept->count ? kept->count : 1) * sizeof *sorted);
    bool added = sorted != NULL;
    for (int i = 0; sorted && i < kept->count; i++)
        sorted[i] = &kept->shards[i];
    if (sorted)
        qsort(sorted, (size_t)kept->count, sizeof *sorted, by_path);
    for (int i = 0; added && i < kept->count; i++)
        if (i == 0 || strcmp(sorted[i - 1]->path, sorted[i]->path) != 0)
            added = add_tensor(s, sorted[i]);
    iso_free(sorted);
    return added ? ISO_OK : iso_no_memory("the tensors that callbacks keep");
}

static iso_status state_dict_reserve(saving *s, const iso_weight_paths *paths, int more)
{
    size_t count = (size_t)paths->n_tensors + (size_t)more;
    s->tensors = iso_new((count + 1) * sizeof *s->tensors);
    s->constant = iso_new((count + 1) * sizeof *s->constant);
    s->h5_paths = iso_new(((size_t)more + 1) * sizeof *s->h5_paths);
    if (!s->tensors || !s->constant || !s->h5_paths)
        return iso_no_memory("the contents of a checkpoint of %zu tensors", count);
    if (paths->n_tensors > 0)
        memcpy(s->tensors, paths->tensors, (size_t)paths->n_tensors * sizeof *s->tensors);
    if (paths->constant && paths->n_tensors > 0)
        memcpy(s->constant, paths->constant, (size_t)paths->n_tensors * sizeof *s->constant);
    s->n_tensors = paths->n_tensors;
    return ISO_OK;
}

static iso_status state_dict_append(iso_state_shards *shards, const iso_state_shards *more)
{
    if (more->count == 0)
        return ISO_OK;
    iso_status status = iso_list_reserve(shards->shards, shards->count, more->count, "shards");
    if (status != ISO_OK)
        return status;
    memcpy(shards->shards + shards->count, more->shards, (size_t)more->count * sizeof *more->shards);
    shards->count += more->count;
    return ISO_OK;
}

/* When saving only weights, removes the optimizer's shards, and those of adapters that have been merged. */
static void keep_weights(const iso_model *model, iso_state_shards *shards)
{
    int kept = 0;
    for (int i = 0; i < shards->count; i++)
        if (!iso_path_below_optimizer(shards->shards[i].path) && !is_merged(model, shards->shards[i].path))
            shards->shards[kept++] = shards->shards[i];
    shards->count = kept;
}

static iso_status collect(const iso_state_dict *contents, const iso_training *training, saving *s)
{
    iso_state_shards kept = {0};
    iso_status status;
    ISO_TRY(iso_graph_shards(contents->model->graph, &s->shards));
    if (contents->weights_only || contents->model->merged)
        keep_weights(contents->model, &s->shards);
    else if (training)
        ISO_TRY(iso_callbacks_shards(training->callbacks, &kept));
    ISO_TRY(state_dict_reserve(s, &contents->paths, kept.count));
    ISO_TRY(add_callbacks(s, &kept));
    ISO_TRY(state_dict_append(&s->shards, &kept));
    ISO_TRY(iso_state_write(contents->model, contents->weights_only ? NULL : training, &s->state));
done:
    iso_state_shards_free(&kept);
    return status;
}

iso_status iso_state_dict_save(iso_state_dict *contents, const iso_training *training, iso_saver *saver,
                               const char *path, bool best)
{
    saving s = {.n_tensors = 0};
    iso_context *ctx = iso_graph_context(contents->model->graph);
    iso_status status = iso_agree(ctx, collect(contents, training, &s));
    if (status == ISO_OK)
        status = iso_saver_save(saver, path,
                                &(iso_file_spec){.n_tensors = s.n_tensors,
                                                 .tensors = s.tensors,
                                                 .constant = s.constant,
                                                 .n_groups = contents->paths.n_groups,
                                                 .groups = contents->paths.groups,
                                                 .state = s.state.data,
                                                 .number = training ? (uint64_t)training->cursor.trained : 0},
                                &s.shards, best, NULL);
    free_saving(&s);
    return status;
}

/* ---- reading ---- */

static const char *file_name(const iso_saved_file *file)
{
    return iso_saved_file_path(file);
}

/* Keras 2's .h5 files have the layers' own names where Keras 3's have "/layers". */
static bool has_layers(const iso_saved_file *file)
{
    for (int i = 0; i < iso_saved_file_tensors(file); i++)
        if (starts_with(iso_saved_file_tensor(file, i)->h5_path, "/layers/"))
            return true;
    return false;
}

static iso_status state_dict_check_tensor(const iso_saved_file *file, const iso_saved_tensor *tensor)
{
    char have[160], want[160];
    int found = iso_saved_file_at(file, tensor->h5_path);
    if (found < 0)
        return iso_error(ISO_INVALID, "%s has no %s, where '%s' of the model would be%s", file_name(file),
                         tensor->h5_path, tensor->path,
                         has_layers(file)
                             ? ""
                             : "; it has no /layers at all, as save_weights() of Keras 3 writes them "
                               "into a .weights.h5 (older .h5 files are not read)");
    const iso_saved_tensor *theirs = iso_saved_file_tensor(file, found);
    if (iso_shape_equal(&theirs->shape, &tensor->shape))
        return ISO_OK;
    return iso_error(ISO_INVALID, "%s: %s has the shape %s, '%s' of the model has %s", file_name(file),
                     tensor->h5_path, iso_shape_text(&theirs->shape, have, sizeof have), tensor->path,
                     iso_shape_text(&tensor->shape, want, sizeof want));
}

/* Whether a tensor of the file is the adapter of one of the model's variables: ".../lora_kernel_a" of
 * ".../kernel". */
static bool is_adapter(const iso_weight_paths *paths, const char *h5_path)
{
    static const char below[] = "/isogrid/variables/", lora[] = "lora_";
    char path[ISO_MAX_SLOT_PATH];
    const char *name = strrchr(h5_path, '/') + 1;
    if (!starts_with(h5_path, below) || !starts_with(name, lora))
        return false;
    h5_path += strlen(below);
    snprintf(path, sizeof path, "%.*s%s", (int)(name - h5_path), h5_path, name + strlen(lora));
    const size_t length = strlen(path);
    if (length < 2 || path[length - 2] != '_')
        return false;
    path[length - 2] = '\0';
    return iso_weight_paths_of(paths, path) >= 0;
}

/* A tensor in the file that the model lacks means that the file belongs to another model. Seeds and Isogrid's
 * own data do not count. */
static iso_status check_all_known(const iso_saved_file *file, const iso_weight_paths *paths)
{
    for (int i = 0; i < iso_saved_file_tensors(file); i++) {
        const char *h5_path = iso_saved_file_tensor(file, i)->h5_path;
        bool counts = !starts_with(h5_path, "/isogrid/") && !starts_with(h5_path, "/optimizer/") &&
                      !strstr(h5_path, "/seed_generator/");
        if (is_adapter(paths, h5_path) && iso_weight_paths_find(paths, h5_path) < 0)
            return iso_error(
                ISO_INVALID,
                "%s holds the adapter %s, which the model does not have: it needs those with which the "
                "file was written (--lora)",
                file_name(file), h5_path);
        if (counts && iso_weight_paths_find(paths, h5_path) < 0)
            return iso_error(ISO_INVALID, "%s holds %s, which the model does not have", file_name(file),
                             h5_path);
    }
    return ISO_OK;
}

static bool is_optimizers(const char *h5_path)
{
    return starts_with(h5_path, "/optimizer/vars/");
}

/* Whether Keras has an optimizer of this name in snake case, with or without a row here. */
static bool is_class(const char *name)
{
    static const char *const others[] = {"loss_scale_optimizer", "schedule_free_adam_w"};
    bool found = iso_descriptor_of_keras(iso_optimizer_rows, name) != NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        found = found || strcmp(others[i], name) == 0;
    return found;
}

/* Whether optimizers of these names can be of the same kind. Keras numbers them ("adam_1") and users choose
 * their own names, but a name that is another optimizer's class rules the match out. */
static bool names_agree(const char *theirs, const char *ours)
{
    char name[64];
    size_t length = strlen(theirs);
    while (length > 0 && theirs[length - 1] >= '0' && theirs[length - 1] <= '9')
        length--;
    if (length > 0 && length < strlen(theirs) && theirs[length - 1] == '_')
        length--;
    else
        length = strlen(theirs);
    snprintf(name, sizeof name, "%.*s", (int)length, theirs);
    return strcmp(name, ours) == 0 || !is_class(name);
}

/* The optimizers of a file and of a model: their names, NULL if they have none, and numbers of variables. */
typedef struct both_optimizers {
    const char *theirs, *ours;
    int in_file, in_model;
} both_optimizers;

static both_optimizers find_optimizers(const iso_saved_file *file, const iso_weight_paths *paths)
{
    both_optimizers both = {.theirs = iso_saved_file_name(file, "/optimizer/vars")};
    for (int i = 0; i < iso_saved_file_tensors(file); i++)
        both.in_file += is_optimizers(iso_saved_file_tensor(file, i)->h5_path);
    for (int i = 0; i < paths->n_tensors; i++)
        both.in_model += is_optimizers(paths->tensors[i].h5_path);
    for (int i = 0; i < paths->n_groups; i++)
        if (strcmp(paths->groups[i].h5_path, "/optimizer/vars") == 0)
            both.ours = paths->groups[i].name;
    return both;
}

/* Whether the file has the state of an optimizer like the model's: of that name (older Keras 3 wrote none)
 * and, as Keras requires (load_own_variables in keras/src/optimizers/base_optimizer.py), with the same number
 * of variables. */
static bool agree(const both_optimizers *both)
{
    return both->in_file > 0 && both->ours && both->in_file == both->in_model &&
           (!both->theirs || names_agree(both->theirs, both->ours));
}

/* If the file has more than an iteration and a learning rate, which even an unused optimizer has, the chief warns
 * that they are ignored. */
static void warn_of_ignored(iso_context *ctx, const iso_saved_file *file, const both_optimizers *both)
{
    if (both->in_file > 2 && both->ours && !agree(both) && iso_is_chief(ctx))
        iso_warn("%s: the state of its optimizer '%s' (%d variables) is ignored: the model's is '%s' (%d)%s",
                 file_name(file), both->theirs ? both->theirs : "without a name", both->in_file, both->ours,
                 both->in_model,
                 both->theirs && names_agree(both->theirs, both->ours)
                     ? "; one of them has a schedule, accumulates gradients or trains other variables"
                     : "");
}

/* What the optimizer keeps for a variable of no layer, which checkpoints of earlier versions do not have. */
static bool is_slot_of_other(const iso_model *model, const iso_saved_tensor *tensor)
{
    return tensor->path && iso_path_below_optimizer(tensor->path) &&
           !iso_graph_find_variable(model->graph, tensor->path);
}

/* State that Keras does not have may be missing from Keras's own files, and adapters from those of a model that is
 * yet to be adapted. */
static bool may_lack(const iso_model *model, const iso_saved_file *file, const iso_saved_tensor *tensor)
{
    const iso_variable *variable = tensor->path ? iso_graph_find_variable(model->graph, tensor->path) : NULL;
    const bool adapter = variable && iso_variable_is_adapter(variable);
    return starts_with(tensor->h5_path, "/isogrid/") && iso_saved_file_at(file, tensor->h5_path) < 0 &&
           (adapter || is_slot_of_other(model, tensor) || !iso_saved_file_committed(file, NULL));
}

static void warn_of_lost_slots(const iso_model *model, const iso_saved_file *file,
                               const iso_weight_paths *paths)
{
    for (int i = 0; i < paths->n_tensors; i++)
        if (is_slot_of_other(model, &paths->tensors[i]) && may_lack(model, file, &paths->tensors[i]) &&
            iso_saved_file_committed(file, NULL)) {
            iso_warn(
                "%s, of an earlier version, does not have '%s': what the optimizer keeps for variables of no "
                "layer begins anew, so the numbers are not those of a run that was not interrupted",
                file_name(file), paths->tensors[i].path);
            return;
        }
}

static iso_status check_file(const iso_model *model, const iso_saved_file *file,
                             const iso_weight_paths *paths, bool optimizer)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < paths->n_tensors; i++)
        if (paths->tensors[i].path && (optimizer || !iso_path_below_optimizer(paths->tensors[i].path)) &&
            !may_lack(model, file, &paths->tensors[i]))
            ISO_TRY(state_dict_check_tensor(file, &paths->tensors[i]));
    ISO_TRY(check_all_known(file, paths));
    if (optimizer && iso_is_chief(iso_graph_context(model->graph)))
        warn_of_lost_slots(model, file, paths);
done:
    return status;
}

static const iso_saved_tensor *tensor_of(const iso_weight_paths *paths, const char *path)
{
    int number = iso_weight_paths_of(paths, path);
    return number < 0 ? NULL : &paths->tensors[number];
}

/* The number in the file that a scalar of the optimizer is read from; 0 if it has none. */
static iso_status read_number(iso_saved_file *file, const iso_saved_tensor *tensor, double *number)
{
    int found = tensor ? iso_saved_file_at(file, tensor->h5_path) : -1;
    *number = 0;
    return found < 0 ? ISO_OK : iso_saved_file_read(file, found, &(iso_box){.rank = 0}, ISO_F64, number);
}

/* Training with these would give NaN or go the wrong way. */
static iso_status check_numbers(iso_saved_file *file, const iso_weight_paths *paths)
{
    const iso_saved_tensor *iteration = tensor_of(paths, "optimizer/iteration"),
                           *rate = tensor_of(paths, "optimizer/learning_rate");
    double number;
    iso_status status;
    ISO_TRY(read_number(file, iteration, &number));
    if (!(number >= 0 && number <= 0x1p53))
        return iso_error(ISO_INVALID, "%s: %s, the number of steps of its optimizer, is %.17g",
                         file_name(file), iteration->h5_path, number);
    ISO_TRY(read_number(file, rate, &number));
    if (!isfinite(number) || number < 0)
        return iso_error(ISO_INVALID, "%s: %s, the learning rate of its optimizer, is %g", file_name(file),
                         rate->h5_path, number);
done:
    return status;
}

/* weights: reads what is not the optimizer's; optimizer: reads what is. */
static iso_status read_shards(iso_model *model, iso_saved_file *file, const iso_weight_paths *paths,
                              bool weights, bool optimizer)
{
    iso_state_shards shards = {0};
    iso_status status = iso_graph_shards(model->graph, &shards);
    for (int i = 0; i < shards.count && status == ISO_OK; i++) {
        const iso_state_shard *shard = &shards.shards[i];
        if (!(iso_path_below_optimizer(shard->path) ? optimizer : weights))
            continue;
        const iso_saved_tensor *tensor = tensor_of(paths, shard->path);
        if (tensor && !may_lack(model, file, tensor))
            status = iso_saved_file_read_shard(file, iso_saved_file_at(file, tensor->h5_path), shard);
    }
    iso_state_shards_free(&shards);
    return status;
}

/* Compares the checksums. A file that has some but no commit record is read all the same: the chief warns. */
static iso_status verify(iso_context *ctx, iso_saved_file *file)
{
    bool committed = iso_saved_file_committed(file, NULL);
    iso_status status = iso_saved_file_verify(file);
    if (committed || !iso_saved_file_has_checksums(file) || (status != ISO_OK && status != ISO_INVALID))
        return status;
    if (iso_is_chief(ctx))
        iso_warn("%s is a checkpoint without a commit record: it was cut off, or another program has written "
                 "to it; %s",
                 file_name(file),
                 status == ISO_OK ? "the checksums of its tensors match" : iso_error_message());
    return ISO_OK;
}

iso_status iso_model_read_tensors(iso_model *model, iso_saved_file *file, iso_optimizer_state optimizer)
{
    iso_weight_paths paths = {0};
    iso_context *ctx = iso_graph_context(model->graph);
    iso_status status = iso_weight_paths_create(model, &paths);
    both_optimizers both = {0};
    if (status == ISO_OK && optimizer != ISO_OPTIMIZER_LEFT)
        both = find_optimizers(file, &paths);
    const bool there = agree(&both);
    if (status == ISO_OK && optimizer == ISO_OPTIMIZER_NEEDED && !there)
        status = iso_error(ISO_INVALID, "%s has no state of the optimizer '%s'", file_name(file),
                           model->optimizer.rule);
    if (status == ISO_OK)
        status = check_file(model, file, &paths, there);
    if (status == ISO_OK && there)
        status = check_numbers(file, &paths);
    ISO_TRY(iso_agree(ctx, status));
    warn_of_ignored(ctx, file, &both);
    ISO_TRY(verify(ctx, file));
    ISO_TRY(iso_agree(ctx, read_shards(model, file, &paths, optimizer != ISO_OPTIMIZER_ALONE, there)));
done:
    iso_weight_paths_free(&paths);
    return status;
}
