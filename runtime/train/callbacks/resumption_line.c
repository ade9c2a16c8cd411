/* Prints a line when training has resumed from a checkpoint. */
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/resumption.h"

static iso_status print_line(void *user, iso_fit_state *state)
{
    iso_fit_print(state, "%s", (const char *)user);
    return ISO_OK;
}

iso_callback *iso_resumption_line(const char *line)
{
    char *copy = iso_strdup(line);
    if (!copy)
        return iso_callback_no_memory();
    iso_callback *callback = iso_callback_built_in(.user = copy, .destroy = iso_free);
    if (callback->status == ISO_OK) /* otherwise it is the constant */
        callback->resumed = print_line;
    return callback;
}
