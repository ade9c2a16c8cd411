/* Random meshes and layouts from a seed: the same on every machine and rank. */
#ifndef ISO_TESTS_SUPPORT_DICE_H
#define ISO_TESTS_SUPPORT_DICE_H

#include "runtime/spmd/layout.h"

typedef struct dice {
    uint64_t key, thrown;
} dice;

dice dice_for(int number);
/* 0..n-1 */
int throw_dice(dice *d, int n);

/* The axes of random meshes, in order. */
extern const char *const dice_axis[3];
/* "data=3,model=2": up to three axes, `least` to 8 slots. Returns the number of axes. */
int random_mesh(dice *d, int least, char *text, size_t size);
/* Slots of a mesh, from its text. */
int slots_of_mesh(const char *text);
/* "-, model+data": each of so many axes shards some dimension or none, in any order. */
void random_layout(dice *d, int axes, int rank, char *text, size_t size);
/* Each axis of the mesh shards some dimension, in any order, or replicates, or is partial. */
iso_layout throw_layout(dice *d, const iso_mesh *mesh, int rank);
/* The same as a public layout, with a partial sum or maximum if it is partial; iso_layout_destroy. */
iso_layout *throw_handle(dice *d, iso_mesh *mesh, int rank);
/* Windows of all kinds in front of sharded dimensions, but of one in `spared`: halos, or sums where the parts
 * overlap. */
void throw_windows(dice *d, iso_layout *layout, const iso_shape *shape, bool addends, int spared);
/* The rank of each slot: random, with every rank at least once. */
void random_ranks(dice *d, int ranks, int slots, int *rank_of_slot);

#endif
