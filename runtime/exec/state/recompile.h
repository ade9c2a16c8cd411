/* Compiling a model again, as a transaction: the memory of the variables after a savepoint of the graph, and the
 * optimizer's state, are saved. If compiling fails, a rollback restores them. If it succeeds, the new variables and
 * updates take over their values, and the commit frees the rest. For runtime/train. */
#ifndef ISO_EXEC_STATE_RECOMPILE_H
#define ISO_EXEC_STATE_RECOMPILE_H

#include "runtime/exec/function/function.h"
#include "runtime/graph/savepoint.h"

typedef struct iso_recompile iso_recompile;

/* Saves the memory of variables and updates after the savepoint. To be called before
 * iso_savepoint_take_out. own: the model's functions, a list that ends at NULL. ISO_INVALID: another function
 * of the graph (the message names it) uses what comes after the savepoint. ISO_NO_MEMORY. After an error
 * nothing has changed. Local. */
iso_status iso_recompile_begin(iso_graph *graph, const iso_savepoint *point, iso_function *const *own,
                               iso_recompile **recompile);
/* Makes a new variable begin with the value of the saved variable of the same path, shape and type, if there is one,
 * instead of its initializer's. To be called before functions are made. */
void iso_recompile_keep_value(iso_variable *variable);
/* Gives each new optimizer slot the value of the saved slot of the same path. Collective. */
iso_status iso_recompile_transfer_state(iso_recompile *recompile);
/* Frees the memory of the new variables and updates, then restores what was saved. To be called before the new
 * savepoint is discarded and the old one is put back. If the graph had no functions before, it has none again, and
 * the call is collective. Cannot fail. Frees `recompile`. */
void iso_recompile_rollback(iso_recompile *recompile);
/* Frees what was saved and not taken over. Frees `recompile`. */
void iso_recompile_commit(iso_recompile *recompile);

#endif
