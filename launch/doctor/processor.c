/* The model of the processors: bits are promised to be equal on processors of one model. */
#include "launch/doctor/list.h"
#include "runtime/backend/libraries.h"

enum { GOOD, DIFFERS };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [DIFFERS] =
        {"differs", ISO_DOCTOR_WARNING,
         "results may differ in their last bits from those on one model: choose hosts of one model (Slurm: "
         "--constraint)"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    char model[128];
    iso_libraries libraries;
    (void)doctor;
    iso_processor_model(model, sizeof model);
    iso_libraries_find(&libraries);
    return iso_doctor_find(finding, GOOD, 0, "%s, used with %s", model, libraries.isa);
}

const iso_doctor_check iso_doctor_check_processor = {
    .name = "processor",
    .looks_at = "the model of the processors and the instruction set in use",
    .scope = ISO_DOCTOR_HOSTS,
    .differs = DIFFERS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
