/* Keeps what compiling a model has made while the model is compiled again: the memory of the variables after
 * a savepoint of the graph, and the optimizer's state. If compiling fails, they are put back. If it succeeds,
 * the new variables and updates take over what is kept, and the rest is dropped. For runtime/train. */
#ifndef ISO_EXEC_STATE_SET_ASIDE_H
#define ISO_EXEC_STATE_SET_ASIDE_H

#include "runtime/exec/function/function.h"
#include "runtime/graph/savepoint.h"

typedef struct iso_set_aside iso_set_aside;

/* Sets aside the memory of variables and updates after the savepoint. To be called before
 * iso_savepoint_take_out. own: the model's functions, a list that ends at NULL. ISO_INVALID: another function
 * of the graph (the message names it) uses what comes after the savepoint. ISO_NO_MEMORY. After an error
 * nothing has changed. Local. */
iso_status iso_set_aside_create(iso_graph *graph, const iso_savepoint *point, iso_function *const *own,
                                iso_set_aside **aside);
/* Makes a new variable begin with the value of the variable of the same path, shape and type that was set
 * aside, if there is one, instead of its initializer's. To be called before functions are made. */
void iso_set_aside_keep(iso_variable *variable);
/* Gives each new optimizer slot the value of the slot of the same path that was set aside. Collective. */
iso_status iso_set_aside_give_state(iso_set_aside *aside);
/* Frees the memory of the new variables and updates, then puts back what was set aside. To be called before
 * the new savepoint is discarded and the old one is put back. If the graph had no functions before, it has
 * none again, and the call is collective. Cannot fail. Frees `aside`. */
void iso_set_aside_put_back(iso_set_aside *aside);
/* Frees what was set aside. Frees `aside`. */
void iso_set_aside_drop(iso_set_aside *aside);

#endif
