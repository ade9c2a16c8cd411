/* What tests/launch/test_doctor preloads into isogrid: calls whose results its variables change, so that each
 * check of isogrid doctor meets what it is for. The variables begin with DOCTOR_; without them, all is as it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define REAL(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static const char *fault(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static void wait_seconds(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))}, NULL);
}

/* ---- libraries ---- */

int MPI_Query_thread(int *provided);
int MPI_Query_thread(int *provided)
{
    int code = REAL(MPI_Query_thread)(provided);
    if (*fault("DOCTOR_THREAD_LEVEL"))
        *provided = atoi(fault("DOCTOR_THREAD_LEVEL"));
    return code;
}

int MPI_Get_library_version(char *version, int *length);
int MPI_Get_library_version(char *version, int *length)
{
    if (!*fault("DOCTOR_MPI"))
        return REAL(MPI_Get_library_version)(version, length);
    *length = sprintf(version, "%s, built by a test", fault("DOCTOR_MPI"));
    return 0;
}

int H5get_libversion(unsigned *major, unsigned *minor, unsigned *release);
int H5get_libversion(unsigned *major, unsigned *minor, unsigned *release)
{
    int code = REAL(H5get_libversion)(major, minor, release);
    if (*fault("DOCTOR_HDF5"))
        sscanf(fault("DOCTOR_HDF5"), "%u.%u.%u", major, minor, release);
    return code;
}

int H5Pset_fapl_mpio(long access, void *communicator, void *info);
int H5Pset_fapl_mpio(long access, void *communicator, void *info)
{
    return *fault("DOCTOR_SERIAL_HDF5") ? -1 : REAL(H5Pset_fapl_mpio)(access, communicator, info);
}

void *dlopen(const char *name, int flags)
{
    bool openblas = name && strstr(name, "openblas");
    if (openblas && !strcmp(fault("DOCTOR_OPENBLAS"), "none"))
        return NULL;
    if (openblas &&
        !strcmp(fault("DOCTOR_OPENBLAS"), "other")) /* its loader removes the variable afterwards */
        setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    return REAL(dlopen)(name, flags);
}

int dnnl_get_effective_cpu_isa(void);
int dnnl_get_effective_cpu_isa(void)
{
    return *fault("DOCTOR_ISA") ? (int)strtol(fault("DOCTOR_ISA"), NULL, 0)
                                : REAL(dnnl_get_effective_cpu_isa)();
}

/* The beginning of oneDNN's struct: major, minor, patch. */
const int *dnnl_version(void);
const int *dnnl_version(void)
{
    static int other[3];
    if (!*fault("DOCTOR_ONEDNN"))
        return REAL(dnnl_version)();
    other[0] = (int)strtol(fault("DOCTOR_ONEDNN"), NULL, 10);
    return other;
}

/* ---- the host ---- */

int getaddrinfo(const char *name, const char *service, const struct addrinfo *want, struct addrinfo **found)
{
    if (!strcmp(fault("DOCTOR_NAMES"), "slow"))
        wait_seconds(0.7);
    return !strcmp(fault("DOCTOR_NAMES"), "none") ? EAI_AGAIN : REAL(getaddrinfo)(name, service, want, found);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = REAL(clock_gettime)(clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += atol(fault("DOCTOR_CLOCK"));
    return code;
}

/* DOCTOR_FILES=PATH=OTHER: opens another file instead. */
static const char *opened(const char *path)
{
    const char *files = fault("DOCTOR_FILES");
    size_t length = strlen(path);
    bool other = !strncmp(files, path, length) && files[length] == '=';
    return other ? files + length + 1 : path;
}

FILE *fopen(const char *path, const char *mode)
{
    return REAL(fopen)(opened(path), mode);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return REAL(open)(opened(path), flags, mode);
}

/* ---- the file system ---- */

int statfs(const char *path, struct statfs *about)
{
    int code = REAL(statfs)(path, about);
    if (*fault("DOCTOR_FILE_SYSTEM"))
        about->f_type = strtol(fault("DOCTOR_FILE_SYSTEM"), NULL, 0);
    return code;
}

int rename(const char *from, const char *to)
{
    const char *how = fault("DOCTOR_RENAME");
    if (!strcmp(how, "fails"))
        return fail(EXDEV);
    if (!strcmp(how, "copies"))
        return unlink(to) || link(from, to);
    return !strcmp(how, "does nothing") ? unlink(from) : REAL(rename)(from, to);
}

int fsync(int file)
{
    struct stat about;
    const char *how = fault("DOCTOR_FSYNC");
    bool folder = fstat(file, &about) == 0 && S_ISDIR(about.st_mode);
    if (!strcmp(how, folder ? "folder fails" : "file fails"))
        return fail(folder ? EINVAL : EIO);
    if (!strcmp(how, "slow") && !folder)
        wait_seconds(1.2);
    return REAL(fsync)(file);
}

int flock(int file, int operation)
{
    const char *how = fault("DOCTOR_FLOCK");
    return !strcmp(how, "none") ? fail(ENOTSUP) : !strcmp(how, "granted") ? 0 : REAL(flock)(file, operation);
}

int fcntl(int file, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (command == F_SETLK && *fault("DOCTOR_NO_RECORD_LOCKS"))
        return fail(ENOLCK);
    return REAL(fcntl)(file, command, argument);
}

/* DOCTOR_LATE: a file is seen some time after it was made. */
int access(const char *path, int mode)
{
    static int tries;
    if (*fault("DOCTOR_LATE") && strstr(path, "doctor-seen") && tries++ < 30)
        return fail(ENOENT);
    return REAL(access)(path, mode);
}
