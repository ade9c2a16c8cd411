/* libFuzzer: any bytes as the text of a mesh. What is taken comes back the same from the text that the mesh
 * has. */
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "runtime/spmd/spmd_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static iso_context *ctx;
    iso_mesh *mesh = NULL, *again = NULL;
    char *text = malloc(size + 1);
    if (!ctx) {
        setenv("ISOGRID_MPI", "0", 1);
        setenv("ISOGRID_THREADS", "6", 1);
        if (iso_init(NULL, NULL, &ctx) != ISO_OK)
            abort();
    }
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (iso_mesh_abstract(ctx, text, &mesh) == ISO_OK &&
        (iso_mesh_abstract(ctx, iso_mesh_text(mesh), &again) != ISO_OK ||
         strcmp(iso_mesh_text(mesh), iso_mesh_text(again)) != 0 ||
         iso_mesh_slots(mesh) != iso_mesh_slots(again)))
        abort();
    iso_mesh_destroy(again);
    iso_mesh_destroy(mesh);
    free(text);
    return 0;
}
