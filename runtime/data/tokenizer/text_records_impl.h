/* Records of texts and labels: tables with a line of names, and JSON lines. */
#ifndef ISO_DATA_TOKENIZER_TEXT_RECORDS_IMPL_H
#define ISO_DATA_TOKENIZER_TEXT_RECORDS_IMPL_H

#include "runtime/data/tokenizer/tokenizer_impl.h"

typedef struct iso_record {
    size_t begin[2], size[2]; /* of its texts, in `texts` */
    int32_t label;
} iso_record;

typedef struct iso_records {
    iso_bytes texts;
    iso_record *record;
    int count;
} iso_records;

/* The columns to take; second and label may be NULL. */
typedef struct iso_record_columns {
    const char *first, *second, *label;
} iso_record_columns;

/* Adds the records of a file, gzip'd or not: .csv (RFC 4180), .tsv (a tab between fields, no quotes) or .jsonl (an
 * object in each line). ISO_INVALID names file, line and column of what is wrong. */
iso_status iso_records_read(const char *path, const iso_record_columns *columns, iso_records *records);
void iso_records_free(iso_records *records);

#endif
