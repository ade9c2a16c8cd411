#include "tests/support/dice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/random.h"
#include "tests/support/once.h"

enum { MOST_SLOTS = 8 };
const char *const dice_axis[3] = {"data", "model", "x"};

dice dice_for(int number)
{
    return (dice){.key = iso_hash_mix((uint64_t)number + 1)};
}

int throw_dice(dice *d, int n)
{
    return (int)(iso_random_word(d->key, 0, d->thrown++) % (uint32_t)n);
}

int random_mesh(dice *d, int least, char *text, size_t size)
{
    int axes, slots;
    do {
        axes = 1 + throw_dice(d, 3);
        slots = 1;
        text[0] = 0;
        for (int a = 0; a < axes; a++) {
            int n = 1 + throw_dice(d, MOST_SLOTS);
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s%s=%d", a ? "," : "", dice_axis[a], n);
            slots *= n;
        }
    } while (slots > MOST_SLOTS || slots < least);
    return axes;
}

void random_layout(dice *d, int axes, int rank, char *text, size_t size)
{
    char dims[ISO_MAX_RANK][64] = {""};
    int first = throw_dice(d, axes);
    for (int k = 0; k < axes; k++) {
        int dim = throw_dice(d, rank + 1);
        if (dim == rank)
            continue;
        size_t used = strlen(dims[dim]);
        snprintf(dims[dim] + used, sizeof dims[dim] - used, "%s%s", used ? "+" : "",
                 dice_axis[(first + k) % axes]);
    }
    text[0] = 0;
    for (int i = 0; i < rank; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? ", " : "", dims[i][0] ? dims[i] : "-");
    }
}

int slots_of_mesh(const char *text)
{
    int slots = 1;
    for (const char *at = text; (at = strchr(at, '=')) != NULL; at++)
        slots *= atoi(at + 1);
    return slots;
}

iso_layout throw_layout(dice *d, const iso_mesh *mesh, int rank)
{
    iso_layout layout = iso_layout_whole(rank);
    int axes = iso_mesh_axes(mesh), first = throw_dice(d, axes);
    for (int k = 0; k < axes; k++) {
        int axis = (first + k) % axes, role = throw_dice(d, rank + 2);
        if (role < rank)
            layout.dim[role].axis[layout.dim[role].count++] = (int8_t)axis;
        else if (role == rank)
            layout.partial |= 1u << axis;
    }
    return layout;
}

iso_layout *throw_handle(dice *d, iso_mesh *mesh, int rank)
{
    iso_layout *layout;
    check_ok(iso_layout_replicated(mesh, rank, &layout));
    *layout = throw_layout(d, mesh, rank);
    layout->mesh = mesh;
    layout->partial_max = throw_dice(d, 2);
    return layout;
}

void throw_windows(dice *d, iso_layout *layout, const iso_shape *shape, bool addends, int spared)
{
    for (int i = 0; i < layout->rank; i++) {
        int64_t size = 1 + throw_dice(d, 4), stride = 1 + throw_dice(d, 3), dilation = 1 + throw_dice(d, 2);
        int64_t before = throw_dice(d, 5);
        int64_t room = shape->dim[i] + before + throw_dice(d, 5) - (size - 1) * dilation - 1;
        if (layout->dim[i].count == 0 || shape->dim[i] == 0 || room < 0 || throw_dice(d, spared) == 0)
            continue;
        layout->dim[i].addends = addends;
        layout->dim[i].window = (iso_sliding_window){room / stride + 1, size, stride, dilation, before};
    }
}

void random_ranks(dice *d, int ranks, int slots, int *rank_of_slot)
{
    for (int s = 0; s < slots; s++)
        rank_of_slot[s] = s < ranks ? s : throw_dice(d, ranks);
    for (int s = slots - 1; s > 0; s--) {
        int other = throw_dice(d, s + 1), kept = rank_of_slot[s];
        rank_of_slot[s] = rank_of_slot[other];
        rank_of_slot[other] = kept;
    }
}
