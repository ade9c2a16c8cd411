/* CRC-32 (zlib's: polynomial 0xEDB88320, reflected, as in zip and gzip), and its sum over parts that several
 * ranks have. The checksum of a whole is the exclusive or of the checksums of its parts, each shifted by the
 * number of bytes that follow the part: crc(AB) = shift(crc(A), |B|) ^ crc(B), zlib's crc32_combine(). So
 * every rank sums its own parts, in any partition, and the ranks combine their sums. */
#ifndef ISO_CHECKPOINT_CRC_H
#define ISO_CHECKPOINT_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The checksum after `bytes` more bytes, continuing from `crc` (0 to begin). */
uint32_t iso_crc(uint32_t crc, const void *data, size_t bytes);
/* The contribution of a part with this checksum to the checksum of a whole in which `bytes` bytes follow
 * it. */
uint32_t iso_crc_shift(uint32_t crc, uint64_t bytes);

/* A rank's share of the checksum of a whole, from parts in ascending order: {0} to begin. The factors of the
 * last distances are cached: the rows of a shard of a matrix are evenly spaced. */
typedef struct iso_crc_sum {
    uint32_t crc;
    uint64_t end; /* end of the last part */
    int next;
    struct {
        uint64_t bytes;
        uint32_t factor;
    } kept[2];
} iso_crc_sum;

/* Adds the bytes at `offset` of the whole, which must be at or after the end of the last part. */
void iso_crc_sum_add(iso_crc_sum *sum, uint64_t offset, const void *data, size_t bytes);
/* This rank's share of the checksum of a whole of `bytes` bytes. */
uint32_t iso_crc_sum_get(const iso_crc_sum *sum, uint64_t bytes);

#endif
