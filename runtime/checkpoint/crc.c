#include "runtime/checkpoint/crc.h"

#include <libdeflate.h>
#include <zlib.h>

uint32_t iso_crc(uint32_t crc, const void *data, size_t bytes)
{
    return bytes ? libdeflate_crc32(crc, data, bytes) : crc;
}

uint32_t iso_crc_shift(uint32_t crc, uint64_t bytes)
{
    return crc ? (uint32_t)crc32_combine_op(crc, 0, crc32_combine_gen64((z_off64_t)bytes)) : 0;
}

static uint32_t factor_of(iso_crc_sum *sum, uint64_t bytes)
{
    for (int i = 0; i < 2; i++)
        if (sum->kept[i].bytes == bytes && sum->kept[i].factor)
            return sum->kept[i].factor;
    int i = sum->next;
    sum->next = !i;
    sum->kept[i].bytes = bytes;
    return sum->kept[i].factor = (uint32_t)crc32_combine_gen64((z_off64_t)bytes);
}

void iso_crc_sum_add(iso_crc_sum *sum, uint64_t offset, const void *data, size_t bytes)
{
    uint32_t own = iso_crc(0, data, bytes);
    uint64_t moved = offset + bytes - sum->end;
    sum->crc =
        sum->crc && moved ? (uint32_t)crc32_combine_op(sum->crc, own, factor_of(sum, moved)) : sum->crc ^ own;
    sum->end = offset + bytes;
}

uint32_t iso_crc_sum_get(const iso_crc_sum *sum, uint64_t bytes)
{
    return iso_crc_shift(sum->crc, bytes - sum->end);
}
