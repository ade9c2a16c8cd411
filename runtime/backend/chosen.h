/* Which backend the slots of new graphs use. */
#ifndef ISO_BACKEND_CHOSEN_H
#define ISO_BACKEND_CHOSEN_H

#include "runtime/backend/backend.h"

/* The CPU backend, unless another one was chosen. */
const iso_backend *iso_backend_chosen(void);
/* To be called before the first function of a graph is made, on all ranks alike. The backend is lent. */
void iso_backend_choose(const iso_backend *backend);

#endif
