/* Saves a model in the form that the name of the file says. */
#include <string.h>

#include "launch/command_line.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "models/keras/keras.h"
#include "runtime/base/file.h"

static bool ends_in_one_of(const char *path, const char *const *ends)
{
    while (*ends && !iso_file_name_ends(path, *ends))
        ends++;
    return *ends;
}

bool iso_output_is_folder(const char *path)
{
    static const char *const files[] = {".keras", ".weights.h5", ".safetensors", NULL};
    return !ends_in_one_of(path, files);
}

iso_status iso_output_name_check(const char *option, const char *path)
{
    static const char *const others[] = {".h5", ".hdf5", ".json", ".bin", ".pt", ".pth", NULL};
    if (!iso_output_is_folder(path) || !ends_in_one_of(path, others))
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "%s'%s': the name must end in .keras, .weights.h5 or .safetensors, or be that of a folder for "
        "Hugging Face",
        option, path);
}

static bool is_pretrained(const char *path)
{
    return iso_output_is_folder(path) || iso_file_name_ends(path, ".safetensors");
}

iso_status iso_named_model_save_check(const iso_named_model *named, const char *path)
{
    if (iso_file_name_ends(path, ".keras"))
        return iso_keras_save_check(named->model, path);
    iso_status status = is_pretrained(path) ? iso_pretrained_save_check(named->model, path) : ISO_OK;
    if (status != ISO_OK && iso_output_is_folder(path))
        iso_error_prefix(status,
                         "the name ends neither in .keras nor in .weights.h5, so it is that of a folder for "
                         "Hugging Face: ");
    return status;
}

iso_status iso_save_options_check(iso_train_options *options, const char *path)
{
    const char *size = options->save_shard_size;
    if (options->save_dtype && !(path && is_pretrained(path)))
        return iso_error(ISO_INVALID, "--save-dtype is for a folder of Hugging Face or a .safetensors file");
    if (size && !(path && iso_output_is_folder(path)))
        return iso_error(ISO_INVALID, "--save-shard-size is for a folder of Hugging Face");
    if (size && !iso_argument_size(size, strlen(size), &options->shard_bytes))
        return iso_error(ISO_INVALID,
                         "--save-shard-size '%s': should be a number and B, kB, MB, GB, TB, KiB, MiB, GiB or "
                         "TiB, such as 5GB",
                         size);
    return ISO_OK;
}

iso_status iso_named_model_save(const iso_named_model *named, const iso_train_options *options,
                                const char *path)
{
    iso_status status = iso_model_merge_adapters(named->model);
    if (status != ISO_OK)
        return status;
    if (iso_file_name_ends(path, ".keras"))
        return iso_keras_save(named->model, path);
    return is_pretrained(path) ? iso_pretrained_save(named->model, path, .source = named->folder,
                                                     .dtype = options->save_dtype,
                                                     .max_shard_size = (uint64_t)options->shard_bytes)
                               : iso_model_save_weights(named->model, path);
}
