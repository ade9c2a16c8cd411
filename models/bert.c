#include "models/bert_impl.h"

#include "models/layers/masks.h"
#include "models/models.h"
#include "models/transformer_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"
#include "runtime/graph/origin.h"

static const char *const kinds[] = {
    [ISO_BERT_PLAIN] = "bert", [ISO_BERT_ROBERTA] = "roberta", [ISO_BERT_DISTILBERT] = "distilbert", NULL};

static const char *const heads[] = {[ISO_BERT_SEQUENCE_CLASSIFICATION] = "sequence_classification",
                                    [ISO_BERT_TOKEN_CLASSIFICATION] = "token_classification",
                                    [ISO_BERT_MASKED_LM] = "masked_lm",
                                    NULL};

const iso_setting iso_bert_settings[] = {
    ISO_SETTING(iso_bert_options, COUNT, vocabulary, 30522),
    ISO_SETTING(iso_bert_options, COUNT, layers, 12),
    ISO_SETTING(iso_bert_options, COUNT, heads, 12),
    ISO_SETTING(iso_bert_options, COUNT, width, 768),
    ISO_SETTING(iso_bert_options, COUNT, hidden, 0),
    ISO_SETTING(iso_bert_options, COUNT, context, 512),
    ISO_SETTING(iso_bert_options, COUNT, token_types, 2),
    ISO_SETTING(iso_bert_options, COUNT, pad, 0),
    ISO_SETTING(iso_bert_options, COUNT, separator, 0),
    ISO_SETTING(iso_bert_options, REAL, epsilon, 1e-12),
    ISO_SETTING(iso_bert_options, REAL, dropout, 0),
    ISO_SETTING(iso_bert_options, REAL, attention_dropout, 0),
    ISO_SETTING(iso_bert_options, REAL, classifier_dropout, 0),
    {"kind", ISO_SETTING_CHOICE, offsetof(iso_bert_options, kind), ISO_BERT_PLAIN, .words = kinds},
    {"head", ISO_SETTING_CHOICE, offsetof(iso_bert_options, head), ISO_BERT_SEQUENCE_CLASSIFICATION,
     .words = heads},
    ISO_SETTING(iso_bert_options, FLAG, gelu_tanh, 0),
    ISO_SETTING(iso_bert_options, FLAG, recompute, 0),
    {0}};

/* ---- embeddings ---- */

/* flags: [batch, t], bool -> how many are true up to each position, itself included; sums of ones are exact. */
static iso_tensor *count_flags(iso_tensor *flags)
{
    iso_graph *graph = iso_tensor_graph(flags);
    const iso_dtype type = iso_graph_precision(graph);
    const int64_t t = iso_tensor_shape(flags)->dim[1];
    iso_tensor *ones = iso_broadcast_to(iso_number(graph, type, 1), ISO_SHAPE(t, t));
    return iso_matmul_with(iso_cast(flags, type), iso_band_op(ones, true, 0, 0), false, true);
}

/* The positions of RoBERTa: [batch, t] */
static iso_tensor *counted_positions(const iso_bert_options *o, iso_tensor *counts)
{
    iso_tensor *number =
        iso_multiply(count_flags(counts), iso_cast(counts, iso_graph_precision(iso_tensor_graph(counts))));
    return iso_cast(iso_affine(number, 1, (double)o->pad), ISO_I32);
}

/* The types of tokens: [batch, t] */
static iso_tensor *types_of(const iso_bert_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    iso_tensor *zero = iso_number(graph, ISO_I32, 0);
    if (o->separator == 0)
        return iso_broadcast_to(zero, *iso_tensor_shape(o->x));
    iso_tensor *ends = iso_equal(o->x, iso_number(graph, ISO_I32, (double)o->separator));
    iso_tensor *before = iso_subtract(count_flags(ends), iso_cast(ends, iso_graph_precision(graph)));
    return iso_cast(iso_mask_of_values(before, 0), ISO_I32);
}

static iso_tensor *bert_norm(const iso_bert_options *o, iso_tensor *x, const char *name)
{
    return iso_transformer_layer_norm(x, o->epsilon, name);
}

static iso_tensor *table_rows(const iso_bert_options *o, iso_tensor *x, int64_t rows, const char *name)
{
    return iso_embedding(x, rows, o->width, .embeddings_initializer = iso_transformer_normal(0.02),
                         .name = name);
}

/* The table of a masked head is that of its logits, too. */
static iso_tensor *token_rows(const iso_bert_options *o)
{
    static const char name[] = "token_embedding";
    return o->head == ISO_BERT_MASKED_LM
               ? iso_reversible_embedding(o->x, o->vocabulary, o->width,
                                          .embeddings_initializer = iso_transformer_normal(0.02),
                                          .name = name)
               : table_rows(o, o->x, o->vocabulary, name);
}

/* counts: [batch, t], true where the token is not `pad` */
static iso_tensor *bert_embed(const iso_bert_options *o, iso_tensor *counts)
{
    iso_tensor *h = token_rows(o);
    iso_tensor *positions =
        o->kind == ISO_BERT_ROBERTA
            ? table_rows(o, counted_positions(o, counts), o->context + o->pad + 1, "position_embedding")
            : iso_position_embedding(h, o->context, .initializer = iso_transformer_normal(0.02),
                                     .name = "position_embedding");
    h = iso_add(h, positions);
    if (o->kind != ISO_BERT_DISTILBERT)
        h = iso_add(h, table_rows(o, types_of(o), o->token_types, "type_embedding"));
    return iso_transformer_dropout(bert_norm(o, h, "embedding_norm"), o->dropout);
}

/* ---- blocks ---- */

static iso_tensor *bert_attention(const iso_bert_options *o, iso_tensor *x, iso_tensor *mask)
{
    iso_tensor *h = iso_multi_head_attention(
        x, x, o->heads, o->width / o->heads, .attention_mask = mask, .dropout = o->attention_dropout,
        .kernel_initializer = iso_transformer_normal(0.02), .name = "attention");
    h = o->kind == ISO_BERT_DISTILBERT ? h : iso_transformer_dropout(h, o->dropout);
    return bert_norm(o, iso_add(x, h), "attention_norm");
}

static iso_tensor *bert_perceptron(const iso_bert_options *o, iso_tensor *x)
{
    iso_tensor *h = iso_dense(x, o->hidden, .activation = o->gelu_tanh ? ISO_GELU_TANH : ISO_GELU,
                              .kernel_initializer = iso_transformer_normal(0.02), .name = "up");
    h = iso_dense(h, o->width, .kernel_initializer = iso_transformer_normal(0.02), .name = "down");
    return bert_norm(o, iso_add(x, iso_transformer_dropout(h, o->dropout)), "norm");
}

static iso_tensor *bert_block(const iso_bert_options *o, int64_t number, iso_tensor *x, iso_tensor *mask)
{
    iso_transformer_block_begin(iso_tensor_graph(x), number, o->recompute);
    iso_tensor *y = bert_perceptron(o, bert_attention(o, x, mask));
    return iso_transformer_block_end(y, o->recompute);
}

/* ---- heads; h: [batch, t, width] ---- */

/* [..., width] -> [..., classes] */
static iso_tensor *bert_classifier(const iso_bert_options *o, iso_tensor *h)
{
    return iso_dense(iso_transformer_dropout(h, o->classifier_dropout), o->classes,
                     .kernel_initializer = iso_transformer_normal(0.02), .name = "classifier");
}

/* -> [batch, classes] */
static iso_tensor *sequence_logits(const iso_bert_options *o, iso_tensor *h)
{
    h = iso_transformer_first_position(h);
    if (o->kind == ISO_BERT_ROBERTA)
        h = iso_transformer_dropout(h, o->classifier_dropout);
    h = iso_dense(h, o->width, .activation = o->kind == ISO_BERT_DISTILBERT ? ISO_RELU : ISO_TANH,
                  .kernel_initializer = iso_transformer_normal(0.02), .name = "pooler");
    return bert_classifier(o, h);
}

/* -> [batch, t, vocabulary] */
static iso_tensor *masked_logits(const iso_bert_options *o, iso_tensor *h)
{
    iso_graph *graph = iso_tensor_graph(h);
    const bool tanh = o->gelu_tanh && o->kind != ISO_BERT_ROBERTA;
    h = iso_dense(h, o->width, .activation = tanh ? ISO_GELU_TANH : ISO_GELU,
                  .kernel_initializer = iso_transformer_normal(0.02), .name = "transform");
    h = iso_transformer_tied_logits(bert_norm(o, h, "transform_norm"), o->vocabulary, o->width);
    iso_variable *bias = iso_variable_create(graph, "logits/bias", ISO_F32, ISO_SHAPE(o->vocabulary),
                                             (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
    return iso_add(h, iso_cast(iso_variable_value(bias), iso_tensor_dtype(h)));
}

static iso_tensor *bert_logits(const iso_bert_options *o, iso_tensor *h)
{
    switch (o->head) {
    case ISO_BERT_SEQUENCE_CLASSIFICATION:
        return sequence_logits(o, h);
    case ISO_BERT_TOKEN_CLASSIFICATION:
        return bert_classifier(o, h);
    case ISO_BERT_MASKED_LM:
        break;
    }
    return masked_logits(o, h);
}

/* ---- the network ---- */

static bool rates_fit(const iso_bert_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    return iso_transformer_rate_fits(graph, "bert", "dropout", o->dropout) &&
           iso_transformer_rate_fits(graph, "bert", "attention_dropout", o->attention_dropout) &&
           iso_transformer_rate_fits(graph, "bert", "classifier_dropout", o->classifier_dropout);
}

static bool pad_fits(const iso_bert_options *o)
{
    return (o->pad >= 0 && o->pad < o->vocabulary) ||
           (o->pad == ISO_BERT_NO_PAD && o->kind != ISO_BERT_ROBERTA);
}

static bool bert_numbers_fit(const iso_bert_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if ((o->head != ISO_BERT_MASKED_LM &&
         !iso_transformer_count_fits(graph, "bert", "classes", o->classes, ISO_BUILTIN_MOST)) ||
        !iso_transformer_count_fits(graph, "bert", "vocabulary", o->vocabulary, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "bert", "layers", o->layers, ISO_TRANSFORMER_MOST_LAYERS) ||
        !iso_transformer_count_fits(graph, "bert", "heads", o->heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "bert", "width", o->width, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "bert", "hidden", o->hidden, ISO_TRANSFORMER_MOST_HIDDEN) ||
        !iso_transformer_count_fits(graph, "bert", "context", o->context, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "bert", "token_types", o->token_types, ISO_BUILTIN_MOST) ||
        !iso_transformer_epsilon_fits(graph, "bert", o->epsilon))
        return false;
    if (o->width % o->heads != 0)
        iso_graph_fail(graph, "bert: width %lld is not a multiple of its %lld heads", (long long)o->width,
                       (long long)o->heads);
    else if (!pad_fits(o) || o->separator < 0 || o->separator >= o->vocabulary)
        iso_graph_fail(graph, "bert: pad %lld and separator %lld must be tokens of the vocabulary of %lld",
                       (long long)o->pad, (long long)o->separator, (long long)o->vocabulary);
    else if (o->separator && o->kind == ISO_BERT_DISTILBERT)
        iso_graph_fail(graph, "bert: separator is %lld, and kind=distilbert has no types of tokens",
                       (long long)o->separator);
    else if (o->separator && o->token_types < 2)
        iso_graph_fail(graph, "bert: separator is %lld: it needs token_types of 2 or more, and there is %lld",
                       (long long)o->separator, (long long)o->token_types);
    return iso_graph_error(graph) == ISO_OK && rates_fit(o);
}

static bool bert_rows_fit(const iso_bert_options *o)
{
    const iso_shape *shape = iso_tensor_shape(o->x);
    char text[160];
    if (shape->rank != 2)
        iso_graph_fail(iso_tensor_graph(o->x), "bert: its input is %s, it must be [batch, t]",
                       iso_shape_text(shape, text, sizeof text));
    else if (shape->dim[1] > o->context)
        iso_graph_fail(iso_tensor_graph(o->x), "bert: rows of %lld tokens, and context is %lld",
                       (long long)shape->dim[1], (long long)o->context);
    return iso_graph_error(iso_tensor_graph(o->x)) == ISO_OK;
}

iso_tensor *iso_bert_with(const iso_bert_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_bert_options o = {0};
    iso_options_copy(&o, sizeof o, options, size);
    ISO_NEED_TENSORS(o.x);
    for (const iso_setting *s = iso_bert_settings; s->name; s++)
        iso_setting_set(s, &o, iso_setting_option(s, &o));
    o.hidden = o.hidden ? o.hidden : ISO_TRANSFORMER_WIDER * o.width;
    o.classes = o.head == ISO_BERT_MASKED_LM ? 0 : o.classes;
    iso_graph *graph = iso_tensor_graph(o.x);
    if (!bert_numbers_fit(&o) || !bert_rows_fit(&o))
        return iso_graph_bad_tensor(graph);
    const int64_t t = iso_tensor_shape(o.x)->dim[1];
    iso_tensor *counts = iso_mask_of_values(o.x, (double)o.pad);
    iso_tensor *mask = iso_reshape_to(counts, ISO_SHAPE(ISO_BATCH, 1, t)); /* of keys */
    iso_tensor *h = bert_embed(&o, counts);
    for (int64_t i = 0; i < o.layers; i++)
        h = bert_block(&o, i, h, mask);
    h = bert_logits(&o, h);
    iso_graph_set_origin(o.x, h, "bert", &o, sizeof o);
    return h;
}
