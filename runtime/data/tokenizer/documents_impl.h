/* Documents: texts with the tokens around and between them. */
#ifndef ISO_DATA_TOKENIZER_DOCUMENTS_IMPL_H
#define ISO_DATA_TOKENIZER_DOCUMENTS_IMPL_H

#include "runtime/data/tokenizer/text_blocks_impl.h"

typedef struct iso_documents {
    const iso_tokenizer *tokenizer;
    iso_token_scratch *scratch;
    bool lines, special;
    int32_t separator; /* before each document, also the first; -1: none */
} iso_documents;

/* Appends the tokens of a block, and adds the documents that begin in it to *count. */
iso_status iso_documents_append(const iso_documents *how, const iso_text_block *block, iso_ids *ids,
                                int64_t *count);

/* ISO_INTERRUPTED: a request to stop came. Collective. */
iso_status iso_tokenize_stop_if_asked(iso_context *ctx);

#endif
