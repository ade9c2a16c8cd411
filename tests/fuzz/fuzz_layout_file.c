/* libFuzzer: any bytes as a layout file. */

#include "runtime/spmd/spmd_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static iso_mesh mesh = {.holders = 1,
                        .n_axes = 2,
                        .name = {"data", "model"},
                        .size = {2, 3},
                        .n_slots = 6,
                        .text = "data=2,model=3"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_layout_map *map;
    iso_layout layout;
    iso_shape shape = {.rank = 2, .dim = {4, 4}};
    if (iso_layout_map_create(&mesh, &map) != ISO_OK)
        return 0;
    iso_layout_map_parse(map, "file", (const char *)data, size);
    iso_layout_map_find(map, "d1/kernel", &shape, &layout, NULL);
    iso_layout_map_destroy(map);
    return 0;
}
