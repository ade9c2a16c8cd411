#include "runtime/checkpoint/facts.h"

#include <hdf5.h>
#include <stdio.h>

#include "collectives/mpi/call.h"
#include "runtime/base/lock.h"

/* Whether HDF5 accepts MPI-IO for a file. */
static bool try_driver(void)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    herr_t set = -1;
    H5E_BEGIN_TRY
    {
        set = access >= 0 ? H5Pset_fapl_mpio(access, MPI_COMM_SELF, MPI_INFO_NULL) : -1;
    }
    H5E_END_TRY
    if (access >= 0)
        H5Pclose(access);
    return set >= 0;
}

void iso_hdf5_facts_find(iso_hdf5_facts *facts)
{
    unsigned major = 0, minor = 0, release = 0;
    int running;
    *facts = (iso_hdf5_facts){.same = false};
    MPI_Initialized(&running);
    iso_hdf5_lock();
    H5get_libversion(&major, &minor, &release);
    snprintf(facts->compiled, sizeof facts->compiled, "%d.%d.%d", H5_VERS_MAJOR, H5_VERS_MINOR,
             H5_VERS_RELEASE);
    snprintf(facts->loaded, sizeof facts->loaded, "%u.%u.%u", major, minor, release);
    facts->same = major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && release == H5_VERS_RELEASE;
    facts->parallel = !running || iso_mpi_ended() || (facts->same && try_driver());
    iso_hdf5_unlock();
}
