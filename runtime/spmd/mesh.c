/* Meshes: a grid of slots with named axes, and the ranks that host them. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

enum { REST = 0, MOST_SLOTS = 1 << 24 }; /* REST: size of an axis written "*" until it is known */

static iso_status bad_spec(const char *spec, const char *at, const char *what)
{
    return iso_error(ISO_INVALID, "mesh '%s': %s at position %d; wanted is for example data=4,model=2", spec,
                     what, (int)(at - spec) + 1);
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* "name=size" at *at; moves behind it. */
static iso_status parse_axis(iso_mesh *mesh, const char *spec, const char **at)
{
    const char *begin = skip_space(*at), *end = begin;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    size_t length = (size_t)(end - begin);
    if (length == 0 || length >= ISO_MAX_AXIS_NAME)
        return bad_spec(spec, begin, length ? "an axis name that is too long" : "no axis name");
    if (mesh->axes == ISO_MAX_AXES)
        return bad_spec(spec, begin, "more than 6 axes");
    char *name = mesh->name[mesh->axes];
    memcpy(name, begin, length);
    name[length] = 0;
    if (iso_mesh_find_axis(mesh, name) >= 0)
        return bad_spec(spec, begin, "an axis name for the second time");
    end = skip_space(end);
    if (*end != '=')
        return bad_spec(spec, end, "no '='");
    begin = skip_space(end + 1);
    char *after;
    long size = strtol(begin, &after, 10);
    if (*begin == '*') {
        size = REST;
        after = (char *)begin + 1;
    } else if (after == begin || size < 1 || size > INT_MAX)
        return bad_spec(spec, begin, "no positive size");
    mesh->size[mesh->axes++] = (int)size;
    *at = skip_space(after);
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

/* Gives an axis "*" what is left, and counts the slots. */
static iso_status resolve_sizes(iso_mesh *mesh, const char *spec)
{
    int rest = -1;
    int64_t fixed = 1;
    for (int a = 0; a < mesh->axes; a++) {
        if (mesh->size[a] == REST && rest >= 0)
            return iso_error(ISO_INVALID, "mesh '%s': only one axis may be '*'", spec);
        if (mesh->size[a] == REST)
            rest = a;
        else if (__builtin_mul_overflow(fixed, mesh->size[a], &fixed) || fixed > MOST_SLOTS)
            return iso_error(ISO_INVALID, "mesh '%s': more than %d slots", spec, MOST_SLOTS);
    }
    if (rest >= 0) {
        int places = iso_ranks(mesh->ctx) > 1 ? iso_ranks(mesh->ctx) : iso_threads(mesh->ctx);
        const char *unit = iso_ranks(mesh->ctx) > 1 ? "ranks" : "threads";
        if (places % fixed != 0)
            return iso_error(ISO_INVALID, "mesh '%s': %d %s are not a multiple of the other axes' %d slots",
                             spec, places, unit, (int)fixed);
        mesh->size[rest] = (int)(places / fixed);
        fixed = places;
    }
    mesh->slots = (int)fixed;
    return ISO_OK;
}

static iso_status write_text(iso_mesh *mesh)
{
    size_t at = 0;
    for (int a = 0; a < mesh->axes && at < sizeof mesh->text; a++)
        at += (size_t)snprintf(mesh->text + at, sizeof mesh->text - at, "%s%s=%d", a ? "," : "",
                               mesh->name[a], mesh->size[a]);
    return ISO_OK;
}

/* Contiguous blocks of slots, as equal as they can be; every rank has at least one. */
static iso_status place_in_blocks(iso_mesh *mesh)
{
    int ranks = iso_ranks(mesh->ctx);
    if (mesh->slots < ranks)
        return iso_error(ISO_INVALID, "mesh '%s' has %d slot%s, fewer than the %d ranks of this job",
                         mesh->text, mesh->slots, mesh->slots == 1 ? "" : "s", ranks);
    for (int r = 0; r < ranks; r++)
        for (int64_t s = (int64_t)r * mesh->slots / ranks; s < (int64_t)(r + 1) * mesh->slots / ranks; s++)
            mesh->rank_of_slot[s] = r;
    return ISO_OK;
}

static iso_status place_as_listed(iso_mesh *mesh, const int *rank_of_slot, int count)
{
    if (count != mesh->slots)
        return iso_error(ISO_INVALID, "mesh '%s' has %d slots, the list of ranks has %d entries", mesh->text,
                         mesh->slots, count);
    for (int s = 0; s < count; s++) {
        if (rank_of_slot[s] < 0 || rank_of_slot[s] >= iso_ranks(mesh->ctx))
            return iso_error(ISO_INVALID, "mesh '%s': slot %d is to be on rank %d, there are ranks 0 to %d",
                             mesh->text, s, rank_of_slot[s], iso_ranks(mesh->ctx) - 1);
        mesh->rank_of_slot[s] = rank_of_slot[s];
    }
    return ISO_OK;
}

typedef enum placing { IN_BLOCKS, AS_LISTED, NOWHERE } placing;

static iso_status create(iso_context *ctx, const char *spec, placing how, const int *rank_of_slot, int count,
                         iso_mesh **out)
{
    iso_status status = ISO_OK;
    void *memory = NULL;
    iso_mesh *mesh = iso_new(sizeof *mesh);
    if (!mesh)
        return iso_error(ISO_NO_MEMORY, "no memory for a mesh");
    mesh->ctx = ctx;
    if (!spec || !*spec)
        ISO_TRY(iso_error(ISO_INVALID, "the mesh is empty; wanted is for example data=4,model=2"));
    ISO_TRY(parse(mesh, spec));
    ISO_TRY(resolve_sizes(mesh, spec));
    ISO_TRY(write_text(mesh));
    ISO_TRY(iso_alloc((size_t)mesh->slots * sizeof(int), "the slots of a mesh", &memory));
    mesh->rank_of_slot = memory;
    if (how != NOWHERE) /* else nothing will run on it, and its slots may be on one rank, as the zeroed list
                           has them */
        ISO_TRY(how == AS_LISTED ? place_as_listed(mesh, rank_of_slot, count) : place_in_blocks(mesh));
    *out = mesh;
    return ISO_OK;
done:
    iso_mesh_destroy(mesh);
    return status;
}

/* The mesh as a number that ranks compare. */
static uint64_t mesh_hash(const iso_mesh *mesh)
{
    uint64_t hash = iso_hash_text(0, mesh->text);
    return iso_hash_bytes(hash, mesh->rank_of_slot, (size_t)mesh->slots * sizeof(int));
}

static iso_status create_on_all(iso_context *ctx, const char *spec, placing how, const int *rank_of_slot,
                                int count, iso_mesh **out)
{
    iso_mesh *mesh = NULL;
    iso_status status = iso_agree(ctx, create(ctx, spec, how, rank_of_slot, count, &mesh));
    if (status == ISO_OK)
        status = iso_agree_same(ctx, "the mesh", mesh_hash(mesh), mesh->text);
    if (status == ISO_OK)
        *out = mesh;
    else
        iso_mesh_destroy(mesh);
    return status;
}

iso_status iso_mesh_create_on(iso_context *ctx, const char *spec, const int *rank_of_slot, int count,
                              iso_mesh **mesh)
{
    return create_on_all(ctx, spec, rank_of_slot ? AS_LISTED : IN_BLOCKS, rank_of_slot, count, mesh);
}

iso_status iso_mesh_imagine(iso_context *ctx, const char *spec, iso_mesh **mesh)
{
    return create_on_all(ctx, spec, NOWHERE, NULL, 0, mesh);
}

iso_status iso_mesh_create(iso_context *ctx, const char *spec, iso_mesh **mesh)
{
    return iso_mesh_create_on(ctx, spec ? spec : iso_option(ctx, "mesh", "data=*"), NULL, 0, mesh);
}

void iso_mesh_destroy(iso_mesh *mesh)
{
    if (!mesh)
        return;
    if (mesh->destroy_runtime)
        mesh->destroy_runtime(mesh->runtime);
    iso_free(mesh->rank_of_slot);
    iso_free(mesh);
}

int iso_mesh_axes(const iso_mesh *mesh)
{
    return mesh->axes;
}

const char *iso_mesh_axis_name(const iso_mesh *mesh, int axis)
{
    return mesh->name[axis];
}

int iso_mesh_axis_size(const iso_mesh *mesh, int axis)
{
    return mesh->size[axis];
}

int iso_mesh_slots(const iso_mesh *mesh)
{
    return mesh->slots;
}

int iso_mesh_rank_of_slot(const iso_mesh *mesh, int slot)
{
    return mesh->rank_of_slot[slot];
}

const char *iso_mesh_text(const iso_mesh *mesh)
{
    return mesh->text;
}

int iso_mesh_find_axis(const iso_mesh *mesh, const char *name)
{
    for (int a = 0; a < mesh->axes; a++)
        if (strcmp(mesh->name[a], name) == 0)
            return a;
    return -1;
}

/* Slots between neighbours along an axis: row-major, the last axis runs fastest. */
static int axis_stride(const iso_mesh *mesh, int axis)
{
    int stride = 1;
    for (int a = mesh->axes - 1; a > axis; a--)
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
    for (int a = 0; a < mesh->axes; a++)
        names[a] = mesh->name[a];
    iso_text_add(&message, "the mesh %s has no axis '%s'", mesh->text, name);
    iso_text_add_nearest(&message, name, names, mesh->axes);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    iso_text_free(&message);
    return status;
}
