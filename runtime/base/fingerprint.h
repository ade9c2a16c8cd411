/* Fingerprints of variables.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_FINGERPRINT_H
#define ISO_BASE_FINGERPRINT_H

#include <stdint.h>

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sum of mixed hashes, one per element: it does not depend on the order of addition or on the partition. */
typedef struct iso_fingerprint {
    uint64_t word[2];
} iso_fingerprint;

/* 32 hexadecimal digits. */
ISO_API void iso_fingerprint_text(const iso_fingerprint *sum, char text[33]);

#ifdef __cplusplus
}
#endif
#endif
