/* Trains a small network and notes each step in the injector's log, with checkpoints on the way.
 * steps FOLDER FREQUENCY STEPS: a checkpoint after every FREQUENCY steps, STEPS in all. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/isogrid.h"
#include "tests/faults/faults.h"

enum { ROWS = 4, FEATURES = 64, HIDDEN = 2000, CLASSES = 10 };

static iso_status note_step(void *user, iso_fit_state *state)
{
    char text[32];
    snprintf(text, sizeof text, "step %lld", (long long)state->batch + 1);
    if (faults_note)
        faults_note(text);
    (void)user;
    return ISO_OK;
}

static iso_model *build(iso_context *ctx)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_tensor *y = iso_dense(x, HIDDEN, .activation = ISO_RELU);
    return iso_model_create(graph, x, iso_dense(y, CLASSES));
}

static iso_status train(iso_context *ctx, const char *folder, int frequency, int steps)
{
    iso_status status;
    iso_dataset *data = NULL;
    iso_model *model = build(ctx);
    iso_distribution *distribution = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/{batch}.weights.h5", folder);
    iso_callback *callbacks[] = {iso_callback_create(.batch_end = note_step, .collective = true),
                                 iso_model_checkpoint(path, .save_freq = frequency, .stop_on_error = true),
                                 NULL};
    ISO_TRY(iso_data_parallel_create(NULL, &distribution));
    ISO_TRY(iso_dataset_random(ctx, (int64_t)steps * ROWS, &data, .shape = ISO_SHAPE(FEATURES),
                               .targets = ISO_SHAPE(CLASSES)));
    ISO_TRY(iso_dataset_batch(data, ROWS));
    ISO_TRY(
        iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_MSE, .distribution = distribution));
    ISO_TRY(iso_fit(model, data, .callbacks = callbacks, .verbose = ISO_ZERO));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && argc == 4)
        status = train(ctx, argv[1], atoi(argv[2]), atoi(argv[3]));
    return iso_finish(ctx, status);
}
