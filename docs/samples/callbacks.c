/* Callbacks: those of Keras, and one of the program's own. Ranks: 1, 2 */
#include <isogrid.h>
#include <stdio.h>

/* A tenth of the rate after each third epoch. */
static double falling(void *user, int epoch, double rate)
{
    (void)user;
    return epoch && epoch % 3 == 0 ? rate / 10 : rate;
}

/* Like Keras's LambdaCallback: functions, and a pointer that is passed to each of them. */
typedef struct goal {
    double accuracy;
    int reached; /* the epoch, from 1 */
} goal;

static iso_status epoch_end(void *user, iso_fit_state *state)
{
    goal *g = user;
    double gap = iso_logs_get(&state->logs, "val_accuracy") - iso_logs_get(&state->logs, "accuracy");
    if (iso_logs_get(&state->logs, "val_accuracy") >= g->accuracy) {
        g->reached = state->epoch + 1;
        state->stop = true; /* on one rank is enough: all of them end with this epoch */
    }
    return iso_fit_log(state, "gap", gap); /* for later callbacks, the progress line and the history */
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *train = NULL, *validation = NULL;
    iso_model *model = NULL;
    goal g = {.accuracy = 0.99};
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &train));
    ISO_TRY(iso_dataset_split(train, 2000, &validation));
    ISO_TRY(iso_dataset_shuffle(train, 0));
    ISO_TRY(iso_dataset_batch(train, 100));

    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1)); /* [batch, 28, 28, 1] */
    iso_tensor *h = iso_dense(iso_flatten(iso_rescaling(x, 1.0 / 255)), 32, .activation = ISO_RELU);
    model = iso_model_create(graph, x, iso_dense(h, 10)); /* logits: [batch, 10] */
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics = {ISO_METRIC_ACCURACY}));

    iso_callback *callbacks[] = {
        iso_callback_create(.epoch_end = epoch_end, .user = &g),
        iso_learning_rate_scheduler(falling),
        iso_early_stopping(.monitor = "val_loss", .patience = 2, .restore_best_weights = true),
        iso_terminate_on_nan(.raise_error = true),
        iso_csv_logger("/tmp/isogrid-sample.csv"),
        iso_tensorboard("/tmp/isogrid-sample-logs", .update_freq = 20, .histogram_freq = 1),
        iso_profile("/tmp/isogrid-sample-step.json"),
        NULL,
    };
    ISO_TRY(iso_fit(model, train, .epochs = 4, .steps_per_epoch = 60, .validation = validation,
                    .callbacks = callbacks));
    if (iso_is_chief(ctx) && g.reached)
        printf("the goal was reached in epoch %d\n", g.reached);
done:
    iso_model_destroy(model);
    iso_dataset_destroy(train);
    iso_dataset_destroy(validation);
    return iso_finish(ctx, status);
}
