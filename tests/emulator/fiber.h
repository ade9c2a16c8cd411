/* Fibers: several stacks on one thread of the operating system, of which one runs at a time. */
#ifndef ISO_TESTS_EMULATOR_FIBER_H
#define ISO_TESTS_EMULATOR_FIBER_H

#include <cstddef>
#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulator
{

/* Where a fiber (or the thread that runs fibers) goes on. */
struct context {
#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
    void *stack_pointer = nullptr;
#else
    ucontext_t saved;
#endif
#if defined(__SANITIZE_THREAD__)
    void *tsan = nullptr; /* ThreadSanitizer's own of this stack */
#endif
};

/* Goes on with `to`; returns when somebody switches to `from`. */
void switch_context(context &from, context &to);

/* A stack with a guard page below it. */
class fiber
{
  public:
    context at;
    /* The fiber begins with entry(), which must not return. number: stacks of different numbers lie at
     * different sets of the processor's cache. */
    fiber(void (*entry)(), size_t number);
    ~fiber();
    fiber(const fiber &) = delete;
    fiber &operator=(const fiber &) = delete;

  private:
    char *memory;
};

} // namespace emulator

#endif
