/* The parts of `isogrid inspect`. */
#ifndef ISO_LAUNCH_INSPECT_IMPL_H
#define ISO_LAUNCH_INSPECT_IMPL_H

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"

typedef struct iso_inspection {
    const char *path;       /* as the user gave it */
    uint64_t bytes;         /* of the file */
    iso_saved_file *file;   /* the first of `files` */
    iso_saved_file **files; /* [n_files] */
    int n_files;
    bool pretrained; /* a folder of Hugging Face, or an index of it: `files` are those of its weights */
    bool keras;      /* a .keras file: `file` is that of its weights, `state` has its metadata and config */
    json_t *state;   /* NULL: the file has none */
    const char *problem; /* which checksum is wrong; NULL: all match */
} iso_inspection;

/* The tree as text. */
iso_status iso_inspect_text(const iso_inspection *inspection, iso_text *text);
/* The same as a JSON object. */
iso_status iso_inspect_json(const iso_inspection *inspection, iso_text *text);

bool iso_inspect_is_keras(const char *path);
/* Opens the .keras file at inspection->path. By the chief alone. */
iso_status iso_inspect_open_keras(iso_inspection *inspection);

/* The layout of a tensor, "" if the state has none. Owned by the inspection. */
const char *iso_inspect_layout(const iso_inspection *inspection, const iso_saved_tensor *tensor);
/* Bytes of a tensor's elements in the type in which they are stored. */
uint64_t iso_inspect_bytes(const iso_saved_file *file, int tensor);

#endif
