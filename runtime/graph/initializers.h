/* Initial values of variables: one row for each of Keras's initializers. */
#ifndef ISO_GRAPH_INITIALIZERS_H
#define ISO_GRAPH_INITIALIZERS_H

#include "runtime/base/descriptor.h"
#include "runtime/graph/graph.h"

typedef struct iso_draw {
    enum {
        ISO_DRAW_CONSTANT,  /* a */
        ISO_DRAW_UNIFORM,   /* [a, b) */
        ISO_DRAW_NORMAL,    /* mean a, deviation b */
        ISO_DRAW_TRUNCATED, /* the same, redrawn while it is 2 b or more away from a */
        ISO_DRAW_ORTHOGONAL /* a times a matrix [all dimensions but the last, last] with orthonormal rows or columns */
    } kind;
    double a, b;
} iso_draw;

enum { ISO_MAX_INITIALIZER_SETTINGS = 4 };
#define ISO_NO_CHOICE "none" /* a choice that is null in Keras's files */

typedef struct iso_initializer_type {
    iso_descriptor row;     /* settings are members of iso_initializer */
    const char *other_name; /* a second name in Keras, or NULL */
    /* The words of a setting whose value is a word, at their numbers, then NULL. NULL: the setting is a number. */
    const char *const *choice[ISO_MAX_INITIALIZER_SETTINGS];
    bool seeded;               /* Keras's class has a seed */
    int least_rank, most_rank; /* range of ranks of the shapes that it can fill; 0: any */
    /* The distribution of elements; fan_in, fan_out: of the variable. NULL: `element` computes the
     * elements. Both take settings that are filled in. */
    iso_draw (*distribution)(const iso_initializer *init, double fan_in, double fan_out);
    double (*element)(const iso_initializer *init, const iso_shape *shape, int64_t index); /* in C order */
} iso_initializer_type;

/* All initializers, in the order of their kinds, from ISO_INIT_ZEROS on. */
extern const iso_descriptor *const iso_initializers[];

/* Returns Glorot uniform for ISO_INIT_DEFAULT; NULL outside the range. */
const iso_initializer_type *iso_initializer_type_of(iso_initializer_kind kind);
/* Finds a kind by Keras's name or class; false if there is none. */
bool iso_initializer_find(const char *name, iso_initializer_kind *kind);
/* A copy with Keras's defaults for the settings that are left out. */
iso_initializer iso_initializer_filled(const iso_initializer *init);

#endif
