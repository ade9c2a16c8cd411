/* ViT (Dosovitskiy et al. 2020, arXiv 2010.11929): an encoder that classifies images.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_VIT_H
#define ISO_MODELS_VIT_H

#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: images [batch, height, width, channels] -> logits [batch, classes], which belong to the graph. Elements
 * become x scale + offset. An image is cut into patches, whose products with one kernel (a convolution whose
 * strides are its size), together with a trained class token, are the positions of pre-normalised blocks of
 * attention to all positions and of a perceptron with exact gelu; the class token's position is classified.
 * Weights are drawn with a standard deviation of 0.02; biases are 0. Layers: patch_embedding (kernel [channels
 * patch patch, width], in this order), class_token, position_embedding, in each block block_0/attention_norm,
 * block_0/attention, block_0/norm, block_0/up and block_0/down, and at the end norm and classifier. Errors stay in
 * the graph: sides that `patch` does not divide, a width that the heads do not divide, images of another size than
 * `image` and `channels`. */
typedef struct iso_vit_options {
    char begin_;
    iso_tensor *x;
    int64_t classes;
    int64_t layers;           /* 12; at most 10000 */
    int64_t heads;            /* 12 */
    int64_t width;            /* 768 */
    int64_t hidden;           /* features of the perceptron; 4 width */
    int64_t patch;            /* 16, the side of a patch */
    int64_t image;            /* the side of x; 0: any */
    int64_t channels;         /* of x; 0: any */
    double scale;             /* 1 / 127.5: bytes become numbers from -1 to 1 */
    double offset;            /* -1 */
    double epsilon;           /* 1e-12, of the normalisations */
    double dropout;           /* 0, after the embeddings, attention and perceptrons */
    double attention_dropout; /* 0, of the attention's weights */
    bool gelu_tanh;           /* false: gelu by erf */
    bool recompute; /* false; true: the backward pass computes each block again (iso_recompute_begin) */
} iso_vit_options;
ISO_API iso_tensor *iso_vit_with(const iso_vit_options *options, size_t size);
#define iso_vit(...) iso_vit_with(ISO_OPTIONS(iso_vit_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
