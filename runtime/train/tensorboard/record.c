#include "runtime/train/tensorboard/record.h"

#include <pthread.h>

static uint32_t table[256];

/* The table of remainders per byte, for the reflected polynomial 0x1EDC6F41. */
static void record_make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = (rest >> 1) ^ (rest & 1 ? 0x82F63B78u : 0);
        table[byte] = rest;
    }
}

uint32_t iso_crc32c(const void *data, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = data;
    uint32_t rest = 0xFFFFFFFFu;
    pthread_once(&once, record_make_table);
    for (size_t i = 0; i < bytes; i++)
        rest = (rest >> 8) ^ table[(rest ^ at[i]) & 0xFF];
    return rest ^ 0xFFFFFFFFu;
}

/* Masks a checksum as records require: rotates it by 15 bits and adds a constant, because a checksum over
 * data that contains checksums is a poor one. */
static uint32_t masked(const void *data, size_t bytes)
{
    uint32_t crc = iso_crc32c(data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

static void record_put(unsigned char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

bool iso_record_write(FILE *file, const void *data, size_t bytes)
{
    unsigned char head[12], tail[4];
    record_put(head, bytes, 8);
    record_put(head + 8, masked(head, 8), 4);
    record_put(tail, masked(data, bytes), 4);
    return fwrite(head, 1, sizeof head, file) == sizeof head && fwrite(data, 1, bytes, file) == bytes &&
           fwrite(tail, 1, sizeof tail, file) == sizeof tail;
}
