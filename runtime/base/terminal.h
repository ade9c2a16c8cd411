/* Whether somebody looks on. */
#ifndef ISO_BASE_TERMINAL_H
#define ISO_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* True where what is written to `out` is shown on a terminal. Open MPI gives rank 0 a terminal of its own,
 * whatever becomes of its output: under mpirun it is mpirun's output that counts. */
bool iso_is_terminal(FILE *out);
/* True where colours are wanted there: on a terminal that has them, unless NO_COLOR is set and not empty
 * (no-color.org). */
bool iso_wants_colors(FILE *out);
/* Characters of a line there; 0 where it is no terminal. */
int iso_terminal_width(FILE *out);

#endif
