/* 64-bit hashes of bytes, and the 128-bit fingerprint of state, which is a sum over elements. */
#ifndef ISO_BASE_HASH_H
#define ISO_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/fingerprint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 64-bit hash of bytes, continuing from `hash` (0 to begin). */
uint64_t iso_hash_bytes(uint64_t hash, const void *bytes, size_t count);
/* A different hash, for large arrays: four independent streams, as fast as memory delivers the bytes. */
uint64_t iso_hash_content(const void *bytes, size_t count);
uint64_t iso_hash_text(uint64_t hash, const char *text);
uint64_t iso_hash_mix(uint64_t value);

/* A 128-bit hash of a large object. */
typedef struct iso_hash_key {
    uint64_t word[2];
} iso_hash_key;
/* first[i]: the smallest j whose key equals that of i. False: out of memory. */
bool iso_hash_firsts(const iso_hash_key *key, int count, int *first);

/* Adds an element to a fingerprint. */
void iso_fingerprint_add(iso_fingerprint *sum, uint64_t path_hash, uint64_t global_index, uint64_t bits);

#ifdef __cplusplus
}
#endif
#endif
