/* A Chrome trace of one step, as a file. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/line_file.h"
#include "runtime/train/step_trace.h"

typedef struct profile {
    iso_line_file file;
    iso_profile_options options; /* without the path */
    iso_step_trace trace;
    iso_status failed; /* of the chief's file, reported at the end of the epoch */
    char message[512];
} profile;

static iso_status profile_train_begin(void *user, iso_fit_state *state)
{
    profile *p = user;
    p->trace = (iso_step_trace){.step = p->options.step,
                                .detail = p->options.launches ? ISO_TRACE_LAUNCHES : ISO_TRACE_INSTRUCTIONS};
    p->failed = ISO_OK;
    iso_status status = iso_step_trace_begin(&p->trace, state);
    return status == ISO_OK ? iso_line_file_open(&p->file, state) : status;
}

static iso_status batch_begin(void *user, iso_fit_state *state)
{
    return iso_step_trace_before(&((profile *)user)->trace, state);
}

/* Only the chief can fail to write, and between batches all ranks must return the same status. */
static iso_status profile_batch_end(void *user, iso_fit_state *state)
{
    profile *p = user;
    iso_text json = {0};
    bool ready = false;
    iso_status status = iso_step_trace_after(&p->trace, state, &json, &ready);
    if (status == ISO_OK && ready &&
        (p->failed = iso_line_file_write(&p->file, iso_text_get(&json))) != ISO_OK)
        snprintf(p->message, sizeof p->message, "%s", iso_error_message());
    iso_text_free(&json);
    return status;
}

static iso_status profile_epoch_end(void *user, iso_fit_state *state)
{
    const profile *p = user;
    (void)state;
    return p->failed == ISO_OK ? ISO_OK : iso_error(p->failed, "%s", p->message);
}

static iso_status profile_train_end(void *user, iso_fit_state *state)
{
    const profile *p = user;
    if (p->trace.done || !iso_fit_is_chief(state))
        return ISO_OK;
    iso_line_file_remove_empty(&p->file);
    iso_warn("%s was not written: training ended before step %lld, which was to be traced", p->file.path,
             (long long)p->trace.step);
    return ISO_OK;
}

static void profile_destroy(void *user)
{
    iso_line_file_free(&((profile *)user)->file);
    iso_free(user);
}

static const iso_setting settings[] = {ISO_SETTING(iso_profile_options, COUNT, step, 0),
                                       ISO_SETTING(iso_profile_options, FLAG, launches, 0),
                                       {0}};

iso_callback *iso_profile_with(const iso_profile_options *given, size_t size)
{
    iso_profile_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    profile *p = iso_new(sizeof *p);
    if (!p || !iso_line_file_init(&p->file, "profile", options.path)) {
        iso_free(p);
        return iso_callback_no_memory();
    }
    p->options = (iso_profile_options){.step = options.step, .launches = options.launches};
    iso_callback_same same = {.name = "profile", .settings = settings, .options = &p->options};
    iso_callback *callback =
        iso_callback_built_in(.train_begin = profile_train_begin, .batch_begin = batch_begin,
                              .batch_end = profile_batch_end, .epoch_end = profile_epoch_end,
                              .train_end = profile_train_end, .collective = true, .async = true, .user = p,
                              .destroy = profile_destroy);
    return iso_callback_set_same(iso_callback_sends_weights(iso_callback_logs(callback, "")), &same);
}
