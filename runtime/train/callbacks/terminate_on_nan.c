/* Keras's TerminateOnNaN. The loss is the same on all ranks, so they stop without communication. */
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/train/training_impl.h"

typedef struct terminate {
    bool raise_error, found;
    int epoch; /* the epoch in which it was found, from 0 */
    int64_t batch;
    double loss;
} terminate;

static iso_status terminate_on_nan_train_begin(void *user, iso_fit_state *state)
{
    (void)state;
    ((terminate *)user)->found = false;
    return ISO_OK;
}

static iso_status diverged(const terminate *t)
{
    return iso_error(ISO_DIVERGED, "training diverged: the loss is %g after batch %lld of epoch %d", t->loss,
                     (long long)t->batch + 1, t->epoch + 1);
}

static iso_status terminate_on_nan_batch_end(void *user, iso_fit_state *state)
{
    terminate *t = user;
    double loss = iso_logs_get(&state->logs, "loss");
    if (isfinite(loss) || t->found)
        return ISO_OK;
    *t = (terminate){t->raise_error, true, state->epoch, state->batch, loss};
    state->stop = true;
    state->training->diverged = true; /* for the callbacks that save, which come last */
    return t->raise_error ? diverged(t) : ISO_OK;
}

static iso_status terminate_on_nan_train_end(void *user, iso_fit_state *state)
{
    const terminate *t = user;
    (void)state;
    return t->found ? diverged(t) : ISO_OK;
}

static const iso_setting settings[] = {ISO_SETTING(terminate, FLAG, raise_error, 0), {0}};

iso_callback *iso_terminate_on_nan_with(const iso_terminate_on_nan_options *given, size_t size)
{
    iso_terminate_on_nan_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    terminate *t = iso_new(sizeof *t);
    if (!t)
        return iso_callback_no_memory();
    t->raise_error = options.raise_error;
    iso_callback_same same = {.name = "terminate_on_nan", .settings = settings, .options = t};
    iso_callback *callback = iso_callback_built_in(.train_begin = terminate_on_nan_train_begin,
                                                   .batch_end = terminate_on_nan_batch_end,
                                                   .train_end = terminate_on_nan_train_end,
                                                   .collective = true, .user = t, .destroy = iso_free);
    return iso_callback_set_same(iso_callback_sends_weights(iso_callback_logs(callback, "")), &same);
}
