/* Copies of boxes between dense buffers: the CPU backend's, and for memory of the host. */
#ifndef ISO_BACKEND_BOX_COPY_H
#define ISO_BACKEND_BOX_COPY_H

#include "runtime/base/thread_pool.h"

/* A copy of a region from one dense buffer to another; each buffer holds a box of the tensor. */
typedef struct iso_box_copy {
    bool whole; /* the boxes are equal: one run */
    bool zero;  /* the source does not cover the target: it is cleared first */
    bool empty; /* nothing is copied */
    iso_box region, from_box, to_box;
    const void *from;
    void *to;
    size_t element;
} iso_box_copy;

void iso_box_copy_run(const iso_box_copy *copy);
/* The same, divided between the threads of a pool if it is large. pool NULL: the caller copies. */
void iso_box_copy_divide(const iso_box_copy *copy, iso_thread_pool *pool);

#endif
