/* Tokenizers of Hugging Face: the file tokenizer.json that a folder of a pretrained model has. Text becomes the ids
 * of tokens, and ids become text, as by the library `tokenizers`.
 *
 * Models: BPE, WordPiece, WordLevel. What a file needs and is not supported is an error when it is opened, which
 * names key and value; so is a byte of 0 in a key of the vocabulary. Sections of truncation and padding are ignored,
 * as transformers does by default.
 * Text is UTF-8 of any length; bytes of 0 are characters like others. Several threads may use a tokenizer at once.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_DATA_TOKENIZER_TOKENIZER_H
#define ISO_DATA_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/options.h"
#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_tokenizer iso_tokenizer;

/* Reads a tokenizer.json, or that of a folder; tokenizer_config.json, special_tokens_map.json and config.json beside
 * it say which token ends a text, if they are there. The caller owns *tokenizer: iso_tokenizer_close(). ISO_INVALID:
 * a file that is missing or no such JSON; a part that is not supported (key and value). ISO_IO. Local. */
ISO_API iso_status iso_tokenizer_open(const char *path, iso_tokenizer **tokenizer);
/* NULL is fine. */
ISO_API void iso_tokenizer_close(iso_tokenizer *tokenizer);

/* The ids of a text of `bytes` bytes. special: with the tokens that the file's post-processor adds, such as [CLS] and
 * [SEP]. *ids, of *count elements, is freed with iso_free. ISO_INVALID: the text is not UTF-8 (which byte); a
 * character is not in the vocabulary, and there is no token for unknown ones. Local. */
ISO_API iso_status iso_tokenizer_encode(const iso_tokenizer *tokenizer, const char *text, size_t bytes,
                                        bool special, int32_t **ids, size_t *count);
/* The same of a pair of texts, with the post-processor's tokens. *types: 0 or 1 for each id, as the model's
 * token_type_ids; freed with iso_free as *ids. Errors: as iso_tokenizer_encode. Local. */
ISO_API iso_status iso_tokenizer_encode_pair(const iso_tokenizer *tokenizer, const char *first,
                                             size_t first_bytes, const char *second, size_t second_bytes,
                                             int32_t **ids, int32_t **types, size_t *count);
/* The text of ids. special: special tokens are in it too, otherwise they are left out. *text, of *bytes bytes and a 0
 * after them, is freed with iso_free. Bytes that are no UTF-8 become U+FFFD. ISO_INVALID: an id that has no token.
 * Local. */
ISO_API iso_status iso_tokenizer_decode(const iso_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                        bool special, char **text, size_t *bytes);

/* A number that is above all ids: of the tokens, or config.json's vocab_size if that is more. */
ISO_API int64_t iso_tokenizer_vocabulary(const iso_tokenizer *tokenizer);
/* The id of a token by its name in the file, "<|endoftext|>"; -1: there is none. */
ISO_API int32_t iso_tokenizer_id(const iso_tokenizer *tokenizer, const char *token);
/* The name of an id's token, of *bytes bytes and a 0 after them (it may have others); it belongs to the tokenizer.
 * NULL: there is none. */
ISO_API const char *iso_tokenizer_token(const iso_tokenizer *tokenizer, int32_t id, size_t *bytes);
/* The id of the token that ends a text (eos_token); -1: the files name none. */
ISO_API int32_t iso_tokenizer_end(const iso_tokenizer *tokenizer);
/* The id of the token that hides others from a model of masked tokens: mask_token, or else "[MASK]" or "<mask>"; -1:
 * there is none. */
ISO_API int32_t iso_tokenizer_mask(const iso_tokenizer *tokenizer);
/* Whether an id is that of an added token that is special, such as [CLS] and those of padding. */
ISO_API bool iso_tokenizer_is_special(const iso_tokenizer *tokenizer, int32_t id);

typedef enum iso_token_form {
    ISO_TOKENS_PLAIN, /* tokens alone, as nanoGPT writes them */
    ISO_TOKENS_LLMC,  /* behind llm.c's header of 1024 bytes, which holds their number */
} iso_token_form;

typedef struct iso_tokenize_files_options {
    const char *out;          /* positional: the file to write */
    const char *const *files; /* texts in UTF-8, gzip'd or not */
    int count;
    bool lines;        /* each line that is not empty is a document; otherwise each file that is not empty */
    bool special;      /* as in iso_tokenizer_encode, for each document */
    bool no_separator; /* nothing between documents */
    /* The token between two documents, by its name; NULL: that which ends a text. */
    const char *separator;
    iso_token_form form;
    int64_t *tokens, *documents; /* get the numbers of what was written; may be NULL */
    int *width;                  /* gets the bytes of a token; may be NULL */
} iso_tokenize_files_options;

/* Writes the tokens of texts to a file that iso_dataset_open() reads: 16 bits for each token, lowest byte first, or
 * 32 if the vocabulary has more than 65536. Texts are read in blocks of about 1 MiB, which the ranks share; the file
 * is the same for any number of ranks, and gets its name when it is complete. All ranks must see its folder.
 * ISO_INVALID: a text that is missing, or not UTF-8 (file and byte); an unknown separator; no token at all; out is a
 * device, a pipe or a symbolic link. ISO_IO.
 * ISO_INTERRUPTED: a request to stop came (iso_stop_on_signals). ctx may be NULL: one rank. Collective. */
ISO_API iso_status iso_tokenize_files_with(iso_context *ctx, const iso_tokenizer *tokenizer,
                                           const iso_tokenize_files_options *options, size_t size);
/* iso_tokenize_files(ctx, tokenizer, "tokens.bin", .files = (const char *[]){"book.txt"}, .count = 1) */
#define iso_tokenize_files(ctx, tokenizer, ...)                                                              \
    iso_tokenize_files_with(ctx, tokenizer, ISO_OPTIONS_AFTER(iso_tokenize_files_options, out, __VA_ARGS__))

typedef struct iso_tokenize_rows_options {
    const char *out; /* positional: the HDF5 file to write */
    const char *const
        *files; /* .csv, .tsv or .jsonl, gzip'd or not; tables have the names of columns first */
    int count;
    const char *first, *second; /* the columns of the text ("text" if NULL), and of a second one or NULL */
    const char *label;          /* the column of the labels, whole numbers from 0 on; NULL: there are none */
    int64_t length;             /* tokens of a row */
    int64_t *rows;              /* gets their number; may be NULL */
} iso_tokenize_rows_options;

/* Writes rows for models that classify texts, such as bert: x, int32 [rows, length], the ids with the
 * post-processor's, shortened as transformers does with truncation=True and filled up with pad_token; and y, int32
 * [rows], the labels. Each rank reads all records and encodes its part of the rows; the file is the same for any
 * number of ranks, and gets its name when it is complete. All ranks must see its folder. ISO_INVALID: a file that is
 * missing or not as its name says (line and column); no pad_token; no record. ISO_IO. ctx may be NULL: one rank.
 * Collective. */
ISO_API iso_status iso_tokenize_rows_with(iso_context *ctx, const iso_tokenizer *tokenizer,
                                          const iso_tokenize_rows_options *options, size_t size);
/* iso_tokenize_rows(ctx, tokenizer, "texts.h5", .files = files, .count = 1, .length = 128) */
#define iso_tokenize_rows(ctx, tokenizer, ...)                                                               \
    iso_tokenize_rows_with(ctx, tokenizer, ISO_OPTIONS_AFTER(iso_tokenize_rows_options, out, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
