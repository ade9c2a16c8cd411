/* Products of a warp, and what brings their operands. */
#include "tests/emulator/tensor_cores.h"

namespace emulator
{

namespace
{

enum { PAIRS = 8 /* of columns of a, rows of b */ };

double element(uint32_t word, int half)
{
    const uint32_t bits = half ? word & 0xffff0000u : word << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/* Adds the products of a pair of a row of a and a column of b, first the lower halves. */
void add_pair(double &sum, uint32_t a, uint32_t b)
{
    sum += element(a, 0) * element(b, 0);
    sum += element(a, 1) * element(b, 1);
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
    operands &own = operands_of_thread();
    fragments &mine = own.of[own.turn++ % 2];
    mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const uint64_t *all =
        meet({file, function, line}, 0xffffffffu, WARP_PRODUCT, reinterpret_cast<uintptr_t>(&mine));
    const int g = lane() / 4, t = lane() % 4; /* rows g and g + 8 of a, columns 2t and 2t + 1 of b */
    double sum[4] = {0, 0, 0, 0};
    for (int pair = 0; pair < PAIRS; pair++) {
        const int holder = pair % 4, half = pair / 4;
        const uint32_t *rows = reinterpret_cast<const fragments *>(all[4 * g + holder])->a + 2 * half;
        for (int i = 0; i < 2; i++) {
            const uint32_t column =
                reinterpret_cast<const fragments *>(all[4 * (2 * t + i) + holder])->b[half];
            add_pair(sum[i], rows[0], column);
            add_pair(sum[2 + i], rows[1], column);
        }
    }
    for (int i = 0; i < 4; i++)
        c[i] = static_cast<float>(c[i] + sum[i]);
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
