/* Batches that the program makes itself. */
#ifndef ISO_DATA_GENERATOR_IMPL_H
#define ISO_DATA_GENERATOR_IMPL_H

#include "runtime/data/data.h"
#include "runtime/data/node_impl.h"

typedef struct iso_generator iso_generator;

/* log2 of the number of batches that an epoch of unknown length reports: more than possible. */
enum { ISO_UNKNOWN_BATCHES_LOG2 = 40 };

void iso_generator_free(iso_generator *generator); /* NULL is fine */
bool iso_generator_knows_rows(const iso_generator *generator);
/* Asks for a batch of `rows` rows; *batch is NULL at the end of an epoch. All ranks get the same status and
 * the same number of rows. Collective. */
iso_status iso_generator_next(iso_generator *generator, int64_t epoch, int64_t number, int64_t rows,
                              const iso_batch **batch);
/* Reads rows of the last batch, or a part of each, as iso_batch.read does. */
iso_status iso_generator_read(const iso_generator *generator, int component, int64_t begin, int64_t count,
                              const iso_row_part *part, iso_dtype dtype, void *out);

#endif
