/* Layout maps from JSON: an object whose members are keys. Each layout is a list like Keras's tuple
 * ([null, "model"], [["data", "model"], null]) or a text ("data+model, -"). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

enum { MOST_BYTES = 1 << 24 };

/* ---- from JSON ---- */

typedef struct reader {
    iso_layout_map *map;
    const char *name, *text; /* of the file */
    size_t size;
    const char *key; /* the current member; NULL: none */
    int value;       /* the number of the current value (iso_json_position) */
} reader;

/* Prefixes the recorded message with the file, line and column of a value, and the current member. */
static iso_status at(const reader *r, int value, iso_status status)
{
    int line, column;
    iso_json_position(r->text, r->size, value, &line, &column);
    if (r->key)
        iso_error_prefix(status, "layout key '%s': ", r->key);
    return iso_error_prefix(status, "%s, line %d, column %d: ", r->name, line, column);
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

/* Appends an axis, at r->value, to the text of its dimension. */
static iso_status add_axis(reader *r, const json_t *axis, bool first, iso_text *layout)
{
    const char *name = json_string_value(axis);
    if (!name)
        return at(r, r->value, iso_error(ISO_INVALID, "%s; expected the name of an axis", kind_of(axis)));
    if (iso_mesh_find_axis(iso_layout_map_mesh(r->map), name) < 0)
        return at(r, r->value, iso_mesh_unknown_axis(iso_layout_map_mesh(r->map), name));
    iso_text_add(layout, "%s%s", first ? "" : "+", name);
    return ISO_OK;
}

/* One entry of a tuple: null, an axis, or a list of axes. */
static iso_status add_dimension(reader *r, const json_t *entry, iso_text *layout)
{
    iso_status status = ISO_OK;
    size_t i;
    json_t *axis;
    r->value++;
    if (json_is_null(entry) || (json_is_array(entry) && json_array_size(entry) == 0)) {
        iso_text_add(layout, "-");
        return ISO_OK;
    }
    if (json_is_string(entry))
        return add_axis(r, entry, true, layout);
    if (!json_is_array(entry))
        return at(r, r->value,
                  iso_error(ISO_INVALID, "%s; expected null, an axis or a list of axes", kind_of(entry)));
    json_array_foreach(entry, i, axis)
    {
        r->value++;
        ISO_TRY(add_axis(r, axis, i == 0, layout));
    }
done:
    return status;
}

static iso_status add_tuple(reader *r, const json_t *tuple, iso_text *layout)
{
    iso_status status = ISO_OK;
    size_t i;
    json_t *entry;
    json_array_foreach(tuple, i, entry)
    {
        iso_text_add(layout, "%s", i ? ", " : "");
        ISO_TRY(add_dimension(r, entry, layout));
    }
done:
    return status;
}

/* One member of the object. */
static iso_status add_key(reader *r, const char *key, const json_t *value)
{
    iso_status status = ISO_OK;
    iso_text layout = {0};
    int begin = ++r->value;
    r->key = key;
    if (json_is_array(value)) {
        ISO_TRY(add_tuple(r, value, &layout));
    } else if (json_is_string(value)) {
        iso_text_add(&layout, "%s", json_string_value(value));
    } else {
        ISO_TRY(
            at(r, begin,
               iso_error(ISO_INVALID,
                         "%s; expected a list such as [null, \"model\"], or a string such as \"-, model\"",
                         kind_of(value))));
    }
    if (layout.failed)
        ISO_TRY(iso_no_memory("the layout key '%s'", key));
    r->key = NULL; /* the messages of what follows name the key themselves */
    status = iso_layout_map_set(r->map, key, iso_text_get(&layout));
    if (status != ISO_OK)
        status = at(r, begin, status);
done:
    iso_text_free(&layout);
    return status;
}

iso_status iso_layout_map_parse(iso_layout_map *map, const char *name, const char *text, size_t size)
{
    reader r = {.map = map, .name = name, .text = text, .size = size};
    iso_status status = ISO_OK;
    json_t *root = NULL, *value;
    const char *key;
    ISO_TRY(iso_json_parse(name, text, size, &root));
    if (!json_is_object(root))
        ISO_TRY(at(&r, 0, iso_error(ISO_INVALID, "%s; expected an object of layouts by key", kind_of(root))));
    json_object_foreach(root, key, value) ISO_TRY(add_key(&r, key, value));
done:
    json_decref(root);
    return status;
}

/* ---- from a file ---- */

static iso_status read_stream(FILE *file, const char *path, char **text, size_t *size)
{
    if (iso_file_read_all(file, MOST_BYTES, text, size))
        return ISO_OK;
    if (errno == EFBIG)
        return iso_error(ISO_INVALID, "the layouts in '%s': %d bytes or more, too large for a layout file",
                         path, MOST_BYTES);
    return errno == ENOMEM
               ? iso_error(ISO_NO_MEMORY, "no memory to read '%s'", path)
               : iso_error(ISO_INVALID, "cannot read the layouts in '%s': %s", path, strerror(errno));
}

static iso_status layout_file_read_file(const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return iso_error(ISO_INVALID, "cannot open the layouts in '%s': %s", path, strerror(errno));
    iso_status status = read_stream(file, path, text, size);
    fclose(file);
    return status;
}

iso_status iso_layout_map_read(iso_layout_map *map, const char *path)
{
    ISO_NEED(map);
    iso_context *ctx = iso_layout_map_mesh(map)->ctx;
    ISO_NEED_AGREED(ctx, path);
    char *text = NULL;
    size_t size = 0;
    iso_status status = ISO_OK;
    bool reads = iso_rank(ctx) == 0;
    ISO_TRY(
        iso_share_text(ctx, reads ? layout_file_read_file(path, &text, &size) : ISO_OK, path, &text, &size));
    ISO_TRY(iso_agree(ctx, iso_layout_map_parse(map, path, text, size)));
done:
    iso_free(text);
    return status;
}
