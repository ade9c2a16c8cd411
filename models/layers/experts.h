/* Mixture of experts.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_EXPERTS_H
#define ISO_MODELS_LAYERS_EXPERTS_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A mixture of experts, as in Mixtral (Jiang et al. 2024, arXiv 2401.04088) and Qwen3. x: [batch, ..., d] -> the
 * same shape. Each row's router probabilities are softmax(x router) over the experts, in the type of the
 * variables; the row takes the experts of the `per_token` largest, the first of equals first, and the result is
 * the sum of what they compute (iso_experts_op) by these probabilities. Variables: router [d, experts], gate and
 * up [experts, d, hidden], down [experts, hidden, d]. Layouts of expert parallelism: "model, -, -" on the last
 * three; of the hidden features: "-, -, model" on gate and up, "-, model, -" on down. Keras has no such layer: its
 * files cannot hold it. */
typedef struct iso_mixture_of_experts_options {
    char begin_;
    iso_tensor *x;
    int64_t experts;
    int64_t per_token; /* at most `experts` */
    int64_t hidden;    /* features of an expert */
    iso_experts_activation activation;
    bool no_gate; /* an expert is activation(x up) down, as in Switch (Fedus et al. 2021, arXiv 2101.03961) */
    bool no_norm; /* the shares are the probabilities; otherwise these are divided by their sum */
    double balance; /* adds balance * iso_balance_loss of this layer to the loss */
    /* NULL, or receive, as means over the rows, the number of a row's choices that are each expert, and the
     * probabilities: [experts], for iso_balance_loss */
    iso_tensor **chosen, **probability;
    iso_initializer router_initializer, gate_initializer, up_initializer,
        down_initializer; /* Glorot uniform */
    const char *router_layout, *gate_layout, *up_layout, *down_layout;
    const char *name;
} iso_mixture_of_experts_options;
ISO_API iso_tensor *iso_mixture_of_experts_with(const iso_mixture_of_experts_options *options, size_t size);
#define iso_mixture_of_experts(...)                                                                          \
    iso_mixture_of_experts_with(ISO_OPTIONS(iso_mixture_of_experts_options, __VA_ARGS__))

/* The load balancing loss of Switch (section 2.2): experts * sum(chosen * probability), a scalar, which is least when
 * all experts are chosen alike. chosen, probability: [experts]. Of several layers, pass the means over the layers, as
 * transformers does. */
ISO_API iso_tensor *iso_balance_loss(iso_tensor *chosen, iso_tensor *probability);

#ifdef __cplusplus
}
#endif
#endif
