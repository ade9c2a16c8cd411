/* An MPI that takes addresses of device memory, for programs on the stand-in for CUDA: a library to be loaded before
 * MPI (LD_PRELOAD). What MPI is to send from device memory, or to receive there, it finds where the stand-in reaches
 * these bytes, so the host still touches no device memory.
 *   STANDIN_MPI=wrong   what is received does not come to the device
 *   STANDIN_MPI=no      it says that it takes no such addresses */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/standin.h"

static void *reach(const void *memory, size_t bytes)
{
    static void *(*found)(const void *, size_t);
    const char *path = getenv("ISOGRID_CUDA_LIBRARY");
    if (!found) {
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
        *(void **)&found = library ? dlsym(library, "standin_reach") : NULL;
    }
    return found ? found(memory, bytes) : (void *)(uintptr_t)memory;
}

static bool is(const char *mode)
{
    const char *is = getenv("STANDIN_MPI");
    return is && !strcmp(is, mode);
}

/* Adds a line if it is device memory. */
static void note(const char *function, const void *memory, const void *found, int count)
{
    const char *path = getenv("STANDIN_NOTES");
    FILE *notes = path && memory != found ? fopen(path, "a") : NULL;
    if (notes) {
        fprintf(notes, "%s %d\n", function, count);
        fclose(notes);
    }
}

static void *find(const char *function, const void *memory, int count)
{
    void *found = reach(memory, (size_t)count);
    note(function, memory, found, count);
    return found;
}

static void *find_received(const char *function, void *memory, int count)
{
    void *found = find(function, memory, count);
    return is("wrong") && found != memory ? calloc((size_t)count + 1, 1) : found;
}

#pragma GCC visibility push(default)
int MPIX_Query_cuda_support(void)
{
    return !is("no");
}

int MPI_Send_init(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return PMPI_Send_init(find("MPI_Send_init", data, count), count, type, to, tag, comm, request);
}

int MPI_Recv_init(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return PMPI_Recv_init(find_received("MPI_Recv_init", data, count), count, type, from, tag, comm, request);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return PMPI_Isend(find("MPI_Isend", data, count), count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return PMPI_Irecv(find_received("MPI_Irecv", data, count), count, type, from, tag, comm, request);
}
#pragma GCC visibility pop
