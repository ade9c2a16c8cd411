/* libFuzzer: any bytes as the text of a layout and, behind a newline, as a key and a path. What is taken
 * comes back the same from the text that is printed of it. */
#include <stdlib.h>
#include <string.h>

#include "runtime/spmd/spmd_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static iso_mesh mesh = {.holders = 1,
                        .n_axes = 3,
                        .name = {"data", "model", "x_1"},
                        .size = {2, 3, 1},
                        .n_slots = 6,
                        .text = "data=2,model=3,x_1=1"};

static void check_layout(const char *text)
{
    iso_layout layout, again;
    char printed[ISO_LAYOUT_TEXT];
    if (iso_layout_parse(&mesh, text, &layout) == ISO_OK &&
        (iso_layout_parse(&mesh, iso_layout_text(&mesh, &layout, printed, sizeof printed), &again) !=
             ISO_OK ||
         !iso_layout_equal(&layout, &again)))
        abort();
    if (iso_layout_parse_addends(&mesh, text, &layout) == ISO_OK &&
        (iso_layout_parse_addends(&mesh, iso_layout_text(&mesh, &layout, printed, sizeof printed), &again) !=
             ISO_OK ||
         !iso_layout_equal(&layout, &again)))
        abort();
}

/* A key and a path: the exact key is found whatever it is, without the '?' of a key that may match nothing. */
static void check_key(const char *key, const char *path)
{
    iso_layout_map *map;
    iso_layout layout;
    const char *matched = NULL;
    iso_shape shape = {.rank = 2, .dim = {4, 4}};
    if (iso_layout_map_create(&mesh, &map) != ISO_OK)
        return;
    if (iso_layout_map_set(map, key, "-, model") == ISO_OK) {
        if (iso_layout_map_find(map, key + (*key == '?'), &shape, &layout, &matched) != ISO_OK || !matched)
            abort();
        iso_layout_map_find(map, path, &shape, &layout, &matched);
    }
    iso_layout_map_destroy(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    char *key = strchr(text, '\n'), *path = key ? strchr(key + 1, '\n') : NULL;
    if (key)
        *key++ = '\0';
    if (path)
        *path++ = '\0';
    check_layout(text);
    if (key)
        check_key(key, path ? path : "d1/kernel");
    free(text);
    return 0;
}
