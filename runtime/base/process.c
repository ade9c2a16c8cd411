#include "runtime/base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

uint64_t iso_process_space(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) ? 0 : (uint64_t)about.st_ino;
}

char iso_process_state(int pid)
{
    char path[40], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? 0 : '?';
    const char *found = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* after the name */
    fclose(file);
    return found && found[1] ? found[2] : '?';
}

int iso_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, (size_t)256 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it */
    error = pthread_create(thread, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
