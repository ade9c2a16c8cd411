/* Checks that no file of a run that is written is one that it reads, nor one of the others that it writes. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_names.h"
#include "runtime/data/idx.h"
#include "runtime/session/roles.h"

typedef struct named_file {
    const char *option, *path;
    bool of_model; /* an input: the model or its weights, which an output that replaces a file may update */
    bool in_place; /* an output: it does not replace the file when it is complete */
} named_file;

/* Two files that are missing: whether their folders and names are the same. */
static bool is_same_new(const char *a, const char *b)
{
    struct stat in_a, in_b;
    char *of_a = iso_file_folder(a), *of_b = iso_file_folder(b);
    bool there = of_a && of_b && stat(of_a, &in_a) == 0 && stat(of_b, &in_b) == 0;
    bool same =
        there ? iso_file_is_same(&in_a, &in_b) && !strcmp(iso_file_name(a), iso_file_name(b)) : !strcmp(a, b);
    iso_free(of_a);
    iso_free(of_b);
    return same;
}

/* Devices and pipes may have several writers. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a && has_b)
        return S_ISREG(of_a.st_mode) && iso_file_is_same(&of_a, &of_b);
    return !has_a && !has_b && is_same_new(a, b);
}

/* Without the slashes at its end, in place. */
static char *trim(char *folder)
{
    for (size_t length = folder ? strlen(folder) : 0; length > 1 && folder[length - 1] == '/';)
        folder[--length] = 0;
    return folder;
}

/* Also for folders that are not there yet. */
static bool is_same_folder(const char *a, const char *b)
{
    struct stat of_a, of_b;
    bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    char *name_a = trim(iso_strdup(a)), *name_b = trim(iso_strdup(b));
    bool same = has_a && has_b ? iso_file_is_same(&of_a, &of_b)
                               : !has_a && !has_b && name_a && name_b && is_same_new(name_a, name_b);
    iso_free(name_a);
    iso_free(name_b);
    return same;
}

static bool is_in_folder(const char *path, const char *folder)
{
    char *own = iso_file_folder(path);
    bool same = own && is_same_folder(own, folder);
    iso_free(own);
    return same;
}

/* An output against the files that are read. */
static iso_status check_files(const iso_train_options *options, const named_file *output)
{
    const named_file inputs[] = {
        {.option = "--data", .path = options->data},
        {.option = "--validation-data", .path = options->validation_data},
        {.option = "--test-data", .path = options->test_data},
        {.option = "--layout-file", .path = options->layout_file},
        {.option = "--time", .path = options->time},
        {.option = "--network", .path = options->network},
        {.option = "--tune", .path = options->tune},
        {.option = "--model", .path = options->model, .of_model = true},
        {.option = "--weights", .path = options->weights, .of_model = true},
        {.option = "--resume", .path = options->resume, .of_model = true},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const named_file *input = &inputs[i];
        struct stat about;
        bool updates = input->of_model && !output->in_place;
        if (!updates && input->path && stat(input->path, &about) == 0 &&
            is_same_file(output->path, input->path))
            return iso_error(ISO_INVALID, "%s '%s' is the file of %s; it would be overwritten",
                             output->option, output->path, input->option);
    }
    return ISO_OK;
}

/* ---- several files of a folder ---- */

/* The files of one folder that an option stands for: a data set, or checkpoints. */
typedef struct file_group {
    const char *option, *given, *folder; /* given: the option's value */
    bool (*has)(const char *name, const char *pattern);
    const char *pattern;
} file_group;

/* A checkpoint, or one of the files beside it that name one. */
static bool has_checkpoint(const char *name, const char *pattern)
{
    return iso_file_name_fits(name, pattern) || iso_is_pointer_name(name);
}

static bool has_idx(const char *name, const char *pattern)
{
    (void)pattern;
    return iso_idx_is_folder_name(name);
}

/* Whether the path is another name of a file that the group has already. */
static bool is_link_to(const char *path, const file_group *group)
{
    bool found = false;
    DIR *dir = opendir(group->folder);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && !found; entry = readdir(dir)) {
        char *file =
            group->has(entry->d_name, group->pattern) ? iso_file_join(group->folder, entry->d_name) : NULL;
        found = file && is_same_file(path, file);
        iso_free(file);
    }
    if (dir)
        closedir(dir);
    return found;
}

static iso_status check_group(const named_file *output, const file_group *group)
{
    bool becomes =
        group->has(iso_file_name(output->path), group->pattern) && is_in_folder(output->path, group->folder);
    return !becomes && !is_link_to(output->path, group)
               ? ISO_OK
               : iso_error(ISO_INVALID, "%s '%s' is a file of %s '%s', or may become one", output->option,
                           output->path, group->option, group->given);
}

static iso_status check_data(const named_file *output, const char *option, const char *data)
{
    char *folder = NULL;
    iso_status status = data ? iso_builtin_folder(data, &folder) : ISO_OK;
    if (data && status == ISO_OK)
        status = check_group(output, &(file_group){option, data, folder ? folder : data, has_idx, NULL});
    iso_free(folder);
    return status;
}

/* The checkpoints of a folder, of which the newest or the best is read. */
static iso_status check_read(const named_file *output, const char *option, const char *path)
{
    char *folder = NULL;
    iso_status status = path ? iso_checkpoint_folder(path, &folder) : ISO_OK;
    if (folder)
        status = check_group(output, &(file_group){option, path, folder, has_checkpoint, NULL});
    iso_free(folder);
    return status;
}

/* What --checkpoint writes, or an evaluator reads: it may name the folder. */
static iso_status check_written(const named_file *output, const char *template)
{
    if (!template || !strcmp(output->option, "--checkpoint"))
        return ISO_OK;
    char *folder = NULL;
    iso_status status = iso_checkpoint_folder(template, &folder);
    const char *pattern = folder ? NULL : iso_file_name(template);
    if (status == ISO_OK && !folder && !(folder = iso_file_folder(template)))
        status = iso_no_memory("the folder of '%s'", template);
    if (status == ISO_OK)
        status =
            check_group(output, &(file_group){"--checkpoint", template, folder, has_checkpoint, pattern});
    iso_free(folder);
    return status;
}

static iso_status check_backup(const named_file *output, const char *backup)
{
    const file_group group = {"--backup", backup, backup, has_checkpoint, ISO_BACKUP_NAME};
    return backup ? check_group(output, &group) : ISO_OK;
}

static iso_status check_groups(const iso_train_options *options, const named_file *output)
{
    const char *resume = options->resume;
    bool named = resume && strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0;
    iso_status status = check_data(output, "--data", options->data);
    if (status == ISO_OK)
        status = check_data(output, "--validation-data", options->validation_data);
    if (status == ISO_OK)
        status = check_data(output, "--test-data", options->test_data);
    if (status == ISO_OK && output->in_place)
        status = check_read(output, "--weights", options->weights);
    if (status == ISO_OK && output->in_place && named)
        status = check_read(output, "--resume", resume);
    if (status == ISO_OK)
        status = check_written(output, options->checkpoint);
    return status == ISO_OK ? check_backup(output, options->backup) : status;
}

/* ---- an output against all inputs, and against each other ---- */

static iso_status check_inputs(const iso_train_options *options, const named_file *output)
{
    iso_status status = check_files(options, output);
    return status == ISO_OK ? check_groups(options, output) : status;
}

iso_status iso_overwrite_check(const iso_train_options *options, const char *option, const char *path)
{
    return check_inputs(options, &(named_file){.option = option, .path = path, .in_place = true});
}

iso_status iso_overwrite_check_file(const char *option, const char *path, const char *what, const char *input)
{
    struct stat about;
    return stat(input, &about) != 0 || !is_same_file(path, input)
               ? ISO_OK
               : iso_error(ISO_INVALID, "%s '%s' is the file of %s; it would be overwritten", option, path,
                           what);
}

static iso_status check_outputs(const iso_train_options *options, const named_file *outputs, int count)
{
    for (int i = 0; i < count; i++) {
        iso_status status = check_inputs(options, &outputs[i]);
        if (status != ISO_OK)
            return status;
        for (int j = 0; j < i; j++)
            if (is_same_file(outputs[i].path, outputs[j].path))
                return iso_error(ISO_INVALID, "%s '%s' and %s '%s' are the same file", outputs[j].option,
                                 outputs[j].path, outputs[i].option, outputs[i].path);
    }
    return ISO_OK;
}

/* Of two series in one folder each would move, and --backup remove, the other's file `latest`. */
static iso_status check_series(const iso_train_options *o)
{
    return !o->backup || !o->checkpoint || !is_in_folder(o->checkpoint, o->backup)
               ? ISO_OK
               : iso_error(
                     ISO_INVALID,
                     "--backup '%s' is the folder of --checkpoint '%s': each needs a folder of its own, for "
                     "the file `latest`",
                     o->backup, o->checkpoint);
}

iso_status iso_overwrites_check(const iso_train_options *options)
{
    const named_file given[] = {
        {.option = "--save", .path = options->save},
        {.option = "--save-adapter", .path = options->save_adapter},
        {.option = "--checkpoint", .path = options->checkpoint},
        {.option = "--history", .path = options->history, .in_place = true},
        {.option = "--csv", .path = options->csv, .in_place = true},
        {.option = "--profile", .path = options->profile, .in_place = true},
        {.option = "--timings", .path = options->timings, .in_place = true},
    };
    enum { GIVEN = sizeof given / sizeof *given };
    named_file outputs[GIVEN];
    char *names[GIVEN]; /* the chief's, without {rank} and {role} */
    int count = 0;
    iso_status status = ISO_OK;
    for (int i = 0; i < GIVEN && status == ISO_OK; i++) {
        if (!given[i].path)
            continue;
        status = iso_role_path(NULL, ISO_WORKER, given[i].path, &names[count]);
        if (status != ISO_OK)
            break;
        outputs[count] = given[i];
        outputs[count].path = names[count];
        count++;
    }
    if (status == ISO_OK)
        status = check_series(options);
    if (status == ISO_OK)
        status = check_outputs(options, outputs, count);
    while (count > 0)
        iso_free(names[--count]);
    return status;
}
