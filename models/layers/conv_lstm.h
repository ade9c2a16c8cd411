/* LSTM of images: convolutions in place of the products (Shi et al. 2015, arXiv 1506.04214).
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_CONV_LSTM_H
#define ISO_MODELS_LAYERS_CONV_LSTM_H

#include "models/layers/recurrent.h"
#include "models/layers/windows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* iso_conv_lstm2d: x: [batch, t, h, w, c] -> the last state h: [batch, h', w', filters], or all of them: [batch, t,
 * h', w', filters]. iso_conv_lstm1d: the same without h. The inputs are convolved with kernel, with the strides,
 * padding and dilation; the state with recurrent_kernel, with zeros around it. A layer named l has the variables
 *     l/conv_lstm_cell/kernel            [height, width, c, 4 filters], of 1D [width, c, 4 filters]: i, f, c, o
 *     l/conv_lstm_cell/recurrent_kernel  [height, width, filters, 4 filters]
 *     l/conv_lstm_cell/bias              [4 filters]
 * Members of the names of iso_recurrent_options are as there, with states [batch, h', w', filters]. */
typedef struct iso_conv_lstm_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t
        kernel_size_hw[2]; /* if they differ: height, width; of 1D kernel_size, strides and dilation alone */
    int64_t strides;       /* 1 */
    int64_t strides_hw[2];
    int64_t dilation; /* 1 */
    int64_t dilation_hw[2];
    iso_padding padding;                      /* valid */
    iso_cell_activation activation;           /* tanh */
    iso_cell_activation recurrent_activation; /* sigmoid */
    bool return_sequences, go_backwards;
    bool no_bias, no_unit_forget_bias;
    double dropout; /* rate for x, in training: which pixels of a row are dropped is the same at each step */
    iso_tensor *initial_h, *initial_c;
    iso_tensor **final_h, **final_c;
    iso_initializer kernel_initializer;    /* Glorot uniform */
    iso_initializer recurrent_initializer; /* orthogonal */
    iso_initializer bias_initializer;      /* zeros */
    double kernel_l1, recurrent_l1, bias_l1;
    double kernel_l2, recurrent_l2, bias_l2;
    const char *kernel_layout, *recurrent_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, recurrent_constraint, bias_constraint;
    bool zero_output_for_mask;
} iso_conv_lstm_options;
ISO_API iso_tensor *iso_conv_lstm1d_with(const iso_conv_lstm_options *options, size_t size);
#define iso_conv_lstm1d(...) iso_conv_lstm1d_with(ISO_OPTIONS(iso_conv_lstm_options, __VA_ARGS__))
ISO_API iso_tensor *iso_conv_lstm2d_with(const iso_conv_lstm_options *options, size_t size);
#define iso_conv_lstm2d(...) iso_conv_lstm2d_with(ISO_OPTIONS(iso_conv_lstm_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
