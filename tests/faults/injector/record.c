/* The injector's beginning, whom it concerns, and its log. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/faults/faults.h"
#include "tests/faults/injector/injector.h"

static char below[PATH_MAX];
static size_t below_length;
static int rank, log_file = -1;

void *real_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        fprintf(stderr, "injector: the C library has no %s\n", name);
        _exit(99);
    }
    return function;
}

int injector_rank(void)
{
    return rank;
}

static void begin_once(void)
{
    const char *folder = getenv("FAULTS_BELOW"), *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!folder || !*folder)
        return;
    rank = number ? atoi(number) : 0;
    log_begin();
    durable_begin();
    snprintf(below, sizeof below, "%s", folder);
    below_length = strlen(below);
}

/* faults_arm() comes here too, so the environment's fault is armed by the constructor, not by begin_once. */
void injector_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
}

__attribute__((constructor)) static void arm_from_environment(void)
{
    const char *spec = getenv("FAULTS");
    injector_begin();
    if (spec)
        faults_arm(spec);
}

bool injector_concerns(const char *path)
{
    return below_length && !strncmp(path, below, below_length) &&
           (path[below_length] == '/' || !path[below_length]);
}

/* ---- paths ---- */

static bool path_of_fd(int fd, char *path)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
#ifdef SYS_readlink
    ssize_t length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
#else /* aarch64 */
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
#endif
    path[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

/* Takes "//", "/." and "/x/.." out of an absolute path. */
static void tidy(char *path)
{
    char *out = path;
    for (const char *in = path; *in;) {
        size_t length = strcspn(in + 1, "/") + 1; /* a part with its slash */
        if (length == 3 && in[1] == '.' && in[2] == '.')
            while (out > path && *--out != '/')
                ;
        else if (length > 1 && !(length == 2 && in[1] == '.')) {
            memmove(out, in, length);
            out += length;
        }
        in += length;
    }
    *out = '\0';
}

call call_on_fd(const char *name, enum kind kind, int fd, size_t bytes, off_t at)
{
    call c = {.name = name, .kind = kind, .fd = fd, .bytes = bytes, .at = at};
    int error = errno;
    if (injector_inside)
        return c;
    injector_begin();
    c.on = below_length && path_of_fd(fd, c.path) && injector_concerns(c.path);
    errno = error;
    return c;
}

call call_on_path(const char *name, enum kind kind, int folder, const char *path)
{
    call c = {.name = name, .kind = kind, .fd = -1, .at = -1};
    char from[PATH_MAX] = "";
    int error = errno;
    if (injector_inside)
        return c;
    injector_begin();
    if (!below_length)
        return c;
    if (path[0] != '/' && (folder == AT_FDCWD ? !getcwd(from, sizeof from) : !path_of_fd(folder, from)))
        return c;
    if ((size_t)snprintf(c.path, sizeof c.path, "%s/%s", from, path) < sizeof c.path) {
        tidy(c.path);
        c.on = injector_concerns(c.path);
    }
    errno = error;
    return c;
}

/* ---- the log ---- */

void log_begin(void)
{
    const char *path = getenv("FAULTS_LOG");
    if (path)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* One write a line, so that lines of several processes do not mix. */
void log_line(const char *format, ...)
{
    char line[PATH_MAX + 128];
    va_list arguments;
    if (log_file < 0)
        return;
    int length = snprintf(line, sizeof line, "%d ", rank);
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    if (syscall(SYS_write, log_file, line, (size_t)length) != length)
        _exit(99);
}

void faults_note(const char *text)
{
    log_line("note %s", text);
}
