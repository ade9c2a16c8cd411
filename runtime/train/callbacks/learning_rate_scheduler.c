/* Keras's LearningRateScheduler. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/model_impl.h"

static iso_status learning_rate_scheduler_train_begin(void *user, iso_fit_state *state)
{
    const iso_learning_rate_scheduler_options *options = user;
    if (!options->schedule)
        return iso_error(ISO_INVALID, "the learning rate scheduler was given no function");
    return iso_model_check_learning_rate(state->model, "learning rate scheduler");
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    const iso_learning_rate_scheduler_options *options = user;
    double rate;
    iso_status status = ISO_OK;
    ISO_TRY(iso_model_learning_rate(state->model, &rate));
    rate = options->schedule(options->user, state->epoch, rate);
    ISO_TRY(iso_model_set_learning_rate(state->model, rate));
    if (options->verbose > 0)
        iso_fit_print(state, "Epoch %d: learning rate %g", state->epoch + 1, rate);
done:
    return status;
}

static iso_status learning_rate_scheduler_epoch_end(void *user, iso_fit_state *state)
{
    double rate;
    (void)user;
    iso_status status = iso_model_learning_rate(state->model, &rate);
    return status == ISO_OK ? iso_fit_log(state, "learning_rate", rate) : status;
}

iso_callback *iso_learning_rate_scheduler_with(const iso_learning_rate_scheduler_options *given, size_t size)
{
    iso_learning_rate_scheduler_options *options = iso_new(sizeof *options);
    if (!options)
        return iso_callback_no_memory();
    iso_options_copy(options, sizeof *options, given, size);
    return iso_callback_logs(iso_callback_built_in(.train_begin = learning_rate_scheduler_train_begin,
                                                   .epoch_begin = epoch_begin,
                                                   .epoch_end = learning_rate_scheduler_epoch_end,
                                                   .user = options, .destroy = iso_free),
                             "learning_rate");
}
