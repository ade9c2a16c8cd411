/* Checks that no file of a run that is written is one that it reads, nor one of the others that it writes. */
#include <string.h>
#include <sys/stat.h>

#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_names.h"
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

/* An output against all inputs. */
static iso_status check_inputs(const iso_train_options *options, const named_file *output)
{
    const named_file inputs[] = {
        {.option = "--data", .path = options->data},
        {.option = "--validation-data", .path = options->validation_data},
        {.option = "--test-data", .path = options->test_data},
        {.option = "--layout-file", .path = options->layout_file},
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

iso_status iso_overwrite_check(const iso_train_options *options, const char *option, const char *path)
{
    return check_inputs(options, &(named_file){.option = option, .path = path, .in_place = true});
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

/* ---- the folders of checkpoints ---- */

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

/* Whether the path is a name that files of --checkpoint get. */
static bool is_checkpoint(const char *path, const char *template)
{
    char *folder = iso_file_folder(template);
    bool same = folder && is_in_folder(path, folder) &&
                iso_file_name_fits(iso_file_name(path), iso_file_name(template));
    iso_free(folder);
    return same;
}

/* A file of weights alone would take the place of a checkpoint, or be removed with the backup; and of two series in
 * one folder each would move, and --backup remove, the other's file `latest`. */
static iso_status check_series(const iso_train_options *o)
{
    if (o->backup && o->checkpoint && is_in_folder(o->checkpoint, o->backup))
        return iso_error(
            ISO_INVALID,
            "--backup '%s' is the folder of --checkpoint '%s': each needs a folder of its own, for "
            "the file `latest`",
            o->backup, o->checkpoint);
    if (o->save && o->checkpoint && is_checkpoint(o->save, o->checkpoint))
        return iso_error(ISO_INVALID, "--save '%s' is a name that a file of --checkpoint '%s' may get",
                         o->save, o->checkpoint);
    if (o->save && o->backup && is_in_folder(o->save, o->backup) &&
        !strcmp(iso_file_name(o->save), ISO_BACKUP_NAME))
        return iso_error(ISO_INVALID, "--save '%s' is the file of --backup '%s', which is removed at the end",
                         o->save, o->backup);
    return ISO_OK;
}

iso_status iso_overwrites_check(const iso_train_options *options)
{
    const named_file given[] = {
        {.option = "--save", .path = options->save},
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
        status = check_outputs(options, outputs, count);
    if (status == ISO_OK)
        status = check_series(options);
    while (count > 0)
        iso_free(names[--count]);
    return status;
}
