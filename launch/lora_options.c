/* --lora: low-rank adapters. */
#include <stdio.h>

#include "launch/settings.h"
#include "launch/train_options.h"

iso_status iso_lora_parse(const char *text, iso_lora_settings *settings)
{
    iso_lora_settings read = {.target = "query|value", .trained = "classifier|" /* if there is one */};
    iso_named_value values[] = {{"rank", .count = &read.rank, .range = {1, 1 << 20}},
                                {"alpha", .real = &read.alpha},
                                {"target", .text = read.target},
                                {"trained", .text = read.trained}};
    iso_status status =
        iso_settings_read("lora", text, text, values, sizeof values / sizeof *values, 1 /* rank */);
    if (status == ISO_OK)
        *settings = read;
    return status;
}

iso_lora_options iso_lora_options_of(const iso_lora_settings *settings)
{
    return (iso_lora_options){.rank = settings->rank,
                              .alpha = settings->alpha,
                              .target = settings->target,
                              .trained = settings->trained};
}
