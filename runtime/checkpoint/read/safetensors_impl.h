/* The header of a .safetensors file. For runtime/checkpoint only. */
#ifndef ISO_CHECKPOINT_READ_SAFETENSORS_IMPL_H
#define ISO_CHECKPOINT_READ_SAFETENSORS_IMPL_H

#include "runtime/checkpoint/manifest_impl.h"

/* Whether a file of this name is one. */
bool iso_safetensors_has_name(const char *path);
/* Lists the tensors of an open file of `bytes` bytes; `name` is its name in messages. The manifest has a tensor's
 * name after a '/'. Everything that the header says is checked: types, shapes, and that the tensors' bytes fill the
 * rest of the file without gaps. ISO_INVALID names file, tensor and values; ISO_IO. */
iso_status iso_safetensors_list(int file, const char *name, uint64_t bytes, iso_manifest *manifest);
/* The same for the text of a header, behind which the file has `data_bytes` bytes. */
iso_status iso_safetensors_parse(const char *name, const char *header, size_t size, uint64_t data_bytes,
                                 iso_manifest *manifest);

#endif
