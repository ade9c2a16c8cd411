/* Keys of a layout map that match nothing: a misspelt one would silently leave a weight replicated. */
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/spmd/layout_map_impl.h"
#include "runtime/spmd/program.h"

enum { SHOWN = 3 };

/* ---- one map and a list of paths ---- */

static iso_status matches_any(const iso_map_entry *entry, const char *const *paths, int count, bool *found)
{
    iso_status status = ISO_OK;
    *found = false;
    for (int i = 0; i < count && !*found; i++)
        ISO_TRY(iso_map_entry_match(entry, paths[i], found));
done:
    return status;
}

/* The key, as text or as an expression, is a part of the path. */
static bool key_in_path(const iso_map_entry *entry, const char *path)
{
    return strstr(path, entry->key) || iso_pattern_search(entry->pattern, path);
}

static bool path_in_key(const iso_map_entry *entry, const char *path)
{
    return strstr(entry->key, path) != NULL;
}

static bool of_one_kind(const iso_map_entry *entry, const char *path)
{
    return entry->of_optimizer == iso_path_of_optimizer(path);
}

/* Moves the paths that fit to the front of the list and counts them. */
static int move_to_front(const iso_map_entry *entry, const char **paths, int count,
                         bool (*fits)(const iso_map_entry *entry, const char *path))
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (!fits(entry, paths[i]))
            continue;
        const char *path = paths[i];
        memmove(paths + found + 1, paths + found, (size_t)(i - found) * sizeof *paths);
        paths[found++] = path;
    }
    return found;
}

/* Adds the paths that overlap with the key in this way, at most SHOWN; moves them to the front of the list
 * and counts them. */
static int add_overlapping(iso_text *message, const iso_map_entry *entry, const char **paths, int count,
                           bool (*overlaps)(const iso_map_entry *entry, const char *path), const char *lead,
                           const char *end)
{
    int found = move_to_front(entry, paths, count, overlaps);
    for (int i = 0; i < found && i < SHOWN; i++)
        iso_text_add(message, "%s'%s'", i ? ", " : lead, paths[i]);
    if (found > SHOWN)
        iso_text_add(message, " and %d more", found - SHOWN);
    if (found)
        iso_text_add(message, "%s", end);
    return found;
}

static bool same_last_name(const iso_map_entry *entry, const char *path)
{
    return strcmp(iso_file_name(entry->key), iso_file_name(path)) == 0;
}

/* How many paths there are, and the first ones, those with the key's last name before others. */
static void add_examples(iso_text *message, const iso_map_entry *entry, const char **paths, int count)
{
    move_to_front(entry, paths, count, same_last_name);
    if (count > SHOWN)
        iso_text_add(message, "; there are %d, such as ", count);
    else if (count > 0)
        iso_text_add(message, "; there %s ", count > 1 ? "are" : "is");
    for (int i = 0; i < count && i < SHOWN; i++)
        iso_text_add(message, "%s'%s'", i ? ", " : "", paths[i]);
}

static iso_status report(const iso_map_entry *entry, const char **paths, int count, bool strict, bool chief)
{
    iso_text message = {0};
    iso_status status = ISO_OK;
    iso_text_add(&message, "layout key '%s' (%s) matches no %s", entry->key, entry->text,
                 entry->of_optimizer ? "slot of an optimizer" : "variable and no output");
    count = move_to_front(entry, paths, count, of_one_kind);
    int known = add_overlapping(&message, entry, paths, count, key_in_path, "; it matches a part of ",
                                " (a key must match the whole path)");
    known +=
        add_overlapping(&message, entry, paths + known, count - known, path_in_key, "; it contains ", "");
    if (!known && !iso_text_add_near(&message, entry->key, paths, count))
        add_examples(&message, entry, paths, count);
    if (strict)
        status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    else if (chief)
        iso_warn("%s", iso_text_get(&message));
    iso_text_free(&message);
    return status;
}

iso_status iso_layout_map_report_unmatched_keys(iso_layout_map *map, const char **paths, int count,
                                                bool chief)
{
    bool slots = false, found;
    iso_status status = ISO_OK;
    for (int i = 0; i < count; i++)
        slots |= iso_path_of_optimizer(paths[i]);
    for (int i = 0; i < map->count; i++) {
        iso_map_entry *entry = &map->entries[i];
        if (entry->optional || entry->used || entry->reported || (entry->of_optimizer && !slots))
            continue;
        ISO_TRY(matches_any(entry, paths, count, &found));
        entry->used = found;
        entry->reported = !found;
        if (!found)
            ISO_TRY(report(entry, paths, count, map->strict, chief));
    }
done:
    return status;
}

/* ---- the paths of a graph ---- */

typedef struct path_list {
    const char **path;
    int count;
    iso_graph *graph; /* keeps texts that are made here */
} path_list;

static iso_status unmatched_keys_add(path_list *list, const char *path)
{
    return iso_list_add(list->path, list->count, path, "the paths of a graph");
}

static iso_status add_joined(path_list *list, const char *prefix, const char *path, const char *suffix)
{
    iso_text text = {0};
    iso_status status = ISO_OK;
    iso_text_add(&text, "%s%s/%s", prefix, path, suffix);
    if (text.failed)
        ISO_TRY(iso_no_memory("a path"));
    const char *kept = iso_graph_keep_text(list->graph, iso_text_get(&text));
    ISO_TRY(iso_graph_error(list->graph));
    ISO_TRY(unmatched_keys_add(list, kept));
done:
    iso_text_free(&text);
    return status;
}

static iso_status add_tensor(path_list *list, const iso_tensor *tensor)
{
    iso_status status = ISO_OK;
    if (tensor->producer->type == &iso_op_variable)
        return ISO_OK;
    if (tensor->producer->type == &iso_op_input)
        ISO_TRY(add_joined(list, "", tensor->name, "output"));
    else if (tensor->name && strchr(tensor->name, '/'))
        ISO_TRY(unmatched_keys_add(list, tensor->name));
    for (const iso_tensor_path *path = tensor->paths; path; path = path->next)
        ISO_TRY(unmatched_keys_add(list, path->text));
done:
    return status;
}

static iso_status unmatched_keys_add_slots(path_list *list, const iso_program_change *change)
{
    const char *name[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    iso_status status = ISO_OK;
    if (!change->apply)
        return ISO_OK;
    const iso_optimizer *optimizer = &((const iso_apply_attrs *)change->apply->attrs)->optimizer;
    int count = iso_optimizer_slots(optimizer, name, initial);
    for (int i = 0; i < count; i++)
        ISO_TRY(add_joined(list, ISO_OPTIMIZER_PREFIX, change->variable->path, name[i]));
    ISO_TRY(add_joined(list, ISO_OPTIMIZER_PREFIX, change->variable->path, "gradient"));
done:
    return status;
}

iso_status iso_program_report_unmatched_keys(const iso_program *program, bool chief)
{
    iso_layout_map *map = program->distribution->map;
    path_list list = {.graph = program->graph};
    iso_status status = ISO_OK;
    if (!map)
        return ISO_OK;
    for (int i = 0; i < program->graph->n_variables; i++)
        ISO_TRY(unmatched_keys_add(&list, program->graph->variables[i]->path));
    for (int i = 0; i < program->graph->n_tensors; i++)
        ISO_TRY(add_tensor(&list, program->graph->tensors[i]));
    for (int i = 0; i < program->n_changes; i++)
        ISO_TRY(unmatched_keys_add_slots(&list, &program->changes[i]));
    ISO_TRY(iso_layout_map_report_unmatched_keys(map, list.path, list.count, chief));
done:
    iso_free(list.path);
    return status;
}
