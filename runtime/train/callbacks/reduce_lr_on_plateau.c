/* Keras's ReduceLROnPlateau. */
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/model_impl.h"

typedef struct plateau {
    iso_reduce_lr_on_plateau_options options;
    iso_monitor monitor;
    int wait;     /* epochs without an improvement */
    int cooldown; /* epochs left in which the rate is not reduced */
} plateau;

static iso_status reduce_lr_on_plateau_check(const iso_reduce_lr_on_plateau_options *options)
{
    if (!(options->factor >= 0 && options->factor < 1))
        return iso_error(ISO_INVALID, "reduce_lr_on_plateau: factor is %g, it must be from 0 to below 1",
                         options->factor);
    if (options->patience < 0 || options->cooldown < 0)
        return iso_error(ISO_INVALID,
                         "reduce_lr_on_plateau: patience %d and cooldown %d must not be negative",
                         options->patience, options->cooldown);
    if (!(options->min_lr >= 0 && isfinite(options->min_lr)))
        return iso_error(ISO_INVALID, "reduce_lr_on_plateau: min_lr is %g, it must not be negative",
                         options->min_lr);
    return ISO_OK;
}

static iso_status reduce_lr_on_plateau_train_begin(void *user, iso_fit_state *state)
{
    plateau *p = user;
    iso_status status = reduce_lr_on_plateau_check(&p->options);
    if (status == ISO_OK)
        status = iso_model_check_learning_rate(state->model, "reduce_lr_on_plateau");
    p->wait = p->cooldown = 0;
    return status == ISO_OK ? iso_monitor_begin(&p->monitor, state, false) : status;
}

static iso_status reduce(plateau *p, iso_fit_state *state, double rate)
{
    const iso_reduce_lr_on_plateau_options *options = &p->options;
    double lower = fmax(rate * options->factor, options->min_lr);
    if (rate <= fmax(options->min_lr, (float)options->min_lr)) /* the rate is stored as a float32 */
        return ISO_OK;
    if (options->verbose > 0)
        iso_fit_print(state, "Epoch %d: learning rate %g from here on, as %s has not improved",
                      state->epoch + 1, lower, p->monitor.name);
    p->cooldown = options->cooldown;
    p->wait = 0;
    return iso_model_set_learning_rate(state->model, lower);
}

static iso_status watch(plateau *p, iso_fit_state *state, double value, double rate)
{
    if (p->cooldown > 0) {
        p->cooldown--;
        p->wait = 0;
    }
    if (iso_monitor_improve(&p->monitor, value)) {
        p->wait = 0;
        return ISO_OK;
    }
    if (p->cooldown > 0)
        return ISO_OK;
    p->wait++;
    return p->wait >= p->options.patience ? reduce(p, state, rate) : ISO_OK;
}

/* Adds to the logs the rate of the epoch that ends. */
static iso_status reduce_lr_on_plateau_epoch_end(void *user, iso_fit_state *state)
{
    plateau *p = user;
    double value, rate;
    iso_status status = ISO_OK;
    ISO_TRY(iso_model_learning_rate(state->model, &rate));
    ISO_TRY(iso_fit_log(state, "learning_rate", rate));
    if (iso_monitor_read(&p->monitor, state, &value))
        ISO_TRY(watch(p, state, value, rate));
done:
    return status;
}

/* ---- state ---- */

static iso_status reduce_lr_on_plateau_save(void *user, iso_text *json)
{
    const plateau *p = user;
    json_t *state = json_pack("{s:i, s:i}", "wait", p->wait, "cooldown", p->cooldown);
    iso_monitor_save(&p->monitor, state);
    iso_json_add(json, state, 0);
    return ISO_OK;
}

static iso_status restore(void *user, const char *json)
{
    plateau *p = user;
    json_t *state = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_json_parse("its state", json, strlen(json), &state));
    ISO_TRY(iso_monitor_restore(&p->monitor, state, NULL));
    ISO_TRY(iso_state_count(state, "wait", &p->wait));
    ISO_TRY(iso_state_count(state, "cooldown", &p->cooldown));
done:
    json_decref(state);
    return status;
}

static void reduce_lr_on_plateau_destroy(void *user)
{
    plateau *p = user;
    iso_monitor_free(&p->monitor);
    iso_free(p);
}

#define SETTING(kind, member) ISO_SETTING(iso_reduce_lr_on_plateau_options, kind, member, 0)
static const iso_setting settings[] = {SETTING(REAL, factor),
                                       SETTING(INT, patience),
                                       SETTING(INT, mode),
                                       SETTING(REAL, min_delta),
                                       SETTING(INT, cooldown),
                                       SETTING(REAL, min_lr),
                                       {0}};

iso_callback *iso_reduce_lr_on_plateau_with(const iso_reduce_lr_on_plateau_options *given, size_t size)
{
    plateau *p = iso_new(sizeof *p);
    if (!p)
        return iso_callback_no_memory();
    iso_reduce_lr_on_plateau_options *options = &p->options;
    iso_options_copy(options, sizeof *options, given, size);
    options->factor = iso_option_number(options->factor, 0.1);
    options->patience = (int)iso_option_number(options->patience, 10);
    options->cooldown = (int)iso_option_number(options->cooldown, 0);
    options->min_lr = iso_option_number(options->min_lr, 0);
    if (!iso_monitor_init(&p->monitor, "reduce_lr_on_plateau", options->monitor, options->mode,
                          iso_option_number(options->min_delta, 1e-4))) {
        reduce_lr_on_plateau_destroy(p);
        return iso_callback_no_memory();
    }
    options->monitor = p->monitor.name;
    iso_callback_same same = {.name = "reduce_lr_on_plateau",
                              .settings = settings,
                              .options = options,
                              .monitor = options->monitor};
    iso_callback *callback =
        iso_callback_built_in(.train_begin = reduce_lr_on_plateau_train_begin,
                              .epoch_end = reduce_lr_on_plateau_epoch_end, .user = p,
                              .destroy = reduce_lr_on_plateau_destroy, .kind = "reduce_lr_on_plateau",
                              .save = reduce_lr_on_plateau_save, .restore = restore);
    return iso_callback_set_same(iso_callback_logs(callback, "learning_rate"), &same);
}
