/* The files that hold the weights of a folder of Hugging Face. Not public. */
#ifndef ISO_MODELS_HUGGINGFACE_WEIGHT_FILES_H
#define ISO_MODELS_HUGGINGFACE_WEIGHT_FILES_H

#include "runtime/checkpoint/checkpoint.h"

/* The files of a path, opened. */
typedef struct iso_hf_files {
    int count;
    iso_saved_file **files;
} iso_hf_files;
/* Opens the files of a path as iso_pretrained_load_weights takes it, which the chief finds. ISO_INVALID: a file is
 * damaged, lacks a tensor that the index says it has, or has one that another file has too; ISO_IO. All name the
 * file. After an error, too, *files must be closed. Collective. */
iso_status iso_hf_files_open(iso_context *ctx, const char *path, iso_hf_files *files);
void iso_hf_files_close(iso_hf_files *files);

#endif
