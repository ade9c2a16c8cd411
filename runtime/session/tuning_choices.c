#include "runtime/session/tuning_choices.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"
#include "runtime/session/tuning_choices_impl.h"
#include "runtime/session/union_of_lines.h"

enum { VALUE = 200 };
static const char WHAT[] = "the choices of --tune";

typedef struct iso_choices {
    json_t *ops; /* the choices of this run's ops, on all ranks */
    json_t *
        stored; /* those of the checkpoint, without those that were warned of; NULL: it has none for this machine */
    char *path; /* of the checkpoint */
} iso_choices;

static iso_status open_choices(iso_context *ctx)
{
    if (!ctx->choices)
        ctx->choices = iso_new(sizeof *ctx->choices);
    if (ctx->choices && !ctx->choices->ops)
        ctx->choices->ops = json_object();
    return ctx->choices && ctx->choices->ops ? ISO_OK : iso_no_memory("%s", WHAT);
}

void iso_tuning_choices_free(iso_context *ctx)
{
    if (!ctx->choices)
        return;
    json_decref(ctx->choices->ops);
    json_decref(ctx->choices->stored);
    iso_free(ctx->choices->path);
    iso_free(ctx->choices);
}

json_t *iso_tuning_ops(const json_t *root)
{
    json_t *ops = json_object_get(root, "ops");
    return ops ? ops : json_object_get(root, "works");
}

/* ---- of this run ---- */

/* "OP<tab>CHOICE", without a choice if rules choose. */
static void list_choices(const iso_backend_tuning *tuning, iso_text *list)
{
    const char *op, *choice;
    bool found;
    for (int i = 0; (op = tuning->op(i)); i++) {
        choice = tuning->choice(op, &found);
        iso_text_add(list, "%s\t%s\n", op, choice ? choice : "");
    }
}

static const char *said(const char *choice)
{
    return *choice ? choice : "what rules choose";
}

/* Whether an op is done here as on the lowest rank that does it. */
static iso_status check_own(const iso_backend_tuning *tuning, const char *op, const char *choice)
{
    bool found;
    const char *own = tuning->choice(op, &found);
    if (!found || strcmp(own ? own : "", choice) == 0)
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "%s are not those of the other ranks: '%s' is done by '%s' here, and by '%s' on a lower "
                     "rank; give all ranks the same file",
                     WHAT, op, said(own ? own : ""), said(choice));
}

/* Warns on rank 0, once for each op. */
static void warn_of_other(const iso_context *ctx, const char *op, const char *choice)
{
    iso_choices *kept = ctx->choices;
    const char *stored = json_string_value(json_object_get(kept->stored, op));
    if (!stored || strcmp(stored, choice) == 0)
        return;
    if (iso_rank(ctx) == 0)
        iso_warn("%s was written by a run in which '%s' was done by '%s'; it is done by '%s' from here on: "
                 "numbers agree to rounding only",
                 kept->path, op, stored, said(choice));
    json_object_del(kept->stored, op);
}

/* One line of all ranks' lists. */
static iso_status keep_line(const iso_context *ctx, const iso_backend_tuning *tuning, char *line)
{
    char *choice = strchr(line, '\t');
    *choice++ = 0;
    if (json_object_get(ctx->choices->ops, line)) /* of a lower rank */
        return check_own(tuning, line, json_string_value(json_object_get(ctx->choices->ops, line)));
    if (json_object_set_new(ctx->choices->ops, line, json_string(choice)) != 0)
        return iso_no_memory("%s", WHAT);
    warn_of_other(ctx, line, choice);
    return check_own(tuning, line, choice);
}

static iso_status keep_lines(const iso_context *ctx, const iso_backend_tuning *tuning, char *lines)
{
    char *rest = NULL;
    iso_status status = ISO_OK;
    json_object_clear(ctx->choices->ops);
    for (char *line = strtok_r(lines, "\n", &rest); line && status == ISO_OK;
         line = strtok_r(NULL, "\n", &rest))
        status = keep_line(ctx, tuning, line);
    return status;
}

iso_status iso_tuning_choices_agree(iso_context *ctx, const iso_backend_tuning *tuning)
{
    iso_text own = {0}, all = {0};
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, open_choices(ctx)));
    list_choices(tuning, &own);
    ISO_TRY(iso_union_of_lines(ctx, WHAT, &own, &all));
    ISO_TRY(iso_agree(ctx, keep_lines(ctx, tuning, all.data)));
done:
    iso_text_free(&own);
    iso_text_free(&all);
    return status;
}

json_t *iso_tuning_choices_state(const iso_context *ctx)
{
    const char *name, *op;
    char value[VALUE];
    json_t *choice, *state = json_object(), *ops = json_object();
    const iso_backend_tuning *tuning = ctx->backend->tuning;
    for (int i = 0; tuning && tuning->machine(i, &name, value, sizeof value); i++)
        json_object_set_new(state, name, json_string(value));
    if (ctx->choices)
        json_object_foreach(ctx->choices->ops, op, choice)
        {
            if (*json_string_value(choice))
                json_object_set(ops, op, choice);
        }
    bool any = json_object_size(ops) > 0;
    json_object_set_new(state, "ops", ops);
    if (any)
        return state;
    json_decref(state);
    return NULL;
}

/* ---- of a checkpoint ---- */

/* Whether its choices are for this machine; else rank 0 warns. */
static bool is_of_machine(const iso_context *ctx, const char *path, const json_t *stored)
{
    const char *name;
    char value[VALUE];
    const iso_backend_tuning *tuning = ctx->backend->tuning;
    for (int i = 0; tuning->machine(i, &name, value, sizeof value); i++) {
        const char *theirs = json_string_value(json_object_get(stored, name));
        if (theirs && strcmp(theirs, value) == 0)
            continue;
        if (iso_rank(ctx) == 0)
            iso_warn(
                "%s was written with choices of --tune for %s '%s', but this is '%s': they are not used, and "
                "numbers agree to rounding only",
                path, name, theirs ? theirs : "", value);
        return false;
    }
    return true;
}

static iso_status check_ops(const char *path, const json_t *ops)
{
    const char *op;
    json_t *choice;
    bool good = json_is_object(ops);
    json_object_foreach((json_t *)(uintptr_t)ops, op, choice)
    {
        good &= json_is_string(choice);
    }
    return good ? ISO_OK : iso_error(ISO_INVALID, "%s: its state has no choices of --tune in 'tuning'", path);
}

/* Ops for which the run's file and the checkpoint have different choices: the first one, and their number. */
typedef struct differences {
    int count;
    const char *op, *theirs, *ours;
} differences;

/* Uses the stored choices. An op that has a choice already keeps it. An op that a plan already uses without a
 * choice stays as it is too; rank 0 warns when plans are compared. */
static iso_status use_stored(const iso_context *ctx, const json_t *ops, int *used, differences *other)
{
    const iso_backend_tuning *tuning = ctx->backend->tuning;
    const char *op;
    json_t *entry;
    bool found;
    json_object_foreach((json_t *)(uintptr_t)ops, op, entry)
    {
        const char *theirs = json_string_value(entry), *ours = tuning->choice(op, &found);
        if (ours && strcmp(ours, theirs) != 0 && other->count++ == 0)
            *other = (differences){1, op, theirs, ours};
        if (ours && strcmp(ours, theirs) != 0)
            json_object_del(ctx->choices->stored, op); /* it is warned of now */
        if (ours || found)
            continue;
        iso_status status = tuning->choose(op, theirs);
        if (status != ISO_OK)
            return status;
        ++*used;
    }
    return ISO_OK;
}

static void say(const iso_context *ctx, const char *path, int used, const differences *other)
{
    const char *file = iso_tuning_file(ctx);
    if (used > 0)
        fprintf(stderr, "tune: %d choices of %s are used%s%s\n", used, path,
                file ? ", besides those of " : "", file ? file : "");
    if (other->count > 0)
        iso_warn("%s was written with other choices of --tune than '%s' has, for %d products and "
                 "convolutions (the first is '%s': '%s' there, '%s' here): numbers agree to rounding only",
                 path, file ? file : "", other->count, other->op, other->theirs, other->ours);
}

static iso_status resume(iso_context *ctx, const char *path, const json_t *ops)
{
    int used = 0;
    differences other = {.count = 0};
    ctx->choices->stored = json_deep_copy(ops);
    if (!ctx->choices->stored)
        return iso_no_memory("%s", WHAT);
    iso_status status = use_stored(ctx, ops, &used, &other);
    if (status == ISO_OK && iso_rank(ctx) == 0)
        say(ctx, path, used, &other);
    ctx->tuning_resumed = true;
    return status;
}

/* *again: the run has continued from this checkpoint already. */
static iso_status note_checkpoint(iso_context *ctx, const char *path, bool *again)
{
    iso_status status = open_choices(ctx);
    if (status != ISO_OK)
        return status;
    *again = ctx->choices->path && strcmp(ctx->choices->path, path) == 0;
    if (*again)
        return ISO_OK;
    iso_free(ctx->choices->path);
    json_decref(ctx->choices->stored);
    ctx->choices->stored = NULL;
    ctx->choices->path = iso_strdup(path);
    return ctx->choices->path ? ISO_OK : iso_no_memory("%s", WHAT);
}

iso_status iso_tuning_choices_resume(iso_context *ctx, const char *path, const json_t *stored)
{
    const json_t *ops = iso_tuning_ops(stored);
    iso_status status = ISO_OK;
    bool again;
    if (!ctx->backend->tuning)
        return ISO_OK;
    ISO_TRY(note_checkpoint(ctx, path, &again));
    if (again)
        return ISO_OK;
    if (!stored && iso_tuning_file(ctx) && iso_rank(ctx) == 0)
        iso_warn("%s was written without choices of --tune: numbers agree to rounding only", path);
    if (!stored)
        return ISO_OK;
    ISO_TRY(check_ops(path, ops));
    if (is_of_machine(ctx, path, stored))
        status = resume(ctx, path, ops);
done:
    return status;
}
