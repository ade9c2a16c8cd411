/* isogrid datasets: lists the built-in data sets, one line each. */
#include <stdio.h>

#include "launch/command.h"
#include "launch/command_line.h"
#include "runtime/data/data.h"

static iso_status datasets_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_status status = iso_arguments_parse(NULL, 0, argc, argv, NULL);
    for (int i = 0; status == ISO_OK && iso_is_chief(ctx) && i < iso_dataset_count(); i++)
        printf("%-14s %s\n", iso_dataset_name(i), iso_dataset_description(i));
    return status;
}

const iso_command iso_command_datasets = {"datasets", "", "lists the built-in data sets, one line each",
                                          .run = datasets_run};
