/* iso_fit: epochs of steps, with validation, callbacks, history and progress. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/exec/function/async_steps.h"
#include "runtime/exec/function/deferred_weights.h"
#include "runtime/session/session.h"
#include "runtime/train/checkpoint_writer_impl.h"
#include "runtime/train/training_impl.h"

/* ---- before the first step ---- */

static iso_status check_options(const iso_fit_options *options)
{
    if (options->epochs < 0)
        return iso_error(ISO_INVALID, "fit: epochs is %d, it must not be negative", options->epochs);
    if (options->initial_epoch < 0)
        return iso_error(ISO_INVALID, "fit: initial_epoch is %d, it must not be negative",
                         options->initial_epoch);
    if (options->resume && options->resume_file)
        return iso_error(ISO_INVALID, "fit: resume ('%s') and resume_file ('%s'): give one of them",
                         options->resume, iso_saved_file_path(options->resume_file));
    if (options->check_replicas < 0)
        return iso_error(ISO_INVALID, "fit: check_replicas is %lld, it must not be negative",
                         (long long)options->check_replicas);
    if (options->steps_per_epoch < 0)
        return iso_error(ISO_INVALID, "fit: steps_per_epoch is %lld, it must not be negative",
                         (long long)options->steps_per_epoch);
    return ISO_OK;
}

static void name_values(iso_training *t)
{
    int count = t->model->n_values;
    for (int i = 0; i < count; i++) {
        t->name[i] = t->model->value_name[i];
        snprintf(t->validation_name[i], sizeof t->validation_name[i], "val_%s", t->model->value_name[i]);
        t->name[count + i] = t->validation_name[i];
    }
}

/* False for a generator without a known end. */
static bool knows_steps(const iso_training *t)
{
    return t->options.steps_per_epoch > 0 || iso_dataset_knows_rows(t->data);
}

/* Checks and builds what needs no other rank. */
static iso_status fit_prepare(iso_training *t)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_options(&t->options));
    ISO_TRY(iso_callbacks_check(t->callbacks));
    ISO_TRY(iso_model_check_data(t->model, t->data, "fit"));
    ISO_TRY(iso_model_check_trains(t->model));
    if (t->options.swap_ema_weights && !t->model->optimizer.use_ema)
        return iso_error(ISO_INVALID, "fit: swap_ema_weights needs an optimizer with use_ema");
    if (t->options.validation)
        ISO_TRY(iso_model_check_data(t->model, t->options.validation, "fit's validation"));
    ISO_TRY(iso_progress_create(t->ctx, &t->progress, .verbose = t->options.verbose));
    ISO_TRY(iso_history_create(&t->history));
    ISO_TRY(iso_totals_create(t->model, &t->totals));
    t->steps = t->options.steps_per_epoch ? t->options.steps_per_epoch : iso_dataset_batches(t->data);
    t->batch_begin = iso_callbacks_want(t->callbacks, ISO_BATCH_BEGIN);
    t->batch_end = iso_callbacks_want(t->callbacks, ISO_BATCH_END);
    t->defers_weights = iso_callbacks_allow_deferred_weights(t->callbacks);
    t->rank_local = iso_callbacks_are_rank_local(t->callbacks);
    t->replicas.every = t->options.check_replicas;
    t->cursor.epoch = t->options.initial_epoch;
    t->cursor.trained = t->earlier = t->model->trained;
    t->state = (iso_fit_state){.model = t->model,
                               .training = t,
                               .epochs = t->options.epochs,
                               .steps = knows_steps(t) ? t->steps : -1};
    name_values(t);
done:
    return status;
}

static iso_status agree_callbacks(const iso_training *t)
{
    iso_text lines = {0};
    iso_callbacks_describe(t->callbacks, &lines);
    iso_status status = lines.failed ? iso_error(ISO_NO_MEMORY, "no memory to compare callbacks") : ISO_OK;
    status = iso_agree(t->ctx, status);
    if (status == ISO_OK)
        status = iso_agree_same_lines(t->ctx, "fit's list of callbacks", iso_text_get(&lines));
    iso_text_free(&lines);
    return status;
}

static void describe_options(const iso_training *t, iso_text *text)
{
    const iso_fit_options *o = &t->options;
    iso_text_add(text, "%d epochs from %d of %lld steps, %lld rows in batches of %lld", o->epochs,
                 o->initial_epoch, (long long)t->steps, (long long)iso_dataset_rows(t->data),
                 (long long)iso_dataset_batch_size(t->data));
    if (o->validation)
        iso_text_add(text, ", validation: %lld rows in batches of %lld",
                     (long long)iso_dataset_rows(o->validation),
                     (long long)iso_dataset_batch_size(o->validation));
    if (o->swap_ema_weights)
        iso_text_add(text, " of the averages");
    if (o->check_replicas)
        iso_text_add(text, ", replicas compared every %lld steps", (long long)o->check_replicas);
    if (o->resume || o->resume_file)
        iso_text_add(text, ", %s '%s'", o->resume ? "resume" : "resume_file",
                     o->resume ? o->resume : iso_saved_file_path(o->resume_file));
}

static iso_status agree_options(const iso_training *t)
{
    iso_text text = {0};
    describe_options(t, &text);
    iso_status status = iso_agree_same_composed(t->ctx, "what fit is to do", &text);
    iso_text_free(&text);
    if (status == ISO_OK)
        status = iso_dataset_agree_order(t->data, "the order of fit's data");
    if (status == ISO_OK && t->options.validation)
        status = iso_dataset_agree_order(t->options.validation, "the order of fit's validation data");
    return status == ISO_OK ? agree_callbacks(t) : status;
}

/* ---- callbacks ---- */

iso_status iso_fit_log(iso_fit_state *state, const char *name, double value)
{
    ISO_NEED(state, name);
    iso_training *t = state->training;
    iso_logs *logs = &state->logs;
    int at = 0;
    if (!t->at_epoch_end)
        return iso_error(ISO_INVALID, "'%s' can be logged at the end of an epoch only", name);
    if (strlen(name) >= ISO_MAX_NAME)
        return iso_error(ISO_INVALID, "'%s' is too long a name for a value: at most %d characters", name,
                         ISO_MAX_NAME - 1);
    while (at < logs->count && strcmp(logs->name[at], name) != 0)
        at++;
    if (at == logs->count) {
        if (t->logged == ISO_MAX_LOGGED)
            return iso_error(ISO_INVALID,
                             "callbacks log '%s' besides %d other values, at most %d are possible in all",
                             name, t->logged, ISO_MAX_LOGGED);
        snprintf(t->logged_name[t->logged], ISO_MAX_NAME, "%s", name);
        t->name[at] = t->logged_name[t->logged++];
        logs->count++;
    }
    t->value[at] = isnan(value) ? NAN : value;
    return ISO_OK;
}

/* Makes the logs equal on all ranks by taking the chief's values: they are compared with a best value and
 * appear in file names. */
iso_status iso_training_share_logs(iso_training *t)
{
    iso_text names = {0};
    iso_logs *logs = &t->state.logs;
    for (int i = 0; i < logs->count; i++)
        iso_text_add(&names, "%s%s", i ? ", " : "", logs->name[i]);
    const char *text = iso_text_get(&names);
    iso_status status = iso_agree_same_text(t->ctx, "the names of what callbacks log", text);
    iso_text_free(&names);
    return status == ISO_OK ? iso_broadcast(t->ctx, t->value, (size_t)logs->count * sizeof *t->value)
                            : status;
}

iso_logs iso_training_expected_logs(const iso_training *t)
{
    int count = t->model->n_values;
    return (iso_logs){t->options.validation ? 2 * count : count, t->name, t->value};
}

/* Whether a callback on any rank has asked to stop. */
static iso_status agree_to_stop(iso_training *t)
{
    if (!t->callbacks)
        return ISO_OK;
    int64_t stop = t->state.stop;
    iso_status status = iso_all_reduce(t->ctx, ISO_REDUCE_OR, ISO_I64, &stop, 1);
    t->state.stop = stop != 0;
    return status;
}

static iso_status call_and_agree(iso_training *t, iso_moment moment)
{
    iso_status status = iso_callbacks_call(t->callbacks, moment, &t->state);
    if (!t->callbacks)
        return status;
    status = iso_agree(t->ctx, status);
    return status == ISO_OK ? agree_to_stop(t) : status;
}

/* A callback that fails between batches on this rank alone must not leave the others waiting: the error is
 * kept until all ranks leave the steps. */
static void call_between(iso_training *t, iso_moment moment)
{
    iso_status status = iso_callbacks_call(t->callbacks, moment, &t->state);
    iso_first_error_keep(&t->pending, status);
    t->state.stop = t->state.stop || status != ISO_OK;
}

/* ---- stopping on request ---- */

/* Whether training stops between two steps because the program was asked to. If a callback has ended training
 * too, training ends normally instead: a run that resumes would not know that it was over. */
static bool is_stopped(const iso_training *t)
{
    return iso_stop_requested(t->ctx) && !t->state.stop;
}

/* Saves the state at the cursor, if a callback can. Returns the status that ends the program, or the error of a save
 * because of which a rank wanted to stop. */
static iso_status save_and_stop(iso_training *t)
{
    iso_text file = {0};
    iso_progress_break(t->progress);
    iso_status ended = iso_checkpoint_writers_wait(t);
    if (ended != ISO_OK)
        return ended;
    t->state.epoch = t->cursor.epoch;
    t->state.batch = t->cursor.batch > 0 ? t->cursor.batch - 1 : 0;
    iso_status status = iso_callbacks_save_now(t->callbacks, &t->state, &file);
    if (status != ISO_OK)
        status = iso_error_prefix(status, "stopped on request, and training's state was not saved: ");
    else
        status = iso_stopped(t->ctx, file.length ? iso_text_get(&file) : NULL);
    if (status == ISO_INTERRUPTED)
        iso_error_prefix(status, "training without --checkpoint (iso_model_checkpoint) or --backup "
                                 "(iso_backup_and_restore): ");
    iso_text_free(&file);
    return status;
}

/* ---- steps ---- */

static void read_values(iso_training *t)
{
    iso_totals_read(&t->totals, t->model, t->value);
    t->state.logs = (iso_logs){t->model->n_values, t->name, t->value};
}

/* Agrees, before the next step, on what callbacks asked for between batches. Replicas are compared after the
 * callbacks, which may change weights. */
static iso_status after_step(iso_training *t)
{
    t->state.batch = t->cursor.batch++;
    t->model->trained = ++t->cursor.trained;
    if (t->batch_end) {
        read_values(t);
        call_between(t, ISO_BATCH_END);
    }
    if (iso_progress_step(t->progress)) {
        read_values(t);
        iso_progress_draw(t->progress, &t->state.logs);
    }
    iso_status status = iso_training_check_replicas_after_step(t);
    return status == ISO_OK && t->rank_local ? agree_to_stop(t) : status;
}

/* Concludes the first step that has begun. */
static iso_status end_step(iso_training *t, int64_t rows)
{
    iso_status status = iso_function_end_step(t->model->training, t->totals.results);
    if (status != ISO_OK)
        return status;
    iso_totals_add(&t->totals, t->model, t->totals.results, rows);
    return after_step(t);
}

/* Whether the next step may begin before the results of the last one are read: nobody looks at them, or at the
 * variables, in between. */
static bool is_async(const iso_training *t)
{
    return iso_function_is_async(t->model->training) && iso_callbacks_are_async(t->callbacks) &&
           !t->rank_local && t->replicas.every == 0;
}

static iso_status run_batches(iso_training *t, iso_input_iterator *iterator)
{
    bool ahead = is_async(t), begun = false; /* a step has begun and is not concluded: of `rows` rows */
    int64_t rows = 0;
    iso_status status = ISO_OK;
    for (const iso_batch *batch = iso_input_iterator_next(iterator); batch;
         batch = iso_input_iterator_next(iterator)) {
        t->state.batch = t->cursor.batch + begun;
        if (t->batch_begin)
            call_between(t, ISO_BATCH_BEGIN);
        batch = iso_input_iterator_again(iterator, batch);
        if (!batch)
            break;
        status = iso_function_begin_step(t->model->training, batch);
        if (status == ISO_INTERRUPTED && is_stopped(t)) /* --tune measured for it: it changed nothing */
            break;
        ISO_TRY(status);
        int64_t before = rows;
        rows = batch->rows;
        if (begun || !ahead)
            ISO_TRY(end_step(t, begun ? before : rows));
        begun = ahead;
        if (t->state.stop || is_stopped(t))
            break;
    }
    status = begun ? end_step(t, rows) : ISO_OK;
done:
    iso_function_drop_steps(t->model->training);
    return status;
}

static iso_status run_steps(iso_training *t)
{
    iso_input_iterator iterator;
    iso_training_cursor *cursor = &t->cursor;
    iso_input_iterator_begin(&iterator, t->model, t->data, (int64_t)cursor->epoch * t->steps + cursor->batch,
                             t->steps - cursor->batch);
    iso_function_defer_weights(t->model->training, t->defers_weights);
    iso_status status = run_batches(t, &iterator);
    iso_function_defer_weights(t->model->training, false);
    iso_graph_send_deferred_weights(t->model->graph);
    if (status != ISO_OK)
        return status;
    if (iterator.ended)
        cursor->batch = t->steps;
    status = iso_input_iterator_status(&iterator);
    if (status == ISO_OK)
        status = iso_first_error_get(&t->pending);
    status = iso_agree(t->ctx, status);
    read_values(t);
    if (status == ISO_OK && is_stopped(t))
        status = save_and_stop(t);
    return status;
}

/* ---- epochs ---- */

/* With the option, validation sees the averages instead of the weights. */
static iso_status swap_averages(const iso_training *t)
{
    return t->options.swap_ema_weights ? iso_function_swap_averages(t->model->training) : ISO_OK;
}

static iso_status swap_back(const iso_training *t, iso_status evaluated)
{
    iso_status status = swap_averages(t);
    return status == ISO_OK ? evaluated : status;
}

/* end: the cursor after the last step of the epoch. If training is stopped here, the run that resumes there
 * validates again and ends the epoch. */
static iso_status validate(iso_training *t, const iso_training_cursor *end)
{
    int count = t->model->n_values;
    if (!t->options.validation)
        return ISO_OK;
    iso_status status = swap_averages(t);
    if (status == ISO_OK)
        status = iso_model_evaluate_all(t->model, t->options.validation, t->value + count, t->state.stop);
    if (status == ISO_OK || status == ISO_INTERRUPTED)
        status = swap_back(t, status);
    if (status == ISO_INTERRUPTED) {
        t->cursor = *end;
        return save_and_stop(t);
    }
    t->state.logs.count = 2 * count;
    return status;
}

/* Callbacks run first: the values that they add to the epoch's logs are printed and recorded too. */
static iso_status end_epoch(iso_training *t)
{
    int own = t->state.logs.count;
    t->at_epoch_end = true;
    t->logged = 0;
    iso_status status = call_and_agree(t, ISO_EPOCH_END);
    t->at_epoch_end = false;
    iso_progress_end(t->progress, &t->state.logs, own);
    iso_status remembered = iso_agree(t->ctx, iso_history_add(t->history, &t->state.logs));
    return status == ISO_OK ? remembered : status;
}

/* Training continues, as in Keras, so the chief warns once. */
static void warn_of_nan(iso_training *t)
{
    if (t->warned || t->state.stop || isfinite(t->value[0]))
        return;
    t->warned = true;
    iso_progress_break(t->progress);
    if (iso_is_chief(t->ctx))
        iso_warn("epoch %d: the loss is %g; training goes on. --terminate-on-nan (iso_terminate_on_nan) ends "
                 "it there, --check-data (iso_dataset_check) looks for NaN and infinity in the data",
                 t->state.epoch + 1, t->value[0]);
}

/* Runs the remaining steps of the epoch. An epoch that began in another run does not begin again. */
static iso_status run_epoch(iso_training *t)
{
    char title[64];
    iso_status status = ISO_OK;
    t->state.epoch = t->cursor.epoch;
    t->state.batch = t->cursor.batch;
    t->state.logs = (iso_logs){0, t->name, t->value};
    if (t->cursor.batch == 0) {
        iso_totals_clear(&t->totals, t->model);
        ISO_TRY(call_and_agree(t, ISO_EPOCH_BEGIN));
    }
    snprintf(title, sizeof title, "Epoch %d/%d", t->cursor.epoch + 1, t->options.epochs);
    iso_progress_begin(t->progress, t->options.epochs > 1 ? title : NULL, knows_steps(t) ? t->steps : 0,
                       t->cursor.batch);
    ISO_TRY(run_steps(t));
    warn_of_nan(t);
    iso_training_cursor end = t->cursor;
    if (t->cursor.batch == t->steps) { /* otherwise a callback has stopped it */
        t->cursor.epoch++;
        t->cursor.batch = 0;
    }
    ISO_TRY(validate(t, &end));
    ISO_TRY(end_epoch(t));
done:
    return status;
}

/* Resumes from the checkpoint that fit was given, unless a callback has found another one. */
static iso_status resume(iso_training *t)
{
    iso_status status = ISO_OK;
    if (t->options.resume)
        ISO_TRY(iso_checkpoint_open(t->ctx, "fit: resume", t->options.resume, &t->options.resume_file));
    if (t->options.resume_file) {
        ISO_TRY(iso_training_resume(t, t->options.resume_file));
        ISO_TRY(iso_callbacks_resumed(t->callbacks, &t->state));
    }
    ISO_TRY(iso_training_begin_replica_check(t, t->options.resume_file));
done:
    return status;
}

static void close_resumed(iso_training *t)
{
    iso_saved_file_close(t->options.resume_file);
    t->options.resume_file = NULL;
}

/* Weights change only after the accumulated steps of this and earlier runs together. Collective. */
static iso_status warn_of_accumulation(const iso_training *t)
{
    int over = t->model->optimizer.accumulation;
    iso_variable *iteration = iso_graph_find_variable(t->model->graph, "optimizer/iteration");
    int64_t steps = (t->options.epochs - t->cursor.epoch) * t->steps - t->cursor.batch;
    double done;
    if (over <= 1 || !iteration || !knows_steps(t) || steps <= 0)
        return ISO_OK;
    iso_status status = iso_variable_read(iteration, &done, 1);
    if (status == ISO_OK && done + (double)steps < over && iso_is_chief(t->ctx))
        iso_warn("gradients are accumulated over %d steps (--accumulate), and the training ends after %lld: "
                 "it changes no weight",
                 over, (long long)done + (long long)steps);
    return status;
}

static iso_status fit_run(iso_training *t)
{
    iso_status status = ISO_OK;
    ISO_TRY(call_and_agree(t, ISO_TRAIN_BEGIN));
    ISO_TRY(resume(t));
    close_resumed(t); /* so that the disk space is free after the file is rotated away */
    ISO_TRY(warn_of_accumulation(t));
    ISO_TRY(iso_stop_agree(t->ctx));
    if (t->cursor.epoch < t->options.epochs && is_stopped(t))
        ISO_TRY(save_and_stop(t));
    while (t->cursor.epoch < t->options.epochs && !t->state.stop)
        ISO_TRY(run_epoch(t));
    ISO_TRY(iso_training_check_replicas(t)); /* the program may save the model now */
    if (t->model->optimizer.use_ema)         /* as in Keras, before callbacks at the end */
        ISO_TRY(iso_function_take_averages(t->model->training));
    ISO_TRY(call_and_agree(t, ISO_TRAIN_END));
done:
    return iso_training_replica_error(t, status); /* in full: callbacks' errors are kept in part */
}

/* A save that failed may have ended the steps. Other trainings of the context must not stop for that. */
static iso_status withdraw_stop(const iso_training *t, iso_status status)
{
    iso_first_error failed = {0};
    if (!t->writers || status == ISO_OK || status == ISO_STOPPED || status == ISO_INTERRUPTED)
        return status;
    iso_first_error_keep(&failed, status);
    iso_stop_withdraw(t->ctx);
    return iso_first_error_get(&failed);
}

static void clean_up(iso_training *t)
{
    iso_callbacks_destroy(t->callbacks);
    close_resumed(t);
    iso_progress_destroy(t->progress);
    iso_totals_destroy(&t->totals);
    iso_training_end_replica_check(t);
    if (t->options.history)
        *t->options.history = t->history;
    else
        iso_history_destroy(t->history);
}

iso_status iso_fit_with(iso_model *model, iso_dataset *data, const iso_fit_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_training t = {.model = model, .data = data};
    iso_options_copy(&t.options, sizeof t.options, given, size);
    t.options.epochs = (int)iso_option_number(t.options.epochs, 1);
    t.callbacks = t.options.callbacks;
    if (ISO_ANY_NULL(model)) {
        clean_up(&t);
        return ISO_INVALID;
    }
    t.ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    iso_status status = iso_agree(t.ctx, fit_prepare(&t));
    if (status == ISO_OK)
        status = agree_options(&t);
    model->busy++;
    model->merged = false;
    if (status == ISO_OK)
        status = withdraw_stop(&t, fit_run(&t));
    model->busy--;
    clean_up(&t);
    return status;
}
