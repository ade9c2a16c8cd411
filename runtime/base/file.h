/* Names and errors of files, and atomic replacement of a file. */
#ifndef ISO_BASE_FILE_H
#define ISO_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/status.h"

/* Writes a file next to `path`, syncs it and renames it to `path`: readers see either the old file or the
 * new one. A symbolic link stays: the file that it names is replaced, or made. What is no file, such as a device or a
 * pipe, is written to. ISO_IO names the path; the old file is then unchanged. */
iso_status iso_file_replace(const char *path, const void *data, size_t bytes);

/* The error that a system call left in errno, as ISO_IO: "'ckpt/3.weights.h5': it cannot be opened:
 * Permission denied". */
iso_status iso_file_failed(const char *path, const char *what);

/* Whether the error of a system call that opens a file is the caller's: it is missing, is a folder or may not be
 * opened. */
bool iso_file_is_of_caller(int error);
/* The error that a call left in errno which was to open a file to read it: "cannot open 'net.keras': Permission
 * denied". ISO_INVALID if it is the caller's, else ISO_IO. */
iso_status iso_file_cannot_open(const char *path);

/* "FOLDER/NAME", freed with iso_free; NULL: out of memory. */
char *iso_file_join(const char *folder, const char *name);
/* The part of a path after its last slash: "ck/3.h5" -> "3.h5". */
const char *iso_file_name(const char *path);
/* The folder of a path, freed with iso_free; NULL: out of memory. "ck/3.h5" -> "ck", "3.h5" -> ".", "/3.h5" ->
 * "/". */
char *iso_file_folder(const char *path);
/* Whether a file's name (the part after the path's last slash) ends in `end` and has something before
 * that: "net.keras" ends in ".keras", "net/.keras" does not. */
bool iso_file_name_ends(const char *path, const char *end);

struct stat;
/* Whether the two are of one file. */
bool iso_file_is_same(const struct stat *a, const struct stat *b);

/* Writes all bytes at the file's position, however many calls that takes. False: errno has the reason. */
bool iso_file_write(int file, const void *data, size_t bytes);

/* Reads bytes at an offset of the file, however many calls that takes. *got: how many there are, fewer than `bytes`
 * only at the file's end. False: errno has the reason. */
bool iso_file_read(int file, void *data, size_t bytes, uint64_t offset, size_t *got);

/* Reads what is left of a stream into *text, which the caller frees with iso_free. False: *text is NULL, and
 * errno has the reason; EFBIG: there are `most` bytes or more. */
bool iso_file_read_all(FILE *file, size_t most, char **text, size_t *size);

/* Makes a folder and its parents if they are missing, and syncs the parent of each that it makes. ISO_IO. */
iso_status iso_folder_make(const char *folder);
/* Whether a file can be made in a folder that is there. False: errno has the reason. */
bool iso_folder_is_writable(const char *folder);
/* ISO_IO: a rename in the folder may be lost if the power fails. */
iso_status iso_folder_sync(const char *folder);

/* Whether a rename can give a file this name, as far as that is known before: no folder has it, no device, pipe or
 * symbolic link, which the file would replace, and no file that a sticky folder protects because it belongs to
 * another user. ISO_INVALID names the path and the reason. */
iso_status iso_file_check_name(const char *path);
/* Gives a complete file its name, in the same file system; an older file of this name is replaced. If the name is
 * refused (a folder, device, pipe or link has it, no permission) and `keeps`, the file gets a free name beside it
 * ("net-2.keras", "a-2.weights.h5"), which the message states. ISO_IO. */
iso_status iso_file_take_name(const char *temporary, const char *path, bool keeps);

#endif
