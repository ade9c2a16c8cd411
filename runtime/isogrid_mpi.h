/* Isogrid for programs that start MPI themselves: functions that take an MPI_Comm. */
#ifndef ISOGRID_MPI_H
#define ISOGRID_MPI_H

#include "runtime/base/log.h"
#include "runtime/isogrid.h"
#include "runtime/session/session_mpi.h"

#endif
