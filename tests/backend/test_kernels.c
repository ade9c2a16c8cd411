/* Every fast kernel of the CPU backend against the plain one, over many shapes, in float32 and in bfloat16, for each
 * instruction set of this machine. Ranks: 1 */
#include <malloc.h>

#include "tests/backend/cases.h"
#include "tests/backend/other_types.h"
#include "tests/backend/upsampled.h"
#include "tests/support/run_tests.h"

/* Kernels that need instructions for bfloat16, and oneDNN or AMX. */
static bool is_out_of_reach(const iso_kernel *kernel)
{
    if (strstr(kernel->name, "AMX"))
        return iso_cpu_isa() < ISO_ISA_AMX;
    if (strcmp(kernel->name, "vector in bfloat16") == 0) /* test_layer_norm_bf16 */
        return true;
    if (strstr(kernel->name, "slices")) /* test_volumes */
        return true;
    if (strcmp(kernel->name, "vdpbf16ps, parts") == 0) /* AMX takes its shapes */
        return iso_cpu_isa() != ISO_ISA_AVX512_BF16;
    if (strcmp(kernel->name, "cblas_sgemm") == 0)
        return ISO_WITH_DNNL && iso_cpu_isa() != ISO_ISA_AVX2; /* oneDNN takes all */
    if (strcmp(kernel->name, "dnnl_sgemm") == 0)
        return !ISO_WITH_DNNL;
    return strcmp(kernel->name, "dnnl_matmul") == 0 &&
           (!ISO_WITH_DNNL || iso_cpu_isa() < ISO_ISA_AVX512_BF16);
}

/* All cases of the ops of all kernels; every kernel must have been taken by some case. */
static void check_all_kernels(void)
{
    const iso_kernel *const *kernels = iso_cpu_kernels();
    int used[256] = {0}, divided[256] = {0};
    for (int i = 0; kernels[i]; i++) {
        if (i > 0 && strcmp(kernels[i]->op, kernels[i - 1]->op) == 0)
            continue;
        maker *make = maker_of(kernels[i]->op);
        ck_assert_msg(make != NULL, "op %s has a fast kernel and no case here", kernels[i]->op);
        random_state = 1; /* whatever came before */
        for (int index = 0;; index++) {
            trial t = {.op = kernels[i]->op};
            if (!make(&t, index))
                break;
            check_trial(&t, kernels, used, divided);
            if (strncmp(t.op, "layer_norm", strlen("layer_norm")) != 0) /* test_layer_norm_bf16 */
                check_type(&t, ISO_BF16, iso_backend_cpu());
            check_wide_sums(&t, iso_backend_cpu());
        }
    }
    for (int i = 0; kernels[i]; i++)
        ck_assert_msg(
            divided[i] > 0 || !(kernels[i]->by_rows || kernels[i]->run_part || kernels[i]->blocks) ||
                is_out_of_reach(kernels[i]),
            "kernel %s of %s can be divided, and no case divided it", kernels[i]->name, kernels[i]->op);
    for (int i = 0; kernels[i]; i++)
        ck_assert_msg(used[i] > 0 || is_out_of_reach(kernels[i]), "no case took kernel %s of %s",
                      kernels[i]->name, kernels[i]->op);
}

/* The highest one comes first: oneDNN keeps the instruction set that it had when it was first used. */
START_TEST(kernels_agree)
{
    iso_isa most = iso_cpu_isa(), isa = (iso_isa)(ISO_ISA_AMX - _i);
    if (isa > iso_cpu_highest_isa()) {
        char what[64];
        snprintf(what, sizeof what, "kernels for %s", iso_isa_name(isa));
        report_skipped(what, "this processor does not have these instructions");
        return;
    }
    iso_cpu_limit_isa(isa);
    check_all_kernels();
    iso_cpu_limit_isa(most);
}
END_TEST

START_TEST(equal_pixels_stay)
{
    random_state = 1;
    check_upsampled(iso_backend_cpu());
}
END_TEST

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 28); /* arrays come and go: keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    Suite *suite = suite_create("kernels");
    TCase *tests = tcase_create("kernels");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, kernels_agree, 0, ISO_ISA_AMX + 1);
    tcase_add_test(tests, equal_pixels_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
