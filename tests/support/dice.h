/* Random meshes and layouts from a seed: the same on every machine and rank. */
#ifndef ISO_TESTS_SUPPORT_DICE_H
#define ISO_TESTS_SUPPORT_DICE_H

#include <stddef.h>
#include <stdint.h>

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
/* "-, model+data": each of so many axes shards some dimension or none, in any order. */
void random_layout(dice *d, int axes, int rank, char *text, size_t size);
/* The rank of each slot: any of them, every rank among them. */
void random_ranks(dice *d, int ranks, int slots, int *rank_of_slot);

#endif
