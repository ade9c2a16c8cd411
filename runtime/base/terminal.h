/* Whether output goes to a terminal, and its width and colours. */
#ifndef ISO_BASE_TERMINAL_H
#define ISO_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* True if output written to `out` is shown on a terminal. Open MPI gives rank 0 a terminal of its own
 * wherever its output goes, so under mpirun the output of mpirun is examined. */
bool iso_is_terminal(FILE *out);
/* True if that output should have colours: on a terminal that supports them, unless NO_COLOR is set and
 * not empty (no-color.org). */
bool iso_wants_colors(FILE *out);
/* The number of characters in a line of that terminal; 0 if it is not a terminal. */
int iso_terminal_width(FILE *out);

#endif
