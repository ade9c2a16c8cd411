/* The checks of isogrid doctor: one line each. */
#ifndef ISO_LAUNCH_DOCTOR_LIST_H
#define ISO_LAUNCH_DOCTOR_LIST_H

#include "launch/doctor/doctor_impl.h"

/* clang-format off */
#define ISO_DOCTOR_CHECKS(CHECK) \
    CHECK(mpi) \
    CHECK(pmix) \
    CHECK(thread_support) \
    CHECK(mpi_io) \
    CHECK(hosts) \
    CHECK(host_names) \
    CHECK(clocks) \
    CHECK(cores) \
    CHECK(binding) \
    CHECK(threads) \
    CHECK(processor) \
    CHECK(shared_memory) \
    CHECK(blas) \
    CHECK(onednn) \
    CHECK(hdf5) \
    CHECK(folder) \
    CHECK(free_space) \
    CHECK(rename) \
    CHECK(fsync) \
    CHECK(locks) \
    CHECK(shared_folder) \
    CHECK(gpu) \
    CHECK(cublaslt) \
    CHECK(cudnn) \
    CHECK(nccl)
/* clang-format on */

#define ISO_DOCTOR_DECLARE(check) extern const iso_doctor_check iso_doctor_check_##check;
ISO_DOCTOR_CHECKS(ISO_DOCTOR_DECLARE)
#undef ISO_DOCTOR_DECLARE

#endif
