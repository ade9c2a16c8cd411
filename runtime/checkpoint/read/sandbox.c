#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/read/sandbox_impl.h"

/* Limits on processor seconds, on seconds in all, and on memory beyond what the process has already. A file
 * of n bytes adds n / SLOWEST seconds and n * EXPANSION bytes. */
enum { PROCESSOR_SECONDS = 5, SLOWEST = 10 << 20, EXPANSION = 64 };
static const uint64_t least_memory = (uint64_t)1 << 30, most_memory = (uint64_t)4 << 30;

/* AddressSanitizer reserves more addresses than the limit allows. */
#if defined(__SANITIZE_ADDRESS__)
enum { LIMIT_MEMORY = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { LIMIT_MEMORY = 0 };
#else
enum { LIMIT_MEMORY = 1 };
#endif
#else
enum { LIMIT_MEMORY = 1 };
#endif

/* GCC 12's AddressSanitizer does not take its allocator's locks when it forks. If another thread, such as
 * MPI's, holds one at that moment, the child waits for ever. So the wait is shorter, and the child is started
 * again. */
enum { SECONDS = LIMIT_MEMORY ? 120 : 30, TRIES = LIMIT_MEMORY ? 1 : 5 };

/* The head of a child's report; the message follows, then the answer. */
typedef struct report {
    int64_t status;
    uint64_t message_bytes, answer_bytes;
} report;

/* ---- the child ---- */

static void limit(int resource, uint64_t most)
{
    struct rlimit now;
    if (getrlimit(resource, &now))
        return;
    now.rlim_cur = most < now.rlim_max ? (rlim_t)most : now.rlim_max;
    setrlimit(resource, &now);
}

/* Bytes of address space that the process has; 0: unknown. */
static uint64_t addresses_held(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Restores default handlers: MPI and sanitizers catch signals that must end this process. */
static void reset_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGALRM, SIGXCPU, SIGXFSZ,
                                  SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTRAP, SIGSYS};
    sigset_t none;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static uint64_t memory_for(uint64_t file_bytes)
{
    return file_bytes < (most_memory - least_memory) / EXPANSION ? least_memory + file_bytes * EXPANSION
                                                                 : most_memory;
}

/* If the machine runs out of memory, the kernel ends this process first. */
static void offer_to_go_first(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    (void)!write(file, "1000", 4);
    close(file);
}

static void confine(pid_t parent, uint64_t file_bytes, uint64_t held)
{
    uint64_t more = file_bytes / SLOWEST;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    reset_signals();
    offer_to_go_first();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CPU, PROCESSOR_SECONDS + more);
    if (LIMIT_MEMORY && held)
        limit(RLIMIT_AS, held + memory_for(file_bytes));
    alarm((unsigned)(SECONDS + (more < 1 << 20 ? more : 1 << 20)));
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (nothing < 0 || dup2(nothing, i) < 0)
            close(i);
}

static bool send_all(int to, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t sent = write(to, from, bytes);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        from += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static _Noreturn void live(int to, iso_sandbox_work work, void *data)
{
    void *answer = NULL;
    size_t bytes = 0;
    iso_status status = work(data, &answer, &bytes);
    const char *message = status == ISO_OK ? "" : iso_error_message();
    report head = {status, strlen(message), status == ISO_OK ? bytes : 0};
    bool sent = send_all(to, &head, sizeof head) && send_all(to, message, head.message_bytes) &&
                send_all(to, answer, head.answer_bytes);
    _exit(sent ? 0 : 1);
}

/* ---- the parent ---- */

static bool receive_all(int from, void *data, size_t bytes)
{
    char *to = data;
    while (bytes > 0) {
        ssize_t got = read(from, to, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* Memory for the answer grows as bytes arrive: the size in the head may be false. */
static iso_status receive_answer(int from, uint64_t bytes, bool *whole, void **answer)
{
    char *data = NULL;
    size_t have = 0, room = (size_t)1 << 20;
    bool more = true;
    while (have < bytes && more) {
        room = bytes < 2 * room ? (size_t)bytes : 2 * room;
        char *grown = iso_grow(data, have, room, 1);
        if (!grown) {
            iso_free(data);
            return iso_no_memory("the contents of a file");
        }
        data = grown;
        more = receive_all(from, data + have, room - have);
        have = room;
    }
    *whole = more;
    *answer = data;
    return ISO_OK;
}

/* Reads the child's report, if it sent one. */
static iso_status receive(int from, bool *whole, void **answer, size_t *bytes)
{
    report head;
    char message[4096] = "";
    *whole = false;
    if (!receive_all(from, &head, sizeof head) || head.message_bytes >= sizeof message ||
        !receive_all(from, message, (size_t)head.message_bytes) || head.status < ISO_OK ||
        head.status > ISO_DIVERGED)
        return ISO_OK;
    if (head.status != ISO_OK) {
        *whole = true;
        return iso_error((iso_status)head.status, "%s", message);
    }
    *bytes = (size_t)head.answer_bytes;
    return receive_answer(from, head.answer_bytes, whole, answer);
}

static iso_status tell_end(const char *path, bool known, int end)
{
    if (known && WIFSIGNALED(end) && (WTERMSIG(end) == SIGALRM || WTERMSIG(end) == SIGXCPU))
        return iso_error(ISO_INVALID, "'%s': HDF5 itself failed on it: it did not finish (%s)", path,
                         strsignal(WTERMSIG(end)));
    if (known && WIFSIGNALED(end))
        return iso_error(ISO_INVALID, "'%s': HDF5 itself failed on it: signal %d (%s)", path, WTERMSIG(end),
                         strsignal(WTERMSIG(end)));
    return iso_error(ISO_INVALID,
                     "'%s': HDF5 itself failed on it: its child process ended without a report (%d)", path,
                     known && WIFEXITED(end) ? WEXITSTATUS(end) : -1);
}

/* Other code may have waited for our child already, or may have made children impossible to wait for. */
static bool wait_for(pid_t child, int *end)
{
    pid_t got;
    do
        got = waitpid(child, end, 0);
    while (got < 0 && errno == EINTR);
    return got == child;
}

/* *late: the child was killed because it waited too long. */
static iso_status sandbox_run(const char *path, uint64_t file_bytes, iso_sandbox_work work, void *data,
                              void **answer, size_t *bytes, bool *late)
{
    int ends[2], end = 0;
    pid_t parent = getpid();
    uint64_t held = LIMIT_MEMORY ? addresses_held() : 0;
    bool whole;
    if (pipe2(ends, O_CLOEXEC))
        return iso_error(ISO_FAILED, "'%s': no child process could be started to read it: %s", path,
                         strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        confine(parent, file_bytes, held);
        live(ends[1], work, data);
    }
    int cause = errno;
    close(ends[1]);
    iso_status status = child < 0
                            ? iso_error(ISO_FAILED, "'%s': no child process could be started to read it: %s",
                                        path, strerror(cause))
                            : receive(ends[0], &whole, answer, bytes);
    close(ends[0]);
    if (child < 0)
        return status;
    bool known = wait_for(child, &end);
    *late = known && WIFSIGNALED(end) && WTERMSIG(end) == SIGALRM;
    if (status == ISO_NO_MEMORY && whole)
        status = iso_error_prefix(
            ISO_INVALID, "'%s': reading it takes more memory than a file of its size should: ", path);
    if (status != ISO_OK || whole)
        return status;
    iso_free(*answer);
    *answer = NULL;
    return tell_end(path, known, end);
}

iso_status iso_sandbox_run(const char *path, uint64_t file_bytes, iso_sandbox_work work, void *data,
                           void **answer, size_t *bytes)
{
    iso_hdf5_quiet quiet;
    iso_status status = ISO_OK;
    bool late = true;
    iso_hdf5_quiet_begin(&quiet);
    for (int i = 0; i < TRIES && late; i++) {
        *answer = NULL;
        *bytes = 0;
        late = false;
        status = sandbox_run(path, file_bytes, work, data, answer, bytes, &late);
    }
    iso_hdf5_quiet_end(&quiet);
    return status;
}
