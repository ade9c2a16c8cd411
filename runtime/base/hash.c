#include "runtime/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/table.h"

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
    if (count > 0 && ISO_ANY_NULL(bytes))
        return hash;
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

/* One multiplication and one rotation per word and stream (as in xxHash64), so that the streams overlap in
 * the pipeline. */
uint64_t iso_hash_content(const void *bytes, size_t count)
{
    enum { STREAMS = 4, BLOCK = STREAMS * 8 };
    const unsigned char *byte = bytes;
    uint64_t stream[STREAMS] = {1, 2, 3, 4}, hash = count;
    size_t blocks = count / BLOCK;
    if (count > 0 && ISO_ANY_NULL(bytes))
        return 0;
    for (size_t i = 0; i < blocks; i++, byte += BLOCK)
        for (int k = 0; k < STREAMS; k++) {
            uint64_t word;
            memcpy(&word, byte + 8 * k, 8);
            word = stream[k] + word * 0xC2B2AE3D27D4EB4Fu;
            stream[k] = (word << 31 | word >> 33) * 0x9E3779B185EBCA87u;
        }
    for (int k = 0; k < STREAMS; k++)
        hash = iso_hash_mix(hash ^ stream[k]);
    return iso_hash_bytes(hash, byte, count - blocks * BLOCK);
}

uint64_t iso_hash_text(uint64_t hash, const char *text)
{
    if (ISO_ANY_NULL(text))
        return 0;
    return iso_hash_bytes(hash, text, strlen(text));
}

typedef struct wanted {
    const iso_hash_key *keys;
    int at;
} wanted;

static bool is_wanted(const void *key, int number)
{
    const wanted *w = key;
    return w->keys[number].word[1] == w->keys[w->at].word[1];
}

bool iso_hash_firsts(const iso_hash_key *key, int count, int *first)
{
    iso_table table = {0};
    iso_status status = ISO_OK;
    if (count > 0 && ISO_ANY_NULL(key, first))
        return false;
    for (int i = 0; i < count && status == ISO_OK; i++) {
        wanted w = {key, i};
        first[i] = iso_table_find(&table, key[i].word[0], is_wanted, &w);
        if (first[i] < 0) {
            status = iso_table_add(&table, key[i].word[0], i, "hashes");
            first[i] = i;
        }
    }
    iso_table_free(&table);
    return status == ISO_OK;
}

void iso_fingerprint_add(iso_fingerprint *sum, uint64_t path_hash, uint64_t global_index, uint64_t bits)
{
    if (ISO_ANY_NULL(sum))
        return;
    uint64_t first = iso_hash_mix(iso_hash_mix(path_hash ^ iso_hash_mix(global_index)) ^ bits);
    uint64_t second = iso_hash_mix(first ^ path_hash);
    uint64_t low = sum->word[0] + first;
    sum->word[1] += second + (low < first);
    sum->word[0] = low;
}

void iso_fingerprint_text(const iso_fingerprint *sum, char text[33])
{
    if (ISO_ANY_NULL(sum, text))
        return;
    snprintf(text, 33, "%016" PRIx64 "%016" PRIx64, sum->word[1], sum->word[0]);
}
