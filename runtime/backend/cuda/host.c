/* The functions of the host's library that have state: its messages and its memory. They have the names of status.h
 * and memory.h, so that sources of this folder are written as all others. */
#include "runtime/backend/cuda/host.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/log.h"
#include "runtime/base/memory.h"

static const iso_cuda_host *host;

void iso_cuda_begin(const iso_cuda_host *given)
{
    host = given;
}

enum { MESSAGE = 4096 };

iso_status iso_error(iso_status code, const char *format, ...)
{
    char text[MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return host->error(code, text);
}

iso_status iso_error_prefix(iso_status code, const char *format, ...)
{
    char text[MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return host->error_prefix(code, text);
}

iso_status iso_no_memory(const char *format, ...)
{
    char text[MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return iso_error(ISO_NO_MEMORY, "no memory for %s", text);
}

void iso_warn(const char *format, ...)
{
    char text[MESSAGE];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    host->warn(text);
}

const char *iso_error_message(void)
{
    return host->error_message();
}

iso_status iso_alloc(size_t bytes, const char *what, void **memory)
{
    return host->allocate(bytes, what, memory);
}

void *iso_new(size_t bytes)
{
    return host->make(bytes);
}

void *iso_grow(void *memory, size_t old_count, size_t count, size_t size)
{
    return host->grow(memory, old_count, count, size);
}

char *iso_strdup(const char *text)
{
    return host->duplicate(text);
}

void iso_free(void *memory)
{
    host->free(memory);
}

void iso_cuda_host_prepare(const struct iso_rates_call *call)
{
    host->prepare(call);
}

size_t iso_memory_room(const void *memory)
{
    return host->room(memory);
}
