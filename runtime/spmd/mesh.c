/* Meshes: a grid of slots with named axes, and the ranks that host them. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/lifetime.h"
#include "runtime/spmd/spmd_impl.h"

enum { REST = 0 }; /* the size of an axis written "*" until it is known */

static iso_status bad_spec(const char *spec, const char *at, const char *what)
{
    return iso_error(ISO_INVALID, "mesh '%s': %s at position %d; expected for example data=4,model=2", spec,
                     what, (int)(at - spec) + 1);
}

static int count_axes(const char *spec)
{
    int axes = 0;
    for (; *spec; spec++)
        axes += *spec == '=';
    return axes;
}

/* "name=size" at *at; advances *at. */
static iso_status parse_axis(iso_mesh *mesh, const char *spec, const char **at)
{
    const char *begin = iso_skip_space(*at), *end = begin;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    size_t length = (size_t)(end - begin);
    if (length == 0)
        return bad_spec(spec, begin, "no axis name");
    if (length >= ISO_MAX_AXIS_NAME)
        return iso_error(ISO_INVALID, "mesh '%s': an axis name of %zu characters, at most %d are possible",
                         spec, length, ISO_MAX_AXIS_NAME - 1);
    if (mesh->n_axes == ISO_MAX_AXES)
        return iso_error(ISO_INVALID, "mesh '%s': %d axes, at most %d are possible", spec, count_axes(spec),
                         ISO_MAX_AXES);
    char *name = mesh->name[mesh->n_axes];
    memcpy(name, begin, length);
    name[length] = 0;
    if (iso_mesh_find_axis(mesh, name) >= 0)
        return bad_spec(spec, begin, "an axis name for the second time");
    end = iso_skip_space(end);
    if (*end != '=')
        return bad_spec(spec, end, "no '='");
    begin = iso_skip_space(end + 1);
    char *after;
    long size = strtol(begin, &after, 10);
    if (*begin == '*') {
        size = REST;
        after = (char *)begin + 1;
    } else if (after == begin || size < 1)
        return bad_spec(spec, begin, "no positive size");
    else if (size > INT_MAX)
        return bad_spec(spec, begin, "a size above 2147483647");
    mesh->size[mesh->n_axes++] = (int)size;
    *at = iso_skip_space(after);
    return ISO_OK;
}

static iso_status parse(iso_mesh *mesh, const char *spec)
{
    const char *at = spec;
    for (;;) {
        iso_status status = parse_axis(mesh, spec, &at);
        if (status != ISO_OK)
            return status;
        if (*at == 0)
            return ISO_OK;
        if (*at != ',')
            return bad_spec(spec, at, "neither ',' nor the end");
        at++;
    }
}

/* The number that an axis "*" is computed from: slots of a list (0: no list), else those that ISOGRID_SLOTS
 * states, else ranks, else devices of the process. */
static int64_t available_to(const iso_mesh *mesh, int listed, const char **unit)
{
    int ranks = iso_ranks(mesh->ctx), stated = iso_slots_stated();
    if (listed <= 0 && stated > 0) {
        *unit = "slots of ISOGRID_SLOTS";
        return stated;
    }
    *unit = listed > 0 ? "slots in the list" : ranks > 1 ? "ranks" : iso_local_device_kind(mesh->ctx);
    return listed > 0 ? listed : ranks > 1 ? ranks : iso_local_devices(mesh->ctx);
}

/* Computes the size of an axis "*", and counts the slots. listed: slots in a list of ranks; 0: no list. */
static iso_status resolve_sizes(iso_mesh *mesh, const char *spec, int listed)
{
    int rest = -1;
    int64_t fixed = 1;
    for (int a = 0; a < mesh->n_axes; a++) {
        if (mesh->size[a] == REST && rest >= 0)
            return iso_error(ISO_INVALID, "mesh '%s': only one axis may be '*'", spec);
        if (mesh->size[a] == REST)
            rest = a;
        else if (__builtin_mul_overflow(fixed, mesh->size[a], &fixed) || fixed > ISO_MOST_SLOTS)
            return iso_error(ISO_INVALID, "mesh '%s': more than %d slots", spec, ISO_MOST_SLOTS);
    }
    if (rest >= 0) {
        const char *unit;
        int64_t available = available_to(mesh, listed, &unit);
        if (available % fixed != 0)
            return iso_error(ISO_INVALID, "mesh '%s': %d %s are not a multiple of the other axes' %d slots",
                             spec, (int)available, unit, (int)fixed);
        mesh->size[rest] = (int)(available / fixed);
        fixed = available;
    }
    mesh->n_slots = (int)fixed;
    return ISO_OK;
}

static void write_text(iso_mesh *mesh)
{
    size_t at = 0;
    for (int a = 0; a < mesh->n_axes && at < sizeof mesh->text; a++)
        at += (size_t)snprintf(mesh->text + at, sizeof mesh->text - at, "%s%s=%d", a ? "," : "",
                               mesh->name[a], mesh->size[a]);
}

/* Assigns contiguous blocks of slots, as equal as possible; every rank has at least one slot. */
static iso_status place_in_blocks(iso_mesh *mesh)
{
    int ranks = iso_ranks(mesh->ctx);
    if (mesh->n_slots < ranks)
        return iso_error(ISO_INVALID,
                         "mesh '%s' has %d slot%s, fewer than the %d ranks of this job: start fewer ranks, "
                         "or give a larger mesh",
                         mesh->text, mesh->n_slots, mesh->n_slots == 1 ? "" : "s", ranks);
    for (int r = 0; r < ranks; r++)
        for (int64_t s = (int64_t)r * mesh->n_slots / ranks; s < (int64_t)(r + 1) * mesh->n_slots / ranks;
             s++)
            mesh->rank_of_slot[s] = r;
    return ISO_OK;
}

/* ranks: their number; 0: as many as the list names. */
static iso_status place_as_listed(iso_mesh *mesh, const int *rank_of_slot, int count, int ranks)
{
    if (count != mesh->n_slots)
        return iso_error(ISO_INVALID, "mesh '%s' has %d slot%s, the list of ranks has %d entr%s", mesh->text,
                         mesh->n_slots, mesh->n_slots == 1 ? "" : "s", count, count == 1 ? "y" : "ies");
    for (int s = 0; s < count; s++) {
        if (rank_of_slot[s] < 0 || (ranks > 0 && rank_of_slot[s] >= ranks))
            return iso_error(ISO_INVALID, "mesh '%s': slot %d is listed on rank %d; the ranks are 0 to %d",
                             mesh->text, s, rank_of_slot[s], (ranks > 0 ? ranks : INT_MAX) - 1);
        mesh->rank_of_slot[s] = rank_of_slot[s];
    }
    mesh->listed = true;
    return ISO_OK;
}

iso_status iso_mesh_find_idle(const iso_mesh *mesh, int ranks, int *idle)
{
    bool *hosts = iso_new((size_t)ranks * sizeof *hosts);
    if (!hosts)
        return iso_no_memory("the slots of %d ranks", ranks);
    for (int s = 0; s < mesh->n_slots; s++)
        hosts[mesh->rank_of_slot[s]] = true;
    *idle = 0;
    while (*idle < ranks && hosts[*idle])
        ++*idle;
    *idle = *idle < ranks ? *idle : -1;
    iso_free(hosts);
    return ISO_OK;
}

/* Checks that every rank has a slot. ranks: 0: as many as the list names. */
static iso_status check_all_host(const iso_mesh *mesh, int ranks)
{
    int idle = -1;
    for (int s = 0; s < mesh->n_slots; s++)
        ranks = mesh->rank_of_slot[s] >= ranks ? mesh->rank_of_slot[s] + 1 : ranks;
    iso_status status = iso_mesh_find_idle(mesh, ranks, &idle);
    return status != ISO_OK || idle < 0
               ? status
               : iso_error(ISO_INVALID, "mesh '%s': rank %d hosts no slot", mesh->text, idle);
}

/* Where slots are placed. abstract: nothing will run on the mesh, so listed ranks need not exist; without a list all
 * slots are on rank 0. */
typedef struct placing {
    bool abstract;
    bool all_host;   /* every rank must host a slot */
    const int *list; /* rank of each slot, or NULL */
    int count;
} placing;

/* As listed, or in blocks. */
static iso_status mesh_place_slots(iso_mesh *mesh, const placing *how)
{
    int ranks = how->abstract ? 0 : iso_ranks(mesh->ctx);
    if (!how->list)
        return how->abstract ? ISO_OK : place_in_blocks(mesh); /* the list is zeroed */
    iso_status status = ISO_OK;
    ISO_TRY(place_as_listed(mesh, how->list, how->count, ranks));
    if (how->all_host)
        ISO_TRY(check_all_host(mesh, ranks));
done:
    return status;
}

static iso_status mesh_create(iso_context *ctx, const char *spec, const placing *how, iso_mesh **out)
{
    iso_status status = ISO_OK;
    void *memory = NULL;
    iso_mesh *mesh = iso_new(sizeof *mesh);
    if (!mesh)
        return iso_no_memory("a mesh");
    mesh->holders = 1;
    mesh->ctx = iso_context_hold(ctx);
    mesh->abstract = how->abstract;
    if (!spec || !*spec)
        ISO_TRY(iso_error(ISO_INVALID, "the mesh is empty; expected for example data=4,model=2"));
    ISO_TRY(parse(mesh, spec));
    ISO_TRY(resolve_sizes(mesh, spec, how->list ? how->count : 0));
    write_text(mesh);
    ISO_TRY(iso_alloc((size_t)mesh->n_slots * sizeof(int), "the slots of a mesh", &memory));
    mesh->rank_of_slot = memory;
    ISO_TRY(mesh_place_slots(mesh, how));
    *out = mesh;
    return ISO_OK;
done:
    iso_mesh_destroy(mesh);
    return status;
}

/* A hash of the mesh, for ranks to compare. */
static uint64_t mesh_hash(const iso_mesh *mesh)
{
    uint64_t hash = iso_hash_text(0, mesh->text);
    return iso_hash_bytes(hash, mesh->rank_of_slot, (size_t)mesh->n_slots * sizeof(int));
}

/* "data=3", and " on ranks 0, 1, 7" if they were listed. */
static iso_status describe(const iso_mesh *mesh, iso_text *text)
{
    iso_text_add(text, "%s", mesh->text);
    for (int s = 0; mesh->listed && s < mesh->n_slots; s++)
        iso_text_add(text, "%s%d", s ? ", " : " on ranks ", mesh->rank_of_slot[s]);
    return text->failed ? iso_no_memory("the text of a mesh") : ISO_OK;
}

/* made: the status of this rank's creation of the mesh. */
static iso_status agree_on_mesh(iso_context *ctx, iso_status made, iso_mesh *mesh, iso_mesh **out)
{
    iso_text text = {0};
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, made == ISO_OK ? describe(mesh, &text) : made));
    ISO_TRY(iso_agree_same(ctx, "the mesh", mesh_hash(mesh), iso_text_get(&text)));
    *out = mesh;
    mesh = NULL;
done:
    iso_text_free(&text);
    iso_mesh_destroy(mesh);
    return status;
}

iso_status iso_mesh_create_on(iso_context *ctx, const char *spec, const int *rank_of_slot, int count,
                              iso_mesh **out)
{
    ISO_NEED(ctx);
    ISO_NEED_AGREED_AS(ctx, "spec, mesh", spec, out);
    iso_mesh *mesh = NULL;
    placing how = {.list = rank_of_slot, .count = count};
    iso_status made = mesh_create(ctx, spec, &how, &mesh);
    return agree_on_mesh(ctx, made, mesh, out);
}

/* devices: a list in the form of --devices; NULL: none. */
static iso_status create_by_text(iso_context *ctx, const char *spec, const char *devices, bool abstract,
                                 iso_mesh **out)
{
    iso_mesh *mesh = NULL;
    int *list = NULL;
    placing how = {.abstract = abstract, .all_host = true};
    iso_status made = devices ? iso_devices_parse(devices, &list, &how.count) : ISO_OK;
    how.list = list;
    if (made == ISO_OK) {
        made = mesh_create(ctx, spec, &how, &mesh);
        if (made != ISO_OK && devices)
            made = iso_error_prefix(made, "--devices '%s': ", devices);
    }
    iso_free(list);
    return agree_on_mesh(ctx, made, mesh, out);
}

iso_status iso_mesh_create(iso_context *ctx, const char *spec, iso_mesh **mesh)
{
    ISO_NEED(ctx);
    ISO_NEED_AGREED(ctx, mesh);
    return create_by_text(ctx, spec ? spec : iso_option(ctx, "mesh", "data=*"),
                          iso_option(ctx, "devices", NULL), false, mesh);
}

iso_status iso_mesh_abstract(iso_context *ctx, const char *spec, iso_mesh **mesh)
{
    ISO_NEED(ctx);
    ISO_NEED_AGREED(ctx, spec, mesh);
    return create_by_text(ctx, spec, NULL, true, mesh);
}

iso_status iso_mesh_abstract_on(iso_context *ctx, const char *spec, const char *devices, iso_mesh **mesh)
{
    ISO_NEED(ctx);
    ISO_NEED_AGREED(ctx, spec, mesh);
    return create_by_text(ctx, spec, devices, true, mesh);
}

iso_mesh *iso_mesh_hold(iso_mesh *mesh)
{
    if (mesh)
        mesh->holders++;
    return mesh;
}

void iso_mesh_destroy(iso_mesh *mesh)
{
    if (!mesh || --mesh->holders > 0)
        return;
    if (mesh->destroy_site)
        mesh->destroy_site(mesh->site);
    iso_free(mesh->rank_of_slot);
    iso_context_release(mesh->ctx);
    iso_free(mesh);
}

/* first [ranks + 1], zeroed: becomes the number of slots on lower ranks. */
static void count_by_rank(const iso_mesh *mesh, int ranks, int *first)
{
    for (int s = 0; s < mesh->n_slots; s++)
        first[mesh->rank_of_slot[s] + 1]++;
    for (int r = 0; r < ranks; r++)
        first[r + 1] += first[r];
}

iso_status iso_mesh_abstract_hosts(const iso_mesh *mesh, int64_t slots_per_host, int *host_of_slot)
{
    int ranks = 1;
    for (int s = 0; s < mesh->n_slots; s++)
        ranks = mesh->rank_of_slot[s] >= ranks ? mesh->rank_of_slot[s] + 1 : ranks;
    int *first = iso_new(((size_t)ranks + 1) * sizeof *first);
    if (!first)
        return iso_no_memory("the slots of %d ranks", ranks);
    count_by_rank(mesh, ranks, first);
    iso_status status = ISO_OK;
    for (int r = 0; r < ranks && mesh->listed && slots_per_host > 0; r++)
        if (first[r] / slots_per_host != (first[r + 1] - 1) / slots_per_host)
            ISO_TRY(iso_error(ISO_INVALID,
                              "with %lld slots on each host, rank %d, which has %d, would be on two hosts",
                              (long long)slots_per_host, r, first[r + 1] - first[r]));
    for (int s = 0; s < mesh->n_slots; s++) {
        int number = first[mesh->rank_of_slot[s]]++;
        host_of_slot[s] = slots_per_host > 0 ? (int)(number / slots_per_host) : 0;
    }
done:
    iso_free(first);
    return status;
}

int iso_mesh_axes(const iso_mesh *mesh)
{
    if (ISO_ANY_NULL(mesh))
        return 0;
    return mesh->n_axes;
}

const char *iso_mesh_axis_name(const iso_mesh *mesh, int axis)
{
    if (ISO_ANY_NULL(mesh))
        return NULL;
    return axis >= 0 && axis < mesh->n_axes ? mesh->name[axis] : NULL;
}

int iso_mesh_axis_size(const iso_mesh *mesh, int axis)
{
    if (ISO_ANY_NULL(mesh))
        return 0;
    return axis >= 0 && axis < mesh->n_axes ? mesh->size[axis] : 0;
}

int iso_mesh_slots(const iso_mesh *mesh)
{
    if (ISO_ANY_NULL(mesh))
        return 0;
    return mesh->n_slots;
}

int iso_mesh_rank_of_slot(const iso_mesh *mesh, int slot)
{
    if (ISO_ANY_NULL(mesh))
        return -1;
    return slot >= 0 && slot < mesh->n_slots ? mesh->rank_of_slot[slot] : -1;
}

const char *iso_mesh_text(const iso_mesh *mesh)
{
    if (ISO_ANY_NULL(mesh))
        return NULL;
    return mesh->text;
}

bool iso_mesh_equal(const iso_mesh *a, const iso_mesh *b)
{
    if (a == b)
        return true;
    return a && b && a->ctx == b->ctx && a->n_slots == b->n_slots && strcmp(a->text, b->text) == 0 &&
           memcmp(a->rank_of_slot, b->rank_of_slot, (size_t)a->n_slots * sizeof(int)) == 0;
}

int iso_mesh_find_axis(const iso_mesh *mesh, const char *name)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->name[a], name) == 0)
            return a;
    return -1;
}

/* The distance, in slots, between neighbours along an axis: row-major, the last axis varies fastest. */
static int axis_stride(const iso_mesh *mesh, int axis)
{
    int stride = 1;
    for (int a = mesh->n_axes - 1; a > axis; a--)
        stride *= mesh->size[a];
    return stride;
}

int iso_mesh_coordinate(const iso_mesh *mesh, int slot, int axis)
{
    return slot / axis_stride(mesh, axis) % mesh->size[axis];
}

int iso_mesh_with_coordinate(const iso_mesh *mesh, int slot, int axis, int coordinate)
{
    return slot + (coordinate - iso_mesh_coordinate(mesh, slot, axis)) * axis_stride(mesh, axis);
}

iso_status iso_mesh_unknown_axis(const iso_mesh *mesh, const char *name)
{
    const char *names[ISO_MAX_AXES];
    iso_text message = {0};
    for (int a = 0; a < mesh->n_axes; a++)
        names[a] = mesh->name[a];
    iso_text_add(&message, "the mesh %s has no axis '%s'", mesh->text, name);
    iso_text_add_nearest(&message, name, names, mesh->n_axes);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    iso_text_free(&message);
    return status;
}
