/* Statuses and their messages.
 *
 * Functions return an iso_status; results go to output arguments and are written on success only. The first
 * function that detects an error records its message with iso_error(); callers propagate with ISO_TRY.
 * Besides what its comment names, every function may return ISO_NO_MEMORY, and ISO_INVALID for a NULL where it
 * needs an object. A collective one may also return ISO_FAILED, if MPI reports an error or a peer was lost; it
 * returns the same status on every rank, that of the lowest rank that detected an error.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_STATUS_H
#define ISO_BASE_STATUS_H

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_context iso_context;

typedef enum iso_status {
    ISO_OK = 0,
    ISO_INVALID,     /* the caller or a user gave a wrong value, name, shape or file: exit code 2 */
    ISO_NO_MEMORY,   /* exit code 1 */
    ISO_IO,          /* a system call on a file failed: exit code 1 */
    ISO_FAILED,      /* any other error at run time: exit code 1 */
    ISO_DIVERGED,    /* training produced NaN and was asked to stop then: exit code 3 */
    ISO_STOPPED,     /* training stopped on request and saved its state; a new run continues it: exit code 75
                      (EX_TEMPFAIL) */
    ISO_INTERRUPTED, /* the program stopped on request without saving: exit code 128 + the signal */
} iso_status;

/* Runs a call that returns a status. On an error, jumps to `done` in the enclosing function, which needs a
 * variable `status` and a label `done`. */
#define ISO_TRY(call)                                                                                        \
    do {                                                                                                     \
        status = (call);                                                                                     \
        if (status != ISO_OK)                                                                                \
            goto done;                                                                                       \
    } while (0)

/* Records the message of an error in this thread and returns its code. printf's format; no newline. */
ISO_API iso_status iso_error(iso_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* The same with the message as it is, for languages without variable arguments: records it in this thread and returns
 * its code, ISO_INVALID or another. */
ISO_API iso_status iso_error_text(iso_status code, const char *text);

/* Puts a prefix before this thread's recorded message ("layer 'conv2d': ..."); returns the code unchanged. */
ISO_API iso_status iso_error_prefix(iso_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Records "no memory for " followed by the formatted text in this thread; returns ISO_NO_MEMORY. */
ISO_API iso_status iso_no_memory(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* The message recorded last in this thread; never NULL, valid until the next error of this thread. */
ISO_API const char *iso_error_message(void);

/* The exit code of a process that ends with this status. That of ISO_INTERRUPTED is 143, as after SIGTERM;
 * iso_finish knows the signal. */
ISO_API int iso_status_exit_code(iso_status status);

#ifdef __cplusplus
}
#endif
#endif
