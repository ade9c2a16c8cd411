/* Products of tensors whose dimensions have labels, as in Einstein's summation. For models alone. */
#ifndef ISO_MODELS_LAYERS_EINSUM_H
#define ISO_MODELS_LAYERS_EINSUM_H

#include "runtime/graph/graph.h"

enum {
    ISO_MOST_LABELS = 2 * ISO_MAX_RANK,
    ISO_EINSUM_WHY = 160, /* the room for a reason */
    ISO_ELLIPSIS =
        1 /* the labels of "...", from its last dimension to its first, are this and those after it */
};

/* A tensor and a label for each of its dimensions, all different. */
typedef struct iso_labelled {
    iso_tensor *x;
    char label[ISO_MOST_LABELS + 1];
} iso_labelled;

bool iso_labels_have(const char *labels, char label);
/* Appends a label. */
void iso_labels_add(char *labels, char label);
/* The elements of a dimension; 1 if there is none of that label. */
int64_t iso_labelled_extent(const iso_labelled *a, char label);

/* The functions below write into why[ISO_EINSUM_WHY], which must be "" at first, why something cannot be: the first
 * reason stays, and their results then mean nothing. The rows of a batch stay its first dimension. */

/* `a` summed over the labels that are in neither of two lists. */
iso_labelled iso_labelled_sum(iso_labelled a, const char *kept, const char *also, char *why);
/* `a` with its dimensions in the order of a list, which has all of its labels and may have more. */
iso_labelled iso_labelled_order(iso_labelled a, const char *labels, char *why);
/* The sum of the products of a and b over the labels that are not in `out`, with dimensions in the order of `out`,
 * which may have more. A dimension of one element is repeated where the other tensor has more, unless it is summed.
 * It is one matrix product, or none if nothing is summed; where rows, summed dimensions and columns stand in order,
 * nothing is moved. bias: NULL, or a tensor that is added and fits the last dimensions of the result; its labels are
 * those of its dimensions that are not there for broadcasting alone. */
iso_labelled iso_labelled_product(iso_labelled a, iso_labelled b, const char *out, const iso_labelled *bias,
                                  char *why);

#endif
