/* CRC-32 (zlib's: polynomial 0xEDB88320, reflected, as of zip and gzip), and the sum of it over parts that
 * several ranks have. The checksum of a whole is the "exclusive or" of those of its parts, each shifted by
 * the bytes that stand behind it: crc(AB) = shift(crc(A), |B|) ^ crc(B), zlib's crc32_combine(). So every
 * rank sums up what it has, in any partition, and the ranks join their sums. */
#ifndef ISO_CHECKPOINT_CRC_H
#define ISO_CHECKPOINT_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of `bytes` more bytes, continuing from `crc` (0 to begin). */
uint32_t iso_crc(uint32_t crc, const void *data, size_t bytes);
/* What a part with this checksum adds to that of a whole in which `bytes` bytes follow it. */
uint32_t iso_crc_shift(uint32_t crc, uint64_t bytes);

/* A rank's share of the checksum of a whole, from parts that come in ascending order: {0} to begin. The
 * factors of the last distances are kept: a part of a matrix has rows that are evenly spaced. */
typedef struct iso_crc_sum {
    uint32_t crc;
    uint64_t end; /* of the last part */
    int next;
    struct {
        uint64_t bytes;
        uint32_t factor;
    } kept[2];
} iso_crc_sum;

/* Adds the bytes at `offset` of the whole, which is at least where the last part ended. */
void iso_crc_sum_add(iso_crc_sum *sum, uint64_t offset, const void *data, size_t bytes);
/* The share in a whole of `bytes` bytes. */
uint32_t iso_crc_sum_get(const iso_crc_sum *sum, uint64_t bytes);

#endif
