/* Texts of any length, in blocks that are encoded one by one. */
#ifndef ISO_DATA_TOKENIZER_TEXT_BLOCKS_IMPL_H
#define ISO_DATA_TOKENIZER_TEXT_BLOCKS_IMPL_H

#include "runtime/data/tokenizer/tokenizer_impl.h"

/* Bytes of valid UTF-8, lent until the next block. */
typedef struct iso_text_block {
    const char *data; /* NULL: there are no more */
    size_t size;
    bool begins, ends; /* a file, or a line */
} iso_text_block;

typedef struct iso_text_blocks iso_text_blocks;

/* Whether a text has the same tokens if it is cut between two ASCII characters, wherever they stand in it (cuts.c).
 * False: they are not known to be the same. */
bool iso_text_may_be_cut(const iso_tokenizer *tokenizer, iso_token_scratch *scratch, char left, char right);

/* Files one after the other, gzip'd or not; empty ones give no block. A block ends at the end of its file, with
 * `lines` at the end of a line, or at the last place where iso_text_may_be_cut() allows it; a text without any is one
 * block. block: bytes after which a text is cut, 0: 1 MiB. All but the numbers are lent. */
iso_status iso_text_blocks_open(const iso_tokenizer *tokenizer, const char *const *files, int count,
                                bool lines, size_t block, iso_text_blocks **blocks);
void iso_text_blocks_close(iso_text_blocks *blocks);
/* ISO_INVALID: a file is missing, or is not UTF-8 (file and byte). */
iso_status iso_text_blocks_next(iso_text_blocks *blocks, iso_text_block *block);
/* Puts the file's name before the message of an error in the block that was given last. */
iso_status iso_text_blocks_error(const iso_text_blocks *blocks, iso_status status);

#endif
