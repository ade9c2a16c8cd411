/* oneDNN: float32 products. */
#include "launch/doctor/list.h"
#include "runtime/backend/libraries.h"

enum { GOOD, DIFFERS, LOWER };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [DIFFERS] =
        {"differs", ISO_DOCTOR_WARNING,
         "results depend on where a slot runs: install one version on all hosts, and set the same variables "
         "(ONEDNN_MAX_CPU_ISA) on all ranks"},
    [LOWER] = {"lower-isa", ISO_DOCTOR_WARNING,
               "products are slower than on this processor: unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_libraries l;
    (void)doctor;
    iso_libraries_find(&l);
    if (!*l.onednn)
        return iso_doctor_find(finding, GOOD, 0,
                               "none in this build (DNNL=0): OpenBLAS computes all products");
    return iso_doctor_find(finding, l.onednn_is_lower ? LOWER : GOOD, 0, "oneDNN %s, %s%s", l.onednn,
                           l.onednn_isa, l.onednn_is_lower ? ", less than what the ranks agreed to use" : "");
}

const iso_doctor_check iso_doctor_check_onednn = {
    .name = "onednn",
    .looks_at = "oneDNN: its version and instruction set",
    .scope = ISO_DOCTOR_RANKS,
    .differs = DIFFERS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
