/* Writes through HDF5's parallel driver, for file systems that need their own MPI-IO. Each rank opens the
 * file and writes independently, into space that the chief has reserved. HDF5's collective operations are
 * avoided (opening, which broadcasts what one rank reads; a collective write; H5Fclose): if one rank fails in
 * one, the others wait for ever. HDF5 changes only the tensors' bytes: the layout is complete. */
#include <hdf5.h>

#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/write/parts_impl.h"
#include "runtime/checkpoint/write/saver_impl.h"

enum { MOST_AT_ONCE = 1 << 28 }; /* elements in one call: MPI counts bytes in an int */

static iso_status mpio_failed(const iso_saver *saver, const char *what)
{
    iso_hdf5_failed(saver->path.temporary, "%s", what);
    return ISO_IO;
}

/* Disables data sieving, which reads and writes back bytes that other ranks write. closed: receives the
 * result of closing. */
static iso_status open_with(const iso_saver *saver, MPI_Info info, hid_t *file, iso_status *closed)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), parallel = H5Pcreate(H5P_FILE_ACCESS);
    if (access >= 0 && parallel >= 0 && H5Pset_fapl_mpio(parallel, MPI_COMM_SELF, info) >= 0 &&
        iso_mpio_set_driver(access, parallel, closed) >= 0)
        *file = H5Fopen(saver->path.temporary, H5F_ACC_RDWR, access);
    iso_status status = *file < 0 ? mpio_failed(saver, "HDF5's parallel driver cannot open it") : ISO_OK;
    if (access >= 0)
        H5Pclose(access);
    if (parallel >= 0)
        H5Pclose(parallel);
    return status;
}

static iso_status mpio_open_file(const iso_saver *saver, hid_t *file, iso_status *closed)
{
    MPI_Info info = MPI_INFO_NULL;
    iso_status status = ISO_MPI(MPI_Info_create(&info));
    if (status != ISO_OK)
        return status;
    status = ISO_MPI(MPI_Info_set(info, "romio_ds_write", "disable"));
    if (status == ISO_OK)
        status = open_with(saver, info, file, closed);
    ISO_MPI_IGNORE(MPI_Info_free(&info));
    return status;
}

/* Errors are recorded before handles are closed: closing empties HDF5's error stack. */
static iso_status write_box(const iso_saver *saver, hid_t dataset, hid_t type, const iso_box *box,
                            const void *data)
{
    hsize_t offset[ISO_MAX_RANK], extent[ISO_MAX_RANK];
    for (int i = 0; i < box->rank; i++) {
        offset[i] = (hsize_t)box->offset[i];
        extent[i] = (hsize_t)box->extent[i];
    }
    hid_t memory = box->rank ? H5Screate_simple(box->rank, extent, NULL) : H5Screate(H5S_SCALAR);
    hid_t file = H5Dget_space(dataset);
    bool good = memory >= 0 && file >= 0 &&
                (!box->rank || H5Sselect_hyperslab(file, H5S_SELECT_SET, offset, NULL, extent, NULL) >= 0) &&
                H5Dwrite(dataset, type, memory, file, H5P_DEFAULT, data) >= 0;
    iso_status status = good ? ISO_OK : mpio_failed(saver, "HDF5's parallel driver cannot write to it");
    if (memory >= 0)
        H5Sclose(memory);
    if (file >= 0)
        H5Sclose(file);
    return status;
}

static iso_status write_range(const iso_saver *saver, hid_t dataset, hid_t type, const iso_state_shard *shard,
                              int64_t begin, int64_t count)
{
    iso_box boxes[ISO_MOST_RANGE_BOXES];
    size_t element = iso_dtype_size(shard->dtype);
    const char *data = (const char *)shard->data + (size_t)(begin - shard->begin) * element;
    int n = iso_range_boxes(&shard->box, begin, count, boxes);
    iso_status status = ISO_OK;
    for (int i = 0; i < n && status == ISO_OK; i++) {
        status = write_box(saver, dataset, type, &boxes[i], data);
        data += (size_t)iso_box_count(&boxes[i]) * element;
    }
    return status;
}

/* Uses the file's own type, so no element is converted. */
static iso_status mpio_write_part(iso_saver *saver, hid_t file, const iso_file_spec *spec,
                                  const iso_save_part *part)
{
    const char *h5_path = spec->tensors[part->tensor].h5_path;
    const iso_state_shard *shard = &part->shard;
    hid_t dataset = H5Dopen2(file, h5_path, H5P_DEFAULT), type = dataset < 0 ? -1 : H5Dget_type(dataset);
    int64_t end = shard->begin + shard->count;
    iso_status status =
        type < 0 ? mpio_failed(saver, "HDF5's parallel driver cannot open the dataset of a tensor") : ISO_OK;
    for (int64_t begin = shard->begin; begin < end && status == ISO_OK; begin += MOST_AT_ONCE)
        status = write_range(saver, dataset, type, shard, begin,
                             end - begin < MOST_AT_ONCE ? end - begin : MOST_AT_ONCE);
    if (type >= 0)
        H5Tclose(type);
    if (dataset >= 0)
        H5Dclose(dataset);
    iso_save_part_write(part, &saver->layout.record, -1, NULL, saver->mine->crc);
    return status;
}

static iso_status write_all(iso_saver *saver, const iso_file_spec *spec)
{
    hid_t file = -1;
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    iso_status closed = ISO_OK, status = mpio_open_file(saver, &file, &closed);
    for (int i = 0; i < saver->parts.count && status == ISO_OK; i++)
        if (!saver->parts.parts[i].leaves)
            status = mpio_write_part(saver, file, spec, &saver->parts.parts[i]);
    iso_save_part window;
    while (iso_two_phase_take(&saver->two_phase, true, &window)) /* takes all windows: other ranks wait for
                                                                    this one */
        if (status == ISO_OK)
            status = mpio_write_part(saver, file, spec, &window);
    if (file >= 0 && H5Fclose(file) < 0 && status == ISO_OK)
        status = mpio_failed(saver, "HDF5 cannot close it");
    if (status == ISO_OK && closed != ISO_OK)
        status = ISO_IO; /* the driver has set the message */
    iso_hdf5_quiet_end(&quiet);
    return status;
}

void iso_save_by_mpio(iso_saver *saver, const iso_file_spec *spec)
{
    iso_status status = saver->rank == 0 ? iso_save_begin_file(saver) : ISO_OK;
    int good = status == ISO_OK;
    iso_status reported =
        iso_mpi_broadcast(iso_context_watchdog(saver->ctx), &good, 1, MPI_INT, 0, saver->communicator);
    if (status == ISO_OK)
        status = reported;
    if (!good || reported != ISO_OK)
        iso_two_phase_skip(&saver->two_phase);
    else {
        status = write_all(saver, spec);
        if (status == ISO_OK)
            status = iso_save_sync(saver);
    }
    iso_save_outcome_set(saver, &saver->mine->outcome, status);
}
