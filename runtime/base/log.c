#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/arguments.h"
#include "runtime/base/printable.h"
#include "runtime/base/thread_modes.h"

static struct {
    void (*take)(void *user, const char *text);
    void *user;
} handler;

void iso_set_warning_handler(void (*take)(void *user, const char *text), void *user)
{
    handler.take = take;
    handler.user = user;
}

static void say(char *text)
{
    iso_text_disarm(text);
    if (handler.take) {
        handler.take(handler.user, text);
        return;
    }
    fprintf(stderr, "isogrid: warning: %s\n", text); /* in one write: ranks share stderr */
}

/* A list of files may be longer than the buffer; when out of memory, only its beginning is printed. */
void iso_warn(const char *format, ...)
{
    ISO_DEFAULT_MODES();
    char text[1024];
    va_list args, again;
    if (ISO_ANY_NULL(format))
        return;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(text, sizeof text, format, args);
    char *whole = length >= (int)sizeof text ? malloc((size_t)length + 1) : NULL;
    if (whole)
        vsnprintf(whole, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    say(whole ? whole : text);
    free(whole);
}
