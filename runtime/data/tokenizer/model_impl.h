/* What the models of a tokenizer share. */
#ifndef ISO_DATA_TOKENIZER_MODEL_IMPL_H
#define ISO_DATA_TOKENIZER_MODEL_IMPL_H

#include "runtime/data/tokenizer/tokenizer_impl.h"

/* Words whose ids are known, by hash; a word replaces another of its place. An entry is a cache line. */
enum { ISO_CACHED_WORDS = 1 << 16, ISO_CACHED_BYTES = 30, ISO_CACHED_IDS = 8 };
typedef struct iso_cached_word {
    uint8_t size, count; /* size 0: the entry is free */
    char word[ISO_CACHED_BYTES];
    int32_t id[ISO_CACHED_IDS];
} iso_cached_word;

/* A hash of a short text. */
uint64_t iso_short_hash(const char *text, size_t size);

/* Reads `vocab`, an object of tokens and ids. */
iso_status iso_model_read_vocabulary(const char *file, const json_t *value, iso_token_model *model);
/* Finds unk_token in the vocabulary; null: there is none. */
iso_status iso_model_read_unknown(const char *file, const json_t *value, iso_token_model *model);

#endif
