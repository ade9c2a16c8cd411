#include "runtime/train/tensorboard/planes.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/train/tensorboard/planes.pb-c.h"

typedef Isogrid__Tensorboard__Space space_message;
typedef Isogrid__Tensorboard__Plane plane_message;
typedef Isogrid__Tensorboard__Line line_message;
typedef Isogrid__Tensorboard__PlaneEvent event_message;
typedef Isogrid__Tensorboard__NameEntry entry_message;
typedef Isogrid__Tensorboard__EventName name_message;

/* All memory of a space, which is freed at once. */
typedef struct block {
    struct block *next;
} block;

typedef struct packer {
    space_message space;
    plane_message *plane; /* the last */
    line_message *line;   /* the last */
    block *blocks;
    bool failed; /* out of memory */
} packer;

static void *planes_keep(packer *p, size_t bytes)
{
    block *made = iso_new(sizeof *made + bytes);
    if (!made) {
        p->failed = true;
        return NULL;
    }
    made->next = p->blocks;
    p->blocks = made;
    return made + 1;
}

static char *keep_text(packer *p, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = planes_keep(p, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* Appends to a list of pointers, whose capacity doubles. */
static void planes_append(packer *p, size_t *count, void *list, void *item)
{
    void **old = *(void ***)list, **grown = old;
    if (!item)
        return;
    if ((*count & (*count - 1)) == 0) { /* 0, 1, 2, 4, ... */
        grown = planes_keep(p, (*count ? 2 * *count : 1) * sizeof *grown);
        if (!grown)
            return;
        if (*count)
            memcpy(grown, old, *count * sizeof *grown);
        *(void ***)list = grown;
    }
    grown[(*count)++] = item;
}

/* ---- ranks, slots, events ---- */

static void begin_plane(packer *p, const json_t *event)
{
    char name[64];
    long long rank = json_integer_value(json_object_get(event, "pid"));
    plane_message *plane = planes_keep(p, sizeof *plane);
    if (!plane)
        return;
    isogrid__tensorboard__plane__init(plane);
    snprintf(name, sizeof name, "/device:CUSTOM:rank %lld", rank); /* TensorBoard shows planes of this name as
                                                                      they are */
    plane->id = rank + 1;
    plane->name = keep_text(p, name);
    planes_append(p, &p->space.n_planes, &p->space.planes, plane);
    p->plane = plane;
}

static void begin_line(packer *p, const json_t *event)
{
    long long slot = json_integer_value(json_object_get(event, "tid"));
    line_message *line = planes_keep(p, sizeof *line);
    if (!line || !p->plane)
        return;
    isogrid__tensorboard__line__init(line);
    line->id = line->display_id = slot;
    line->name = keep_text(p, json_string_value(json_object_get(json_object_get(event, "args"), "name")));
    planes_append(p, &p->plane->n_lines, &p->plane->lines, line);
    p->line = line;
}

/* The number of an event's name in its plane, from 1. */
static int64_t planes_number_of(packer *p, const char *name)
{
    plane_message *plane = p->plane;
    for (size_t i = 0; i < plane->n_event_metadata; i++)
        if (strcmp(plane->event_metadata[i]->value->name, name) == 0)
            return plane->event_metadata[i]->key;
    entry_message *entry = planes_keep(p, sizeof *entry);
    name_message *value = planes_keep(p, sizeof *value);
    if (!entry || !value)
        return 0;
    isogrid__tensorboard__name_entry__init(entry);
    isogrid__tensorboard__event_name__init(value);
    entry->key = value->id = (int64_t)plane->n_event_metadata + 1;
    entry->value = value;
    value->name = keep_text(p, name);
    planes_append(p, &plane->n_event_metadata, &plane->event_metadata, entry);
    return entry->key;
}

static int64_t picoseconds(const json_t *event, const char *key)
{
    double microseconds = json_number_value(json_object_get(event, key));
    return microseconds > 0 ? (int64_t)(microseconds * 1e3 + 0.5) * 1000 : 0;
}

static void add_event(packer *p, const json_t *event)
{
    event_message *added = planes_keep(p, sizeof *added);
    if (!added || !p->line)
        return;
    isogrid__tensorboard__plane_event__init(added);
    added->metadata_id = planes_number_of(p, json_string_value(json_object_get(event, "name")));
    added->offset_ps = picoseconds(event, "ts");
    added->duration_ps = picoseconds(event, "dur");
    planes_append(p, &p->line->n_events, &p->line->events, added);
}

/* Adds an event. In the text, a rank's title comes before its slots, and a slot's title before its events. */
static void planes_add(packer *p, const json_t *event)
{
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    if (!phase || !name)
        return;
    if (strcmp(name, "process_name") == 0)
        begin_plane(p, event);
    else if (strcmp(name, "thread_name") == 0)
        begin_line(p, event);
    else if (strcmp(phase, "X") == 0)
        add_event(p, event);
}

/* ---- the whole text ---- */

static iso_status pack(packer *p, unsigned char **packed, size_t *bytes)
{
    if (!p->failed)
        *packed = iso_new(isogrid__tensorboard__space__get_packed_size(&p->space) + 1);
    if (p->failed || !*packed)
        return iso_no_memory("the trace of a step");
    *bytes = isogrid__tensorboard__space__pack(&p->space, *packed);
    return ISO_OK;
}

iso_status iso_planes_pack(const iso_text *trace, const char *host, unsigned char **packed, size_t *bytes)
{
    packer p = {.plane = NULL};
    char *hosts[] = {(char *)host};
    json_t *root = NULL;
    const json_t *event;
    size_t i;
    isogrid__tensorboard__space__init(&p.space);
    p.space.n_hostnames = 1;
    p.space.hostnames = hosts;
    iso_status status = iso_json_parse("the trace of a step", iso_text_get(trace), trace->length, &root);
    if (status != ISO_OK)
        return status;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) planes_add(&p, event);
    status = pack(&p, packed, bytes);
    while (p.blocks) {
        block *next = p.blocks->next;
        iso_free(p.blocks);
        p.blocks = next;
    }
    json_decref(root);
    return status;
}
