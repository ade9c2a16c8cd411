/* Streams on files below the folder. The C library's own calls within fopen(), fwrite() and the like come by
 * no stand-in, so a stream there is one of cookies, which makes the same calls through those of calls.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/faults/injector/injector.h"

#define PUBLIC __attribute__((visibility("default")))

enum { BUFFER = 4096, MOST = 64 };

typedef struct stream {
    FILE *file;
    int fd;
    char buffer[BUFFER];
} stream;

/* Those that are open, for fileno(). */
static stream *streams[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void replace(const stream *from, stream *to)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MOST && streams[i] != from)
        i++;
    if (i == MOST) {
        fputs("injector: too many streams\n", stderr);
        _exit(99);
    }
    streams[i] = to;
    pthread_mutex_unlock(&lock);
}

static ssize_t read_some(void *cookie, char *data, size_t bytes)
{
    return read(((stream *)cookie)->fd, data, bytes);
}

/* As the C library does: what is left of a short write is written next. */
static ssize_t write_all(void *cookie, const char *data, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t now = write(((stream *)cookie)->fd, data + done, bytes - done);
        if (now < 0)
            break;
        done += (size_t)now;
    }
    return (ssize_t)done;
}

static int seek(void *cookie, off64_t *at, int from)
{
    off64_t result = lseek64(((stream *)cookie)->fd, *at, from);
    if (result < 0)
        return -1;
    *at = result;
    return 0;
}

static int close_stream(void *cookie)
{
    stream *s = cookie;
    replace(s, NULL);
    int result = close(s->fd), error = errno;
    free(s);
    errno = error;
    return result;
}

static FILE *stream_of(int fd, const char *mode)
{
    const cookie_io_functions_t functions = {read_some, write_all, seek, close_stream};
    stream *s = calloc(1, sizeof *s);
    FILE *file = s ? fopencookie(s, mode, functions) : NULL;
    if (!file) {
        free(s);
        return NULL;
    }
    s->fd = fd;
    s->file = file;
    setvbuf(file, s->buffer, _IOFBF, BUFFER);
    replace(NULL, s);
    return file;
}

static int flags_of(const char *mode)
{
    int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    flags |= *mode == 'r' ? 0 : *mode == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
    return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

static FILE *open_stream(const char *name, const char *path, const char *mode)
{
    if (!call_on_path("open", OPENS, AT_FDCWD, path).on)
        return ((FILE * (*)(const char *, const char *)) real_function(name))(path, mode);
    int fd = open(path, flags_of(mode), 0666);
    FILE *file = fd < 0 ? NULL : stream_of(fd, mode);
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
    return open_stream("fopen", path, mode);
}
PUBLIC FILE *fopen64(const char *path, const char *mode)
{
    return open_stream("fopen64", path, mode);
}
PUBLIC FILE *fdopen(int fd, const char *mode)
{
    if (!call_on_fd("open", OPENS, fd, 0, -1).on)
        return ((FILE * (*)(int, const char *)) real_function("fdopen"))(fd, mode);
    return stream_of(fd, mode);
}
PUBLIC int fileno(FILE *file)
{
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++)
        if (streams[i] && streams[i]->file == file)
            fd = streams[i]->fd;
    pthread_mutex_unlock(&lock);
    return fd >= 0 ? fd : ((int (*)(FILE *))real_function("fileno"))(file);
}
