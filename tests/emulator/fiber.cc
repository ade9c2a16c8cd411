#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator
{

namespace
{
const size_t PAGE = 4096, STACK = 256 * 1024;

/* What one fiber does before a switch happens before what the next one does. */
inline void tell_switch(context &from, context &to)
{
#if defined(__SANITIZE_THREAD__)
    from.tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.tsan, 0);
#else
    (void)from;
    (void)to;
#endif
}
} // namespace

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
/* The registers that a called function keeps (System V ABI) are saved on the stack that is left. */
extern "C" void emulator_switch(void **from, void *to);
asm(R"(
.text
.p2align 4
.type emulator_switch,@function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch,.-emulator_switch
)");

void switch_context(context &from, context &to)
{
    tell_switch(from, to);
    emulator_switch(&from.stack_pointer, to.stack_pointer);
}

static void prepare(context &at, char *, char *top, void (*entry)())
{
    void **slot = reinterpret_cast<void **>(top);
    *--slot = nullptr; /* the return address of entry: its stack is then aligned as after a call */
    *--slot = reinterpret_cast<void *>(entry);
    at.stack_pointer = slot - 6; /* the six registers */
}
#else
void switch_context(context &from, context &to)
{
    tell_switch(from, to);
    swapcontext(&from.saved, &to.saved);
}

static void prepare(context &at, char *bottom, char *top, void (*entry)())
{
    getcontext(&at.saved);
    at.saved.uc_stack.ss_sp = bottom;
    at.saved.uc_stack.ss_size = static_cast<size_t>(top - bottom);
    at.saved.uc_link = nullptr;
    makecontext(&at.saved, entry, 0);
}
#endif

fiber::fiber(void (*entry)(), size_t number)
{
    void *pages =
        mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        throw std::bad_alloc();
    memory = static_cast<char *>(pages);
    mprotect(memory, PAGE, PROT_NONE);
    /* A kilobyte of each stack is in use; 64 of them fill the first level of the cache. */
    prepare(at, memory + PAGE, memory + STACK - number % 64 * 448, entry);
#if defined(__SANITIZE_THREAD__)
    at.tsan = __tsan_create_fiber(0);
#endif
}

fiber::~fiber()
{
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(memory, STACK); /* of functions that were left without an end */
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(at.tsan);
#endif
    munmap(memory, STACK);
}

} // namespace emulator
