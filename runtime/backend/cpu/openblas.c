/* OpenBLAS, loaded by iso_init, or when it is first needed if there is no context.
 *
 * When OpenBLAS is loaded, it chooses its kernels and starts its threads, controlled by environment
 * variables. The version in Debian 12 uses kernels of 2006 on processors that it does not know and those of
 * Haswell on every AMD processor; and it starts a thread for each core, which we never use. So it is not
 * linked: we set the variables, then load it. Ranks that agree on an instruction set then use the same
 * kernels. If the program has loaded OpenBLAS itself, its settings are kept, and its number of threads is
 * set to 1 for our products only. With RTLD_LAZY the
 * load takes about 2 ms; RTLD_NOW would look up all its symbols and take 5 ms more. */
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cpu/onednn.h"

static struct {
    pthread_once_t once;
    void (*sgemm)(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint, float,
                  const float *, blasint, const float *, blasint, float, float *, blasint);
    void (*dgemm)(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint, double,
                  const double *, blasint, const double *, blasint, double, double *, blasint);
    void (*set_threads)(int);
    int (*get_threads)(void);
    char *(*config)(void);
    char *(*core)(void);
    bool complete;
    bool programs; /* the program has loaded it */
} blas = {.once = PTHREAD_ONCE_INIT};

static void openblas_find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
}

/* The processor whose kernels suit an instruction set, as OpenBLAS writes it; when it reads the name, the
 * case of letters does not matter. "": OpenBLAS chooses. On aarch64 it looks for the model of the processor, and
 * takes kernels for any of them if it does not know it. */
static const char *suitable_core(void)
{
#if defined(__x86_64__)
    static const char *const cores[] = {
        [ISO_ISA_BASE] = "Nehalem",         [ISO_ISA_AVX2] = "Haswell", [ISO_ISA_AVX512] = "SkylakeX",
        [ISO_ISA_AVX512_BF16] = "SkylakeX", [ISO_ISA_AMX] = "SkylakeX",
    };
    return cores[iso_cpu_isa()];
#else
    return "";
#endif
}

static void load_once(void)
{
    bool chosen = getenv("OPENBLAS_CORETYPE") != NULL, counted = getenv("OPENBLAS_NUM_THREADS") != NULL;
    if (*suitable_core())
        setenv("OPENBLAS_CORETYPE", suitable_core(), 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    blas.programs = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD) != NULL;
    void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (!chosen)
        unsetenv("OPENBLAS_CORETYPE");
    if (!counted)
        unsetenv("OPENBLAS_NUM_THREADS");
    if (!library)
        return;
    openblas_find(library, "cblas_sgemm", &blas.sgemm);
    openblas_find(library, "cblas_dgemm", &blas.dgemm);
    openblas_find(library, "openblas_set_num_threads", &blas.set_threads);
    openblas_find(library, "openblas_get_num_threads", &blas.get_threads);
    openblas_find(library, "openblas_get_config", &blas.config);
    openblas_find(library, "openblas_get_corename", &blas.core);
    blas.complete =
        blas.sgemm && blas.dgemm && blas.set_threads && blas.get_threads && blas.config && blas.core;
    if (blas.complete && !blas.programs)
        blas.set_threads(1);
}

/* ---- the number of threads of a program that uses OpenBLAS too ---- */

static struct {
    pthread_mutex_t lock;
    int users;   /* of our threads, within a product */
    int threads; /* the program's number */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The number belongs to the process: it is 1 while one of our threads computes a product. */
static void begin_product(void)
{
    if (!blas.programs)
        return;
    pthread_mutex_lock(&shared.lock);
    if (shared.users++ == 0) {
        shared.threads = blas.get_threads();
        if (shared.threads != 1)
            blas.set_threads(1);
    }
    pthread_mutex_unlock(&shared.lock);
}

static void end_product(void)
{
    if (!blas.programs)
        return;
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0 && shared.threads != 1)
        blas.set_threads(shared.threads);
    pthread_mutex_unlock(&shared.lock);
}

void iso_cpu_load_openblas(void)
{
    pthread_once(&blas.once, load_once);
}

static bool is_loaded(void)
{
    iso_cpu_load_openblas();
    return blas.complete;
}

bool iso_openblas_takes(const iso_product *p)
{
    return p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX && is_loaded();
}

static CBLAS_TRANSPOSE transposed(bool yes)
{
    return yes ? CblasTrans : CblasNoTrans;
}

void iso_openblas_sgemm(const iso_product *p, const float *a, const float *b, float *c)
{
    begin_product();
    blas.sgemm(CblasRowMajor, transposed(p->transpose_a), transposed(p->transpose_b), (blasint)p->m,
               (blasint)p->n, (blasint)p->k, 1, a, (blasint)iso_product_lda(p), b,
               (blasint)iso_product_ldb(p), 0, c, (blasint)iso_product_ldc(p));
    end_product();
}

void iso_openblas_dgemm(const iso_product *p, const double *a, const double *b, bool add, double *c)
{
    begin_product();
    blas.dgemm(CblasRowMajor, transposed(p->transpose_a), transposed(p->transpose_b), (blasint)p->m,
               (blasint)p->n, (blasint)p->k, 1, a, (blasint)iso_product_lda(p), b,
               (blasint)iso_product_ldb(p), add, c, (blasint)iso_product_ldc(p));
    end_product();
}

/* "OpenBLAS 0.3.21 NO_LAPACKE ... Haswell MAX_THREADS=64": the version is the second word. */
void iso_openblas_find(iso_libraries *libraries)
{
    snprintf(libraries->suitable_core, sizeof libraries->suitable_core, "%s", suitable_core());
    if (!is_loaded())
        return;
    if (sscanf(blas.config(), "OpenBLAS %31s", libraries->openblas) != 1)
        strcpy(libraries->openblas, "of an unknown version");
    snprintf(libraries->openblas_core, sizeof libraries->openblas_core, "%s", blas.core());
}
