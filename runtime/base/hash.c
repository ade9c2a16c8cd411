#include "runtime/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t iso_hash_mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

uint64_t iso_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    hash = iso_hash_mix(hash ^ count);
    for (; count >= 8; count -= 8, byte += 8) {
        uint64_t word;
        memcpy(&word, byte, 8);
        hash = iso_hash_mix(hash ^ word);
    }
    uint64_t tail = 0;
    memcpy(&tail, byte, count);
    return iso_hash_mix(hash ^ tail);
}

uint64_t iso_hash_text(uint64_t hash, const char *text)
{
    return iso_hash_bytes(hash, text, strlen(text));
}

void iso_fingerprint_add(iso_fingerprint *sum, uint64_t path_hash, uint64_t global_index, uint64_t bits)
{
    uint64_t first = iso_hash_mix(iso_hash_mix(path_hash ^ iso_hash_mix(global_index)) ^ bits);
    uint64_t second = iso_hash_mix(first ^ path_hash);
    uint64_t low = sum->word[0] + first;
    sum->word[1] += second + (low < first);
    sum->word[0] = low;
}

void iso_fingerprint_text(const iso_fingerprint *sum, char text[33])
{
    snprintf(text, 33, "%016" PRIx64 "%016" PRIx64, sum->word[1], sum->word[0]);
}
