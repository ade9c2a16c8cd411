/* config.json of Keras: what is built from it, and that whatever is not supported is refused by its name and
 * place. Keras's own files are in test_keras_files.c; here are texts that Keras does not write, or that
 * Isogrid does not take. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/keras/keras_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_model *model;
static iso_compile_options compiled;

static iso_status parse(const char *text)
{
    iso_keras_load_options options = {.model = &model, .compile = &compiled};
    return iso_keras_parse(ctx, "net.keras: config.json", text, strlen(text), &options);
}

static void built(const char *text)
{
    check_ok(parse(text));
    check_ok(iso_graph_error(iso_model_graph(model)));
}

static void done(void)
{
    iso_model_destroy(model);
    model = NULL;
}

#define INPUT                                                                                                \
    "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, "   \
    "6, 6, 2], "                                                                                             \
    "\"dtype\": \"float32\", \"name\": \"x\"}, \"registered_name\": null}"
#define LAYER_OF(type, name, arguments)                                                                      \
    "{\"module\": \"keras.layers\", \"class_name\": \"" type "\", \"config\": {\"name\": \"" name            \
    "\"" arguments "}, \"registered_name\": null}"
#define LAYER(type, arguments) LAYER_OF(type, "l", arguments)
#define SEQUENTIAL(layers)                                                                                   \
    "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"net\", \"layers\": "   \
    "[" INPUT ", " layers "]}, \"registered_name\": null, \"compile_config\": {}}"
#define POLICY_MAP(key, policy)                                                                              \
    "{\"class_name\": \"DTypePolicyMap\", \"config\": {\"default_policy\": \"float32\", \"policy_map\": "    \
    "{\"" key "\": " policy "}}}"
/* A layer that is an argument of another. */
#define PART(class_name, arguments)                                                                          \
    "{\"module\": \"keras.layers\", \"class_name\": \"" class_name                                           \
    "\", \"config\": {\"name\": \"p\", \"units\": 4" arguments "}, \"registered_name\": null}"
#define BOTH(layer, backward, arguments)                                                                     \
    ", \"layer\": " PART(layer, "") ", \"backward_layer\": " PART(backward, arguments)
#define IN_STEPS "{\"class_name\": \"Reshape\", \"config\": {\"name\": \"r\", \"target_shape\": [6, 12]}}, "
#define CONV ", \"filters\": 4, \"kernel_size\": [3, 3]"

/* Each argument of a layer that is not supported, with what the message says of it. */
START_TEST(arguments)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"data_format\": \"channels_first\"")),
         "net.keras: config.json: layers[1] (Conv2D 'l'): data_format is \"channels_first\"; supported: "
         "\"channels_last\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"padding\": \"causal\"")),
         "padding is \"causal\"; supported: 'valid', 'same'"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"padding\": 3")), "padding is 3; supported: a string"},
        {SEQUENTIAL(LAYER("Conv2D", ", \"filters\": \"four\", \"kernel_size\": 3")),
         "filters is \"four\"; supported: numbers"},
        {SEQUENTIAL(LAYER("Conv2D", ", \"filters\": 4.5, \"kernel_size\": 3")),
         "filters is 4.5; supported: whole numbers"},
        /* 0 is the default of options in C, and of no argument of these layers */
        {SEQUENTIAL(IN_STEPS LAYER("Conv1D", ", \"filters\": 4, \"kernel_size\": 3, \"groups\": 0")),
         "(Conv1D 'l'): groups is 0; supported: whole numbers from 1"},
        {SEQUENTIAL(IN_STEPS LAYER("Conv1D", ", \"filters\": 4, \"kernel_size\": 3, \"strides\": [0]")),
         "strides is [0]; supported: whole numbers from 1"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dilation_rate\": [1, 0]")),
         "dilation_rate is [1, 0]; supported: whole numbers from 1"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"strides\": 0")), "strides is 0; supported: whole"},
        {SEQUENTIAL(LAYER("DepthwiseConv2D", ", \"kernel_size\": 3, \"depth_multiplier\": 0")),
         "depth_multiplier is 0; supported: whole"},
        {SEQUENTIAL(LAYER("UpSampling2D", ", \"size\": 0")), "size is 0; supported: whole"},
        {SEQUENTIAL(LAYER("MaxPooling2D", ", \"strides\": [1, 0]")), "strides is [1, 0]; supported: whole"},
        {SEQUENTIAL(LAYER("MaxPooling2D", ", \"pool_size\": 0")), "pool_size is 0; supported: whole"},
        {SEQUENTIAL(IN_STEPS LAYER("MaxPooling1D", ", \"strides\": 0")), "strides is 0; supported: whole"},
        {SEQUENTIAL(LAYER("GroupNormalization", ", \"groups\": 0")),
         "groups is 0; supported: -1 and whole numbers from 1"},
        {SEQUENTIAL(LAYER("Dense", ", \"units\": -3")), "units is -3; supported: whole numbers from 1"},
        {SEQUENTIAL(LAYER("Dense", "")), "units is missing; supported: whole numbers from 1"},
        {SEQUENTIAL(LAYER("Conv2D", ", \"filters\": 4")), "kernel_size is missing; supported: whole"},
        {SEQUENTIAL(LAYER("Conv2D", ", \"filters\": 4, \"kernel_size\": [3, 3, 3]")),
         "kernel_size is [3, 3, 3]; supported: at most 2 numbers"},
        {SEQUENTIAL(LAYER("Reshape", ", \"target_shape\": [2, 3, 6, 2]") ", " LAYER_OF(
             "Conv3D", "c", ", \"filters\": 4, \"kernel_size\": [3, 3]")),
         "kernel_size is [3, 3]; supported: a number, or one for each dimension"},
        {SEQUENTIAL(LAYER("Reshape", ", \"target_shape\": [2, 3, 6, 2]") ", " LAYER_OF(
             "ZeroPadding3D", "c", ", \"padding\": [[1, 2], [1, 1]]")),
         "padding is [[1, 2], [1, 1]]; supported: a number, three, or three pairs"},
        {SEQUENTIAL(LAYER("Reshape", ", \"target_shape\": [2, 3, 6, 2]") ", " LAYER_OF(
             "Conv3DTranspose", "c", ", \"filters\": 4, \"kernel_size\": 2, \"output_padding\": [0, 0]")),
         "output_padding is [0, 0]; supported: a number, or one for each dimension"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"kernel_constraint\": {\"class_name\": \"Round\", \"config\": "
                                         "{}}")),
         "kernel_constraint is {\"class_name\": \"Round\", \"config\": {}}; supported: MaxNorm, NonNeg"},
        {SEQUENTIAL(LAYER("Conv2DTranspose", CONV ", \"groups\": 2")),
         "layers[1] (Conv2DTranspose 'l'): groups is 2: this argument is not supported (null has no effect)"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"activity_regularizer\": \"orthogonal\"")),
         "activity_regularizer is \"orthogonal\"; supported: L1, L2, L1L2"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"activity_regularizer\": {\"class_name\": \"L1\", "
                                         "\"config\": {\"l1\": -0.5}}")),
         "layer 'l' (Conv2D): the l1 of its activity is -0.5, the l2 0: they must not be negative"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"activation\": \"sine\"")),
         "activation is \"sine\"; supported: 'linear', "},
        {SEQUENTIAL(LAYER("Conv2D",
                          CONV ", \"activation\": {\"module\": \"builtins\", \"class_name\": "
                               "\"function\", \"config\": \"mine\", \"registered_name\": \"function\"}")),
         "\"mine\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"kernel_initializer\": \"magic\"")),
         "kernel_initializer is \"magic\"; supported: Zeros, Ones"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"kernel_initializer\": {\"class_name\": \"GlorotUniform\", "
                                         "\"config\": {\"luck\": 7}}")),
         "kernel_initializer.luck is 7"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"kernel_regularizer\": {\"class_name\": "
                                         "\"OrthogonalRegularizer\", \"config\": {}}")),
         "kernel_regularizer is {"},
        {SEQUENTIAL(LAYER("Conv2D",
                          CONV ", \"dtype\": {\"class_name\": \"DTypePolicy\", \"config\": {\"name\": "
                               "\"mixed_float16\"}}")),
         "layers[1] (Conv2D 'l'): dtype is {"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": \"float16\"")),
         "layers[1] (Conv2D 'l'): dtype is \"float16\"; supported: \"float32\", \"mixed_bfloat16\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": \"bfloat16\"")), "dtype is \"bfloat16\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": \"float64\"")), "dtype is \"float64\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": \"int8_from_mixed_bfloat16\"")),
         "dtype is \"int8_from_mixed_bfloat16\""},
        {SEQUENTIAL(LAYER("Conv2D",
                          CONV ", \"dtype\": {\"class_name\": \"QuantizedDTypePolicy\", \"config\": "
                               "{\"mode\": \"int8\", \"source_name\": \"mixed_bfloat16\"}}")),
         "layers[1] (Conv2D 'l'): dtype is {"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": 16")), "dtype is 16"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": " POLICY_MAP("l", "\"float16\""))),
         "dtype is \"float16\""},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": " POLICY_MAP("l.*", "\"float32\""))),
         "the key 'l.*'; regular expressions are not supported"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"dtype\": " POLICY_MAP("l/query", "\"float32\""))),
         "the key 'l/query'; a part of a layer cannot have a policy of its own"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"lora_rank\": 4")), "lora_rank is 4"},
        {SEQUENTIAL(LAYER("Conv2D",
                          CONV ", \"kernel_initializer\": {\"module\": \"my.pack\", \"class_name\": "
                               "\"Zeros\", \"config\": {}, \"registered_name\": \"mine>Zeros\"}")),
         "no code in a file is ever executed"},
        {SEQUENTIAL(LAYER("Conv2D", ", \"filters\": 4, \"kernel_size\": [9, 9]")),
         "net.keras: config.json: layers[1] (Conv2D 'l'): layer 'l' (Conv2D): its kernel reaches over 9 "},
        {SEQUENTIAL(LAYER("ConvLSTM3D", ", \"filters\": 4")),
         "layers[1] (ConvLSTM3D 'l'): the layer ConvLSTM3D is not supported; there are: InputLayer, "
         "Functional, Sequential, "},
        {SEQUENTIAL(IN_STEPS LAYER("LSTM", ", \"units\": 4, \"return_state\": true")),
         "it has 3 outputs in a Sequential"},
        {SEQUENTIAL(
             IN_STEPS LAYER("Bidirectional", ", \"merge_mode\": \"max\", \"layer\": " PART("GRU", ""))),
         "merge_mode is \"max\"; supported: 'concat', 'sum', 'mul', 'ave'"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"merge_mode\": null, \"layer\": " PART("GRU", ""))),
         "layers[2] (Bidirectional 'l'): it has 2 outputs in a Sequential"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"backward_layer\": 1, \"layer\": " PART("GRU", ""))),
         "backward_layer is 1; supported: a layer"},
        {SEQUENTIAL(IN_STEPS LAYER("GRU", ", \"units\": 3, \"go_backwards\": 0.5")),
         "go_backwards is 0.5; supported: true, false"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"merge_mode\": 3, \"layer\": " PART("GRU", ""))),
         "merge_mode is 3; supported: a string"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"merge_mode\": {}, \"layer\": " PART("GRU", ""))),
         "merge_mode is {}; supported: a name, or an object with a class_name"},
        {SEQUENTIAL(LAYER("Conv2D", CONV ", \"kernel_initializer\": {}")),
         "kernel_initializer is {}; supported: a name, or an object with a class_name"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"layer\": " PART("Dense", ""))),
         "supported: LSTM, GRU, SimpleRNN"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", "")),
         "layer is missing; supported: LSTM, GRU, SimpleRNN"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"layer\": " PART("GRU", ", \"stateful\": true"))),
         "layer.stateful is true; supported: false"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", BOTH("GRU", "LSTM", ", \"go_backwards\": true"))),
         "supported: a layer of the class of `layer`"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", BOTH("GRU", "GRU", ", \"go_backwards\": false"))),
         "backward_layer.go_backwards is false; supported: the opposite of `layer`"},
        {SEQUENTIAL(IN_STEPS LAYER(
             "Bidirectional", BOTH("GRU", "GRU", ", \"go_backwards\": true, \"return_sequences\": true"))),
         "backward_layer.return_sequences is true; supported: that of `layer`"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional",
                                   BOTH("GRU", "GRU", ", \"go_backwards\": true, \"return_state\": true"))),
         "backward_layer.return_state is true; supported: that of `layer`"},
        {SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"dtype\": \"float32\", \"layer\": " PART(
                                                        "GRU", ", \"dtype\": \"mixed_bfloat16\""))),
         "layer.dtype is \"mixed_bfloat16\"; supported: that of the layer around it"},
        {SEQUENTIAL(IN_STEPS LAYER("TimeDistributed", ", \"layer\": " PART("Sequential", ""))),
         "supported: a layer of one input that is supported by itself; models are not"},
        {SEQUENTIAL(IN_STEPS LAYER("TimeDistributed", ", \"layer\": " PART("Add", ""))),
         "supported: a layer of one input that is supported by itself; models are not"},
        {SEQUENTIAL(IN_STEPS LAYER("TimeDistributed", ", \"layer\": " PART("Dense", ", \"bogus\": 1"))),
         "layer.bogus is 1: this argument is not supported"},
        {SEQUENTIAL(IN_STEPS LAYER("TimeDistributed", ", \"layer\": " PART("Conv1D", ", \"filters\": 1"))),
         "layers[2] (TimeDistributed 'l'): layer.kernel_size is missing"},
        {SEQUENTIAL(IN_STEPS LAYER("LSTM", ", \"units\": 4, \"stateful\": true")), "stateful is true"},
        {SEQUENTIAL(IN_STEPS LAYER("GRU", ", \"units\": 4, \"recurrent_dropout\": 0.1")),
         "recurrent_dropout is 0.1; supported: 0"},
        {SEQUENTIAL(IN_STEPS LAYER("GRU", ", \"units\": 4, \"reset_after\": false")),
         "reset_after is false; supported: true"},
        {SEQUENTIAL(IN_STEPS LAYER("SimpleRNN", ", \"units\": 4, \"activation\": \"elu\"")),
         "activation is \"elu\"; supported: 'tanh', 'sigmoid', 'hard_sigmoid', 'relu', 'linear'"},
        {SEQUENTIAL(IN_STEPS LAYER(
             "GRU", ", \"units\": 4, \"recurrent_activation\": {\"class_name\": \"ReLU\", \"config\": {}}")),
         "recurrent_activation is {\"class_name\": \"ReLU\", \"config\": {}}; supported: 'sigmoid', 'tanh'"},
        {SEQUENTIAL(LAYER("LSTM", ", \"units\": 4")), "it must be [batch, steps, features]"},
        {SEQUENTIAL("{\"module\": \"my.pack\", \"class_name\": \"Dense\", \"config\": {\"name\": \"l\", "
                    "\"units\": 3}, "
                    "\"registered_name\": \"mine>Dense\"}"),
         "the class mine>Dense is the user's own"},
        {SEQUENTIAL("{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Sinh\", \"config\": "
                    "{\"name\": \"l\"}, "
                    "\"registered_name\": \"Sinh\"}"),
         "the operation Sinh of keras.ops is not supported; docs/keras.md lists those that are"},
        {SEQUENTIAL(LAYER("Flatten", "") ", " LAYER("Flatten", "")), "two layers are named 'l'"},
        {SEQUENTIAL(IN_STEPS LAYER("Masking", ", \"mask_value\": [0.0, 1.0]")),
         "layers[2] (Masking 'l'): mask_value is [0.0, 1.0]; supported: a number"},
        {SEQUENTIAL("{\"class_name\": \"Dense\"}"), "layers[1] (Dense): it has no config with a name"},
        {SEQUENTIAL(
             "{\"module\": null, \"class_name\": \"Pos\", \"config\": {}, \"registered_name\": \"Pos\"}"),
         "layers[1] (Pos): the class Pos is the user's own, not Keras's"},
        {SEQUENTIAL("{\"module\": \"keras.layers\", \"class_name\": \"Pos\", \"config\": {}}"),
         "layers[1] (Pos): the layer Pos is not supported"},
        {SEQUENTIAL("{\"module\": \"my.pack\", \"class_name\": \"LayerScale\", \"config\": {\"name\": \"l\", "
                    "\"init_values\": 1, \"projection_dim\": 2}, \"registered_name\": \"LayerScale\"}"),
         "layers[1] (LayerScale 'l'): the class LayerScale is the user's own"},
        {SEQUENTIAL(
             "{\"module\": \"keras.src.applications.convnext\", \"class_name\": \"LayerScale\", "
             "\"config\": {\"name\": \"l\", \"init_values\": 1}, \"registered_name\": \"LayerScale\"}"),
         "projection_dim is missing; supported: whole numbers from 1"},
        {SEQUENTIAL("{\"module\": \"keras.src.applications.convnext\", \"class_name\": \"StochasticDepth\", "
                    "\"config\": {\"name\": \"l\", \"drop_path_rate\": 1}, \"registered_name\": "
                    "\"StochasticDepth\"}"),
         "drop_path_rate is 1, it must be at least 0 and below 1"},
        {SEQUENTIAL(LAYER("Normalization", ", \"mean\": [[1, 2], [3]], \"variance\": [1, 2]")),
         "mean is [[1, 2], [3]]; supported: a number, or lists of equal lengths"},
        {SEQUENTIAL(LAYER("Normalization", ", \"mean\": [1, 2], \"variance\": 1")),
         "variance is 1; supported: numbers in the shape of mean"},
        {SEQUENTIAL(LAYER("Normalization", ", \"mean\": [1, \"2\"], \"variance\": [1, 1]")),
         "mean is [1, \"2\"]; supported: numbers"},
        {SEQUENTIAL(LAYER("Normalization", ", \"mean\": [1, null], \"variance\": [1, 1]")),
         "element 1 of its mean is nan"},
        {SEQUENTIAL(LAYER("Normalization", ", \"mean\": 1")), "it has a mean and no variance"},
        {SEQUENTIAL(LAYER("Dropout", ", \"rate\": 0.5, \"noise_shape\": [null, 1.5, 1, 1]")),
         "noise_shape is [null, 1.5, 1, 1]; supported: null and whole numbers from 1"},
        {SEQUENTIAL(LAYER("Dropout", ", \"rate\": 0.5, \"noise_shape\": [null, 5, 1, 1]")),
         "its noise_shape is [batch, 5, 1, 1], which does not broadcast to the shape of its input, [batch, "
         "6, 6, 2]"},
        {SEQUENTIAL("{\"config\": {\"name\": \"a\"}}"), "layers[1] has no class_name"},
        {SEQUENTIAL("7"), "layers[1] has no class_name"},
        {SEQUENTIAL(LAYER("Den\\u001b[31mse\\nisogrid: error: ", "")),
         "layers[1] (Den?[31mse?isogrid: error:  'l'): the layer Den?[31mse?isogrid: error:  is not "
         "supported"},
        /* numbers, and products of numbers, that would overflow */
        {SEQUENTIAL(LAYER("Reshape", ", \"target_shape\": [72, 65536, 65536, 65536, 65536]")),
         "layers[1] (Reshape 'l'): reshape: x [batch, 6, 6, 2] cannot be reshaped to"},
        {SEQUENTIAL(LAYER("Reshape", ", \"target_shape\": [20, 922337203685477581]")),
         "target_shape is [20, 922337203685477581]; supported: whole numbers up to 2147483647"},
        {SEQUENTIAL(LAYER("UpSampling2D", ", \"size\": [2147483647, 2147483647]")),
         "layers[1] (UpSampling2D 'l'): "},
        {SEQUENTIAL(LAYER("BatchNormalization", ", \"axis\": 1099511627777")),
         "axis is 1099511627777; supported: whole numbers up to 2147483647"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(parse(cases[i].text), cases[i].part);
}
END_TEST

/* What Keras takes where nothing is said need not be looked up by a layer. */
START_TEST(usual_values)
{
    built(SEQUENTIAL(LAYER(
        "Conv2D", CONV
        ", \"trainable\": true, \"dtype\": \"float32\", \"data_format\": \"channels_last\", \"activation\": "
        "null, \"kernel_initializer\": \"he_normal\", \"kernel_regularizer\": null, \"bias_constraint\": "
        "null, \"quantization_config\": null")));
    ck_assert_ptr_nonnull(iso_model_variable(model, "l/kernel"));
    done();
    built(SEQUENTIAL(LAYER("Conv2D", CONV ", \"trainable\": false")));
    ck_assert(!iso_variable_trainable(iso_model_variable(model, "l/kernel")));
    done();
}
END_TEST

static void check_output(const char *text, iso_shape wanted)
{
    char have[160], want[160];
    built(text);
    const iso_shape *shape = iso_tensor_shape(iso_model_output(model));
    ck_assert_msg(iso_shape_equal(shape, &wanted), "%s: %s instead of %s", text,
                  iso_shape_text(shape, have, sizeof have), iso_shape_text(&wanted, want, sizeof want));
    done();
}

/* Of the input [batch, 6, 6, 2]: a number for all sides, two for rows and columns, two pairs. */
START_TEST(sides_of_images)
{
    check_output(SEQUENTIAL(LAYER("ZeroPadding2D", "")), ISO_SHAPE(ISO_BATCH, 8, 8, 2));
    check_output(SEQUENTIAL(LAYER("ZeroPadding2D", ", \"padding\": 3")), ISO_SHAPE(ISO_BATCH, 12, 12, 2));
    check_output(SEQUENTIAL(LAYER("ZeroPadding2D", ", \"padding\": [1, 4]")), ISO_SHAPE(ISO_BATCH, 8, 14, 2));
    check_output(SEQUENTIAL(LAYER("ZeroPadding2D", ", \"padding\": [[1, 2], [3, 7]]")),
                 ISO_SHAPE(ISO_BATCH, 9, 16, 2));
    check_output(SEQUENTIAL(LAYER("Cropping2D", ", \"cropping\": [1, 2]")), ISO_SHAPE(ISO_BATCH, 4, 2, 2));
    check_output(SEQUENTIAL(LAYER("Cropping2D", ", \"cropping\": [[1, 2], [3, 0]]")),
                 ISO_SHAPE(ISO_BATCH, 3, 3, 2));
}
END_TEST

#define WITH_INPUT(shape)                                                                                    \
    "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"net\", \"layers\": "   \
    "[{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": " shape   \
    ", \"dtype\": \"float32\", \"name\": \"x\"}, \"registered_name\": null}, " LAYER(                        \
        "Flatten", "") "]}, \"registered_name\": null, \"compile_config\": {}}"

START_TEST(shapes_of_inputs)
{
    static const char *const wrong[] = {"[null, 0]", "[null, -3]", "[null, 4, null]", "[null, 2.5]",
                                        "[null, \"4\"]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1000];
        snprintf(text, sizeof text, WITH_INPUT("%s"), wrong[i]);
        check_refused(parse(text), "only the batch may be of any length");
    }
    check_refused(parse(WITH_INPUT("[]")), "a batch and at most");
    check_refused(parse(WITH_INPUT("[null, 1, 1, 1, 1, 1, 1, 1, 1]")), "a batch and at most");
    check_output(WITH_INPUT("[null, 3, 5]"), ISO_SHAPE(ISO_BATCH, 15));
}
END_TEST

/* ---- functional ---- */

#define TENSOR(layer, node, output)                                                                          \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"shape\": [null, 4], \"dtype\": \"float32\", "     \
    "\"keras_history\": [\"" layer "\", " node ", " output "]}}"
#define NODE(args, kwargs) "{\"args\": [" args "], \"kwargs\": {" kwargs "}}"
#define ENTRY(type, name, arguments, nodes)                                                                  \
    "{\"module\": \"keras.layers\", \"class_name\": \"" type "\", \"config\": {\"name\": \"" name            \
    "\"" arguments "}, \"registered_name\": null, \"name\": \"" name "\", \"inbound_nodes\": [" nodes "]}"
#define IN ENTRY("InputLayer", "x", ", \"batch_shape\": [null, 4]", "")
#define FUNCTIONAL(layers, outputs)                                                                          \
    "{\"module\": \"keras.src.models.functional\", \"class_name\": \"Functional\", \"config\": {\"name\": "  \
    "\"f\", "                                                                                                \
    "\"layers\": [" layers "], \"input_layers\": [[\"x\", 0, 0]], \"output_layers\": " outputs               \
    "}, \"registered_name\": \"Functional\"}"
#define DENSE(name, nodes) ENTRY("Dense", name, ", \"units\": 4", nodes)

/* A(B(A(B(x)))): calls wait for each other. */
START_TEST(calls_in_any_order)
{
    built(FUNCTIONAL(
        DENSE("a", NODE(TENSOR("b", "0", "0"), "") ", " NODE(TENSOR("b", "1", "0"), "")) ", " DENSE(
            "b", NODE(TENSOR("x", "0", "0"), "") ", " NODE(TENSOR("a", "0", "0"), "")) ", " IN,
        "[\"a\", 1, 0]"));
    ck_assert_int_eq(iso_graph_variable_count(iso_model_graph(model)), 4);
    ck_assert_str_eq(iso_tensor_name(iso_model_output(model)), "a/output");
    done();
}
END_TEST

static int count_trainable(void)
{
    iso_graph *graph = iso_model_graph(model);
    int count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++)
        count += iso_variable_trainable(iso_graph_variable(graph, i));
    return count;
}

/* The layers in a wrapper have settings of their own. */
START_TEST(trainable_of_wrappers)
{
    built(SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"trainable\": false, \"layer\": " PART("GRU", ""))));
    ck_assert_int_eq(count_trainable(), 6);
    done();
    built(SEQUENTIAL(IN_STEPS LAYER("Bidirectional", ", \"layer\": " PART("GRU", ", \"trainable\": false"))));
    ck_assert_int_eq(count_trainable(), 0);
    done();
    built(SEQUENTIAL(
        IN_STEPS LAYER("TimeDistributed", ", \"trainable\": false, \"layer\": " PART("Dense", ""))));
    ck_assert_int_eq(count_trainable(), 2);
    done();
}
END_TEST

/* Of the whole model, Keras's load_model takes trainable from a Functional, and ignores it in a Sequential. */
START_TEST(trainable_of_the_whole_model)
{
#define LAYERS "\"trainable\": false, \"layers\": [" IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "")) "]"
    built("{\"class_name\": \"Functional\", \"config\": {\"name\": \"f\", " LAYERS
          ", \"input_layers\": [\"x\", 0, 0], \"output_layers\": [\"a\", 0, 0]}}");
    ck_assert_int_eq(count_trainable(), 0);
    done();
    built("{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", " LAYERS "}}");
    ck_assert_int_eq(count_trainable(), 2);
    done();
#undef LAYERS
}
END_TEST

START_TEST(networks)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("b", "0", "0"), "")) ", " DENSE(
                        "b", NODE(TENSOR("a", "0", "0"), "")),
                    "[\"a\", 0, 0]"),
         "layers[1] ('a'): its inputs form a cycle"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("c", "0", "0"), "")), "[\"a\", 0, 0]"),
         "layers[1] (Dense 'a'): there is no layer 'c'"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "1", "0"), "")), "[\"a\", 0, 0]"),
         "[\"x\", 1, 0]: the layer is called 1 times"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "3"), "")), "[\"a\", 0, 0]"),
         "[\"x\", 0, 3]: the layer has 1 outputs"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "-1", "0"), "")), "[\"a\", 0, 0]"),
         "the layer is called 1 times"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE("3.5", "")), "[\"a\", 0, 0]"),
         "it is called with 3.5, which is not a tensor"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE("", "")), "[\"a\", 0, 0]"), "it is called with 0 tensors"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE("[" TENSOR("x", "0", "0") ", " TENSOR("x", "0", "0") "]", "")),
                    "[\"a\", 0, 0]"),
         "it is called with 2 tensors"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "\"mask\": " TENSOR("x", "0", "0"))),
                    "[\"a\", 0, 0]"),
         "mask is {"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "\"twice\": true")), "[\"a\", 0, 0]"),
         "twice is true"},
        {FUNCTIONAL(IN ", " DENSE("optimizer", NODE(TENSOR("x", "0", "0"), "")), "[\"optimizer\", 0, 0]"),
         "is named 'optimizer', as the optimizer's own variables are"},
        {FUNCTIONAL(IN ", " DENSE("optimizer_12", NODE(TENSOR("x", "0", "0"), "")),
                    "[\"optimizer_12\", 0, 0]"),
         "is named 'optimizer_12'"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "")), "[\"a\", 1, 0]"),
         "the layer is called 1 times"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "")), "[]"),
         "its output_layers name no outputs"},
        {FUNCTIONAL(IN ", " DENSE("a", NODE(TENSOR("x", "0", "0"), "")), "null"),
         "output_layers are missing"},
        {FUNCTIONAL(IN ", " ENTRY("Dense", "a", ", \"units\": 5", NODE(TENSOR("x", "0", "0"), "")) ", " DENSE(
                        "b", NODE(TENSOR("a", "0", "0"), "")),
                    "[\"b\", 0, 0]"),
         "its input has the shape [batch, 5] here, the file says [null, 4]"},
        {FUNCTIONAL(IN ", " ENTRY("InputLayer", "y", ", \"batch_shape\": [null, 4]", ""), "[\"x\", 0, 0]"),
         "its input_layers name 1 of its 2 inputs"},
        {FUNCTIONAL(ENTRY("InputLayer", "x", ", \"batch_shape\": [null, null, 3]", ""), "[\"x\", 0, 0]"),
         "only the batch may be of any length"},
        {FUNCTIONAL(ENTRY("InputLayer", "x", ", \"batch_shape\": [null, 3], \"dtype\": \"string\"", ""),
                    "[\"x\", 0, 0]"),
         "dtype is \"string\""},
        {FUNCTIONAL(ENTRY("InputLayer", "x", ", \"batch_input_shape\": [null, 3]", ""), "[\"x\", 0, 0]"),
         "as in files of Keras 2"},
        {FUNCTIONAL(ENTRY("InputLayer", "x", ", \"batch_shape\": [null, 3], \"sparse\": true", ""),
                    "[\"x\", 0, 0]"),
         "sparse is true"},
        {"{\"class_name\": \"Functional\", \"config\": {\"name\": \"f\", \"layers\": []}}",
         "it has 0 layers"},
        {"{\"class_name\": \"Dense\", \"config\": {\"name\": \"f\"}}", "the model is of the class Dense"},
        {"{\"module\": \"my\", \"class_name\": \"Net\", \"config\": {}, \"registered_name\": \"my>Net\"}",
         "of the class Net"},
        {"{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": [" LAYER("Flatten",
                                                                                              "") "]}}",
         "it has no input shape: the model was not built before it was saved"},
        {"[1, 2]", "it is not the config of a model of Keras"},
        {"{\"class_name\": ", "net.keras: config.json, line 1, column"},
        {"", "net.keras: config.json, line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(parse(cases[i].text), cases[i].part);
}
END_TEST

/* Functions of keras.ops: what their keys, settings and arguments may not be. x: [batch, 4] */
#define X TENSOR("x", "0", "0")
#define FUNCTION(type, settings, args, kwargs)                                                               \
    FUNCTIONAL(IN ", {\"module\": \"keras.src.ops.numpy\", \"class_name\": \"" type                          \
                  "\", \"config\": {\"name\": \"a\"" settings "}, \"registered_name\": \"" type              \
                  "\", \"name\": \"a\", \"inbound_nodes\": [" NODE(args, kwargs) "]}",                       \
               "[\"a\", 0, 0]")
#define SLICE(members) "{\"class_name\": \"__slice__\", \"config\": {" members "}}"
START_TEST(functions)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {FUNCTION("GetItem", "", X ", [0]", ""), "layers[1] (GetItem 'a'): its key selects among the rows"},
        {FUNCTION("GetItem", "", X ", [" SLICE("\"start\": 1") "]", ""), "its key selects among the rows"},
        {FUNCTION("GetItem", "", X ", [null, " SLICE("") "]", ""), "its key has None before the batch"},
        {FUNCTION("GetItem", "", X ", [" SLICE("") ", 4]", ""),
         "its key has 4 for a dimension of 4 elements"},
        {FUNCTION("GetItem", "", X ", [" SLICE("") ", 1, 1]", ""), "its key has 3 items for a tensor of 2"},
        {FUNCTION("GetItem", "", X ", [" SLICE("") ", " SLICE("\"step\": 0") "]", ""), "an index, a slice"},
        {FUNCTION("GetItem", "", X ", [" SLICE("") ", " SLICE("\"start\": 3, \"stop\": 1") "]", ""),
         "a slice that"},
        {FUNCTION("GetItem", "", X ", [" SLICE("") ", [0, 1]]", ""), "its key has [0, 1] for"},
        {FUNCTION("GetItem", "", X, ""), "its key is missing"},
        {FUNCTION("Reshape", ", \"newshape\": [-1, 2]", X, ""), "changes the number of rows"},
        {FUNCTION("Reshape", ", \"newshape\": [3, 4]", X, ""), "changes the number of rows"},
        {FUNCTION("Reshape", ", \"newshape\": [-1, 3, -1]", X, ""), "cannot be reshaped"},
        {FUNCTION("Reshape", ", \"newshape\": [-1, 4, -97]", X, ""), "supported: sizes, one -1"},
        {FUNCTION("Transpose", ", \"axes\": null", X, ""), "it moves the batch to another dimension"},
        {FUNCTION("Transpose", ", \"axes\": [0, 0]", X, ""), "axes names dimension 0, twice"},
        {FUNCTION("Moveaxis", ", \"source\": [1], \"destination\": [0]", X, ""), "it moves the batch"},
        {FUNCTION("ExpandDims", ", \"axis\": 0", X, ""), "it inserts a dimension before the batch"},
        {FUNCTION("Squeeze", ", \"axis\": 1", X, ""), "axis 1 has more than one element"},
        {FUNCTION("Concatenate", ", \"axis\": 0", "[" X ", " X "]", ""),
         "it joins the rows of several batches"},
        {FUNCTION("Split", ", \"indices_or_sections\": 3, \"axis\": 1", X, ""), "a divisor of the elements"},
        {FUNCTION("Split", ", \"indices_or_sections\": [3, 2], \"axis\": 1", X, ""), "indices that grow"},
        {FUNCTION("Repeat", ", \"repeats\": 2, \"axis\": 0", X, ""), "it repeats the rows of the batch"},
        {FUNCTION("Tile", ", \"repeats\": [2, 1, 1]", X, ""), "repeats has 3 dimensions, its input has 2"},
        {FUNCTION("BroadcastTo", ", \"shape\": [3, 4]", X, ""), "a number instead of the batch"},
        {FUNCTION("Flip", ", \"axis\": null", X, ""), "it turns the batch around"},
        {FUNCTION("Pad", ", \"pad_width\": [[1, 0], [0, 0]], \"mode\": \"constant\"", X, ""), "it adds rows"},
        {FUNCTION("Pad", ", \"pad_width\": [[0, 0], [0, 1]], \"mode\": \"reflect\"", X, ""),
         "mode is \"reflect\"; supported: \"constant\""},
        {FUNCTION("Mean", ", \"axis\": 2", X, ""), "axis names dimension 2"},
        {FUNCTION("Max", ", \"axis\": 1, \"initial\": 3", X, ""), "initial is 3"},
        {FUNCTION("Prod", ", \"axis\": 0", X, ""), "it multiplies the rows of the batch"},
        {FUNCTION("TopK", ", \"k\": 5", X, ""), "k is 5; supported: from 1 to the elements of the last"},
        {FUNCTION("Sort", ", \"axis\": null", X, ""), "axis is null; supported: one dimension"},
        {FUNCTION("Sort", ", \"axis\": 0", X, ""), "it compares the rows of the batch"},
        {FUNCTION("Argsort", ", \"axis\": 2", X, ""), "axis is 2; its input has the shape [batch, 4]"},
        {FUNCTION("Softmax", ", \"axis\": 0", X, ""), "it is over the rows of the batch"},
        {FUNCTION("Norm", ", \"ord\": \"nuc\", \"axis\": 1", X, ""), "ord is \"nuc\""},
        {FUNCTION("Einsum", ", \"subscripts\": \"bi,bi->i\"", X ", " X, ""),
         "it sums over the rows of the batch"},
        {FUNCTION("Einsum", ", \"subscripts\": \"ai,bi->ab\"", X ", " X, ""), "each row with each other row"},
        {FUNCTION("Einsum", ", \"subscripts\": \"bi->ib\"", X, ""), "it moves the batch"},
        {FUNCTION("Einsum", ", \"subscripts\": \"bb->b\"", X, ""),
         "subscripts is \"bb->b\"; supported: a letter"},
        {FUNCTION("Einsum", ", \"subscripts\": \"bi,ij->bjk\"", X ", [[1.0], [1.0], [1.0], [1.0]]", ""),
         "supported: a letter"},
        {FUNCTION("Matmul", "", X ", [[1.0, 2.0]]", ""), "dimensions that must be equal have 4 and 1"},
        {FUNCTION("Add", "", X ", [[1.0], [1.0, 2.0]]", ""), "lists of different lengths"},
        {FUNCTION(
             "Add", "",
             X ", {\"class_name\": \"__tensor__\", \"config\": {\"value\": [1], \"dtype\": \"complex64\"}}",
             ""),
         "an array has the dtype \"complex64\""},
        {FUNCTION("Add", "", X ", \"text\"", ""), "it is called with \"text\""},
        {FUNCTION("Where", "", X, ""), "its argument x1"},
        {FUNCTION("Take", ", \"axis\": 1", X ", [4]", ""), "index 4 is out of a dimension of 4 elements"},
        {FUNCTION("Take", ", \"axis\": 0", X ", [0]", ""), "it takes rows of the batch"},
        {FUNCTION("Maximum", "", "1, 2", ""), "without a tensor of the network"},
        {FUNCTION("Mean", ", \"axis\": 1", X, "\"out\": 3"), "out is 3: this argument is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(parse(cases[i].text), cases[i].part);
    /* as Python writes it */
    built(FUNCTION("Maximum", ", \"note\": null", X ", -Infinity", "\"Infinity \\\"\": null"));
    done();
}
END_TEST

/* Of two bytes each; read, they would take 80. */
START_TEST(a_bomb_of_values)
{
    int count = 5 << 20;
    char *text = malloc((size_t)count * 2 + 2);
    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < count; i++)
        memcpy(text + 2 * i, i ? ",0" : "[0", 2);
    strcpy(text + 2 * count, "]");
    check_refused(parse(text), "net.keras: config.json: it has more than 4194304 values");
    free(text);
}
END_TEST

/* A model that calls a model twice that calls a model twice, ...: the file is small, the graph would not be.
 */
START_TEST(a_bomb_of_models)
{
    iso_text text = {0};
    iso_text_add(&text, "%s", DENSE("d", NODE(TENSOR("x", "0", "0"), "")));
    for (int level = 0; level < 30; level++) {
        iso_text next = {0};
        iso_text_add(
            &next,
            "{\"module\": \"keras\", \"class_name\": \"Functional\", \"registered_name\": \"Functional\", "
            "\"name\": \"m%d\", \"inbound_nodes\": [%s, %s], \"config\": {\"name\": \"m%d\", "
            "\"input_layers\": [\"x\", 0, 0], \"layers\": [" IN ", %s], \"output_layers\": [\"%s\", %d, 0]}}",
            level, NODE(TENSOR("x", "0", "0"), ""), NODE(TENSOR("x", "0", "0"), ""), level, text.data,
            level ? "m" : "d", level ? 2 : 0);
        iso_text_free(&text);
        text = next;
        if (level) { /* its own layer's name */
            char *name = strstr(text.data + text.length - 40, "[\"m\"");
            ck_assert_ptr_nonnull(name);
            iso_text named = {0};
            iso_text_add(&named, "%.*s[\"m%d\"%s", (int)(name - text.data), text.data, level - 1, name + 4);
            iso_text_free(&text);
            text = named;
        }
    }
    iso_text whole = {0};
    iso_text_add(&whole,
                 "{\"class_name\": \"Functional\", \"config\": {\"name\": \"f\", \"layers\": [" IN
                 ", %s], \"input_layers\": [\"x\", 0, 0], \"output_layers\": [\"m29\", 1, 0]}}",
                 text.data);
    check_refused(parse(whole.data), "more than 20000 calls of layers");
    iso_text_free(&text);
    iso_text_free(&whole);
}
END_TEST

/* ---- constraints ---- */

#define MIN_MAX                                                                                              \
    "{\"module\": \"keras.constraints\", \"class_name\": \"MinMaxNorm\", \"config\": {\"min_value\": 0.0, "  \
    "\"max_value\": 0.5, \"rate\": 0.25, \"axis\": [0, 1, 2]}}"

/* They are read and written again. */
START_TEST(constraints)
{
    built(SEQUENTIAL(
        LAYER("Conv2D", CONV ", \"kernel_constraint\": " MIN_MAX ", \"bias_constraint\": \"non_neg\"")));
    iso_text text = {0};
    const iso_graph *g = iso_model_graph(model);
    for (int i = 0; i < iso_graph_layer_count(g); i++)
        if (strcmp(iso_graph_layer(g, i)->type, "Conv2D") == 0)
            iso_attribute_print(iso_graph_layer(g, i)->config, &text);
    ck_assert_msg(
        strstr(text.data, "\"min_value\": 0, \"max_value\": 0.5, \"rate\": 0.25, \"axis\": [0, 1, 2]"), "%s",
        text.data);
    ck_assert_msg(strstr(text.data, "\"NonNeg\""), "%s", text.data);
    iso_text_free(&text);
    done();
}
END_TEST

/* ---- compile settings ---- */

#define COMPILED(settings)                                                                                   \
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"net\", \"layers\": [" INPUT                   \
    ", " LAYER("Flatten", "") "]}, \"compile_config\": {" settings "}}"
#define OBJECT(type, config) "{\"module\": \"keras\", \"class_name\": \"" type "\", \"config\": {" config "}}"

START_TEST(settings)
{
#define SCHEDULE OBJECT("PiecewiseConstantDecay", "\"boundaries\": [3, 5], \"values\": [0.1, 0.2, 0.3]")
#define RULE                                                                                                 \
    "\"learning_rate\": " SCHEDULE ", \"momentum\": 0.5, \"nesterov\": true, \"clipvalue\": 2.0, "           \
    "\"weight_decay\": 0.25, \"gradient_accumulation_steps\": 4, \"use_ema\": true, \"ema_momentum\": "      \
    "0.75, "                                                                                                 \
    "\"ema_overwrite_frequency\": 6"
#define SGD OBJECT("SGD", RULE)
#define ENTROPY                                                                                              \
    "\"from_logits\": true, \"label_smoothing\": 0.1, \"axis\": -1, "                                        \
    "\"reduction\": \"sum_over_batch_size\", \"name\": \"c\""
#define CROSSENTROPY OBJECT("CategoricalCrossentropy", ENTROPY)
#define TOP_K OBJECT("TopKCategoricalAccuracy", "\"k\": 3, \"dtype\": \"float32\"")
    built(COMPILED("\"optimizer\": " SGD ", \"loss\": " CROSSENTROPY
                   ", \"loss_weights\": [0.5], \"metrics\": [\"acc\", " TOP_K "]"));
    const iso_optimizer *o = &compiled.optimizer;
    ck_assert_str_eq(o->rule, "sgd");
    ck_assert_int_eq(o->schedule.kind, ISO_SCHEDULE_PIECEWISE);
    ck_assert_int_eq(o->schedule.boundaries[1], 5);
    ck_assert(o->schedule.value[2] == 0.3 && o->hyper[0] == 0.5 && o->hyper[1] == 1);
    ck_assert(o->clip_value == 2 && o->weight_decay == 0.25 && o->accumulation == 4);
    ck_assert(o->use_ema && o->ema_momentum == 0.75 && o->ema_overwrite_frequency == 6);
    ck_assert_int_eq(compiled.loss, ISO_LOSS_CROSSENTROPY_LOGITS);
    ck_assert(compiled.label_smoothing == 0.1 && compiled.loss_weight == 0.5);
    ck_assert_int_eq(compiled.metrics[0], ISO_METRIC_ACCURACY);
    ck_assert_int_eq(compiled.metrics[1], ISO_METRIC_TOP_K);
    ck_assert_int_eq(compiled.metric_settings[1].top_k, 3);
    done();
}
END_TEST

#define LOSS                                                                                                 \
    "\"loss\": {\"module\": \"builtins\", \"class_name\": \"function\", \"config\": "                        \
    "\"mean_squared_error\", "                                                                               \
    "\"registered_name\": \"function\"}"
#define AT_ZERO OBJECT("BinaryAccuracy", "\"name\": \"at_zero\", \"threshold\": 0.0")
#define EQUALS OBJECT("Accuracy", "")
#define TOP_TWO OBJECT("TopKCategoricalAccuracy", "\"k\": 2")
#define METRICS "\"acc\", " AT_ZERO ", " EQUALS ", \"binary_accuracy\", \"MSE\", " TOP_TWO

/* Metrics keep the names and numbers that the file gives them; Keras's own functions lie among "builtins". */
START_TEST(metrics)
{
    built(COMPILED(LOSS ", \"metrics\": [" METRICS "]"));
    ck_assert_int_eq(compiled.loss, ISO_LOSS_MSE);
    ck_assert_int_eq(compiled.metrics[0], ISO_METRIC_ACCURACY);
    ck_assert_str_eq(compiled.metric_names[0], "acc");
    ck_assert_int_eq(compiled.metrics[1], ISO_METRIC_BINARY_ACCURACY);
    ck_assert_str_eq(compiled.metric_names[1], "at_zero");
    ck_assert(compiled.metric_settings[1].threshold == ISO_ZERO);
    /* the class Accuracy is another metric */
    ck_assert_int_eq(compiled.metrics[2], ISO_METRIC_BINARY_ACCURACY);
    ck_assert(iso_option_number(compiled.metric_settings[2].threshold, 0.5) == 0.5);
    ck_assert_int_eq(compiled.metrics[3], ISO_METRIC_MSE);
    ck_assert_str_eq(compiled.metric_names[3], "MSE");
    ck_assert_int_eq(compiled.metrics[4], ISO_METRIC_TOP_K);
    ck_assert_ptr_null(compiled.metric_names[4]);
    ck_assert_int_eq(compiled.metric_settings[4].top_k, 2);
    ck_assert_int_eq(compiled.metrics[5], ISO_METRIC_NONE);
    done();
}
END_TEST

/* A list of one threshold is a number; several would give several results. */
START_TEST(thresholds)
{
    built(COMPILED(LOSS ", \"metrics\": [" OBJECT("Precision", "\"thresholds\": [0.2, 0.4]") ", " OBJECT(
        "Precision",
        "\"thresholds\": [0.25], \"top_k\": null, \"class_id\": null") ", " OBJECT("Recall", "\"thresholds\":"
                                                                                             " 0.25") "]"));
    ck_assert_int_eq(compiled.metrics[0], ISO_METRIC_PRECISION);
    ck_assert_int_eq(compiled.metrics[1], ISO_METRIC_RECALL);
    ck_assert_int_eq(compiled.metrics[2], ISO_METRIC_NONE);
    ck_assert(compiled.metric_settings[0].threshold == 0.25 && compiled.metric_settings[1].threshold == 0.25);
    done();
}
END_TEST

/* What parsing a text prints on stderr. */
static void warnings_of(const char *text, char *said, size_t size)
{
    char path[] = "/tmp/isogrid-warnings-XXXXXX";
    int file = mkstemp(path), err = dup(STDERR_FILENO);
    ck_assert_int_ge(file, 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    built(text);
    fflush(stderr);
    dup2(err, STDERR_FILENO);
    ssize_t length = pread(file, said, size - 1, 0);
    said[length < 0 ? 0 : length] = 0;
    close(file);
    close(err);
    unlink(path);
    done();
}

/* The file and the place in it are said once. */
START_TEST(warnings_name_their_place_once)
{
    static const char begin[] = "isogrid: warning: net.keras: config.json: compile_config: ";
    char said[2000];
    warnings_of(COMPILED("\"loss\": " OBJECT("MeanSquaredError", "\"reduction\": \"sum\"")), said,
                sizeof said);
    ck_assert_msg(strncmp(said, begin, sizeof begin - 1) == 0, "%s", said);
    ck_assert_msg(!strstr(said + sizeof begin - 1, "net.keras") &&
                      !strstr(said + sizeof begin - 1, "compile_config"),
                  "%s", said);
    ck_assert_msg(strstr(said, "left out: reduction is \"sum\""), "%s", said);
}
END_TEST

#define AT_04 OBJECT("Precision", "\"thresholds\": 0.4, \"class_id\": 0")
#define OF_3 OBJECT("Recall", "\"top_k\": 3")
#define RECALL_AT_ZERO OBJECT("Recall", "\"thresholds\": 0")

/* Each metric of an output has its own settings, also among those with weights. */
START_TEST(thresholds_that_differ)
{
    built(COMPILED(LOSS ", \"metrics\": [\"binary_accuracy\", " AT_04 ", " OF_3
                        "], \"weighted_metrics\": [" RECALL_AT_ZERO "]"));
    const iso_metric_settings *s = compiled.metric_settings;
    ck_assert(s[0].threshold == 0.5 || s[0].threshold == 0);
    ck_assert(s[1].threshold == 0.4 && s[1].class_id == ISO_ZERO && s[1].top_k == 0);
    ck_assert(s[2].threshold == 0 && s[2].class_id == 0 && s[2].top_k == 3);
    ck_assert(compiled.weighted_metric_settings[0].threshold == ISO_ZERO);
    done();
}
END_TEST

/* What is left out says its setting, the value, and what is supported. */
START_TEST(settings_of_metrics_that_are_refused)
{
    static const char *const cases[][2] = {
        {OBJECT("Precision", "\"thresholds\": [0.2, 0.4]"),
         "thresholds is [0.2, 0.4]; supported: one number"},
        {OBJECT("Recall", "\"top_k\": 1.5"), "top_k is 1.5; supported: a whole number, or null"},
        {OBJECT("AUC", "\"curve\": \"XY\""), "curve is \"XY\"; supported: 'ROC', 'PR', 'PRGAIN'"},
        {OBJECT("AUC", "\"thresholds\": [0.2, 0.4]"), "thresholds is [0.2, 0.4]"},
        {OBJECT("AUC", "\"label_weights\": [1, 2]"), "label_weights is [1, 2]"},
        {OBJECT("F1Score", "\"average\": null"), "average is null; supported: 'macro', 'micro', 'weighted'"},
        {"\"f1_score\"", "average is missing; supported: 'macro', 'micro', 'weighted'"},
        {OBJECT("R2Score", "\"class_aggregation\": null"),
         "class_aggregation is null; supported: 'uniform_av"},
        {OBJECT("IoU", "\"num_classes\": 3, \"target_class_ids\": [1, 1]"),
         "target_class_ids is [1, 1]; supp"},
        {OBJECT("IoU", "\"num_classes\": 99, \"target_class_ids\": [60]"), "target_class_ids is [60]; supp"},
        {OBJECT("MeanIoU", "\"num_classes\": 3, \"dtype\": \"float32\""),
         "dtype is \"float32\"; supported: 'int'"},
        {OBJECT("MeanIoU", "\"num_classes\": 3, \"axis\": 1"), "axis is 1; supported: -1"},
    };
    char said[2000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iso_text text = {0};
        iso_text_add(&text, COMPILED("\"loss\": \"binary_crossentropy\", \"metrics\": [%s]"), cases[i][0]);
        warnings_of(text.data, said, sizeof said);
        ck_assert_msg(strstr(said, cases[i][1]), "%s: %s", cases[i][0], said);
        iso_text_free(&text);
    }
}
END_TEST

#define COSINE(more) OBJECT("CosineDecay", "\"initial_learning_rate\": 0.1, " more)
#define WITH_RATE(schedule) COMPILED("\"optimizer\": " OBJECT("SGD", "\"learning_rate\": " schedule))

/* Numbers of steps that are no whole numbers give other learning rates than Keras's if they are rounded; a warm-up
 * to 0 is none here. */
START_TEST(schedules_that_do_not_fit)
{
    static const char *const cases[][2] = {
        {WITH_RATE(COSINE("\"decay_steps\": 3.5")), "decay_steps is 3.5; supported: a whole number of steps"},
        {WITH_RATE(COSINE("\"decay_steps\": 9, \"warmup_target\": 1, \"warmup_steps\": 0.9")),
         "warmup_steps is 0.9"},
        {WITH_RATE(COSINE("\"decay_steps\": 9, \"warmup_target\": 0.0, \"warmup_steps\": 2")),
         "warmup_target is 0; supported: null or"},
        {WITH_RATE(OBJECT("ExponentialDecay", "\"initial_learning_rate\": 0.1, \"decay_rate\": 0.5, "
                                              "\"decay_steps\": 2.25")),
         "decay_steps is 2.25"},
    };
    char said[2000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        warnings_of(cases[i][0], said, sizeof said);
        ck_assert_msg(strstr(said, "the optimizer is left out: ") && strstr(said, cases[i][1]), "%s", said);
    }
    built(WITH_RATE(COSINE("\"decay_steps\": 9.0, \"warmup_target\": null, \"warmup_steps\": 2")));
    ck_assert_int_eq(compiled.optimizer.schedule.decay_steps, 9);
    done();
    built(WITH_RATE(OBJECT("PiecewiseConstantDecay", "\"boundaries\": [2.5], \"values\": [1, 0.5]")));
    ck_assert_int_eq(compiled.optimizer.schedule.boundaries[0], 2); /* up to step 2, as in Keras */
    done();
}
END_TEST

/* What is not supported is left out (the chief warns), and compiling says so unless it is replaced. */
START_TEST(settings_that_are_left_out)
{
    static const char *const optimizers[] = {
        OBJECT("ScheduleFreeAdamW", "\"learning_rate\": 0.1"),
        OBJECT("Muon", "\"exclude_layers\": [\"output\"]"),
        OBJECT("Muon", "\"rms_rate\": 0.0"),
        OBJECT("Adam", "\"novelty\": 3"),
        OBJECT("Adam", "\"learning_rate\": -1"),
        OBJECT("Adam", "\"learning_rate\": " OBJECT("MyDecay", "\"decay_steps\": 4")),
        "{\"module\": \"my\", \"class_name\": \"Adam\", \"config\": {}, \"registered_name\": \"my>Adam\"}",
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        iso_text text = {0};
        iso_text_add(&text, COMPILED("\"optimizer\": %s, \"loss\": \"mse\""), optimizers[i]);
        built(text.data);
        ck_assert_int_eq(compiled.loss, ISO_LOSS_MSE);
        check_refused(
            iso_compile_with(model, &compiled, sizeof compiled),
            i == 0   ? "'ScheduleFreeAdamW of the model's file'"
            : i == 1 ? "'Muon of the model's file (exclude_layers is [\"output\"]; supported: an empty list"
            : i == 2 ? "'Muon of the model's file (rms_rate is 0; supported: null or a number that is not 0"
                     : "'Adam of the model's file (");
        iso_text_free(&text);
        done();
    }
    built(COMPILED(
        "\"optimizer\": \"adam\", \"loss\": \"my_loss\", \"metrics\": [\"mse\", \"my_metric\", \"mae\"]"));
    ck_assert_str_eq(compiled.optimizer.rule, "adam");
    ck_assert_int_eq(compiled.loss, ISO_LOSS_NONE);
    ck_assert_int_eq(compiled.metrics[0], ISO_METRIC_MSE);
    ck_assert_int_eq(compiled.metrics[1], ISO_METRIC_MAE);
    check_refused(iso_compile_with(model, &compiled, sizeof compiled), "compile needs a loss");
    done();
    built(COMPILED("\"loss\": " OBJECT("MeanSquaredError", "\"reduction\": \"sum\"")));
    ck_assert_int_eq(compiled.loss, ISO_LOSS_NONE);
    done();
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed =
        RUN_TESTS("config.json", 0, arguments, constraints, usual_values, sides_of_images, shapes_of_inputs,
                  calls_in_any_order, trainable_of_wrappers, trainable_of_the_whole_model, networks,
                  functions, a_bomb_of_models, a_bomb_of_values, settings, metrics, thresholds,
                  thresholds_that_differ, settings_of_metrics_that_are_refused, settings_that_are_left_out,
                  warnings_name_their_place_once, schedules_that_do_not_fit);
    return iso_finish(ctx, ISO_OK) || failed;
}
