/* isogrid models: lists the built-in models, one line each. */
#include <stdio.h>

#include "launch/command.h"
#include "launch/command_line.h"
#include "models/models.h"

static iso_status models_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_status status = iso_arguments_parse(NULL, 0, argc, argv, NULL);
    for (int i = 0; status == ISO_OK && iso_is_chief(ctx) && i < iso_builtin_model_count(); i++) {
        const iso_builtin_model *model = iso_builtin_model_at(i);
        printf("%-14s %s\n", model->name, model->description);
    }
    return status;
}

const iso_command iso_command_models = {"models", "", "lists the built-in models, one line each",
                                        .run = models_run};
