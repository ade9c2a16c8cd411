/* The `isogrid` program: starts, runs the command, and exits with its status. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/command_line.h"
#include "runtime/backend/backend.h"
#include "runtime/base/build.h"
#include "runtime/base/memory.h"

static const iso_command *const commands[] = {
    &iso_command_train,   &iso_command_evaluate,  &iso_command_predict,   &iso_command_follow,
    &iso_command_plan,    &iso_command_calibrate, &iso_command_visualize, &iso_command_inspect,
    &iso_command_convert, &iso_command_tokenize,  &iso_command_models,    &iso_command_datasets,
    &iso_command_doctor,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(iso_context *ctx)
{
    if (!iso_is_chief(ctx))
        return;
    printf("isogrid %s: trains neural networks as one program over MPI\n\n", iso_version());
    for (int i = 0; i < COMMANDS; i++)
        printf("  isogrid %-9s %s\n", commands[i]->name, commands[i]->description);
    printf("\n  isogrid help COMMAND prints a command's options, isogrid --version the version.\n");
}

static void isogrid_print_help(iso_context *ctx, const iso_command *command)
{
    if (!iso_is_chief(ctx))
        return;
    iso_text text = {0};
    iso_text_add(&text, "isogrid %s%s%s\n%s\n", command->name, *command->arguments ? " " : "",
                 command->arguments, command->description);
    if (command->help)
        command->help(&text);
    else
        iso_arguments_help(NULL, 0, &text);
    fputs(iso_text_get(&text), stdout);
    iso_text_free(&text);
}

/* NULL: none has this name. */
static const iso_command *command_named(const char *name)
{
    int i = 0;
    while (i < COMMANDS && strcmp(commands[i]->name, name) != 0)
        i++;
    return i < COMMANDS ? commands[i] : NULL;
}

static const iso_command *isogrid_find(const char *name)
{
    const char *names[COMMANDS];
    const iso_command *found = command_named(name);
    if (found)
        return found;
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    static const char *const options[] = {"help", "version"};
    bool option = strncmp(name, "--", 2) == 0;
    iso_text near = {0};
    if (option)
        iso_text_add_nearest_options(&near, name + 2, options, 2);
    else
        iso_text_add_nearest(&near, name, names, COMMANDS);
    iso_error(ISO_INVALID, "unknown %s '%s'%s", option ? "option" : "command", name, iso_text_get(&near));
    iso_text_free(&near);
    return NULL;
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* Ranks with different command lines would train different programs. Only --threads may differ. */
static iso_status agree_on_command_line(iso_context *ctx, int argc, char *const *argv)
{
    iso_text line = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            i++;
        else if (strncmp(argv[i], "--threads=", 10) != 0)
            iso_text_add(&line, "%s%s", i > 1 ? " " : "", argv[i]);
    }
    iso_status status = iso_agree(ctx, line.failed ? iso_no_memory("the command line") : ISO_OK);
    if (status == ISO_OK)
        status = iso_agree_same_text(ctx, "the command line", iso_text_get(&line));
    iso_text_free(&line);
    return status;
}

/* isogrid help [COMMAND] */
static iso_status isogrid_help(iso_context *ctx, int argc, char *const *argv)
{
    if (argc > 2)
        return iso_error(ISO_INVALID, "help: unexpected argument '%s'", argv[2]);
    if (argc < 2 || is_help(argv[1]) || !strcmp(argv[1], "help")) {
        print_usage(ctx);
        return ISO_OK;
    }
    const iso_command *command = isogrid_find(argv[1]);
    if (!command)
        return ISO_INVALID;
    isogrid_print_help(ctx, command);
    return ISO_OK;
}

static iso_status run_command(iso_context *ctx, int argc, char *const *argv)
{
    if (argc < 2) {
        print_usage(ctx);
        return iso_error(ISO_INVALID, "no command given");
    }
    if (is_help(argv[1]) || !strcmp(argv[1], "help"))
        return isogrid_help(ctx, argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version")) {
        if (iso_is_chief(ctx))
            printf("isogrid %s (build %s)\n", iso_version(), iso_build_id());
        return ISO_OK;
    }
    const iso_command *command = isogrid_find(argv[1]);
    if (!command)
        return ISO_INVALID;
    if (asks_for_help(argc - 1, argv + 1)) {
        isogrid_print_help(ctx, command);
        return ISO_OK;
    }
    return command->run(ctx, argc - 1, argv + 1);
}

/* ISO_IO if the output could not be written: a full disk, a closed file. */
static iso_status check_stdout(void)
{
    errno = 0;
    bool failed = fflush(stdout) != 0;
    if (!failed && !ferror(stdout))
        return ISO_OK;
    return iso_error(ISO_IO, "standard output cannot be written%s%s", failed ? ": " : "",
                     failed ? strerror(errno) : "");
}

static iso_status isogrid_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_status status;
    ISO_TRY(agree_on_command_line(ctx, argc, argv));
    ISO_TRY(run_command(ctx, argc, argv));
    ISO_TRY(iso_agree(ctx, check_stdout()));
done:
    return status;
}

/* If a standard stream is closed, the next file that is opened gets its descriptor, and output would go into
 * that file. */
static void occupy_standard_streams(void)
{
    for (int file = 0; file < 3; file++)
        if (fcntl(file, F_GETFD) == -1)
            (void)!open(file ? "/dev/full" : "/dev/null", O_RDWR);
}

/* Returns the number of words. command: NULL if there is none. */
static int copy_words(const iso_command *command, int argc, char **argv, char **word)
{
    static char evaluator[] = "--role=evaluator";
    int words = 0;
    for (int i = 0; i < argc; i++) {
        word[words++] = argv[i];
        if (i == 1 && command && command->evaluates)
            word[words++] = evaluator;
    }
    return words;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    int words = argc;
    const iso_command *command = argc > 1 ? command_named(argv[1]) : NULL;
    occupy_standard_streams();
    if (!command || !command->has_roles)
        unsetenv("TF_CONFIG");
    char **word =
        iso_new(((size_t)argc + 2) * sizeof *word); /* iso_init takes its own options out of these */
    iso_status status = word ? ISO_OK : iso_no_memory("%d arguments", argc);
    if (word)
        words = copy_words(command, argc, argv, word);
    if (command && command->plans_only)
        iso_backend_only_plan();
    if (status == ISO_OK)
        status = iso_init(&words, &word, &ctx);
    if (status == ISO_OK)
        status = isogrid_run(ctx, argc, argv);
    int code = iso_finish(ctx, status);
    iso_free(word);
    return code;
}
