/* libisogrid_cuda.so: the CUDA backend, which is opened when it is asked for. A program that never asks loads
 * nothing of CUDA, and starts where no driver is.
 *
 * Both sides include this header, and no header of CUDA is needed for it. The library calls the host's functions
 * by the table that it is given, because a program may have the host's library linked in statically.
 * Functions are local; any thread may call them. Pointers that functions return are constant, until the process
 * ends. */
#ifndef ISO_BACKEND_CUDA_LIBRARY_H
#define ISO_BACKEND_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

struct iso_backend;
struct iso_device;
struct iso_rates_call;

/* Functions of the host's library that have state (status.h, memory.h). Messages are passed as text. */
typedef struct iso_cuda_host {
    iso_status (*error)(iso_status code, const char *text);
    iso_status (*error_prefix)(iso_status code, const char *text);
    const char *(*error_message)(void);
    iso_status (*allocate)(size_t bytes, const char *what, void **memory);
    void *(*make)(size_t bytes);
    void *(*grow)(void *memory, size_t old_count, size_t count, size_t size);
    char *(*duplicate)(const char *text);
    void (*free)(void *memory);
    size_t (*room)(const void *memory);
    void (*warn)(const char *text);
    void (*prepare)(const struct iso_rates_call *call); /* in memory of the host */
} iso_cuda_host;

/* The state of CUDA when it is asked for: the first of these that is true. */
typedef enum iso_cuda_state {
    ISO_CUDA_NO_LIBRARY,    /* libisogrid_cuda.so is not there: built without CUDA */
    ISO_CUDA_WRONG_LIBRARY, /* it cannot be loaded, or is of another build */
    ISO_CUDA_NO_DRIVER,
    ISO_CUDA_OLD_DRIVER,   /* it is older than the CUDA that the library was compiled with */
    ISO_CUDA_DRIVER_FAILS, /* it gives another error */
    ISO_CUDA_NO_GPU,       /* no GPU is visible */
    ISO_CUDA_OLD_GPU,      /* the library has no code for one of them */
    ISO_CUDA_FOUND,
} iso_cuda_state;

enum { ISO_CUDA_GPUS = 32, ISO_CUDA_UUID = 16 };

typedef struct iso_cuda_gpu {
    char name[64];
    unsigned char
        uuid[ISO_CUDA_UUID]; /* the same in all processes of a host, whatever CUDA_VISIBLE_DEVICES is */
    size_t total_bytes, free_bytes;
    int major, minor; /* compute capability */
} iso_cuda_gpu;

typedef struct iso_cuda_facts {
    iso_cuda_state state;
    char text[400]; /* what was found, or why not: one sentence without a full stop */
    int driver,
        runtime; /* the version of CUDA that the driver supports, and that of the library: 13000 is 13.0 */
    int n_gpus;  /* visible to this process, at most ISO_CUDA_GPUS */
    iso_cuda_gpu gpu[ISO_CUDA_GPUS];
} iso_cuda_facts;

/* The libraries of NVIDIA's that the backend opens when they are first needed. */
typedef enum iso_cuda_part { ISO_CUDA_CUBLASLT, ISO_CUDA_CUDNN, ISO_CUDA_NCCL, ISO_CUDA_PARTS } iso_cuda_part;

typedef struct iso_cuda_part_facts {
    bool built;       /* with its headers */
    bool found;       /* and it is there, of a version that fits */
    char version[32]; /* "2.28.9" */
    char text[400];   /* "NCCL 2.28.9 (libnccl.so.2)", or why it cannot be used */
} iso_cuda_part_facts;

/* The symbol iso_cuda_exports of the library. The first two members keep their places in all versions. */
typedef struct iso_cuda_library {
    const char *(*version)(void), *(*build_id)(void); /* of the sources that it was compiled from */
    /* Called once, before all others. The table is lent. */
    void (*begin)(const iso_cuda_host *host);
    void (*find)(bool free_memory, iso_cuda_facts *facts);
    void (*find_part)(iso_cuda_part part, iso_cuda_part_facts *facts);
    /* The GPU of slot number `turn` among those of its host (iso_backend.device). */
    const struct iso_device *(*device)(int turn);
    /* There is no GPU: kernels of libraries are taken as if they were there. Before kernels are looked for. */
    void (*only_plan)(void);
    const struct iso_backend *(*backend)(void); /* without `unavailable` and `load` */
} iso_cuda_library;

/* Opens the library, once. ISO_FAILED: it is missing or does not fit, *state says which (may be NULL), and the
 * message names the paths that were tried. The environment variable ISOGRID_CUDA_LIBRARY names the file;
 * otherwise it is looked for beside the program or the library that contains this function, in ../lib
 * from there, and where the system's loader looks. */
iso_status iso_cuda_library_open(const iso_cuda_library **library, iso_cuda_state *state);

/* Asks the library and the driver. Never fails: `state` and `text` say what was found. free_memory: asks also for
 * the free bytes of the GPUs, which begins to use each of them. */
void iso_cuda_find(bool free_memory, iso_cuda_facts *facts);
/* Opens a library of NVIDIA's. Never fails: `text` says what was found. */
void iso_cuda_find_part(iso_cuda_part part, iso_cuda_part_facts *facts);

#endif
