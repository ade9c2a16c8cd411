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

bool iso_onednn_sgemm(const iso_product *p, const float *a, const float *b, float *c)
{
    pthread_once(&openmp.once, find_openmp);
    int threads = openmp.most ? openmp.most() : 1;
    if (threads != 1)
        openmp.set(1);
    dnnl_status_t status =
        dnnl_sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', p->m, p->n, p->k, 1, a,
                   p->transpose_a ? p->m : p->k, b, p->transpose_b ? p->k : p->n, 0, c, p->n);
    if (threads != 1)
        openmp.set(threads);
    return status == dnnl_success;
}

void iso_onednn_limit_isa(iso_isa isa)
{
    if (isa < iso_cpu_isa())
        dnnl_set_max_cpu_isa(isa == ISO_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
}

static int describe_dnnl(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    return snprintf(text, size, ", oneDNN %d.%d", version->major, version->minor);
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

static int describe_dnnl(char *text, size_t size)
{
    return snprintf(text, size, "%s", "");
}
#endif

void iso_onednn_describe(char *text, size_t size)
{
    int length = describe_dnnl(text, size);
    iso_openblas_describe(text + length, size - (size_t)length);
}
