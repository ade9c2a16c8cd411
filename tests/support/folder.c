#include "tests/support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/session/session.h"

static bool is_chief(const iso_context *ctx)
{
    return !ctx || iso_is_chief(ctx);
}

iso_status make_test_folder(iso_context *ctx, char folder[64])
{
    iso_status status = ISO_OK;
    memset(folder, 0, 64);
    strcpy(folder, "/tmp/isogrid-test-XXXXXX");
    if (is_chief(ctx) && !mkdtemp(folder))
        status = iso_error(ISO_IO, "%s cannot be made: %s", folder, strerror(errno));
    status = iso_agree(ctx, status);
    return status == ISO_OK && ctx ? iso_broadcast(ctx, folder, 64) : status;
}

iso_status remove_test_folder(iso_context *ctx, const char *folder)
{
    char command[160];
    iso_status status = iso_agree(ctx, ISO_OK);
    snprintf(command, sizeof command, "chmod -R u+w '%s' && rm -r '%s'", folder, folder);
    if (status == ISO_OK && is_chief(ctx) && system(command) != 0)
        status = iso_error(ISO_IO, "%s cannot be removed", folder);
    return iso_agree(ctx, status);
}

static char *next_text(void)
{
    static char text[4][4096];
    static int next;
    return text[next++ % 4];
}

const char *in_folder(const char *folder, const char *name)
{
    char *text = next_text();
    snprintf(text, 4096, "%s/%s", folder, name);
    return text;
}

const char *names_in(const char *folder)
{
    char *text = next_text();
    struct dirent **entry = NULL;
    int count = scandir(folder, &entry, NULL, alphasort), length = 0;
    *text = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(entry[i]->d_name, ".") != 0 && strcmp(entry[i]->d_name, "..") != 0)
            length +=
                snprintf(text + length, 4096 - (size_t)length, "%s%s", length ? " " : "", entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return text;
}
