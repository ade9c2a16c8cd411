#include "runtime/base/status.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "runtime/base/program_call.h"
#include "runtime/base/remote_error.h"
#include "runtime/base/thread_modes.h"

static _Thread_local char message[4096];
static _Thread_local bool elsewhere;

/* Writes the message from this byte on; nothing if `format` is NULL. Returns what vsnprintf does. */
__attribute__((format(printf, 2, 0))) static int print_message(size_t at, const char *format, va_list args)
{
    ISO_DEFAULT_MODES();
    if (format)
        return vsnprintf(message + at, sizeof message - at, format, args);
    message[at] = '\0';
    return 0;
}

iso_status iso_error(iso_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(0, format, args);
    va_end(args);
    elsewhere = false;
    return code;
}

iso_status iso_error_text(iso_status code, const char *text)
{
    return iso_error(code, "%s", text ? text : "");
}

iso_status iso_error_remote(iso_status code)
{
    elsewhere = true;
    return code;
}

bool iso_error_is_remote(void)
{
    return elsewhere;
}

static bool begins_with_rank(const char *text)
{
    static const char begin[] = "rank ";
    if (strncmp(text, begin, sizeof begin - 1) != 0)
        return false;
    text += sizeof begin - 1;
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && strncmp(text + digits, ": ", 2) == 0;
}

bool iso_error_names_rank(const char *text)
{
    bool names = begins_with_rank(text);
    for (text = strstr(text, ": "); text && !names; text = strstr(text + 2, ": "))
        names = begins_with_rank(text + 2);
    return names;
}

iso_status iso_error_prefix(iso_status code, const char *format, ...)
{
    char old[sizeof message];
    memcpy(old, message, sizeof old);
    va_list args;
    va_start(args, format);
    int length = print_message(0, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof message)
        snprintf(message + length, sizeof message - (size_t)length, "%s", old);
    return code;
}

void iso_error_forget(void)
{
    message[0] = '\0';
    elsewhere = false;
}

iso_status iso_error_of_call(iso_status status, const char *format, ...)
{
    ISO_DEFAULT_MODES();
    if (status == ISO_OK || message[0])
        return status;
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return iso_error(status, "%s returned %s and recorded no message", what, iso_status_name(status));
}

iso_status iso_no_memory(const char *format, ...)
{
    static const char begin[] = "no memory for ";
    memcpy(message, begin, sizeof begin);
    va_list args;
    va_start(args, format);
    print_message(sizeof begin - 1, format, args);
    va_end(args);
    elsewhere = false;
    return ISO_NO_MEMORY;
}

const char *iso_error_message(void)
{
    return message;
}

const char *iso_status_name(iso_status status)
{
    static const char *const names[] = {"ISO_OK",     "ISO_INVALID",  "ISO_NO_MEMORY", "ISO_IO",
                                        "ISO_FAILED", "ISO_DIVERGED", "ISO_STOPPED",   "ISO_INTERRUPTED"};
    return (unsigned)status < sizeof names / sizeof names[0] ? names[status] : "no status";
}

int iso_status_exit_code(iso_status status)
{
    switch (status) {
    case ISO_OK:
        return 0;
    case ISO_INVALID:
        return 2;
    case ISO_DIVERGED:
        return 3;
    case ISO_STOPPED:
        return EX_TEMPFAIL;
    case ISO_INTERRUPTED:
        return 128 + SIGTERM;
    default:
        return 1;
    }
}
