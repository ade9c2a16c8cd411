/* Products of a warp, and what brings their operands. */
#include "tests/emulator/tensor_cores.h"

namespace emulator
{

namespace
{

enum { MOST_THREADS = 1024, SIZE = 16 /* rows and columns of a, rows of b */ };

int thread_number()
{
    return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}

struct fragments {
    uint32_t a[4], b[2];
};

/* Of a thread: those of its last product, and those of the one before, which slower lanes may still read. */
struct operands {
    fragments of[2];
    unsigned turn;
};
thread_local operands given[MOST_THREADS];

float element(uint32_t word, int half)
{
    const uint32_t bits = half ? word & 0xffff0000u : word << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/* Which lane holds an element, in which word. */
struct holder {
    int lane, word, half;
};

holder holder_of_a(int row, int column)
{
    return {row % 8 * 4 + column % 8 / 2, row / 8 + column / 8 * 2, column % 2};
}

holder holder_of_b(int row, int column)
{
    return {column * 4 + row % 8 / 2, row / 8, row % 2};
}

void load(uint32_t (&x)[4], const void *row, bool transposed, place at)
{
    if (reinterpret_cast<uintptr_t>(row) % 16 > 0)
        fail("a row of a matrix at an address that is no multiple of 16");
    const uint64_t *rows = meet(at, 0xffffffffu, WARP_MATRICES, reinterpret_cast<uintptr_t>(row));
    const int g = lane() / 4, t = lane() % 4;
    for (int m = 0; m < 4; m++) {
        uint16_t two[2];
        for (int i = 0; i < 2; i++) {
            const int of_row = transposed ? 2 * t + i : g, column = transposed ? g : 2 * t + i;
            two[i] = reinterpret_cast<const uint16_t *>(rows[8 * m + of_row])[column];
        }
        x[m] = two[0] | static_cast<uint32_t>(two[1]) << 16;
    }
}

void begin_copy(void *to, const void *from, int bytes, bool exists)
{
    if (reinterpret_cast<uintptr_t>(to) % static_cast<unsigned>(bytes) > 0 ||
        (exists && reinterpret_cast<uintptr_t>(from) % static_cast<unsigned>(bytes) > 0))
        fail("a copy of %d bytes at an address that is no multiple of them", bytes);
    std::memset(to, 0xff, static_cast<size_t>(bytes));
    copies_of_thread().push_back({to, exists ? from : nullptr, bytes});
}

} // namespace

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const char *file,
                  const char *function, int line)
{
    operands &own = given[thread_number()];
    fragments &mine = own.of[own.turn++ % 2];
    mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const uint64_t *all =
        meet({file, function, line}, 0xffffffffu, WARP_PRODUCT, reinterpret_cast<uintptr_t>(&mine));
    const int g = lane() / 4, t = lane() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        double sum = 0;
        for (int k = 0; k < SIZE; k++) {
            const holder of_a = holder_of_a(row, k), of_b = holder_of_b(k, column);
            sum += static_cast<double>(element(
                       reinterpret_cast<const fragments *>(all[of_a.lane])->a[of_a.word], of_a.half)) *
                   element(reinterpret_cast<const fragments *>(all[of_b.lane])->b[of_b.word], of_b.half);
        }
        c[i] = static_cast<float>(c[i] + sum);
    }
}

void load_matrices(uint32_t (&x)[4], const void *row, const char *file, const char *function, int line)
{
    load(x, row, false, {file, function, line});
}

void load_transposed(uint32_t (&x)[4], const void *row, const char *file, const char *function, int line)
{
    load(x, row, true, {file, function, line});
}

void copy_16(void *to, const void *from, bool exists)
{
    begin_copy(to, from, 16, exists);
}

void copy_4(void *to, const void *from, bool exists)
{
    begin_copy(to, from, 4, exists);
}

void wait_for_copies()
{
    for (const copy &c : copies_of_thread())
        if (c.from)
            std::memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
        else
            std::memset(c.to, 0, static_cast<size_t>(c.bytes));
    copies_of_thread().clear();
}

} // namespace emulator
