/* A library for LD_PRELOAD that stands between a program and its system calls on files. It counts the calls
 * on what lies below one folder, writes them into a log, lets chosen ones fail, kills the process at one,
 * slows writes down, and keeps what a power cut would have left; waits of threads may end late. It touches
 * nothing else of the program.
 *
 * Environment:
 *   FAULTS_BELOW    the folder: absolute, without links in it; may come to be later. Without it nothing is done.
 *   FAULTS          what is to go wrong, in words parted by blanks:
 *                     rank=2       only at this rank (OMPI_COMM_WORLD_RANK; 0 where there is none); all by default
 *                     at=17        at the 17th call; at=17+: from there on at every call (a full disk stays full)
 *                     how=ENOSPC   the call fails so, undone (EIO, EROFS, EACCES, ENOENT, EINTR, EDQUOT, ESTALE)
 *                         short    a read or write of more than one byte does half; other calls pass
 *                         kill-before, kill-after: SIGKILL
 *                         stays    the call does not come back
 *                         vanishes the file that the call is on has lost its name before the call is made
 *                         replaced the same, and another file, which is empty, has this name
 *                         SIGINT, SIGTERM, SIGUSR1: the process gets the signal; the call is made
 *                     spare=close  no close fails: what is synced before cannot, and HDF5 does not survive it
 *                     only=write   only calls of a kind are counted: write, sync, name, open, read
 *                     on=TEXT      only calls whose path has this text are counted
 *                     rate=1e6     writes are slowed to so many bytes a second
 *   FAULTS_LOG      a file to which every process adds a line a call, when it has ended:
 *                     RANK NUMBER CALL BYTES RESULT PATH (RESULT: what it returned, or -ENOSPC and the like)
 *   FAULTS_DURABLE  a folder, there already, to hold what was made durable (durable.c)
 *   FAULTS_LATE     microseconds by which short waits for sockets that end without an event end late */
#ifndef ISO_TESTS_FAULTS_INJECTOR_H
#define ISO_TESTS_FAULTS_INJECTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum kind { OPENS = 1, READS = 2, WRITES = 4, SYNCS = 8, NAMES = 16, LOOKS = 32 };

/* A call on its way. */
typedef struct call {
    const char *name;
    enum kind kind;
    bool on;      /* it concerns the folder */
    size_t bytes; /* to be read or written: less than was asked for where it is to be short */
    int fd;       /* -1: by path */
    off_t at;     /* of a read or write; -1: where the file stands */
    bool kills;   /* when it is done */
    long number;  /* since the fault was armed; 0: not counted */
    char path[PATH_MAX];
} call;

/* Begins a call on an open file, or on a path seen from a folder (AT_FDCWD: the current one). */
call call_on_fd(const char *name, enum kind kind, int fd, size_t bytes, off_t at);
call call_on_path(const char *name, enum kind kind, int folder, const char *path);
/* Whether the call is to be made; else errno says why not. Does not come back where it kills. */
bool call_goes(call *c);
/* When it was made or not: keeps errno and returns the result. */
long call_done(call *c, long result);

/* ---- inside ---- */

/* The function that the program would have called. */
void *real_function(const char *name);
/* Reads the environment, once. */
void injector_begin(void);
int injector_rank(void);
/* Whether a path lies below the folder. */
bool injector_concerns(const char *path);

void log_begin(void);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* This thread makes calls of the library's own, which nobody stands in for. */
extern _Thread_local bool injector_inside;
void durable_begin(void);
/* What a call that went well did to files: called with the call's result. */
void durable_follow(const call *c, long result);

#endif
