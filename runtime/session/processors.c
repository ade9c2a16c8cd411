/* Compares the models of the ranks' processors, and of their devices. Kernels may round differently on another model,
 * even with the same instruction set, because libraries choose their code by model. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/backend.h"
#include "runtime/base/hash.h"
#include "runtime/base/host.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/facts.h"
#include "runtime/session/session_impl.h"

typedef struct unit {
    char host[ISO_HOST_NAME], model[96];
} unit;

/* Takes the value of a line of /proc/cpuinfo, "model name : AMD EPYC 9654". */
static bool take_value(const char *line, const char *key, char *value, size_t size)
{
    const char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) != 0 || !colon)
        return false;
    colon += 1 + (colon[1] == ' ');
    snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    return true;
}

void iso_processor_model(char *model, size_t size)
{
    char line[512];
    bool found = false;
    snprintf(model, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = take_value(line, "model name", model, size) || take_value(line, "CPU part", model, size);
    if (file)
        fclose(file);
}

static bool alike(const unit *a, const unit *b)
{
    return !strcmp(a->host, b->host) && !strcmp(a->model, b->model);
}

/* Adds "'MODEL' on h1 (ranks 0-1), h3 (rank 4)": where the model of rank `first` is. */
static void add_hosts(iso_text *text, const unit *all, int ranks, int first)
{
    iso_text_add(text, "'%s' on", all[first].model);
    for (int rank = first, end; rank < ranks; rank = end) {
        for (end = rank + 1; end < ranks && alike(&all[rank], &all[end]); end++)
            ;
        if (strcmp(all[rank].model, all[first].model) != 0)
            continue;
        iso_text_add(text, "%s %s (rank%s %d", rank > first ? "," : "", all[rank].host,
                     end > rank + 1 ? "s" : "", rank);
        if (end > rank + 1)
            iso_text_add(text, "-%d", end - 1);
        iso_text_add(text, ")");
    }
}

static void warn(const char *kind, const unit *all, int ranks)
{
    iso_text text = {0};
    for (int rank = 0; rank < ranks; rank++) {
        int first = 0;
        while (strcmp(all[first].model, all[rank].model) != 0)
            first++;
        if (first < rank)
            continue;
        if (rank > 0)
            iso_text_add(&text, "; ");
        add_hosts(&text, all, ranks, rank);
    }
    iso_warn(
        "the ranks have different %s: %s. Results may differ in the last bits from those of a run on hosts "
        "of one kind",
        kind, iso_text_get(&text));
    iso_text_free(&text);
}

/* kind: "processors". What mine->model names is compared. Collective. */
static iso_status compare(iso_context *ctx, const char *kind, unit *mine)
{
    unit *all;
    iso_host_name(mine->host);
    int64_t hash = (int64_t)iso_hash_text(0, mine->model), range[2] = {hash, ~hash};
    iso_status status = iso_all_reduce(ctx, ISO_REDUCE_MIN, ISO_I64, range, 2);
    if (status != ISO_OK || range[0] == ~range[1])
        return status;
    all = iso_new((size_t)iso_ranks(ctx) * sizeof *all);
    if (!all)
        status = iso_no_memory("the %s of %d ranks", kind, iso_ranks(ctx));
    status = iso_agree(ctx, status);
    if (status == ISO_OK)
        status = iso_gather_all(ctx, mine, sizeof *mine, all);
    if (status == ISO_OK && iso_is_chief(ctx) && ctx->began_mpi)
        warn(kind, all, iso_ranks(ctx));
    iso_free(all);
    return status;
}

iso_status iso_processors_compare(iso_context *ctx)
{
    unit mine = {{0}, {0}};
    iso_processor_model(mine.model, sizeof mine.model);
    return compare(ctx, "processors", &mine);
}

iso_status iso_devices_compare(iso_context *ctx)
{
    unit mine = {{0}, {0}};
    if (!ctx->backend->model)
        return ISO_OK;
    snprintf(mine.model, sizeof mine.model, "%s", ctx->backend->model());
    return compare(ctx, "GPUs", &mine);
}
