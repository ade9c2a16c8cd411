#include "runtime/train/snapshot.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function.h"

struct iso_snapshot {
    iso_graph *graph;
    int count;
    iso_piece *piece; /* [count] as the graph had them, but `data` is the copy's */
    char **path;      /* [count] in files; NULL before they are asked for */
    char *memory;
};

static bool has_path(const iso_pieces *pieces, const char *path)
{
    for (int i = 0; i < pieces->count; i++)
        if (strcmp(pieces->piece[i].path, path) == 0)
            return true;
    return false;
}

/* A variable of which this rank has nothing is an empty piece: what is kept has the same names on every rank.
 */
static iso_status add_missing(iso_graph *graph, iso_pieces *pieces)
{
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        const iso_shape *shape = iso_variable_shape(variable);
        if (iso_path_below_optimizer(iso_variable_path(variable)) ||
            has_path(pieces, iso_variable_path(variable)))
            continue;
        iso_piece *grown =
            iso_grow(pieces->piece, (size_t)pieces->count, (size_t)pieces->count + 1, sizeof *grown);
        if (!grown)
            return iso_error(ISO_NO_MEMORY, "no memory for %d pieces", pieces->count + 1);
        pieces->piece = grown;
        grown[pieces->count++] = (iso_piece){.path = iso_variable_path(variable),
                                             .dtype = iso_variable_dtype(variable),
                                             .shape = *shape,
                                             .box = {.rank = shape->rank}};
    }
    return ISO_OK;
}

/* The graph's pieces without the optimizer's, in place. */
static iso_status find_pieces(iso_graph *graph, iso_pieces *pieces)
{
    int kept = 0;
    iso_status status = iso_graph_pieces(graph, pieces);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < pieces->count; i++)
        if (!iso_path_below_optimizer(pieces->piece[i].path))
            pieces->piece[kept++] = pieces->piece[i];
    pieces->count = kept;
    return add_missing(graph, pieces);
}

static size_t piece_bytes(const iso_piece *piece)
{
    return (size_t)piece->count * iso_dtype_size(piece->dtype);
}

/* Each copy begins at a multiple of ISO_ALIGN. */
static size_t piece_room(const iso_piece *piece)
{
    return (piece_bytes(piece) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}

static iso_status make_room(iso_snapshot *snapshot, const iso_pieces *pieces)
{
    void *memory = NULL;
    size_t count = (size_t)pieces->count, bytes = 0, at = 0;
    snapshot->piece = iso_new((count + 1) * sizeof *snapshot->piece);
    snapshot->path = iso_new((count + 1) * sizeof *snapshot->path);
    if (!snapshot->piece || !snapshot->path)
        return iso_error(ISO_NO_MEMORY, "no memory for a copy of %zu variables", count);
    for (int i = 0; i < pieces->count; i++)
        bytes += piece_room(&pieces->piece[i]);
    iso_status status = iso_alloc(bytes, "a copy of the weights", &memory);
    if (status != ISO_OK)
        return status;
    snapshot->memory = memory;
    snapshot->count = pieces->count;
    for (int i = 0; i < pieces->count; i++) {
        snapshot->piece[i] = pieces->piece[i];
        snapshot->piece[i].data = snapshot->memory + at;
        at += piece_room(&pieces->piece[i]);
    }
    return ISO_OK;
}

static iso_status same_pieces(const iso_snapshot *snapshot, const iso_pieces *pieces)
{
    bool same = snapshot->count == pieces->count;
    for (int i = 0; same && i < pieces->count; i++)
        same = pieces->piece[i].count == snapshot->piece[i].count &&
               strcmp(pieces->piece[i].path, snapshot->piece[i].path) == 0;
    return same ? ISO_OK
                : iso_error(ISO_FAILED, "the graph's variables are not those that were copied earlier");
}

static void copy_out(const iso_snapshot *snapshot, const iso_pieces *pieces)
{
    for (int i = 0; i < snapshot->count; i++)
        if (pieces->piece[i].count > 0)
            memcpy(snapshot->piece[i].data, pieces->piece[i].data, piece_bytes(&pieces->piece[i]));
}

iso_status iso_snapshot_create(iso_graph *graph, iso_snapshot **out)
{
    iso_pieces pieces = {0};
    iso_status status = ISO_OK;
    iso_snapshot *snapshot = iso_new(sizeof *snapshot);
    if (!snapshot)
        return iso_error(ISO_NO_MEMORY, "no memory for a copy of the weights");
    snapshot->graph = graph;
    ISO_TRY(find_pieces(graph, &pieces));
    ISO_TRY(make_room(snapshot, &pieces));
    copy_out(snapshot, &pieces);
    *out = snapshot;
    snapshot = NULL;
done:
    iso_pieces_free(&pieces);
    iso_snapshot_destroy(snapshot);
    return status;
}

void iso_snapshot_destroy(iso_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (int i = 0; i < snapshot->count; i++)
        iso_free(snapshot->path[i]);
    iso_free(snapshot->path);
    iso_free(snapshot->piece);
    iso_free(snapshot->memory);
    iso_free(snapshot);
}

/* Memory may have moved since: the pieces are looked up each time. */
iso_status iso_snapshot_take(iso_snapshot *snapshot)
{
    iso_pieces pieces = {0};
    iso_status status = ISO_OK;
    ISO_TRY(find_pieces(snapshot->graph, &pieces));
    ISO_TRY(same_pieces(snapshot, &pieces));
    copy_out(snapshot, &pieces);
done:
    iso_pieces_free(&pieces);
    return status;
}

iso_status iso_snapshot_put(iso_snapshot *snapshot)
{
    iso_pieces pieces = {0};
    iso_context *ctx = iso_graph_context(snapshot->graph);
    iso_status status = find_pieces(snapshot->graph, &pieces);
    if (status == ISO_OK)
        status = same_pieces(snapshot, &pieces);
    ISO_TRY(iso_agree(ctx, status)); /* nobody reads the old values any more */
    for (int i = 0; i < snapshot->count; i++)
        if (pieces.piece[i].count > 0)
            memcpy(pieces.piece[i].data, snapshot->piece[i].data, piece_bytes(&pieces.piece[i]));
    status = iso_agree(ctx, ISO_OK); /* nobody runs a step before all have written */
done:
    iso_pieces_free(&pieces);
    return status;
}

static iso_status name_pieces(iso_snapshot *snapshot, const char *path)
{
    char text[512];
    for (int i = 0; i < snapshot->count; i++) {
        iso_free(snapshot->path[i]);
        snprintf(text, sizeof text, "%s/%s", path, snapshot->piece[i].path);
        if (!(snapshot->path[i] = iso_strdup(text)))
            return iso_error(ISO_NO_MEMORY, "no memory for the names of %d variables", snapshot->count);
    }
    return ISO_OK;
}

iso_status iso_snapshot_pieces(iso_snapshot *snapshot, const char *path, iso_pieces *pieces)
{
    iso_status status = name_pieces(snapshot, path);
    if (status != ISO_OK)
        return status;
    size_t old = (size_t)pieces->count, added = (size_t)snapshot->count;
    iso_piece *grown = iso_grow(pieces->piece, old, old + added, sizeof *grown);
    if (!grown)
        return iso_error(ISO_NO_MEMORY, "no memory for %zu pieces", old + added);
    pieces->piece = grown;
    pieces->count += snapshot->count;
    for (size_t i = 0; i < added; i++) {
        grown[old + i] = snapshot->piece[i];
        grown[old + i].path = snapshot->path[i];
    }
    return ISO_OK;
}
