#include "collectives/mpi/call.h"

#include <stdio.h>
#include <string.h>

iso_status iso_mpi_error(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0, class = code;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS || !*text)
        snprintf(text, sizeof text, "error %d, for which MPI has no text", code);
    if (MPI_Error_class(code, &class) != MPI_SUCCESS)
        class = MPI_ERR_OTHER;
    return iso_error(class == MPI_ERR_NO_MEM ? ISO_NO_MEMORY : ISO_FAILED, "%.*s: %s",
                     (int)strcspn(call, "( "), call, text);
}

iso_status iso_mpi_return_errors_of(MPI_Comm *made)
{
    iso_status status = ISO_MPI(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN));
    if (status != ISO_OK)
        iso_mpi_free(made);
    return status;
}

/* status: of the call that created *made. */
static iso_status return_errors_of(iso_status status, MPI_Comm *made)
{
    if (status != ISO_OK)
        *made = MPI_COMM_NULL;
    return status == ISO_OK ? iso_mpi_return_errors_of(made) : status;
}

iso_status iso_mpi_dup(MPI_Comm communicator, MPI_Comm *made)
{
    return return_errors_of(ISO_MPI(MPI_Comm_dup(communicator, made)), made);
}

iso_status iso_mpi_begin_dup(MPI_Comm communicator, MPI_Comm *made, MPI_Request *request)
{
    return ISO_MPI(MPI_Comm_idup(communicator, made, request));
}

iso_status iso_mpi_split(MPI_Comm communicator, int color, int key, MPI_Comm *made)
{
    return return_errors_of(ISO_MPI(MPI_Comm_split(communicator, color, key, made)), made);
}

iso_status iso_mpi_split_shared(MPI_Comm communicator, int key, MPI_Comm *made)
{
    return return_errors_of(
        ISO_MPI(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, made)), made);
}

bool iso_mpi_ended(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    return ended;
}

void iso_mpi_free(MPI_Comm *communicator)
{
    if (*communicator != MPI_COMM_NULL && !iso_mpi_ended())
        ISO_MPI_IGNORE(MPI_Comm_free(communicator));
    *communicator = MPI_COMM_NULL;
}

/* MPI 4 reports errors of calls without a communicator on MPI_COMM_SELF, MPI 3 on MPI_COMM_WORLD. */
iso_status iso_mpi_return_errors(void)
{
    iso_status status = ISO_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    return status != ISO_OK ? status : ISO_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}
