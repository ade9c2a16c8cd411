/* Opens libisogrid_cuda.so. */
#include "runtime/backend/cuda_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/backend/backend.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

#define FILE_NAME "libisogrid_cuda.so"

/* ---- what the host gives ---- */

static iso_status host_error(iso_status code, const char *text)
{
    return iso_error(code, "%s", text);
}

static iso_status host_error_prefix(iso_status code, const char *text)
{
    return iso_error_prefix(code, "%s", text);
}

static void host_warn(const char *text)
{
    iso_warn("%s", text);
}

static void host_prepare(const struct iso_rates_call *call)
{
    iso_backend_cpu()->prepare(call, NULL);
}

static const iso_cuda_host host = {.error = host_error,
                                   .error_prefix = host_error_prefix,
                                   .error_message = iso_error_message,
                                   .allocate = iso_alloc,
                                   .make = iso_new,
                                   .grow = iso_grow,
                                   .duplicate = iso_strdup,
                                   .free = iso_free,
                                   .room = iso_memory_room,
                                   .warn = host_warn,
                                   .prepare = host_prepare};

/* ---- opening ---- */

static struct {
    pthread_once_t once;
    const iso_cuda_library *library;
    iso_cuda_state state;
    char text[1200]; /* why not */
} opened = {.once = PTHREAD_ONCE_INIT};

__attribute__((format(printf, 2, 3))) static void refuse(iso_cuda_state state, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(opened.text, sizeof opened.text, format, values);
    va_end(values);
    opened.state = state;
}

/* A library of other sources would read our structs wrongly. */
static void take(void *handle, const char *path)
{
    const iso_cuda_library *library = dlsym(handle, "iso_cuda_exports");
    if (!library)
        refuse(ISO_CUDA_WRONG_LIBRARY, "%s is not the CUDA backend of Isogrid", path);
    else if (strcmp(library->build_id(), iso_build_id()) != 0)
        refuse(ISO_CUDA_WRONG_LIBRARY,
               "%s is of Isogrid %s, build %s, but this program of %s, build %s: build and install both "
               "together",
               path, library->version(), library->build_id(), iso_version(), iso_build_id());
    else {
        opened.library = library;
        opened.state = ISO_CUDA_FOUND;
        library->begin(&host);
    }
}

/* The bytes that a shared library must have: where the last segment ends that is loaded. 0: it is none. */
static uint64_t library_bytes(int file)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    uint64_t end = 0;
    if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof part)
        return 0;
    for (int i = 0; i < head.e_phnum; i++) {
        off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof part);
        if (pread(file, &part, sizeof part, at) != sizeof part)
            return 0;
        if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > end)
            end = part.p_offset + part.p_filesz;
    }
    return end;
}

/* The loader maps a file that was cut off by an interrupted copy, and then dies of SIGBUS. */
static bool is_cut_off(const char *path)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t needed = file >= 0 && fstat(file, &facts) == 0 ? library_bytes(file) : 0;
    bool cut = needed > 0 && (uint64_t)facts.st_size < needed;
    if (cut)
        refuse(ISO_CUDA_WRONG_LIBRARY, "%s is cut off: it has %lld of at least %llu bytes", path,
               (long long)facts.st_size, (unsigned long long)needed);
    if (file >= 0)
        close(file);
    return cut;
}

/* Tries a path. Adds it to those that were tried if there is no file; true if there is. */
static bool try_path(const char *path, iso_text *tried)
{
    if (access(path, F_OK) != 0) {
        iso_text_add(tried, "%s%s", tried->length ? ", " : "", path);
        return false;
    }
    if (is_cut_off(path))
        return true;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        take(handle, path);
    else
        refuse(ISO_CUDA_WRONG_LIBRARY, "the CUDA backend cannot be loaded: %s", dlerror());
    return true;
}

/* The folder of the program or the library that contains this function. The loader has no name for the program. */
static void own_folder(char *folder, size_t size)
{
    Dl_info info;
    struct link_map *object = NULL;
    bool found = dladdr1(&opened, &info, (void **)&object, RTLD_DL_LINKMAP) && object;
    char *real = realpath(found && *object->l_name ? object->l_name : "/proc/self/exe", NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    if (slash)
        *slash = 0;
    snprintf(folder, size, "%s", slash ? real : ".");
    free(real);
}

static bool try_near(iso_text *tried)
{
    char folder[2048], path[2300];
    own_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/" FILE_NAME, folder);
    if (try_path(path, tried))
        return true;
    snprintf(path, sizeof path, "%s/../lib/" FILE_NAME, folder);
    return try_path(path, tried);
}

/* Tries the paths of the system's loader: the program's own run path, LD_LIBRARY_PATH, its cache. */
static bool try_loader(iso_text *tried)
{
    void *handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        take(handle, FILE_NAME);
    else
        iso_text_add(tried, "; the system's loader: %s", dlerror());
    return handle != NULL;
}

static void open_once(void)
{
    iso_text tried = {0};
    const char *given = getenv("ISOGRID_CUDA_LIBRARY");
    if (given && *given) {
        if (!try_path(given, &tried))
            refuse(ISO_CUDA_WRONG_LIBRARY, "ISOGRID_CUDA_LIBRARY is '%s': there is no such file", given);
    } else if (!try_near(&tried) && !try_loader(&tried))
        refuse(ISO_CUDA_NO_LIBRARY, "this build has no CUDA: " FILE_NAME " is not found (%s)",
               iso_text_get(&tried));
    iso_text_free(&tried);
}

iso_status iso_cuda_library_open(const iso_cuda_library **library, iso_cuda_state *state)
{
    pthread_once(&opened.once, open_once);
    if (state)
        *state = opened.state;
    if (!opened.library)
        return iso_error(ISO_FAILED, "%s", opened.text);
    *library = opened.library;
    return ISO_OK;
}

/* ---- facts ---- */

void iso_cuda_find(bool free_memory, iso_cuda_facts *facts)
{
    const iso_cuda_library *library = NULL;
    memset(facts, 0, sizeof *facts);
    if (iso_cuda_library_open(&library, &facts->state) == ISO_OK)
        library->find(free_memory, facts);
    else
        snprintf(facts->text, sizeof facts->text, "%s", iso_error_message());
}

void iso_cuda_find_part(iso_cuda_part part, iso_cuda_part_facts *facts)
{
    const iso_cuda_library *library = NULL;
    memset(facts, 0, sizeof *facts);
    if (iso_cuda_library_open(&library, NULL) == ISO_OK)
        library->find_part(part, facts);
    else
        snprintf(facts->text, sizeof facts->text, "%s", iso_error_message());
}
