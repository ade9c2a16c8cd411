/* Adapters in the form of PEFT: a folder with adapter_config.json and adapter_model.safetensors. It may also have
 * whole layers ("modules_to_save"), such as a new classifier. */
#ifndef ISO_MODELS_HUGGINGFACE_ADAPTER_IMPL_H
#define ISO_MODELS_HUGGINGFACE_ADAPTER_IMPL_H

#include "models/huggingface/huggingface_impl.h"

#define ISO_ADAPTER_CONFIG "adapter_config.json"
#define ISO_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define ISO_ADAPTER_PREFIX "base_model.model." /* of names of tensors */
enum { ISO_ADAPTER_MOST_CONFIG = 4 << 20 };    /* bytes */

/* The tensor of their files that a variable is. */
typedef struct iso_adapter_tensor {
    iso_hf_tensor row;
    char name[ISO_HF_NAME + 64];
} iso_adapter_tensor;

/* Of a variable of an adapter: A is [rank, in], B [out, rank]. False: their model has no such product, or it is of
 * another kind. */
bool iso_adapter_find_matrix(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m);
/* Of a variable that is there as in the whole model. False: there is none, or experts have one each. */
bool iso_adapter_find_whole(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m);
/* The one of these that the path is of. */
bool iso_adapter_find(const iso_hf_architecture *a, const char *path, iso_adapter_tensor *m);
bool iso_adapter_is_path(const char *path);
/* "block_0/up/lora_kernel_a" -> "block_0/up/kernel"; false: the path is of no adapter. */
bool iso_adapter_kernel(const char *path, char kernel[ISO_MAX_PATH], bool *is_b);
/* Removes an ending; false: the text does not have it. */
bool iso_adapter_cut(char *text, const char *end);
/* The error that iso_adapter_find_matrix found none. */
iso_status iso_adapter_none(const iso_hf_architecture *a, const char *path);
/* The file of weights of a folder. Collective. */
iso_status iso_adapter_open(iso_context *ctx, const char *folder, iso_hf_files *files);

#endif
