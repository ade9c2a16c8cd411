/* The contents of a file as text: its state, its tree, and the result of the checks. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "launch/inspect_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/spmd/distribution_json.h"

enum { LONGEST_VALUE = 100, INDENT = 2 };

/* ---- the state: a line for each key ---- */

static void inspect_text_add_value(iso_text *text, const json_t *value)
{
    if (json_is_string(value))
        iso_text_add(text, "%s", json_string_value(value));
    else if (json_is_integer(value))
        iso_text_add(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        iso_text_add(text, "%g", json_real_value(value));
    else if (json_is_boolean(value))
        iso_text_add(text, json_is_true(value) ? "yes" : "no");
    else
        iso_text_add(text, json_is_null(value) ? "-" : json_is_object(value) ? "{...}" : "[...]");
}

/* "source fashion-mnist, rows 60000", or the values of a list; long texts are truncated. */
static void add_members(iso_text *text, const json_t *value)
{
    iso_text all = {0};
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        iso_text_add(&all, "%s%s ", all.length ? ", " : "", key);
        inspect_text_add_value(&all, member);
    }
    json_array_foreach(value, i, member)
    {
        iso_text_add(&all, "%s", all.length ? ", " : "");
        inspect_text_add_value(&all, member);
    }
    if (all.length > LONGEST_VALUE)
        iso_text_add(text, "%.*s...", LONGEST_VALUE - 3, iso_text_get(&all));
    else
        iso_text_add(text, "%s", all.length ? iso_text_get(&all) : "-");
    iso_text_free(&all);
}

/* "model parallel, batch_axis data, zero 1" */
static void add_distribution(iso_text *text, const json_t *rules)
{
    const char *kind = json_string_value(json_object_get(rules, "kind"));
    const char *axis = json_string_value(json_object_get(rules, "batch_axis"));
    iso_text_add(text, "%s, zero %" JSON_INTEGER_FORMAT, kind ? kind : "-",
                 json_integer_value(json_object_get(rules, "zero")));
    if (axis)
        iso_text_add(text, ", batch over %s", axis);
}

/* The rules of model parallel, as a file for --layout-file. */
static void add_rules(iso_text *text, const json_t *rules)
{
    const json_t *layouts = json_object_get(rules, "layouts");
    if (json_is_object(layouts))
        iso_layout_file_add(text, layouts, 2 * INDENT);
}

static void add_state(iso_text *text, const json_t *state)
{
    const char *key;
    json_t *value;
    size_t widest = 0;
    json_object_foreach((json_t *)(uintptr_t)state, key, value) widest =
        strlen(key) > widest ? strlen(key) : widest;
    json_object_foreach((json_t *)(uintptr_t)state, key, value)
    {
        if (!strcmp(key, "layouts"))
            continue; /* they are printed beside the tensors */
        iso_text_add(text, "  %-*s  ", (int)widest, key);
        if (!strcmp(key, "distribution"))
            add_distribution(text, value);
        else if (!strcmp(key, "layers") && json_is_object(value))
            iso_text_add(text, "%zu, with their settings", json_object_size(value));
        else if (json_is_object(value) || json_is_array(value))
            add_members(text, value);
        else
            inspect_text_add_value(text, value);
        iso_text_add(text, "\n");
        if (!strcmp(key, "distribution"))
            add_rules(text, value);
    }
}

/* ---- the tree ---- */

/* A group (tensor -1) or a tensor. */
typedef struct node {
    const char *h5_path, *name;
    const iso_saved_file *file;
    int tensor;
} node;

/* Numbers are compared by value, so that 10 comes after 9; a group comes before names that its name begins. */
static int inspect_text_compare(const void *a, const void *b)
{
    const char *x = ((const node *)a)->h5_path, *y = ((const node *)b)->h5_path;
    while (*x && *y) {
        if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
            size_t n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
            int order = n != m ? (n < m ? -1 : 1) : strncmp(x, y, n);
            if (order)
                return order;
            x += n;
            y += m;
        } else if (*x != *y) {
            return *x == '/' ? -1 : *y == '/' ? 1 : (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    return (*x != 0) - (*y != 0);
}

static int count_nodes(const iso_inspection *inspection)
{
    int count = 0;
    for (int i = 0; i < inspection->n_files; i++)
        count += iso_saved_file_groups(inspection->files[i]) + iso_saved_file_tensors(inspection->files[i]);
    return count;
}

static node *list_nodes(const iso_inspection *inspection, int *count)
{
    node *all = iso_new(((size_t)count_nodes(inspection) + 1) * sizeof *all);
    *count = 0;
    for (int f = 0; all && f < inspection->n_files; f++) {
        const iso_saved_file *file = inspection->files[f];
        for (int i = 0; i < iso_saved_file_groups(file); i++) {
            const iso_saved_group *group = iso_saved_file_group(file, i);
            all[(*count)++] = (node){group->h5_path, group->name, file, -1};
        }
        for (int i = 0; i < iso_saved_file_tensors(file); i++)
            all[(*count)++] = (node){iso_saved_file_tensor(file, i)->h5_path, NULL, file, i};
    }
    if (all)
        qsort(all, (size_t)*count, sizeof *all, inspect_text_compare);
    return all;
}

static int depth_of(const char *h5_path)
{
    int depth = 0;
    for (; *h5_path; h5_path++)
        depth += *h5_path == '/';
    return depth;
}

/* "    vars/  dense_1", "      0". */
static void add_name(iso_text *text, const node *n)
{
    iso_text_add(text, "%*s%s%s", INDENT * depth_of(n->h5_path), "", strrchr(n->h5_path, '/') + 1,
                 n->tensor < 0 ? "/" : "");
    if (n->name && *n->name)
        iso_text_add(text, "  %s", n->name);
}

/* The columns of a line of the tree. */
enum { NAME, TYPE, SHAPE, LAYOUT, PATH, COLUMNS };

static void fill_columns(const iso_inspection *inspection, const node *n, iso_text column[COLUMNS])
{
    char shape[200];
    add_name(&column[NAME], n);
    if (n->tensor < 0)
        return;
    const iso_saved_tensor *t = iso_saved_file_tensor(n->file, n->tensor);
    iso_text_add(&column[TYPE], "%s", iso_saved_file_stored(n->file, n->tensor, NULL));
    iso_text_add(&column[SHAPE], "%s", iso_shape_text(&t->shape, shape, sizeof shape));
    iso_text_add(&column[LAYOUT], "%s", iso_inspect_layout(inspection, t));
    iso_text_add(&column[PATH], "%s",
                 inspection->pretrained ? iso_file_name(iso_saved_file_path(n->file))
                 : t->path              ? t->path
                                        : "");
}

static void add_line(iso_text *text, iso_text column[COLUMNS], const int width[COLUMNS])
{
    size_t end = text->length;
    for (int i = 0; i < COLUMNS; i++)
        if (width[i] > 0) {
            size_t begin = text->length;
            iso_text_add(text, "%-*s  ", width[i], iso_text_get(&column[i]));
            end = column[i].length > 0 ? begin + column[i].length : end;
        }
    if (!text->failed) { /* without trailing spaces */
        text->length = end;
        iso_text_add(text, "\n");
    }
}

/* Two passes over all lines: the first measures the columns, the second prints. Only tensors are measured:
 * names of groups may be wider, since nothing follows them. */
static void add_tree(const iso_inspection *inspection, iso_text *text, const node *nodes, int count)
{
    int width[COLUMNS] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < count; n++) {
            iso_text column[COLUMNS] = {{0}};
            fill_columns(inspection, &nodes[n], column);
            for (int i = 0; i < COLUMNS && pass == 0 && nodes[n].tensor >= 0; i++)
                width[i] = (int)column[i].length > width[i] ? (int)column[i].length : width[i];
            if (pass == 1)
                add_line(text, column, width);
            for (int i = 0; i < COLUMNS; i++)
                iso_text_free(&column[i]);
        }
}

/* "3 tensors, 42 elements, 168 B" of files [begin, end). */
static void add_sum(const iso_inspection *inspection, int begin, int end, iso_text *text)
{
    int tensors = 0;
    uint64_t elements = 0, bytes = 0;
    char size[32];
    for (int f = begin; f < end; f++)
        for (int i = 0; i < iso_saved_file_tensors(inspection->files[f]); i++, tensors++) {
            iso_box whole = iso_box_whole(&iso_saved_file_tensor(inspection->files[f], i)->shape);
            elements += (uint64_t)iso_box_count(&whole);
            bytes += iso_inspect_bytes(inspection->files[f], i);
        }
    iso_text_add(text, "%d tensor%s, %" PRIu64 " elements, %s\n", tensors, tensors == 1 ? "" : "s", elements,
                 iso_text_scaled((double)bytes, "B", size, sizeof size));
}

/* The sum of each of several files. */
static void add_sums_of_files(const iso_inspection *inspection, iso_text *text)
{
    for (int f = 0; inspection->n_files > 1 && f < inspection->n_files; f++) {
        iso_text_add(text, "%s: ", iso_file_name(iso_saved_file_path(inspection->files[f])));
        add_sum(inspection, f, f + 1, text);
    }
}

static void add_checksums(const iso_inspection *inspection, bool committed, iso_text *text)
{
    bool sums = iso_saved_file_has_checksums(inspection->file);
    if (inspection->problem)
        iso_text_add(text, "checksums: WRONG: %s\n", inspection->problem);
    else if (inspection->keras)
        iso_text_add(text, "checksums: those of the archive match\n");
    else
        iso_text_add(text, "checksums: %s\n",
                     inspection->pretrained ? "none, .safetensors files have no checksums"
                     : committed            ? "all match"
                     : sums                 ? "those of the tensors match, but the file has no commit record"
                                            : "none, the file has no commit record");
}

iso_status iso_inspect_text(const iso_inspection *inspection, iso_text *text)
{
    uint64_t number = 0;
    int count;
    char size[32];
    bool committed = iso_saved_file_committed(inspection->file, &number);
    bool sums = iso_saved_file_has_checksums(inspection->file);
    node *nodes = list_nodes(inspection, &count);
    if (!nodes)
        return iso_no_memory("the tree of '%s'", inspection->path);
    iso_text_scaled((double)inspection->bytes, "B", size, sizeof size);
    if (inspection->keras)
        iso_text_add(text, "%s: a model of Keras, %s\n", inspection->path, size);
    else if (inspection->pretrained)
        iso_text_add(text, "%s: weights of Hugging Face in %d file%s, %s\n", inspection->path,
                     inspection->n_files, inspection->n_files == 1 ? "" : "s", size);
    else if (committed)
        iso_text_add(text, "%s: checkpoint %" PRIu64 ", %s\n", inspection->path, number, size);
    else
        iso_text_add(text, "%s: %s without Isogrid's commit record, %s\n", inspection->path,
                     sums ? "a checkpoint that was cut off or changed," : "weights", size);
    add_state(text, inspection->state);
    iso_text_add(text, "/\n");
    add_tree(inspection, text, nodes, count);
    add_sums_of_files(inspection, text);
    add_sum(inspection, 0, inspection->n_files, text);
    add_checksums(inspection, committed, text);
    iso_free(nodes);
    return ISO_OK;
}
