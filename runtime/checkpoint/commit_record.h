/* The commit record: it follows the last byte of the HDF5 file and makes the file a checkpoint.
 *
 * All numbers are little-endian and unsigned. A file is
 *
 *   offset            bytes          content
 *   0                 H              the HDF5 file
 *   H                 20 * T         the table: for each tensor, in the order of /isogrid/index,
 *     + 20 i          8                its first byte in the file (0 if it has no bytes)
 *     + 20 i + 8      8                its bytes
 *     + 20 i + 16     4                their CRC-32
 *   H + 20 T          40             the tail, which ends the file:
 *     + 0             8                the characters "ISOGRID" and a line feed
 *     + 8             4                version of the record: 1
 *     + 12            4                T, at most 1,048,576
 *     + 16            8                the checkpoint's number
 *     + 24            8                H
 *     + 32            4                CRC-32 of the HDF5 file's bytes that belong to no tensor, in order
 *     + 36            4                CRC-32 of the table and of the tail up to here
 *
 * The bytes of tensors are within the HDF5 file and do not overlap. A file that ends with such a record is
 * complete: the record is written last, while the file still has a temporary name. */
#ifndef ISO_CHECKPOINT_COMMIT_RECORD_H
#define ISO_CHECKPOINT_COMMIT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

enum {
    ISO_COMMIT_VERSION = 1,
    ISO_COMMIT_MOST_TENSORS = 1 << 20,
    ISO_COMMIT_ENTRY = 20,
    ISO_COMMIT_TAIL = 40
};

typedef struct iso_commit_tensor {
    uint64_t offset, bytes;
    uint32_t crc;
} iso_commit_tensor;

typedef struct iso_commit_record {
    uint64_t number;
    uint64_t hdf5_bytes;
    uint32_t others; /* CRC-32 of the HDF5 file's bytes that belong to no tensor */
    int n_tensors;
    iso_commit_tensor *tensors;
} iso_commit_record;

uint64_t iso_commit_record_bytes(int tensors);
/* Writes the record at hdf5_bytes of an open file and truncates the file after it. Does not sync. name: the
 * file's name, for messages. ISO_IO. */
iso_status iso_commit_record_write(int file, const char *name, const iso_commit_record *record);
/* Reads the record of an open file. If the file does not end with a record (it is then no checkpoint):
 * ISO_OK, and *found is false. If the record is damaged or its numbers are impossible: ISO_INVALID. Trusts
 * nothing: memory for the table is allocated only after its size has been checked against the size of the
 * file. record is freed by iso_commit_record_free. */
iso_status iso_commit_record_read(int file, const char *name, bool *found, iso_commit_record *record);
void iso_commit_record_free(iso_commit_record *record);
/* Reads the bytes that belong to no tensor (names, shapes, /isogrid) and compares them with the record.
 * ISO_INVALID if they are not what was written. */
iso_status iso_commit_record_check_others(int file, const char *name, const iso_commit_record *record);

/* Calls visit(data, offset, bytes) for each part of the HDF5 file that belongs to no tensor, in order, until
 * a call fails. The record's extents must be valid, as iso_commit_record_read ensures. */
iso_status iso_commit_record_visit_others(const iso_commit_record *record,
                                          iso_status (*visit)(void *data, uint64_t offset, uint64_t bytes),
                                          void *data);

#endif
