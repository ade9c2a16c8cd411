/* The replica check of a training: when it is made, and what its error says about checkpoints. As it is also
 * made before each save, every checkpoint of such a training is a good one. */
#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/exec/function/function.h"
#include "runtime/session/session.h"
#include "runtime/train/checkpoint_writer_impl.h"

/* Names the checkpoint to go back to. */
static void add_last_good(const iso_training *t, iso_text *text)
{
    int64_t step;
    const char *path = iso_checkpoint_writers_newest(t, &step);
    if (path)
        iso_text_add(text, "the last good checkpoint is '%s' (step %lld)", path, (long long)step);
    else if (t->replicas.from)
        iso_text_add(
            text,
            "no checkpoint has been written since the one from which training resumed, '%s' (step %lld)",
            t->replicas.from, (long long)t->replicas.from_step);
    else
        iso_text_add(text, "no checkpoint has been written");
}

/* Keeps the error of a check with all that there is to say. */
static iso_status keep_error(iso_training *t)
{
    iso_text *text = &t->replicas.failed;
    iso_text_add(text, "replica check after step %lld: %s. Training has stopped; ",
                 (long long)t->cursor.trained, iso_error_message());
    add_last_good(t, text);
    return iso_training_replica_error(t, ISO_FAILED);
}

iso_status iso_training_replica_error(const iso_training *t, iso_status status)
{
    const iso_text *text = &t->replicas.failed;
    return text->length > 0 ? iso_error(ISO_FAILED, "%s", iso_text_get(text)) : status;
}

void iso_training_end_replica_check(iso_training *t)
{
    iso_text_free(&t->replicas.failed);
    iso_free(t->replicas.from);
}

/* An error that is not about copies (of MPI, or of memory) is returned as it is. */
static iso_status compare(iso_training *t, int64_t *compared)
{
    t->replicas.last = t->cursor.trained;
    iso_status status = iso_graph_check_replicas(t->model->graph, compared);
    return status == ISO_FAILED ? keep_error(t) : status;
}

iso_status iso_training_begin_replica_check(iso_training *t, const iso_saved_file *resumed)
{
    int64_t compared = 0;
    iso_status status = ISO_OK;
    if (t->replicas.every == 0)
        return ISO_OK;
    if (resumed && !(t->replicas.from = iso_strdup(iso_saved_file_path(resumed))))
        status = iso_no_memory("the path of a checkpoint");
    ISO_TRY(iso_agree(t->ctx, status));
    t->replicas.from_step = t->cursor.trained;
    ISO_TRY(compare(t, &compared));
    if (compared > 0)
        return ISO_OK;
    if (iso_is_chief(t->ctx))
        iso_warn("the replica check (every %lld steps) has nothing to compare: %s",
                 (long long)t->replicas.every,
                 iso_hosts(t->ctx) == 1 ? "there is one host" : "no part of a variable is on two hosts");
    t->replicas.every = 0;
done:
    return status;
}

iso_status iso_training_check_replicas(iso_training *t)
{
    iso_status failed = iso_training_replica_error(t, ISO_OK);
    return t->replicas.every == 0 || failed != ISO_OK ? failed : compare(t, NULL);
}

iso_status iso_training_check_replicas_after_step(iso_training *t)
{
    const iso_replica_check *check = &t->replicas;
    bool due = check->every > 0 && t->cursor.trained % check->every == 0;
    return due && check->last != t->cursor.trained ? iso_training_check_replicas(t)
                                                   : iso_training_replica_error(t, ISO_OK);
}
