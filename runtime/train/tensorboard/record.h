/* TFRecord: the framing of event files. A record is its length (8 bytes, little-endian), that length's masked
 * CRC-32C, the data, and their masked CRC-32C. */
#ifndef ISO_TRAIN_TENSORBOARD_RECORD_H
#define ISO_TRAIN_TENSORBOARD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* CRC-32C (Castagnoli, RFC 3720, appendix B.4). */
uint32_t iso_crc32c(const void *data, size_t bytes);
/* False if the file accepts no more data (errno). */
bool iso_record_write(FILE *file, const void *data, size_t bytes);

#endif
