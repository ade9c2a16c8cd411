/* The checks, in the order in which they run. */
#include "launch/doctor/list.h"

#define ADDRESS(check) &iso_doctor_check_##check,
const iso_doctor_check *const iso_doctor_checks[] = {ISO_DOCTOR_CHECKS(ADDRESS)};
const int iso_doctor_n_checks = sizeof iso_doctor_checks / sizeof *iso_doctor_checks;
