/* The struct of a value, and what the values of one mesh share. */
#ifndef ISO_EXEC_VALUE_VALUE_IMPL_H
#define ISO_EXEC_VALUE_VALUE_IMPL_H

#include "collectives/coll.h"
#include "runtime/base/text.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/exec/value/value.h"
#include "runtime/spmd/spmd_impl.h"

/* Made with the first value of a mesh; freed with the mesh. */
typedef struct iso_value_site {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_fabric *fabric;
    int n_locals;
    int *slot;           /* [n_locals] the slots of this rank */
    bool *first_of_rank; /* [n_slots] no earlier slot is on its rank */
    bool idle_ranks;     /* some rank hosts no slot */
} iso_value_site;

struct iso_value {
    iso_value_site *site;
    iso_layout layout;
    iso_dtype dtype;
    iso_shape shape;
    int n_locals;      /* the site's */
    void **part;       /* [n_locals] */
    iso_status status; /* of a local call that failed, until a collective call reports it */
    char message[512];
    uint64_t taken; /* bytes that this rank's slots pulled from other slots to make it */
};

/* Collective. */
iso_status iso_value_site_get(iso_mesh *mesh, iso_value_site **site);
/* The box of a local slot. */
iso_box iso_value_local_box(const iso_value *value, int local);

/* Allocates a value and its parts, all zero. Local. */
iso_status iso_value_allocate(iso_value_site *site, const iso_layout *layout, iso_dtype dtype,
                              const iso_shape *shape, iso_value **value);
/* ISO_INVALID: a value is NULL, has another type, shape or mesh, or a local call on it has failed. what: for
 * messages, "input 'x' of function 'f'". Local. */
iso_status iso_value_check(iso_value *value, const char *what, const iso_mesh *mesh, iso_dtype dtype,
                           const iso_shape *shape);
/* Adds "float32 [8, 4] in layout 'data, -' on mesh data=4". */
void iso_value_describe(const iso_value *value, iso_text *text);
/* Converts the value to a layout of a program: *resharded becomes a new value, or NULL if the value has that layout
 * already. Collective. */
iso_status iso_value_to_layout(iso_value *value, const iso_layout *layout, iso_value **resharded);

/* value_read.c: ISO_INVALID if a variable is NULL, and before the first function of its graph is made. what:
 * the public function. */
iso_status iso_variable_placed(const iso_variable *variable, const char *what, iso_runtime **runtime);

/* value_move.c: fills the parts of `to`, which are zero, from those of `from` by one exchange. Collective. */
iso_status iso_value_move(const iso_value *from, iso_value *to);
/* Copies the whole of `from` into the array of every rank that hosts a slot, by one exchange. Collective. */
iso_status iso_value_gather(const iso_value *from, void *array);

#endif
