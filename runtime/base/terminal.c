#include "runtime/base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Whether the output of the parent process on this host is a terminal: under mpirun, the parent passes on
 * what its ranks write. */
static bool launcher_has_terminal(void)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = 0;
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8);
}

bool iso_is_terminal(FILE *out)
{
    int file = fileno(out);
    if (file < 0 || !isatty(file))
        return false;
    return !getenv("OMPI_COMM_WORLD_RANK") || launcher_has_terminal();
}

bool iso_wants_colors(FILE *out)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return iso_is_terminal(out) && !(no && *no) && terminal && strcmp(terminal, "dumb") != 0;
}

int iso_terminal_width(FILE *out)
{
    struct winsize size;
    if (!iso_is_terminal(out) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}
