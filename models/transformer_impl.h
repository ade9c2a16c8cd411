/* Shared by the built-in transformers. For models/ only. */
#ifndef ISO_MODELS_TRANSFORMER_IMPL_H
#define ISO_MODELS_TRANSFORMER_IMPL_H

#include "models/layers.h"

enum {
    ISO_TRANSFORMER_MOST_LAYERS = 10000, /* a plan takes half a megabyte for each */
    ISO_TRANSFORMER_WIDER = 4,           /* the usual features of the perceptron, times width */
    ISO_TRANSFORMER_MOST_HIDDEN = ISO_TRANSFORMER_WIDER * (1 << 20),
};

/* Random normal weights. */
iso_initializer iso_transformer_normal(double deviation);
/* Whether a setting is from 1 to `most`; otherwise the graph has an error, which names the model. */
bool iso_transformer_count_fits(iso_graph *graph, const char *model, const char *setting, int64_t count,
                                int most);
/* Whether the epsilon of normalisations is a small number; otherwise the graph has an error. */
bool iso_transformer_epsilon_fits(iso_graph *graph, const char *model, double epsilon);
/* Whether a rate of dropout is one; otherwise the graph has an error. */
bool iso_transformer_rate_fits(iso_graph *graph, const char *model, const char *setting, double rate);
/* Dropout; x itself if the rate is 0. */
iso_tensor *iso_transformer_dropout(iso_tensor *x, double rate);
iso_tensor *iso_transformer_layer_norm(iso_tensor *x, double epsilon, const char *name);
/* h: [batch, t, width] -> logits [batch, t, vocabulary] by the table of the layer token_embedding, which is an
 * iso_reversible_embedding. */
iso_tensor *iso_transformer_tied_logits(iso_tensor *h, int64_t vocabulary, int64_t width);
/* h: [batch, t, width] -> its first position, [batch, width] */
iso_tensor *iso_transformer_first_position(iso_tensor *h);
/* The layers made in between are in the scope block_<number>; with recompute, the backward pass computes them
 * again. iso_transformer_block_end returns the block's output, y. */
void iso_transformer_block_begin(iso_graph *graph, int64_t number, bool recompute);
iso_tensor *iso_transformer_block_end(iso_tensor *y, bool recompute);

#endif
