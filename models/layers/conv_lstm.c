/* ConvLSTM1D and ConvLSTM2D: LSTM (recurrent.c) with convolutions in place of the products. */
#include "models/layers/conv_lstm.h"

#include "models/layers/list.h"
#include "models/layers/recurrent_impl.h"

#define KIND(class, name, dims)                                                                              \
    {                                                                                                        \
        ISO_CELL_LSTM, class, name, "iso_" name "_with", "conv_lstm_cell/kernel",                            \
            "conv_lstm_cell/recurrent_kernel", "conv_lstm_cell/bias", 2, true, false, dims                   \
    }
static const iso_cell_kind conv_lstm1d = KIND("ConvLSTM1D", "conv_lstm1d", 1);
static const iso_cell_kind conv_lstm2d = KIND("ConvLSTM2D", "conv_lstm2d", 2);

/* Members that both have. */
#define RECURRENT_OPTIONS(o)                                                                                 \
    {                                                                                                        \
        .x = (o).x, .units = (o).filters, .activation = (o).activation,                                      \
        .recurrent_activation = (o).recurrent_activation, .return_sequences = (o).return_sequences,          \
        .go_backwards = (o).go_backwards, .no_bias = (o).no_bias,                                            \
        .no_unit_forget_bias = (o).no_unit_forget_bias, .dropout = (o).dropout, .initial_h = (o).initial_h,  \
        .initial_c = (o).initial_c, .final_h = (o).final_h, .final_c = (o).final_c,                          \
        .kernel_initializer = (o).kernel_initializer, .recurrent_initializer = (o).recurrent_initializer,    \
        .bias_initializer = (o).bias_initializer, .kernel_l1 = (o).kernel_l1,                                \
        .recurrent_l1 = (o).recurrent_l1, .bias_l1 = (o).bias_l1, .kernel_l2 = (o).kernel_l2,                \
        .recurrent_l2 = (o).recurrent_l2, .bias_l2 = (o).bias_l2, .kernel_layout = (o).kernel_layout,        \
        .recurrent_layout = (o).recurrent_layout, .bias_layout = (o).bias_layout, .name = (o).name,          \
        .kernel_constraint = (o).kernel_constraint, .recurrent_constraint = (o).recurrent_constraint,        \
        .bias_constraint = (o).bias_constraint, .zero_output_for_mask = (o).zero_output_for_mask             \
    }

/* Images of one row. */
static void set_row(iso_conv_windows *conv)
{
    conv->window[0] = conv->geometry.stride[0] = conv->geometry.dilation[0] = 1;
}

static iso_tensor *conv_lstm_with(const iso_cell_kind *kind, const iso_conv_lstm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv_lstm_options, options, given, size);
    const iso_recurrent_options cell = RECURRENT_OPTIONS(options);
    iso_conv_windows conv = ISO_CONV_WINDOWS(options);
    if (kind->image_dims == 1)
        set_row(&conv);
    return iso_recurrent_build(kind, &cell, false, &conv);
}

iso_tensor *iso_conv_lstm1d_with(const iso_conv_lstm_options *options, size_t size)
{
    return conv_lstm_with(&conv_lstm1d, options, size);
}

iso_tensor *iso_conv_lstm2d_with(const iso_conv_lstm_options *options, size_t size)
{
    return conv_lstm_with(&conv_lstm2d, options, size);
}

/* ---- from data ---- */

static iso_tensor *conv_lstm_build(const iso_cell_kind *kind, const iso_layer_config *config,
                                   iso_tensor *const *x, int count)
{
    const int dims = kind->image_dims;
    iso_recurrent_options options = iso_recurrent_options_of(kind, config, x[0]);
    iso_conv_windows conv = {.geometry.groups = 1, .padding = iso_config_padding(config)};
    iso_tensor *final[2];
    iso_config_sizes(config, "kernel_size", ISO_REQUIRED, dims, conv.window + 2 - dims);
    iso_config_sizes(config, "strides", 1, dims, conv.geometry.stride + 2 - dims);
    iso_config_sizes(config, "dilation_rate", 1, dims, conv.geometry.dilation + 2 - dims);
    if (dims == 1)
        set_row(&conv);
    iso_recurrent_set_states(&options, kind, config, x, count, final);
    return iso_recurrent_build(kind, &options, false, &conv);
}

#define CONV_LSTM_LAYER(name, keras_name)                                                                    \
    static iso_tensor *name##_build(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        return conv_lstm_build(&name, config, x, count);                                                     \
    }                                                                                                        \
    const iso_layer_type iso_layer_##name = {.keras = keras_name,                                            \
                                             .build = name##_build,                                          \
                                             .several = true,                                                \
                                             .separate = true,                                               \
                                             .masks = ISO_MASKS_MADE};
CONV_LSTM_LAYER(conv_lstm1d, "ConvLSTM1D")
CONV_LSTM_LAYER(conv_lstm2d, "ConvLSTM2D")
