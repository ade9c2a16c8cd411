#include "models/vit_impl.h"

#include "models/models.h"
#include "models/transformer_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"
#include "runtime/graph/origin.h"

const iso_setting iso_vit_settings[] = {ISO_SETTING(iso_vit_options, COUNT, layers, 12),
                                        ISO_SETTING(iso_vit_options, COUNT, heads, 12),
                                        ISO_SETTING(iso_vit_options, COUNT, width, 768),
                                        ISO_SETTING(iso_vit_options, COUNT, hidden, 0),
                                        ISO_SETTING(iso_vit_options, COUNT, patch, 16),
                                        ISO_SETTING(iso_vit_options, COUNT, image, 0),
                                        ISO_SETTING(iso_vit_options, COUNT, channels, 0),
                                        ISO_SETTING(iso_vit_options, REAL, scale, 1 / 127.5),
                                        ISO_SETTING(iso_vit_options, REAL, offset, -1),
                                        ISO_SETTING(iso_vit_options, REAL, epsilon, 1e-12),
                                        ISO_SETTING(iso_vit_options, REAL, dropout, 0),
                                        ISO_SETTING(iso_vit_options, REAL, attention_dropout, 0),
                                        ISO_SETTING(iso_vit_options, FLAG, gelu_tanh, 0),
                                        ISO_SETTING(iso_vit_options, FLAG, recompute, 0),
                                        {0}};

static iso_tensor *vit_norm(const iso_vit_options *o, iso_tensor *x, const char *name)
{
    return iso_transformer_layer_norm(x, o->epsilon, name);
}

/* ---- embeddings ---- */

/* x: [batch, h, w, c] -> [batch, patches, c patch patch], patches row by row, channels first in each, as the kernels
 * of PyTorch's convolutions */
static iso_tensor *cut_patches(const iso_vit_options *o, iso_tensor *x)
{
    const iso_shape *s = iso_tensor_shape(x);
    const int64_t p = o->patch, rows = s->dim[1] / p, columns = s->dim[2] / p, c = s->dim[3];
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, rows, p, columns, p, c));
    x = iso_transpose(x, (const int[]){0, 1, 3, 5, 2, 4});
    return iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, rows * columns, c * p * p));
}

/* The class token of each row: [batch, 1, width] */
static iso_tensor *class_tokens(const iso_vit_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    iso_tensor *first = iso_broadcast_to(iso_number(graph, ISO_I32, 0), ISO_SHAPE(ISO_BATCH, 1));
    return iso_embedding(first, 1, o->width, .embeddings_initializer = iso_transformer_normal(0.02),
                         .name = "class_token");
}

/* [batch, 1 + patches, width] */
static iso_tensor *vit_embed(const iso_vit_options *o)
{
    iso_tensor *x = iso_rescaling(o->x, o->scale, o->offset);
    iso_tensor *patches =
        iso_dense(cut_patches(o, x), o->width, .kernel_initializer = iso_transformer_normal(0.02),
                  .name = "patch_embedding");
    iso_tensor *parts[] = {class_tokens(o), patches};
    iso_tensor *h = iso_concat(parts, 2, 1);
    iso_tensor *positions =
        iso_position_embedding(h, iso_tensor_shape(patches)->dim[1] + 1,
                               .initializer = iso_transformer_normal(0.02), .name = "position_embedding");
    return iso_transformer_dropout(iso_add(h, positions), o->dropout);
}

/* ---- blocks ---- */

static iso_tensor *vit_attention(const iso_vit_options *o, iso_tensor *x)
{
    iso_tensor *h = vit_norm(o, x, "attention_norm");
    h = iso_multi_head_attention(h, h, o->heads, o->width / o->heads, .dropout = o->attention_dropout,
                                 .kernel_initializer = iso_transformer_normal(0.02), .name = "attention");
    return iso_add(x, iso_transformer_dropout(h, o->dropout));
}

static iso_tensor *vit_perceptron(const iso_vit_options *o, iso_tensor *x)
{
    iso_tensor *h = vit_norm(o, x, "norm");
    h = iso_dense(h, o->hidden, .activation = o->gelu_tanh ? ISO_GELU_TANH : ISO_GELU,
                  .kernel_initializer = iso_transformer_normal(0.02), .name = "up");
    h = iso_dense(h, o->width, .kernel_initializer = iso_transformer_normal(0.02), .name = "down");
    return iso_add(x, iso_transformer_dropout(h, o->dropout));
}

static iso_tensor *vit_block(const iso_vit_options *o, int64_t number, iso_tensor *x)
{
    iso_transformer_block_begin(iso_tensor_graph(x), number, o->recompute);
    iso_tensor *y = vit_perceptron(o, vit_attention(o, x));
    return iso_transformer_block_end(y, o->recompute);
}

/* ---- the network ---- */

static bool vit_numbers_fit(const iso_vit_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (!iso_transformer_count_fits(graph, "vit", "classes", o->classes, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "vit", "layers", o->layers, ISO_TRANSFORMER_MOST_LAYERS) ||
        !iso_transformer_count_fits(graph, "vit", "heads", o->heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "vit", "width", o->width, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "vit", "hidden", o->hidden, ISO_TRANSFORMER_MOST_HIDDEN) ||
        !iso_transformer_count_fits(graph, "vit", "patch", o->patch, ISO_BUILTIN_MOST) ||
        !iso_transformer_epsilon_fits(graph, "vit", o->epsilon))
        return false;
    if (o->width % o->heads != 0)
        iso_graph_fail(graph, "vit: width %lld is not a multiple of its %lld heads", (long long)o->width,
                       (long long)o->heads);
    return iso_graph_error(graph) == ISO_OK &&
           iso_transformer_rate_fits(graph, "vit", "dropout", o->dropout) &&
           iso_transformer_rate_fits(graph, "vit", "attention_dropout", o->attention_dropout);
}

static bool vit_images_fit(const iso_vit_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    const iso_shape *s = iso_tensor_shape(o->x);
    char text[160];
    iso_shape_text(s, text, sizeof text);
    if (s->rank != 4)
        iso_graph_fail(graph, "vit: its input is %s, it must be [batch, height, width, channels]", text);
    else if ((o->image && (s->dim[1] != o->image || s->dim[2] != o->image)) ||
             (o->channels && s->dim[3] != o->channels))
        iso_graph_fail(graph, "vit: its input is %s, and image is %lld, channels %lld (0: any)", text,
                       (long long)o->image, (long long)o->channels);
    else if (s->dim[1] % o->patch != 0 || s->dim[2] % o->patch != 0)
        iso_graph_fail(graph, "vit: its input is %s, and patch, %lld, does not divide height and width", text,
                       (long long)o->patch);
    return iso_graph_error(graph) == ISO_OK;
}

iso_tensor *iso_vit_with(const iso_vit_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_vit_options o = {0};
    iso_options_copy(&o, sizeof o, options, size);
    ISO_NEED_TENSORS(o.x);
    for (const iso_setting *s = iso_vit_settings; s->name; s++)
        iso_setting_set(s, &o, iso_setting_option(s, &o));
    o.hidden = o.hidden ? o.hidden : ISO_TRANSFORMER_WIDER * o.width;
    iso_graph *graph = iso_tensor_graph(o.x);
    if (!vit_numbers_fit(&o) || !vit_images_fit(&o))
        return iso_graph_bad_tensor(graph);
    const iso_shape *s = iso_tensor_shape(o.x);
    o.image = s->dim[1] == s->dim[2] ? s->dim[1] : 0;
    o.channels = s->dim[3];
    iso_tensor *h = vit_embed(&o);
    for (int64_t i = 0; i < o.layers; i++)
        h = vit_block(&o, i, h);
    h = iso_transformer_first_position(vit_norm(&o, h, "norm"));
    h = iso_dense(h, o.classes, .kernel_initializer = iso_transformer_normal(0.02), .name = "classifier");
    iso_graph_set_origin(o.x, h, "vit", &o, sizeof o);
    return h;
}
