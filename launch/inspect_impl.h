/* What `isogrid inspect` prints. */
#ifndef ISO_LAUNCH_INSPECT_IMPL_H
#define ISO_LAUNCH_INSPECT_IMPL_H

#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"

typedef struct iso_inspection {
    const char *path; /* as the user gave it */
    uint64_t bytes;   /* of the file */
    iso_saved_file *file;
    bool keras;          /* a .keras file: `file` is of its weights, `state` says what it says of itself */
    json_t *state;       /* NULL: the file has none */
    const char *problem; /* why the checksums are not those of what was written; NULL: there is none */
} iso_inspection;

/* The tree, for people. */
iso_status iso_inspect_text(const iso_inspection *inspection, iso_text *text);
/* The same as a JSON object. */
iso_status iso_inspect_json(const iso_inspection *inspection, iso_text *text);

bool iso_inspect_is_keras(const char *path);
/* Opens a .keras file, of which the path is given. By the chief alone. */
iso_status iso_inspect_open_keras(iso_inspection *inspection);

/* The layout of a tensor, "" where the state knows of none. Lent. */
const char *iso_inspect_layout(const iso_inspection *inspection, const iso_saved_tensor *tensor);
/* Bytes of a tensor's elements as they are stored. */
uint64_t iso_inspect_bytes(const iso_inspection *inspection, int tensor);

#endif
