/* The built-in models: networks of guides of Keras and TensorFlow, GPT-2, LLaMA and encoders. A new one is
 * a function and a row of the table. */
#include <string.h>

#include "models/bert_impl.h"
#include "models/gpt_impl.h"
#include "models/llama_impl.h"
#include "models/models.h"
#include "models/vit_impl.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"

/* The multi-worker guide of Keras. */
static iso_tensor *mlp(iso_tensor *x, int outputs, const void *settings)
{
    (void)settings;
    x = iso_flatten(iso_rescaling(x, 1.0 / 255)); /* [batch, 784] */
    x = iso_dense(x, 256, .activation = ISO_RELU);
    x = iso_dense(x, 256, .activation = ISO_RELU);
    return iso_dense(x, outputs); /* logits: [batch, outputs] */
}

/* The guide "Multi-GPU distributed training with JAX". */
static iso_tensor *convnet(iso_tensor *x, int outputs, const void *settings)
{
    (void)settings;
    x = iso_rescaling(x, 1.0 / 255);
    x = iso_conv2d(x, 12, 3, .padding = ISO_SAME, .no_bias = true);
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_conv2d(x, 24, 6, .strides = 2, .no_bias = true);
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_conv2d(x, 32, 6, .padding = ISO_SAME, .strides = 2, .name = "large_k");
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_global_average_pooling2d(x); /* [batch, 32] */
    x = iso_dense(x, 256, .activation = ISO_RELU);
    x = iso_dropout(x, 0.5);
    return iso_dense(x, outputs); /* logits: [batch, outputs] */
}

/* The guide "Distributed training with Keras 3". */
static iso_tensor *dense(iso_tensor *x, int outputs, const void *settings)
{
    (void)settings;
    x = iso_flatten(x); /* [batch, 784] */
    x = iso_dense(x, 200, .no_bias = true, .activation = ISO_RELU, .name = "d1");
    x = iso_dropout(x, 0.4);
    return iso_dense(x, outputs, .activation = ISO_SOFTMAX, .name = "d2"); /* [batch, outputs] */
}

/* The tutorial "Using DTensors with Keras". */
static iso_tensor *dtensor(iso_tensor *x, int outputs, const void *settings)
{
    (void)settings;
    x = iso_flatten(iso_rescaling(x, 1.0 / 255)); /* [batch, 784] */
    x = iso_dense(x, 128, .activation = ISO_RELU, .name = "d1");
    return iso_dense(x, outputs, .name = "d2"); /* logits: [batch, outputs] */
}

/* GPT-2, by default on bytes. */
static iso_tensor *gpt(iso_tensor *x, int outputs, const void *settings)
{
    iso_gpt_options options = settings ? *(const iso_gpt_options *)settings : (iso_gpt_options){0};
    options.x = x;
    options.vocabulary = outputs;
    return iso_gpt_with(&options, sizeof options); /* logits: [batch, t, outputs] */
}

/* LLaMA, by default on bytes. */
static iso_tensor *llama(iso_tensor *x, int outputs, const void *settings)
{
    iso_llama_options options = settings ? *(const iso_llama_options *)settings : (iso_llama_options){0};
    options.x = x;
    options.vocabulary = outputs;
    return iso_llama_with(&options, sizeof options); /* logits: [batch, t, outputs] */
}

/* BERT and its like, on tokens. With a masked head `outputs` is the vocabulary. */
static iso_tensor *bert(iso_tensor *x, int outputs, const void *settings)
{
    iso_bert_options options = settings ? *(const iso_bert_options *)settings : (iso_bert_options){0};
    options.x = x;
    options.classes = outputs;
    return iso_bert_with(&options, sizeof options); /* logits: [batch, outputs] or [batch, t, outputs] */
}

/* ViT, on images. */
static iso_tensor *vit(iso_tensor *x, int outputs, const void *settings)
{
    iso_vit_options options = settings ? *(const iso_vit_options *)settings : (iso_vit_options){0};
    options.x = x;
    options.classes = outputs;
    return iso_vit_with(&options, sizeof options); /* logits: [batch, outputs] */
}

/* The optimizer of nanoGPT: AdamW with weight decay on matrices alone, embeddings too, and gradients clipped by their
 * norm. */
static iso_optimizer gpt_adamw(void)
{
    return iso_adamw(6e-4, .beta_2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1,
                     .no_decay = "bias,gamma,beta", .global_clip_norm = 1);
}

/* That of LLaMA's paper, with weight decay on matrices alone. */
static iso_optimizer llama_adamw(void)
{
    return iso_adamw(3e-4, .beta_2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .no_decay = "scale,bias",
                     .global_clip_norm = 1);
}

/* For a pretrained encoder: that of BERT's paper, with the learning rate of transformers' Trainer. */
static iso_optimizer encoder_adamw(void)
{
    return iso_adamw(5e-5, .epsilon = 1e-8, .weight_decay = 0.01, .no_decay = "bias,gamma,beta",
                     .global_clip_norm = 1);
}

static iso_optimizer adam(void)
{
    return iso_adam(1e-3);
}

static iso_optimizer fast_adam(void)
{
    return iso_adam(0.01);
}

static iso_optimizer rmsprop(void)
{
    return iso_rmsprop();
}

#define IMAGES(side, channels)                                                                               \
    {                                                                                                        \
        3,                                                                                                   \
        {                                                                                                    \
            side, side, channels                                                                             \
        }                                                                                                    \
    }
static const iso_builtin_model models[] = {
    {.name = "mlp",
     .description = "784-256-256-10 perceptron of the multi-worker guide; Adam",
     .build = mlp,
     .image = IMAGES(28, 1),
     .optimizer = adam,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 32,
     .outputs = 10},
    {.name = "convnet",
     .description = "three convolutions with batch normalisation, of the multi-GPU guide; Adam",
     .build = convnet,
     .image = IMAGES(28, 1),
     .optimizer = adam,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 64,
     .outputs = 10},
    {.name = "dense",
     .description =
         "784-200-10 with dropout and softmax of the distribution guide, for 10 numbers a row; RMSprop, mse",
     .build = dense,
     .image = IMAGES(28, 1),
     .optimizer = rmsprop,
     .loss = ISO_LOSS_MSE,
     .metrics = {ISO_METRIC_NONE},
     .batch = 16,
     .outputs = 10},
    {.name = "dtensor",
     .description = "784-128-10 perceptron of the DTensor tutorial; Adam 0.01",
     .build = dtensor,
     .image = IMAGES(28, 1),
     .optimizer = fast_adam,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 250,
     .outputs = 10},
    {.name = "gpt",
     .description = "GPT-2, on bytes or tokens: "
                    "gpt:layers=12,heads=12,width=768,context=1024,hidden=3072,epsilon=1e-5,dropout=0,"
                    "gelu_tanh=0,rotary=0,wavelength=10000,parallel=0,untied=0,kv_heads=12,window=0,"
                    "recompute=0; AdamW",
     .build = gpt,
     .tokens = true,
     .settings = iso_gpt_settings,
     .optimizer = gpt_adamw,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 12,
     .outputs = 256},
    {.name = "llama",
     .description = "LLaMA, on bytes or tokens: llama:layers=12,heads=12,kv_heads=4,width=768,hidden=2048,"
                    "context=1024,wavelength=10000,epsilon=1e-5,tied=0,rope_factor=0,rope_low=1,rope_high=4,"
                    "rope_context=8192,window=0,full_layers=0,head_dim=64,qkv_bias=0,output_bias=0,qk_norm=0,"
                    "rope_yarn=0,rope_attention=0,"
                    "rope_linear=1,experts=0,experts_per_token=2,raw_shares=0,balance=0,zero_centered=0,"
                    "gelu_tanh=0,embedding_scale=1,attention_scale=0.125,post_norm=0,no_pre_norm=0,"
                    "full_every=0,local_wavelength=0,attention_cap=0,logit_cap=0,qk_norm_whole=0,residual_"
                    "scale=1,logit_divisor=1,shared_hidden=0,nope_every=0,recompute=0; AdamW",
     .build = llama,
     .tokens = true,
     .settings = iso_llama_settings,
     .optimizer = llama_adamw,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 12,
     .outputs = 256},
    {.name = "bert",
     .description =
         "BERT, RoBERTa or DistilBERT, classifies rows of tokens or tokens: "
         "bert:vocabulary=30522,layers=12,heads=12,"
         "width=768,hidden=3072,context=512,token_types=2,pad=0,separator=0,epsilon=1e-12,dropout=0,"
         "attention_dropout=0,classifier_dropout=0,kind=bert,head=sequence_classification,gelu_tanh=0,"
         "recompute=0; AdamW",
     .build = bert,
     .tokens = true,
     .labels = true,
     .settings = iso_bert_settings,
     .optimizer = encoder_adamw,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 32,
     .outputs = 2},
    {.name = "vit",
     .description =
         "ViT, classifies images: vit:layers=12,heads=12,width=768,hidden=3072,patch=16,image=0,"
         "channels=0,scale=0.00784,offset=-1,epsilon=1e-12,dropout=0,attention_dropout=0,gelu_tanh=0,"
         "recompute=0; AdamW",
     .build = vit,
     .image = IMAGES(224, 3),
     .settings = iso_vit_settings,
     .optimizer = encoder_adamw,
     .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
     .metrics = {ISO_METRIC_ACCURACY},
     .batch = 32,
     .outputs = 10},
};

int iso_builtin_model_count(void)
{
    return (int)(sizeof models / sizeof models[0]);
}

const iso_builtin_model *iso_builtin_model_at(int index)
{
    return index >= 0 && index < iso_builtin_model_count() ? &models[index] : NULL;
}

iso_status iso_builtin_model_find(const char *name, const iso_builtin_model **model)
{
    ISO_NEED(name, model);
    enum { COUNT = sizeof models / sizeof models[0] };
    const char *names[COUNT];
    for (int i = 0; i < COUNT; i++) {
        names[i] = models[i].name;
        if (strcmp(models[i].name, name) == 0) {
            *model = &models[i];
            return ISO_OK;
        }
    }
    iso_text text = {0};
    iso_text_add_nearest(&text, name, names, COUNT);
    iso_status status = iso_error(ISO_INVALID, "unknown model '%s'%s", name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

int iso_builtin_model_objective(const iso_builtin_model *model, const iso_builtin_settings *settings,
                                iso_compile_options *options)
{
    enum { IGNORED = -100 }; /* in labels of transformers */
    if (ISO_ANY_NULL(model, options))
        return 0;
    const iso_bert_options *o = settings && strcmp(model->name, "bert") == 0 ? &settings->bert : NULL;
    options->loss = model->loss;
    memcpy(options->metrics, model->metrics, sizeof options->metrics);
    if (!o || o->head == ISO_BERT_SEQUENCE_CLASSIFICATION)
        return 0;
    options->ignore_class = IGNORED;
    options->metrics[0] = ISO_METRIC_SPARSE_ACCURACY;
    options->metric_settings[0].ignore_class = IGNORED;
    return o->head == ISO_BERT_MASKED_LM
               ? (int)iso_setting_option(iso_setting_of(iso_bert_settings, "vocabulary"), o)
               : 0;
}

iso_model *iso_builtin_model_create(iso_context *ctx, const iso_builtin_model *model, iso_shape shape,
                                    int outputs, iso_dtype precision, const iso_builtin_settings *settings)
{
    return iso_builtin_model_create_adapted(ctx, model, shape, outputs, precision, settings, NULL);
}

iso_model *iso_builtin_model_create_adapted(iso_context *ctx, const iso_builtin_model *model, iso_shape shape,
                                            int outputs, iso_dtype precision,
                                            const iso_builtin_settings *settings,
                                            const iso_lora_options *lora)
{
    ISO_DEFAULT_MODES();
    char text[160];
    iso_graph *graph = iso_graph_create(ctx);
    if (ISO_NULL_IN(graph, model))
        return iso_model_create(graph, iso_graph_bad_tensor(graph), iso_graph_bad_tensor(graph));
    iso_graph_set_precision(graph, precision);
    if (model->tokens && shape.rank != 1)
        iso_graph_fail(graph, "the model %s takes rows of tokens, [t]; the data's rows are %s", model->name,
                       iso_shape_text(&shape, text, sizeof text));
    iso_tensor *x = model->tokens ? iso_input(graph, "tokens", ISO_I32, shape)
                                  : iso_input(graph, "image", ISO_F32, shape);
    if (lora)
        iso_lora_begin_with(graph, lora, sizeof *lora);
    iso_tensor *y = model->build(x, outputs, settings);
    if (lora)
        iso_lora_end(graph);
    return iso_model_create(graph, x, y);
}
