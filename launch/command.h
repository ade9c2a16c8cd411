/* The commands of the `isogrid` program: one file each, and a line in the list of isogrid.c. */
#ifndef ISO_LAUNCH_COMMAND_H
#define ISO_LAUNCH_COMMAND_H

#include "runtime/base/text.h"
#include "runtime/session/session.h"

typedef struct iso_command {
    const char *name;
    const char *arguments;   /* printed after the name in the help; "" for none */
    const char *description; /* one line */
    /* argv[0] is the command's name. Runs on every rank; the chief prints. Collective. */
    iso_status (*run)(iso_context *ctx, int argc, char *const *argv);
    void (*help)(iso_text *text); /* adds the help of the options; NULL: there are none */
    bool has_roles;  /* reads TF_CONFIG, which gives each rank its role; other commands ignore it */
    bool evaluates;  /* its ranks are evaluators, also without --role */
    bool plans_only; /* the backend need not be able to compute (iso_backend_only_plan) */
} iso_command;

extern const iso_command iso_command_train;
extern const iso_command iso_command_evaluate;
extern const iso_command iso_command_predict;
extern const iso_command iso_command_follow;
extern const iso_command iso_command_plan;
extern const iso_command iso_command_calibrate;
extern const iso_command iso_command_visualize;
extern const iso_command iso_command_inspect;
extern const iso_command iso_command_convert;
extern const iso_command iso_command_tokenize;
extern const iso_command iso_command_models;
extern const iso_command iso_command_datasets;
extern const iso_command iso_command_doctor;

#endif
