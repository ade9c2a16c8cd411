/* Recurrent layers: LSTM, GRU, SimpleRNN and RNN.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_RECURRENT_H
#define ISO_MODELS_LAYERS_RECURRENT_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: [batch, t, features] -> the last state h: [batch, units], or all of them: [batch, t, units]. The formulas are
 * those of iso_recurrence_op (graph.h), on x kernel + bias. A layer named l has the variables, with g gates (LSTM 4:
 * i, f, c, o; GRU 3: z, r, h; SimpleRNN 1),
 *     l/lstm_cell/kernel            [features, g units]
 *     l/lstm_cell/recurrent_kernel  [units, g units]
 *     l/lstm_cell/bias              [g units]; of GRU [2, 3 units]: of x kernel, and of h' recurrent_kernel
 * or l/gru_cell/..., l/simple_rnn_cell/.... GRU computes as with Keras's reset_after=True.
 * A step that does not count (iso_tensor_mask of x) leaves the state as it was, and the output of the step is the
 * state; all states have the mask of x. With an initial state, all steps count, as in Keras. */
typedef struct iso_recurrent_options {
    char begin_;
    iso_tensor *x;
    int64_t units;
    iso_cell_activation activation;           /* tanh */
    iso_cell_activation recurrent_activation; /* of the gates; sigmoid; SimpleRNN has none */
    bool return_sequences;                    /* all states, in the order in which they are computed */
    bool go_backwards;                        /* from the last step to the first */
    bool no_bias;
    bool no_unit_forget_bias; /* LSTM: the bias of f does not begin with ones */
    double
        dropout; /* rate for x, in training: which features of a row are dropped is the same at each step */
    /* The state before the first step, [batch, units]; NULL: zeros. initial_c: of LSTM, which takes both or neither.
     * Keras's initial_state. */
    iso_tensor *initial_h, *initial_c;
    /* Where to put the state after the last step, [batch, units]; NULL: nowhere. Keras's return_state. final_c: of
     * LSTM. */
    iso_tensor **final_h, **final_c;
    iso_initializer kernel_initializer;    /* Glorot uniform */
    iso_initializer recurrent_initializer; /* orthogonal */
    iso_initializer bias_initializer;      /* zeros */
    double kernel_l1, recurrent_l1, bias_l1;
    double kernel_l2, recurrent_l2, bias_l2;
    const char *kernel_layout, *recurrent_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, recurrent_constraint,
        bias_constraint;       /* applied after each update */
    bool zero_output_for_mask; /* the output of a step that does not count is zeros */
    /* ISO_BOOL [batch, steps]: in place of x's own mask, also with an initial state. NULL: x's own, if any. Of LSTM,
     * GRU, SimpleRNN and RNN. */
    iso_tensor *mask;
} iso_recurrent_options;

ISO_API iso_tensor *iso_lstm_with(const iso_recurrent_options *options, size_t size);
#define iso_lstm(...) iso_lstm_with(ISO_OPTIONS(iso_recurrent_options, __VA_ARGS__))
ISO_API iso_tensor *iso_gru_with(const iso_recurrent_options *options, size_t size);
#define iso_gru(...) iso_gru_with(ISO_OPTIONS(iso_recurrent_options, __VA_ARGS__))
ISO_API iso_tensor *iso_simple_rnn_with(const iso_recurrent_options *options, size_t size);
#define iso_simple_rnn(...) iso_simple_rnn_with(ISO_OPTIONS(iso_recurrent_options, __VA_ARGS__))

/* Keras's RNN of a cell: what iso_lstm, iso_gru and iso_simple_rnn compute. The variables of a layer named r are
 * r/lstm_cell/kernel and so on. */
typedef struct iso_rnn_options {
    char begin_;
    iso_tensor *x;
    iso_cell cell;
    iso_recurrent_options layer; /* all but x; the name is the cell's: "lstm_cell" */
    const char *name;
} iso_rnn_options;
ISO_API iso_tensor *iso_rnn_with(const iso_rnn_options *options, size_t size);
#define iso_rnn(...) iso_rnn_with(ISO_OPTIONS(iso_rnn_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
