/* OpenBLAS: float64 products, and the smallest ones of float32. */
#include <string.h>
#include <strings.h>

#include "launch/doctor/list.h"
#include "runtime/backend/libraries.h"

enum { GOOD, DIFFERS, CORE, THREADS, MISSING };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [DIFFERS] = {"differs", ISO_DOCTOR_WARNING,
                 "results depend on where a slot runs: install one version on all hosts, and set "
                 "OPENBLAS_CORETYPE on all "
                 "ranks or on none"},
    [CORE] = {"core-type", ISO_DOCTOR_WARNING,
              "unset OPENBLAS_CORETYPE: Isogrid chooses the kernels that suit the instruction set"},
    [THREADS] =
        {"idle-threads", ISO_DOCTOR_WARNING,
         "unset OPENBLAS_NUM_THREADS: Isogrid calls OpenBLAS from its own threads and never uses these"},
    [MISSING] = {"missing", ISO_DOCTOR_WARNING,
                 "products of float64 take the slow reference kernels: install OpenBLAS (libopenblas0) where "
                 "the loader finds "
                 "libopenblas.so.0"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_libraries l;
    const char *core = iso_doctor_variable("OPENBLAS_CORETYPE"),
               *threads = iso_doctor_variable("OPENBLAS_NUM_THREADS");
    (void)doctor;
    iso_libraries_find(&l);
    if (!*l.openblas)
        return iso_doctor_find(finding, MISSING, 0, "OpenBLAS is not found");
    if (core && *l.suitable_core && strcasecmp(l.openblas_core, l.suitable_core) != 0)
        return iso_doctor_find(
            finding, CORE, 0,
            "OPENBLAS_CORETYPE is '%s': OpenBLAS %s uses kernels for %s, but those for %s suit %s", core,
            l.openblas, l.openblas_core, l.suitable_core, l.isa);
    if (threads && strcmp(threads, "1") != 0)
        return iso_doctor_find(finding, THREADS, 0,
                               "OPENBLAS_NUM_THREADS is '%s': OpenBLAS starts threads that are never used",
                               threads);
    return iso_doctor_find(finding, GOOD, 0, "OpenBLAS %s with kernels for %s, one thread", l.openblas,
                           l.openblas_core);
}

const iso_doctor_check iso_doctor_check_blas = {
    .name = "blas",
    .looks_at = "OpenBLAS: its version, kernels and threads",
    .scope = ISO_DOCTOR_RANKS,
    .differs = DIFFERS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
