/* The emulator's scheduler: the threads of a block as fibers. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/emulator/cuda_runtime.h"
#include "tests/emulator/emulator.h"
#include "tests/emulator/fiber.h"

__thread dim3 gridDim, blockDim;
__thread uint3 blockIdx, threadIdx;

/* The section of the __shared__ variables, where a program has any. */
extern "C" char __start_emulator_shared[] __attribute__((weak));
extern "C" char __stop_emulator_shared[] __attribute__((weak));

namespace emulator
{

static cudaError_t run_at_once(const cudaLaunchConfig_t &config, const std::function<void()> &thread,
                               uintptr_t)
{
    return run_grid(config, thread);
}
launcher *launch = run_at_once;

namespace
{

enum {
    MOST_THREADS = 1024,
    WARP = 32,
    WORDS = MOST_THREADS / 64,
    MOST_MASKS = 8, /* of the meetings of a warp */
    GUARD = 64,
    MOST_SHARED = 227 * 1024,
};
const int POISON = 0xff; /* of shared memory: NaN */

enum thread_state : uint8_t { READY, AT_BARRIER, AT_MEETING, ENDED };

struct thread {
    thread_state state;
    fiber *stack; /* NULL: it has not begun */
    uint3 index;
    place at; /* where it met others last */
    std::vector<copy> copies;
    operands given;
};

/* Lanes of a warp that name the same mask. */
struct meeting {
    unsigned mask, arrived, round;
    warp_operation operation;
    place at;
    uint64_t value[2][WARP]; /* of this round and of the one before, which may still be read */
};

struct warp {
    int count;
    meeting meetings[MOST_MASKS];
};

struct schedule {
    emulator_order order = EMULATOR_IN_ORDER;
    uint64_t seed = 0;
};

/* Blocks of all launches take turns, because there is one memory of shared variables. */
std::mutex turn;
schedule chosen;
char first_error[800];
bool has_error;

class engine
{
  public:
    bool run_block(size_t bytes, const std::function<void()> &thread);
    std::vector<int> sequence(size_t blocks);
    void begin_grid(const cudaLaunchConfig_t &config);
    void end_thread();
    int wait_at_barrier(place at, int predicate);
    const uint64_t *wait_for_lanes(place at, unsigned mask, warp_operation operation, uint64_t value);
    void stop(const char *text);
    thread &now()
    {
        return threads[current];
    }
    const std::function<void()> *body;
    std::vector<unsigned char> shared; /* dynamic, with a guard behind it */
    int current;                       /* thread that runs */

  private:
    void begin_block(size_t bytes);
    void arrange(std::vector<int> &items, size_t group);
    void put(int number);
    int take();
    fiber *enter(int number);
    void leave(context &from);
    void pause();
    void release_barrier();
    void check_guard();
    std::string waiting_in(thread_state state, const char *what);
    void report_deadlock();
    meeting &meeting_of(warp &of, unsigned mask);
    fiber *idle_fiber();
    uint64_t draw(uint64_t below);

    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<int> order, rank; /* thread of a priority, priority of a thread; 0 goes first */
    uint64_t ready[WORDS];        /* the priorities of threads that can run */
    std::vector<std::unique_ptr<fiber>> fibers;
    std::vector<fiber *> idle;
    context scheduler;
    uint64_t random;
    size_t shared_bytes;
    int alive, waiting, counted,
        result; /* waiting at the barrier; their predicates; those of the last barrier */
    bool failed;
};

thread_local std::unique_ptr<engine> owned;
__thread engine *made; /* the same: it is read without a look at whether `owned` has begun its life */

inline engine &of_thread()
{
    if (!made) {
        owned = std::make_unique<engine>();
        made = owned.get();
    }
    return *made;
}

/* A fiber runs threads that have not begun, one after another, as long as none of them waits. */
void fiber_main()
{
    for (;;) {
        (*of_thread().body)();
        of_thread().end_thread();
    }
}

uint64_t engine::draw(uint64_t below) /* splitmix64, Steele et al. 2014 */
{
    uint64_t z = random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

/* 0, 1, ... in the chosen order. At random, groups of `group` stay together. */
void engine::arrange(std::vector<int> &items, size_t group)
{
    size_t n = items.size();
    for (size_t i = 0; i < n; i++)
        items[i] = static_cast<int>(chosen.order == EMULATOR_BACKWARD ? n - 1 - i : i);
    if (chosen.order != EMULATOR_RANDOM)
        return;
    for (size_t g = n / group; g > 1; g--) {
        size_t other = draw(g);
        if (other != g - 1)
            std::swap_ranges(&items[(g - 1) * group], &items[(g - 1) * group] + group, &items[other * group]);
    }
    for (size_t first = 0; first < n; first += group)
        for (size_t i = std::min(group, n - first); i > 1; i--)
            std::swap(items[first + i - 1], items[first + draw(i)]);
}

std::vector<int> engine::sequence(size_t blocks)
{
    std::vector<int> items(blocks);
    random = chosen.seed;
    arrange(items, 1);
    return items;
}

void engine::begin_grid(const cudaLaunchConfig_t &config)
{
    gridDim = config.gridDim;
    blockDim = config.blockDim;
    size_t count = static_cast<size_t>(blockDim.x) * blockDim.y * blockDim.z;
    threads.resize(count);
    order.resize(count);
    rank.resize(count);
    warps.resize((count + WARP - 1) / WARP);
    for (size_t i = 0; i < count; i++) {
        unsigned n = static_cast<unsigned>(i);
        threads[i].index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    }
    shared.resize(config.dynamicSmemBytes + GUARD);
}

void engine::begin_block(size_t bytes)
{
    size_t count = threads.size();
    for (thread &t : threads)
        t.state = READY, t.stack = nullptr, t.at = {nullptr, nullptr, 0}, t.copies.clear();
    for (warp &w : warps)
        w.count = 0;
    arrange(order, draw(2) ? static_cast<size_t>(WARP) : 1);
    for (size_t i = 0; i < count; i++)
        rank[static_cast<size_t>(order[i])] = static_cast<int>(i);
    memset(ready, 0, sizeof ready);
    for (size_t i = 0; i < count; i++)
        ready[i / 64] |= static_cast<uint64_t>(1) << i % 64;
    alive = static_cast<int>(count);
    waiting = counted = 0;
    failed = false;
    shared_bytes = bytes;
    memset(shared.data(), POISON, shared.size());
    if (__start_emulator_shared)
        memset(__start_emulator_shared, POISON,
               static_cast<size_t>(__stop_emulator_shared - __start_emulator_shared));
}

/* ---- which thread runs ---- */

void engine::put(int number)
{
    int r = rank[static_cast<size_t>(number)];
    ready[r / 64] |= static_cast<uint64_t>(1) << r % 64;
}

/* The ready thread of the first priority; -1: there is none. */
int engine::take()
{
    for (int w = 0; w < WORDS; w++)
        if (ready[w]) {
            int bit = __builtin_ctzll(ready[w]);
            ready[w] &= ready[w] - 1;
            return order[static_cast<size_t>(w * 64 + bit)];
        }
    return -1;
}

fiber *engine::idle_fiber()
{
    if (idle.empty()) {
        fibers.push_back(std::make_unique<fiber>(fiber_main, fibers.size()));
        idle.push_back(fibers.back().get());
    }
    fiber *found = idle.back();
    idle.pop_back();
    return found;
}

/* Makes a thread the one that runs; its stack, which may be a fresh one, goes on then. */
fiber *engine::enter(int number)
{
    current = number;
    if (!now().stack)
        now().stack = idle_fiber();
    threadIdx = now().index;
    return now().stack;
}

/* Leaves a stack for that of the next thread: returns when somebody goes on with it. Without a thread that can run
 * the scheduler goes on. */
void engine::leave(context &from)
{
    int next = take();
    context &to = next < 0 ? scheduler : enter(next)->at;
    if (&to != &from)
        switch_context(from, to);
}

/* Returns when somebody made the thread ready and its turn has come. */
void engine::pause()
{
    leave(now().stack->at);
}

void engine::end_thread()
{
    fiber *stack = now().stack;
    check_guard();
    now().state = ENDED;
    alive--;
    if (waiting > 0 && waiting == alive)
        release_barrier();
    int next = take();
    if (next >= 0 && !threads[static_cast<size_t>(next)].stack) { /* it begins here, without a switch */
        current = next;
        now().stack = stack;
        threadIdx = now().index;
        return;
    }
    if (next >= 0)
        put(next);
    idle.push_back(stack);
    leave(stack->at);
}

bool engine::run_block(size_t bytes, const std::function<void()> &thread)
{
    begin_block(bytes);
    body = &thread;
    while (alive > 0 && !failed) {
        int next = take();
        if (next < 0) {
            report_deadlock();
            break;
        }
        switch_context(scheduler, enter(next)->at);
    }
    if (failed) { /* some fibers are in the middle of a kernel */
        idle.clear();
        fibers.clear();
    }
    return !failed;
}

/* ---- meetings ---- */

bool same(const place &a, const place &b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void engine::release_barrier()
{
    const thread *one = nullptr;
    for (thread &t : threads) {
        if (t.state != AT_BARRIER)
            continue;
        if (one && !same(one->at, t.at))
            fail("threads of the block are at two barriers: (%u %u %u) at %s:%d and (%u %u %u) at %s:%d",
                 one->index.x, one->index.y, one->index.z, one->at.file, one->at.line, t.index.x, t.index.y,
                 t.index.z, t.at.file, t.at.line);
        one = &t;
    }
    for (size_t i = 0; i < threads.size(); i++)
        if (threads[i].state == AT_BARRIER) {
            threads[i].state = READY;
            put(static_cast<int>(i));
        }
    result = counted;
    waiting = counted = 0;
}

int engine::wait_at_barrier(place at, int predicate)
{
    check_guard();
    now().at = at;
    now().state = AT_BARRIER;
    counted += predicate != 0;
    if (++waiting == alive)
        release_barrier();
    pause();
    return result;
}

meeting &engine::meeting_of(warp &of, unsigned mask)
{
    for (int i = 0; i < of.count; i++)
        if (of.meetings[i].mask == mask)
            return of.meetings[i];
    if (of.count == MOST_MASKS)
        fail("more than %d masks in the warp operations of a block", MOST_MASKS);
    meeting &m = of.meetings[of.count++];
    m.mask = mask;
    m.arrived = m.round = 0;
    return m;
}

const uint64_t *engine::wait_for_lanes(place at, unsigned mask, warp_operation operation, uint64_t value)
{
    size_t first = static_cast<size_t>(current) / WARP * WARP, lanes = threads.size() - first;
    int own = lane();
    check_guard();
    now().at = at;
    if (!(mask >> own & 1))
        fail("the lane is not in its mask %08x", mask);
    /* A full mask means the lanes that exist. */
    unsigned expected = lanes < WARP && mask == 0xffffffffu ? (1u << lanes) - 1 : mask;
    meeting &m = meeting_of(warps[first / WARP], mask);
    if (m.arrived && (m.operation != operation || !same(m.at, at)))
        fail("lanes of the warp are at two operations: at %s:%d and at %s:%d", m.at.file, m.at.line, at.file,
             at.line);
    m.operation = operation;
    m.at = at;
    uint64_t *values = m.value[m.round & 1];
    values[own] = value;
    m.arrived |= 1u << own;
    if (m.arrived != expected) {
        now().state = AT_MEETING;
        pause();
        return values;
    }
    m.arrived = 0;
    m.round++;
    for (int i = 0; i < WARP; i++)
        if (i != own && (expected >> i & 1)) {
            threads[first + static_cast<size_t>(i)].state = READY;
            put(static_cast<int>(first) + i);
        }
    return values;
}

/* ---- errors ---- */

/* Each thread looks when it stops running, so that the one that wrote there finds it. */
void engine::check_guard()
{
    static const unsigned char untouched[GUARD] = {
#define EIGHT POISON, POISON, POISON, POISON, POISON, POISON, POISON, POISON
        EIGHT, EIGHT, EIGHT, EIGHT, EIGHT,
        EIGHT, EIGHT, EIGHT
#undef EIGHT
    };
    if (memcmp(&shared[shared_bytes], untouched, GUARD) == 0)
        return;
    memset(&shared[shared_bytes], POISON, GUARD);
    fail("it wrote past the %zu bytes of dynamic shared memory", shared_bytes);
}

/* Keeps the text of the first error. The lock is held. */
__attribute__((format(printf, 1, 2))) void keep_error(const char *format, ...)
{
    if (has_error)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(first_error, sizeof first_error, format, list);
    va_end(list);
    has_error = true;
}

/* "; 3 threads wait at a barrier, (0 0 0) in kernel at file.cu:12"; nothing if none does. */
std::string engine::waiting_in(thread_state state, const char *what)
{
    char text[300] = "";
    int count = 0;
    for (const thread &t : threads)
        if (t.state == state && count++ == 0)
            snprintf(text, sizeof text, "(%u %u %u) in %.100s at %.100s:%d", t.index.x, t.index.y, t.index.z,
                     t.at.function, t.at.file, t.at.line);
    return count ? "; " + std::to_string(count) + " wait " + what + ", " + text : "";
}

void engine::report_deadlock()
{
    failed = true;
    keep_error("block (%u %u %u): deadlock: %d of %zu threads are left%s%s", blockIdx.x, blockIdx.y,
               blockIdx.z, alive, threads.size(), waiting_in(AT_BARRIER, "at a barrier").c_str(),
               waiting_in(AT_MEETING, "for lanes of their warp").c_str());
}

void engine::stop(const char *text)
{
    const thread &t = now();
    char where[300] = "it had met no others before";
    if (t.at.file)
        snprintf(where, sizeof where, "it met others last in %.100s at %.100s:%d", t.at.function, t.at.file,
                 t.at.line);
    keep_error("block (%u %u %u), thread (%u %u %u): %s; %s", blockIdx.x, blockIdx.y, blockIdx.z, t.index.x,
               t.index.y, t.index.z, text, where);
    failed = true;
    context abandoned;
    switch_context(abandoned, scheduler);
}

bool launchable(const cudaLaunchConfig_t &c)
{
    size_t count = static_cast<size_t>(c.blockDim.x) * c.blockDim.y * c.blockDim.z;
    return count > 0 && count <= MOST_THREADS && c.blockDim.z <= 64 && c.gridDim.x > 0 && c.gridDim.y > 0 &&
           c.gridDim.z > 0 && c.gridDim.x <= INT32_MAX && c.gridDim.y <= 65535 && c.gridDim.z <= 65535 &&
           c.dynamicSmemBytes <= MOST_SHARED;
}

cudaError_t refuse(const cudaLaunchConfig_t &c)
{
    std::lock_guard<std::mutex> hold(turn);
    keep_error("a launch of %u x %u x %u blocks of %u x %u x %u threads with %zu bytes of shared memory",
               c.gridDim.x, c.gridDim.y, c.gridDim.z, c.blockDim.x, c.blockDim.y, c.blockDim.z,
               c.dynamicSmemBytes);
    return cudaErrorInvalidConfiguration;
}

} // namespace

void fail(const char *format, ...)
{
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    of_thread().stop(text);
}

unsigned char *dynamic_shared()
{
    return of_thread().shared.data();
}

int lane()
{
    return of_thread().current % WARP;
}

std::vector<copy> &copies_of_thread()
{
    return of_thread().now().copies;
}

operands &operands_of_thread()
{
    return of_thread().now().given;
}

int barrier(place at, int predicate)
{
    return of_thread().wait_at_barrier(at, predicate);
}

const uint64_t *meet(place at, unsigned mask, warp_operation operation, uint64_t value)
{
    return of_thread().wait_for_lanes(at, mask, operation, value);
}

cudaError_t run_grid(const cudaLaunchConfig_t &config, const std::function<void()> &thread)
{
    if (!launchable(config))
        return refuse(config);
    size_t blocks = static_cast<size_t>(config.gridDim.x) * config.gridDim.y * config.gridDim.z;
    of_thread().begin_grid(config);
    for (int number : of_thread().sequence(blocks)) {
        std::lock_guard<std::mutex> hold(turn);
        unsigned n = static_cast<unsigned>(number);
        blockIdx = {n % gridDim.x, n / gridDim.x % gridDim.y, n / gridDim.x / gridDim.y};
        if (!of_thread().run_block(config.dynamicSmemBytes, thread))
            return cudaErrorLaunchFailure;
    }
    return cudaSuccess;
}

} // namespace emulator

extern "C" void emulator_set_order(emulator_order order, uint64_t seed)
{
    std::lock_guard<std::mutex> hold(emulator::turn);
    emulator::chosen.order = order;
    emulator::chosen.seed = seed;
}

extern "C" const char *emulator_error(void)
{
    std::lock_guard<std::mutex> hold(emulator::turn);
    bool had = emulator::has_error;
    emulator::has_error = false;
    return had ? emulator::first_error : nullptr;
}
