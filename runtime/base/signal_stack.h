/* A stack for signal handlers. oneDNN's matrix products point the stack pointer into heap memory when the
 * inner dimension is large (seen in 2.6). A handler that runs on the interrupted thread's stack then
 * overwrites the heap. So threads that run kernels have a stack for handlers, and handlers are installed with
 * SA_ONSTACK. */
#ifndef ISO_BASE_SIGNAL_STACK_H
#define ISO_BASE_SIGNAL_STACK_H

/* Gives this thread a stack for handlers, unless it has one. It lives until iso_signal_stack_end or as long as
 * the thread. Costs a few instructions after the first call. Local. */
void iso_signal_stack_use(void);
/* Takes it away, so that a thread of the program is as it was; the next use gives it again. Local. */
void iso_signal_stack_end(void);

#endif
