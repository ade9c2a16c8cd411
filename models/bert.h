/* Encoders of rows of tokens: BERT (Devlin et al. 2018, arXiv 1810.04805), RoBERTa (Liu et al. 2019, arXiv
 * 1907.11692) and DistilBERT (Sanh et al. 2019, arXiv 1910.01108).
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_BERT_H
#define ISO_MODELS_BERT_H

#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_bert_kind {
    /* The classifier's input is tanh(dense(first position)), with dropout before the classifier. */
    ISO_BERT_PLAIN,
    /* The same with dropout before the dense product too. Tokens other than `pad` are counted from pad + 1 on, and
     * the count is their position; the table of positions has context + pad + 1 rows. */
    ISO_BERT_ROBERTA,
    /* relu instead of tanh. No types of tokens, no dropout after attention. */
    ISO_BERT_DISTILBERT,
} iso_bert_kind;

/* What the encoder's results, [batch, t, width], are used for. */
typedef enum iso_bert_head {
    /* Rows have classes, by what `kind` says of the first position: logits [batch, classes]. */
    ISO_BERT_SEQUENCE_CLASSIFICATION,
    /* Tokens have classes: dropout, then the classifier, [batch, t, classes]. */
    ISO_BERT_TOKEN_CLASSIFICATION,
    /* Tokens that were replaced are predicted, as in pretraining: norm(gelu(dense)), its products with the table of
     * tokens, and a bias, [batch, t, vocabulary]. gelu is exact with ISO_BERT_ROBERTA. */
    ISO_BERT_MASKED_LM,
} iso_bert_head;

/* No token is padding. */
enum { ISO_BERT_NO_PAD = -1 };

/* x: integers [batch, t] below `vocabulary` -> logits, which belong to the graph. Blocks of
 * attention to all positions but those whose token is `pad`, and of a perceptron with exact gelu, each normalised
 * after its sum with its input. Weights are drawn with a standard deviation of 0.02; biases are 0. Layers:
 * token_embedding, position_embedding, type_embedding, embedding_norm, in each block block_0/attention,
 * block_0/attention_norm, block_0/up, block_0/down and block_0/norm, and at the end, by the head, pooler and
 * classifier, classifier, or transform and transform_norm and the variable logits/bias. Errors stay in the graph: t
 * above `context`, a width that the heads do not divide. */
typedef struct iso_bert_options {
    char begin_;
    iso_tensor *x;
    int64_t classes;     /* not with ISO_BERT_MASKED_LM */
    int64_t vocabulary;  /* 30522 */
    int64_t layers;      /* 12; at most 10000 */
    int64_t heads;       /* 12 */
    int64_t width;       /* 768 */
    int64_t hidden;      /* features of the perceptron; 4 width */
    int64_t context;     /* the most tokens of a row; 512 */
    int64_t token_types; /* 2 */
    /* The token of positions that do not count; 0. ISO_BERT_NO_PAD: all count, not with ISO_BERT_ROBERTA. */
    int64_t pad;
    /* The token that ends the first of two texts of a row: positions behind the first one have the type 1, all others
     * the type 0. 0: all have the type 0. */
    int64_t separator;
    double epsilon;            /* 1e-12, of the normalisations */
    double dropout;            /* 0, after the embeddings, attention and perceptrons */
    double attention_dropout;  /* 0, of the attention's weights */
    double classifier_dropout; /* 0, before the classifier */
    iso_bert_kind kind;
    bool gelu_tanh; /* false: gelu by erf */
    bool recompute; /* false; true: the backward pass computes each block again (iso_recompute_begin) */
    iso_bert_head head;
} iso_bert_options;
ISO_API iso_tensor *iso_bert_with(const iso_bert_options *options, size_t size);
#define iso_bert(...) iso_bert_with(ISO_OPTIONS(iso_bert_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
