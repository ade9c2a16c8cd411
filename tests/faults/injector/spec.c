/* What is to go wrong, and when: the words of FAULTS, the count of calls, the decision for each. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/faults.h"
#include "tests/faults/injector/injector.h"

static const struct {
    const char *word;
    int number;
} errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EROFS", EROFS},   {"EACCES", EACCES},
              {"ENOENT", ENOENT}, {"EINTR", EINTR}, {"EDQUOT", EDQUOT}, {"ESTALE", ESTALE}};
enum { ERRORS = sizeof errors / sizeof *errors };

static const struct {
    const char *word;
    unsigned kinds;
} kinds[] = {{"write", WRITES}, {"sync", SYNCS}, {"name", NAMES}, {"open", OPENS}, {"read", READS}};

static const struct {
    const char *word;
    int number;
} signals[] = {{"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGUSR1", SIGUSR1}};
enum { SIGNALS = sizeof signals / sizeof *signals };

enum how { PASS, FAIL, SHORT, KILL_BEFORE, KILL_AFTER, STAY, VANISH, REPLACE, SIGNAL };

static struct spec {
    enum how how;
    int error, signal;
    long at;
    bool lasts;
    unsigned kinds;
    bool spares_close;
    double rate;
    char on[64]; /* a part of the path; "": any */
} armed = {.kinds = ~0u};
static long calls;
static char hit[PATH_MAX + 64];
static bool was_hit;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void refuse(const char *word)
{
    fprintf(stderr, "injector: '%s' is no word of FAULTS\n", word);
    _exit(99);
}

static void parse_how(struct spec *s, const char *word)
{
    static const char *const hows[] = {
        [SHORT] = "short", [KILL_BEFORE] = "kill-before", [KILL_AFTER] = "kill-after",
        [STAY] = "stays",  [VANISH] = "vanishes",         [REPLACE] = "replaced"};
    for (int i = SHORT; i <= REPLACE; i++)
        if (!strcmp(word, hows[i])) {
            s->how = (enum how)i;
            return;
        }
    for (int i = 0; i < ERRORS; i++)
        if (!strcmp(word, errors[i].word)) {
            s->how = FAIL;
            s->error = errors[i].number;
            return;
        }
    for (int i = 0; i < SIGNALS; i++)
        if (!strcmp(word, signals[i].word)) {
            s->how = SIGNAL;
            s->signal = signals[i].number;
            return;
        }
    refuse(word);
}

static unsigned parse_kinds(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(word, kinds[i].word))
            return kinds[i].kinds;
    refuse(word);
    return 0;
}

/* Returns false where the word says that this rank is not meant. */
static bool parse_word(struct spec *s, const char *word)
{
    char *end = NULL;
    if (!strncmp(word, "rank=", 5))
        return !strcmp(word + 5, "all") || atoi(word + 5) == injector_rank();
    if (!strncmp(word, "how=", 4))
        parse_how(s, word + 4);
    else if (!strncmp(word, "only=", 5))
        s->kinds = parse_kinds(word + 5);
    else if (!strncmp(word, "on=", 3))
        snprintf(s->on, sizeof s->on, "%s", word + 3);
    else if (!strcmp(word, "spare=close"))
        s->spares_close = true;
    else if (!strncmp(word, "rate=", 5))
        s->rate = strtod(word + 5, &end);
    else if (!strncmp(word, "at=", 3)) {
        s->at = strtol(word + 3, &end, 10);
        s->lasts = *end == '+';
    } else
        refuse(word);
    return true;
}

void faults_arm(const char *text)
{
    struct spec s = {.kinds = ~0u};
    char copy[256], *next = NULL;
    bool meant = true;
    injector_begin();
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &next); word; word = strtok_r(NULL, " ", &next))
        meant = parse_word(&s, word) && meant;
    if (!meant)
        s.how = PASS;
    pthread_mutex_lock(&lock);
    armed = s;
    calls = 0;
    was_hit = false;
    pthread_mutex_unlock(&lock);
}

long faults_calls(void)
{
    return calls;
}

const char *faults_hit(void)
{
    return was_hit ? hit : NULL;
}

static bool only_reads(const call *c)
{
    return c->fd >= 0 && (fcntl(c->fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

/* Counts the call; what is to become of it. */
static struct spec decide(call *c)
{
    pthread_mutex_lock(&lock);
    struct spec s = armed;
    if ((c->kind & s.kinds) && strstr(c->path, s.on))
        c->number = ++calls;
    bool now = c->number && (s.lasts ? c->number >= s.at : c->number == s.at);
    if (s.how == SHORT && (!(c->kind & (READS | WRITES)) || c->bytes < 2))
        now = false;
    if (s.how == FAIL && !strcmp(c->name, "close") && (s.spares_close || only_reads(c)))
        now = false;
    if (!now)
        s.how = PASS;
    if (s.how != PASS) {
        was_hit = true;
        snprintf(hit, sizeof hit, "%s %s %zu", c->name, c->path, c->bytes);
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static void slow_down(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

static void die(const call *c, const char *when)
{
    log_line("%ld %s %zu %s %s", c->number, c->name, c->bytes, when, c->path);
    kill(getpid(), SIGKILL);
    for (;;) /* other threads may run for a moment yet, this one does nothing any more */
        pause();
}

/* The call is not made, and this thread does nothing any more, as where a file server does not answer. */
static void stay(const call *c)
{
    log_line("%ld %s %zu stays %s", c->number, c->name, c->bytes, c->path);
    for (;;)
        pause();
}

/* To the process, as from outside. */
static void send_signal(const call *c, int signal)
{
    log_line("%ld %s %zu signalled %s", c->number, c->name, c->bytes, c->path);
    kill(getpid(), signal);
}

/* As by another program, at the last moment before the call. */
static void take_name_away(const call *c, bool replaces)
{
    int error = errno;
    if (strstr(c->path, " (deleted)")) /* it has none, which the kernel tells so */
        return;
    syscall(SYS_unlinkat, AT_FDCWD, c->path, 0);
    int other = replaces ? (int)syscall(SYS_openat, AT_FDCWD, c->path, O_WRONLY | O_CREAT, 0666) : -1;
    if (other >= 0)
        syscall(SYS_close, other);
    errno = error;
}

bool call_goes(call *c)
{
    if (!c->on)
        return true;
    struct spec s = decide(c);
    if (s.rate > 0 && c->kind == WRITES)
        slow_down((double)c->bytes / s.rate);
    if (s.how == KILL_BEFORE)
        die(c, "killed-before");
    if (s.how == STAY)
        stay(c);
    if (s.how == VANISH || s.how == REPLACE)
        take_name_away(c, s.how == REPLACE);
    if (s.how == SIGNAL)
        send_signal(c, s.signal);
    if (s.how == SHORT)
        c->bytes /= 2;
    c->kills = s.how == KILL_AFTER;
    if (s.how == FAIL)
        errno = s.error;
    return s.how != FAIL;
}

static const char *error_word(int number)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].number == number)
            return errors[i].word;
    return strerrorname_np(number);
}

long call_done(call *c, long result)
{
    int error = errno;
    if (!c->on)
        return result;
    if (result != -1)
        durable_follow(c, result);
    if (c->kills)
        die(c, "killed-after");
    if (result == -1)
        log_line("%ld %s %zu -%s %s", c->number, c->name, c->bytes, error_word(error), c->path);
    else
        log_line("%ld %s %zu %ld %s", c->number, c->name, c->bytes, result, c->path);
    errno = error;
    return result;
}
