#include "runtime/backend/cpu/onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if ISO_WITH_DNNL
#include <oneapi/dnnl/dnnl.h>

/* oneDNN divides its work between OpenMP's threads. Their number is a setting of the calling thread, which
 * may be the user's, so it is set to 1 for the call only. The functions are looked up with dlsym because
 * programs do not link to OpenMP themselves. */
static struct {
    pthread_once_t once;
    int (*most)(void);
    void (*set)(int);
} openmp = {.once = PTHREAD_ONCE_INIT};

static void find_openmp(void)
{
    void *most = dlsym(RTLD_DEFAULT, "omp_get_max_threads"),
         *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (most && set) {
        memcpy(&openmp.most, &most, sizeof most);
        memcpy(&openmp.set, &set, sizeof set);
    }
}

int iso_onednn_threads_begin(void)
{
    pthread_once(&openmp.once, find_openmp);
    int before = openmp.most ? openmp.most() : 1;
    if (before != 1)
        openmp.set(1);
    return before;
}

void iso_onednn_threads_end(int before)
{
    if (before != 1)
        openmp.set(before);
}

bool iso_onednn_sgemm(const iso_product *p, const float *a, const float *b, float *c)
{
    int threads = iso_onednn_threads_begin();
    dnnl_status_t status =
        dnnl_sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', p->m, p->n, p->k, 1, a,
                   iso_product_lda(p), b, iso_product_ldb(p), 0, c, iso_product_ldc(p));
    iso_onednn_threads_end(threads);
    return status == dnnl_success;
}

void iso_onednn_limit_isa(iso_isa isa)
{
    static const dnnl_cpu_isa_t most[] = {[ISO_ISA_BASE] = dnnl_cpu_isa_sse41,
                                          [ISO_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                          [ISO_ISA_AVX512] = dnnl_cpu_isa_avx512_core_vnni,
                                          [ISO_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16};
    dnnl_set_max_cpu_isa(most[isa]);
}

void iso_onednn_find(iso_libraries *libraries)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(libraries->onednn, sizeof libraries->onednn, "%d.%d", version->major, version->minor);
}

static const struct {
    dnnl_cpu_isa_t isa;
    iso_isa suits;
    const char *name;
} isas[] = {
    {dnnl_cpu_isa_avx512_core_amx, ISO_ISA_AMX, "AVX-512 with AMX"},
    {dnnl_cpu_isa_avx512_core_bf16, ISO_ISA_AVX512_BF16, "AVX-512 with bfloat16"},
    {dnnl_cpu_isa_avx512_core_vnni, ISO_ISA_AVX512, "AVX-512 with VNNI"},
    {dnnl_cpu_isa_avx512_core, ISO_ISA_AVX512, "AVX-512"},
    {dnnl_cpu_isa_avx2, ISO_ISA_AVX2, "AVX2"},
    {dnnl_cpu_isa_avx, ISO_ISA_BASE, "AVX"},
    {dnnl_cpu_isa_sse41, ISO_ISA_BASE, "SSE4.1"},
};

/* The first that is contained in what oneDNN uses: instruction sets are sets of bits. From now on oneDNN's
 * instruction set cannot change. */
static void find_isa(iso_libraries *libraries)
{
    unsigned used = (unsigned)dnnl_get_effective_cpu_isa();
    size_t i = 0, n = sizeof isas / sizeof *isas;
    while (i < n && (used & (unsigned)isas[i].isa) != (unsigned)isas[i].isa)
        i++;
    snprintf(libraries->onednn_isa, sizeof libraries->onednn_isa, "%s", i < n ? isas[i].name : "none");
    libraries->onednn_is_lower = (i < n ? isas[i].suits : ISO_ISA_BASE) < iso_cpu_isa();
}
#else
bool iso_onednn_sgemm(const iso_product *p, const float *a, const float *b, float *c)
{
    (void)p, (void)a, (void)b, (void)c;
    return false;
}

void iso_onednn_limit_isa(iso_isa isa)
{
    (void)isa;
}

void iso_onednn_find(iso_libraries *libraries)
{
    (void)libraries;
}

static void find_isa(iso_libraries *libraries)
{
    (void)libraries;
}
#endif

void iso_libraries_find(iso_libraries *libraries)
{
    *libraries = (iso_libraries){.isa = iso_isa_name(iso_cpu_isa())};
    iso_onednn_find(libraries);
    iso_openblas_find(libraries);
    find_isa(libraries);
}
