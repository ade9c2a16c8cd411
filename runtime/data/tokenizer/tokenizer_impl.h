/* The parts of a tokenizer. For runtime/data/tokenizer and the sources of text. */
#ifndef ISO_DATA_TOKENIZER_TOKENIZER_IMPL_H
#define ISO_DATA_TOKENIZER_TOKENIZER_IMPL_H

#include <pthread.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/data/tokenizer/tokenizer.h"
#include "runtime/data/tokenizer/unicode_impl.h"

/* ---- growing arrays, for loops over characters. {0} is empty; without memory `failed` is set (buffers.c) ---- */

typedef struct iso_bytes {
    char *data;
    size_t size, room;
    bool failed;
} iso_bytes;

typedef struct iso_ids {
    int32_t *id;
    size_t count, room;
    bool failed;
} iso_ids;

bool iso_bytes_grow(iso_bytes *bytes, size_t more);
bool iso_ids_grow(iso_ids *ids, size_t more);
void iso_bytes_free(iso_bytes *bytes);
void iso_ids_free(iso_ids *ids);

static inline void iso_bytes_add(iso_bytes *to, const char *data, size_t size)
{
    if (size == 0 || (to->room - to->size < size && !iso_bytes_grow(to, size)))
        return;
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline void iso_bytes_add_character(iso_bytes *to, uint32_t character)
{
    if (to->room - to->size < 4 && !iso_bytes_grow(to, 4))
        return;
    to->size += iso_utf8_put(character, to->data + to->size);
}

static inline void iso_ids_add(iso_ids *to, int32_t id)
{
    if (to->room == to->count && !iso_ids_grow(to, 1))
        return;
    to->id[to->count++] = id;
}

/* ---- texts with numbers (vocabulary.c) ---- */

typedef struct iso_vocabulary {
    iso_bytes names;
    struct iso_vocabulary_entry *entry; /* in the order of adding */
    size_t count;
    uint32_t *slot;    /* [room] hash table of indices of entries, plus 1 */
    size_t room;       /* a power of two, or 0 */
    int32_t *entry_of; /* [ids] by id: index of the entry, or -1; NULL until iso_vocabulary_index */
    int64_t ids;       /* above all ids */
} iso_vocabulary;

/* -1: it is not there. */
int32_t iso_vocabulary_find(const iso_vocabulary *vocabulary, const char *name, size_t size);
/* Adds a text, or gives it another id. */
iso_status iso_vocabulary_add(iso_vocabulary *vocabulary, const char *name, size_t size, int32_t id);
/* For iso_vocabulary_name. */
iso_status iso_vocabulary_index(iso_vocabulary *vocabulary);
/* NULL: no text has this id. */
const char *iso_vocabulary_name(const iso_vocabulary *vocabulary, int32_t id, size_t *size);
void iso_vocabulary_free(iso_vocabulary *vocabulary);

/* A map from pairs of numbers. */
typedef struct iso_pair_value {
    int32_t rank, id;
} iso_pair_value;
typedef struct iso_pairs {
    struct iso_pair_entry *entry; /* [room]: a power of two, or 0 */
    size_t count, room;
} iso_pairs;
const iso_pair_value *iso_pairs_find(const iso_pairs *pairs, uint32_t first, uint32_t second);
/* Adds a pair, or replaces its value. */
iso_status iso_pairs_set(iso_pairs *pairs, uint32_t first, uint32_t second, iso_pair_value value);

/* ---- what a thread needs while it encodes (scratch.c) ---- */

/* A part of a text between two splits. */
typedef struct iso_text_span {
    size_t begin, end;
} iso_text_span;
typedef struct iso_text_spans {
    iso_text_span *span;
    size_t count, room;
    bool failed;
} iso_text_spans;
bool iso_text_spans_grow(iso_text_spans *spans);
static inline void iso_text_spans_add(iso_text_spans *to, size_t begin, size_t end)
{
    if (begin == end || (to->room == to->count && !iso_text_spans_grow(to)))
        return;
    to->span[to->count++] = (iso_text_span){begin, end};
}

typedef struct iso_token_scratch {
    struct iso_token_scratch *next;
    iso_bytes text[2];       /* of a normalizer: its input and output */
    bool stripped;           /* a normalizer took something from the beginning */
    iso_bytes rewritten;     /* by a pre-tokenizer */
    iso_text_spans spans[2]; /* of a pre-tokenizer: its input and output */
    iso_text_spans matches;  /* of a pattern in one span */
    iso_bytes word;
    struct iso_symbol *symbol;
    struct iso_merge *heap;
    size_t symbols_room;
    struct iso_cached_word *cache;
    struct iso_matching *matching; /* of regular expressions */
} iso_token_scratch;

iso_token_scratch *iso_token_scratch_create(void);
void iso_token_scratch_destroy(iso_token_scratch *scratch);

/* ---- patterns (pattern.c) ---- */

typedef struct iso_token_pattern iso_token_pattern;
/* {"String": ...} or {"Regex": ...}, or a text alone. */
iso_status iso_token_pattern_create(const char *file, const char *key, const json_t *value,
                                    iso_token_pattern **pattern);
iso_status iso_token_pattern_of_text(const char *file, const char *key, const char *expression,
                                     iso_token_pattern **pattern);
void iso_token_pattern_destroy(iso_token_pattern *pattern);
/* The text that is searched, or the expression as the file has it. Lent. */
const char *iso_token_pattern_source(const iso_token_pattern *pattern, size_t *size, bool *expression);
/* All matches in text[begin, end) that follow one another, into scratch->matches; empty ones too. */
iso_status iso_token_pattern_find(const iso_token_pattern *pattern, iso_token_scratch *scratch,
                                  const char *text, size_t begin, size_t end);
struct iso_matching *iso_matching_create(void);
void iso_matching_destroy(struct iso_matching *matching);

/* ---- steps ---- */

/* A step of a normalizer, pre-tokenizer or decoder; which members it uses depends on its kind. */
typedef struct iso_token_step {
    const struct iso_token_kind *kind;
    iso_token_pattern *pattern;
    char *text; /* of `size` bytes */
    size_t size;
    int choice;
    int64_t first, last;
    bool on[4];
} iso_token_step;

typedef struct iso_token_steps {
    iso_token_step *step;
    int count;
} iso_token_steps;
void iso_token_steps_free(iso_token_steps *steps);

/* A text is encoded in parts: between added tokens, and a long one in blocks. */
typedef struct iso_part_ends {
    bool first;        /* it is the beginning of the text */
    bool begins, ends; /* it begins or ends there, or at an added token, and not between two blocks */
} iso_part_ends;

/* Texts of tokens. */
typedef struct iso_token_list {
    iso_bytes bytes;
    size_t *end; /* [count] of each text */
    size_t count, room;
    bool failed;
} iso_token_list;

typedef iso_status iso_step_reader(const char *file, const json_t *value, iso_token_step *step);
/* A row of a table of kinds; `run` is one of the three. */
typedef struct iso_token_kind {
    const char *name;
    iso_step_reader *read; /* NULL: it has no settings */
    iso_status (*normalize)(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                            const iso_bytes *in, iso_bytes *out);
    /* From scratch->spans[0], parts of *text, to scratch->spans[1]. *text may be replaced by scratch->rewritten. */
    iso_status (*split)(const iso_token_step *step, iso_token_scratch *scratch, iso_part_ends part,
                        iso_bytes *text);
    iso_status (*decode)(const iso_token_step *step, iso_token_scratch *scratch, const iso_token_list *in,
                         iso_token_list *out);
} iso_token_kind;

/* Reads one step or a Sequence of steps: value null or missing: none. key: of the section. list: of a Sequence. */
iso_status iso_token_steps_read(const char *file, const char *key, const char *list, const json_t *value,
                                const iso_token_kind *kinds, int kind_count, iso_token_steps *steps);
/* The text of a member; ISO_INVALID if there is none. Lent. */
iso_status iso_token_text(const char *file, const json_t *value, const char *member, const char **text,
                          size_t *size);
/* A member that is true or false, or missing or null: `fallback`. */
bool iso_token_flag(const json_t *value, const char *member, bool fallback);
/* The error of a part that is not supported. */
iso_status iso_token_unsupported(const char *file, const char *key, const json_t *value);
iso_status iso_token_step_text(const char *file, const json_t *value, const char *member,
                               iso_token_step *step);

/* step->choice: what a split does with its matches. */
typedef enum iso_split_behaviour {
    ISO_SPLIT_REMOVED,
    ISO_SPLIT_ISOLATED,
    ISO_SPLIT_MERGED_WITH_PREVIOUS,
    ISO_SPLIT_MERGED_WITH_NEXT,
    ISO_SPLIT_CONTIGUOUS,
} iso_split_behaviour;
/* step->choice of Metaspace: which spans get its character in front. */
typedef enum iso_meta_scheme { ISO_META_ALWAYS, ISO_META_FIRST, ISO_META_NEVER } iso_meta_scheme;

iso_status iso_normalizers_read(const char *file, const json_t *value, iso_token_steps *steps);
/* Normalizes scratch->text[0]. */
iso_status iso_normalizers_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_part_ends part);

/* last_bytes: whether the last step is that bytes of words become characters, which the model does then. */
iso_status iso_splitters_read(const char *file, const json_t *value, iso_token_steps *steps,
                              bool *last_bytes);
/* Splits *text into scratch->spans[0]. */
iso_status iso_splitters_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_part_ends part,
                             iso_bytes *text);
/* Appends the characters that stand for bytes in byte-level vocabularies. */
void iso_byte_characters(const char *bytes, size_t size, iso_bytes *out);
/* The byte for which such a character stands, or -1. */
int iso_byte_of_character(uint32_t character);

iso_status iso_decoders_read(const char *file, const json_t *value, iso_token_steps *steps);
/* The text of tokens, whose list it empties. */
iso_status iso_decoders_run(const iso_token_steps *steps, iso_token_scratch *scratch, iso_token_list *tokens,
                            iso_bytes *text);
void iso_token_list_add(iso_token_list *list, const char *text, size_t size);
void iso_token_list_free(iso_token_list *list);

/* ---- added tokens (added.c) ---- */

typedef struct iso_added_token {
    int32_t id;
    bool special, left, right, word, normalized; /* left, right: it takes the white space there */
} iso_added_token;

/* Texts that are found in a text: the longest at the first place. */
typedef struct iso_added_matcher {
    iso_vocabulary texts;   /* the number of a text is the index of its token */
    uint64_t (*lengths)[4]; /* [256] by first byte: a bit for each length; NULL: no texts */
} iso_added_matcher;

typedef struct iso_added {
    iso_added_token *token;
    int count;
    iso_vocabulary names;              /* content -> id */
    iso_vocabulary decoded;            /* what decoding gives, where that is not the content */
    iso_added_matcher raw, normalized; /* searched before and after normalization */
} iso_added;

/* A part of a text: a token, or text (-1) between tokens. */
typedef struct iso_added_part {
    size_t begin, end;
    int token;
} iso_added_part;
typedef struct iso_added_parts {
    iso_added_part *part;
    int count;
} iso_added_parts;

iso_status iso_added_read(const char *file, const json_t *value, const iso_token_steps *normalizers,
                          iso_token_scratch *scratch, iso_added *added);
iso_status iso_added_find(const iso_added *added, const iso_added_matcher *matcher, const char *text,
                          size_t size, iso_added_parts *parts);
void iso_added_free(iso_added *added);

/* ---- models (model.c, bpe.c, wordpiece.c) ---- */

typedef struct iso_token_model {
    const struct iso_model_kind *kind;
    iso_vocabulary vocabulary;
    int32_t unknown;          /* -1: none */
    iso_pairs merges, inside; /* inside: pairs of characters that stand side by side in a token */
    bool byte_fallback, fuse_unknown, ignore_merges;
    bool bytes;            /* words are bytes, which the vocabulary has as characters */
    char *prefix, *suffix; /* of a continued word, of a word's end; NULL: none */
    size_t prefix_size, suffix_size;
    int64_t longest; /* characters of a word */
} iso_token_model;

typedef struct iso_model_kind {
    const char *type;
    iso_status (*read)(const char *file, const json_t *value, iso_token_model *model);
    /* Appends the ids of one word. */
    iso_status (*encode)(const iso_token_model *model, iso_token_scratch *scratch, const char *word,
                         size_t size, iso_ids *ids);
} iso_model_kind;
extern const iso_model_kind iso_model_bpe, iso_model_wordpiece, iso_model_wordlevel;

iso_status iso_token_model_read(const char *file, const json_t *value, bool bytes, iso_token_model *model);
/* Through the cache of words. */
iso_status iso_token_model_encode(const iso_token_model *model, iso_token_scratch *scratch, const char *word,
                                  size_t size, iso_ids *ids);
void iso_token_model_free(iso_token_model *model);
/* The error of a character that no token has. */
iso_status iso_unknown_character(const char *at);

/* ---- post-processor (template.c) ---- */

typedef struct iso_template_item {
    int text; /* 0 or 1: the ids of that text; -1: token */
    int32_t token;
    int32_t type;
} iso_template_item;
typedef struct iso_template {
    iso_template_item *item;
    int count;
} iso_template;
iso_status iso_templates_read(const char *file, const json_t *value, iso_template *single,
                              iso_template *pair);

/* ---- the tokenizer ---- */

struct iso_tokenizer {
    char *file;
    iso_token_steps normalizers, splitters, decoders;
    iso_added added;
    iso_token_model model;
    iso_template single, pair;
    int64_t vocabulary;
    int32_t end, pad, mask; /* the tokens that end a text, fill a row and hide others; -1: not known */
    pthread_mutex_t lock;
    iso_token_scratch *idle; /* that no thread uses; the only member that changes */
};

/* iso_tokenizer_open for a text in memory. file: its name, for messages. */
iso_status iso_tokenizer_parse(const char *file, const char *text, size_t size, iso_tokenizer **tokenizer);
/* Lends what a thread needs; NULL: no memory. */
iso_token_scratch *iso_tokenizer_scratch_get(const iso_tokenizer *tokenizer);
void iso_tokenizer_scratch_put(const iso_tokenizer *tokenizer, iso_token_scratch *scratch);
/* Appends the ids of a text of valid UTF-8, or of a block of one, without the post-processor's. */
iso_status iso_tokenizer_append(const iso_tokenizer *tokenizer, iso_token_scratch *scratch,
                                iso_part_ends whole, const char *text, size_t size, iso_ids *ids);

#endif
