#include "runtime/backend/cuda/functions.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"

iso_cuda_functions iso_cuda_call;

/* ---- the libraries ---- */

typedef struct symbol {
    const char *name;
    size_t at; /* of its member in the table */
} symbol;

#define SYMBOL(name) {#name, offsetof(iso_cuda_functions, name)},
static const symbol cublaslt_symbols[] = {ISO_CUBLASLT_FUNCTIONS(SYMBOL){NULL, 0}};
static const symbol cudnn_symbols[] = {ISO_CUDNN_FUNCTIONS(SYMBOL){NULL, 0}};
static const symbol nccl_symbols[] = {ISO_NCCL_FUNCTIONS(SYMBOL){NULL, 0}};
#undef SYMBOL

/* A version as a number of three parts: 90 1900 -> 9.19.0. */
typedef struct version {
    int major, minor, patch;
} version;

/* Two digits for each of the last two parts; of numbers below `first` one and two, as releases before had them. */
static version version_of(int number, int first)
{
    return number >= first ? (version){number / 10000, number / 100 % 100, number % 100}
                           : (version){number / 1000, number / 100 % 10, number % 100};
}

static version cublaslt_version(void)
{
    return version_of((int)iso_cuda_call.cublasLtGetVersion(), 0);
}

#if ISO_WITH_CUDNN
static version cudnn_version(void)
{
    return version_of((int)iso_cuda_call.cudnnGetVersion(), 90000);
}
#define CUDNN_FILE "libcudnn.so." ISO_TEXT_OF(CUDNN_MAJOR)
#define CUDNN_NEEDS                                                                                          \
    {                                                                                                        \
        CUDNN_MAJOR, 0, 0                                                                                    \
    }
#else
#define cudnn_version NULL
#define CUDNN_FILE NULL
#define CUDNN_NEEDS                                                                                          \
    {                                                                                                        \
        0, 0, 0                                                                                              \
    }
#endif

#if ISO_WITH_NCCL
static version nccl_version(void)
{
    int number = 0;
    iso_cuda_call.ncclGetVersion(&number);
    return version_of(number, 10000);
}
#define NCCL_FILE "libnccl.so." ISO_TEXT_OF(NCCL_MAJOR)
#define NCCL_NEEDS                                                                                           \
    {                                                                                                        \
        NCCL_MAJOR, 22, 0                                                                                    \
    } /* the first one whose communicators are aborted together */
#else
#define nccl_version NULL
#define NCCL_FILE NULL
#define NCCL_NEEDS                                                                                           \
    {                                                                                                        \
        0, 0, 0                                                                                              \
    }
#endif

static const struct {
    const char *name, *file, *variable;
    const symbol *symbols;
    version (*version)(void); /* NULL: built without it */
    version needs;            /* this one, or a later one of the same major number */
} parts[ISO_CUDA_PARTS] = {
    [ISO_CUDA_CUBLASLT] = {"cuBLASLt",
                           "libcublasLt.so." ISO_TEXT_OF(CUBLAS_VER_MAJOR),
                           "ISOGRID_CUBLASLT_LIBRARY",
                           cublaslt_symbols,
                           cublaslt_version,
                           {CUBLAS_VER_MAJOR, 0, 0}},
    [ISO_CUDA_CUDNN] = {"cuDNN", CUDNN_FILE, "ISOGRID_CUDNN_LIBRARY", cudnn_symbols, cudnn_version,
                        CUDNN_NEEDS},
    [ISO_CUDA_NCCL] = {"NCCL", NCCL_FILE, "ISOGRID_NCCL_LIBRARY", nccl_symbols, nccl_version, NCCL_NEEDS},
};

/* The result of opening each library, once it was tried. */
static struct {
    bool tried, open;
    char version[32]; /* "2.28.9" */
    char text[1500];  /* "NCCL 2.28.9 (libnccl.so.2)", or why not */
} found[ISO_CUDA_PARTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- opening ---- */

/* The first function that is missing, or NULL. */
static const char *fill(const symbol *symbols, void *library)
{
    for (const symbol *s = symbols; s->name; s++) {
        void *address = library ? dlsym(library, s->name) : iso_cuda_substitute(s->name);
        if (!address)
            return s->name;
        memcpy((char *)&iso_cuda_call + s->at, &address, sizeof address);
    }
    return NULL;
}

static bool fits(version has, version needs)
{
    return has.major == needs.major && has.minor >= needs.minor;
}

static const char *separator(const iso_text *tried)
{
    return tried->length > 0 ? "; " : "";
}

/* Fills the table from a library (NULL: from a test), and looks at its version. False: it cannot be used, and
 * `tried` has the reason. */
static bool take(iso_cuda_part part, void *library, const char *path, iso_text *tried)
{
    const char *missing = fill(parts[part].symbols, library);
    if (missing) {
        iso_text_add(tried, "%s%s has no function %s", separator(tried), path, missing);
        return false;
    }
    version has = parts[part].version(), needs = parts[part].needs;
    if (!fits(has, needs)) {
        iso_text_add(tried, "%s%s is of version %d.%d.%d, but Isogrid needs %d.%d or later", separator(tried),
                     path, has.major, has.minor, has.patch, needs.major, needs.minor);
        return false;
    }
    char number[sizeof found[part].version];
    snprintf(number, sizeof number, "%d.%d.%d", has.major, has.minor, has.patch);
    memcpy(found[part].version, number, sizeof number);
    snprintf(found[part].text, sizeof found[part].text, "%s %s (%s)", parts[part].name, number, path);
    found[part].open = true;
    return true;
}

/* Opens a file, and closes it if it cannot be used. */
static bool try_file(iso_cuda_part part, const char *path, iso_text *tried)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        iso_text_add(tried, "%s%s", separator(tried), dlerror());
    bool taken = library && take(part, library, path, tried);
    if (library && !taken)
        dlclose(library);
    return taken;
}

/* Tries the files that a pattern of the shell matches. */
static bool try_pattern(iso_cuda_part part, const char *pattern, iso_text *tried)
{
    glob_t matches;
    bool taken = false;
    if (glob(pattern, 0, NULL, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc && !taken; i++)
            taken = try_file(part, matches.gl_pathv[i], tried);
        globfree(&matches);
    } else {
        iso_text_add(tried, "%s%s: no such file", separator(tried), pattern);
    }
    return taken;
}

/* The packages of the Python that is active, of the user's and of the system's. */
static bool try_python(iso_cuda_part part, iso_text *tried)
{
    static const struct {
        const char *variable, *folder;
    } roots[] = {
        {"VIRTUAL_ENV", ""}, {"CONDA_PREFIX", ""}, {"HOME", "/.local"}, {NULL, "/usr/local"}, {NULL, "/usr"}};
    bool taken = false;
    for (size_t i = 0; i < sizeof roots / sizeof *roots && !taken; i++) {
        const char *root = roots[i].variable ? getenv(roots[i].variable) : "";
        char pattern[2000];
        if (!root)
            continue;
        snprintf(pattern, sizeof pattern, "%s%s/lib/python3*/*-packages/nvidia/*/lib/%s", root,
                 roots[i].folder, parts[part].file);
        taken = try_pattern(part, pattern, tried);
    }
    return taken;
}

/* The first file that can be used. One that the environment names is the only one that is tried. */
static bool open_library(iso_cuda_part part, iso_text *tried)
{
    const char *given = getenv(parts[part].variable);
    if (given && *given)
        return try_file(part, given, tried);
    return try_file(part, parts[part].file, tried) || try_python(part, tried);
}

bool iso_cuda_wants_part(iso_cuda_part part)
{
    const char *given = getenv(parts[part].variable);
    return !given || strcmp(given, "none") != 0;
}

static bool is_substituted(iso_cuda_part part)
{
    const char *given = getenv(parts[part].variable);
    return iso_cuda_substitute && !(given && *given) && iso_cuda_substitute(parts[part].symbols[0].name);
}

static void try_part(iso_cuda_part part)
{
    iso_text tried = {0};
    found[part].tried = true;
    if (!parts[part].version) {
        snprintf(found[part].text, sizeof found[part].text, "Isogrid was built without %s", parts[part].name);
        return;
    }
    if (!iso_cuda_wants_part(part)) {
        snprintf(found[part].text, sizeof found[part].text, "without %s (%s is none)", parts[part].name,
                 parts[part].variable);
        return;
    }
    if (!(is_substituted(part) ? take(part, NULL, "a test's", &tried) : open_library(part, &tried)))
        snprintf(found[part].text, sizeof found[part].text,
                 "%s cannot be used (%s): install %s %d, or set %s to the file", parts[part].name,
                 iso_text_get(&tried), parts[part].name, parts[part].needs.major, parts[part].variable);
    iso_text_free(&tried);
}

iso_status iso_cuda_open_part(iso_cuda_part part)
{
    pthread_mutex_lock(&lock);
    if (!found[part].tried)
        try_part(part);
    bool open = found[part].open;
    pthread_mutex_unlock(&lock);
    return open ? ISO_OK : iso_error(ISO_FAILED, "%s", found[part].text);
}

void iso_cuda_find_opened(iso_cuda_part part, iso_cuda_part_facts *facts)
{
    facts->built = parts[part].version != NULL;
    facts->found = iso_cuda_open_part(part) == ISO_OK;
    memcpy(facts->version, found[part].version, sizeof facts->version);
    snprintf(facts->text, sizeof facts->text, "%.*s", (int)sizeof facts->text - 1, found[part].text);
}
