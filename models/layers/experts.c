/* Mixture of experts: a router that chooses experts for each row, and the experts. */
#include "models/layers/layer_impl.h"
#include "runtime/base/thread_modes.h"

typedef struct router {
    iso_tensor *probabilities;  /* [batch, ..., experts] */
    iso_tensor *choice, *share; /* [batch, ..., per_token] */
} router;

static bool experts_numbers_fit(const iso_layer *layer, const iso_mixture_of_experts_options *o)
{
    const iso_shape *shape = iso_tensor_shape(o->x);
    if (shape->rank < 2)
        iso_layer_fail(layer,
                       "its input has no dimension besides the batch; it must be [batch, ..., features]");
    else if (o->experts < 1 || o->hidden < 1)
        iso_layer_fail(layer, "experts is %lld, hidden %lld: both must be positive", (long long)o->experts,
                       (long long)o->hidden);
    else if (o->per_token < 1 || o->per_token > o->experts)
        iso_layer_fail(layer, "per_token is %lld; it must be from 1 to %lld, the number of experts",
                       (long long)o->per_token, (long long)o->experts);
    else if (!(o->balance >= 0) || o->balance > 1e6)
        iso_layer_fail(layer, "balance is %g; it must be from 0 to 1e6", o->balance);
    else
        return true;
    return false;
}

/* A kernel, whose initializer's fans are those of one expert. */
static iso_tensor *experts_kernel(const iso_layer *layer, const char *what, iso_initializer initializer,
                                  const char *layout, iso_shape shape)
{
    const iso_weight_form form = {
        .what = what, .initializer = initializer, .default_value = ISO_INIT_GLOROT_UNIFORM, .layout = layout};
    iso_tensor *kernel = iso_layer_weight(layer, &form, shape);
    iso_layer_set_fans(layer, what, (double)shape.dim[shape.rank - 2], (double)shape.dim[shape.rank - 1]);
    return kernel;
}

/* Probabilities are not computed in bfloat16. */
static router route(const iso_layer *layer, const iso_mixture_of_experts_options *o, int64_t features)
{
    router r = {0};
    iso_tensor *kernel = experts_kernel(layer, "router", o->router_initializer, o->router_layout,
                                        ISO_SHAPE(features, o->experts));
    iso_tensor *logits = iso_cast(iso_matmul(o->x, kernel), iso_graph_precision(layer->graph));
    r.probabilities = iso_softmax(logits, -1);
    r.share = iso_top_k(r.probabilities, (int)o->per_token, &r.choice);
    if (!o->no_norm)
        r.share = iso_divide(r.share, iso_reduce_sum(r.share, (const int[]){-1}, 1, true));
    r.share = iso_layer_cast(layer, r.share);
    return r;
}

/* The mean over all dimensions but the last. */
static iso_tensor *mean_of_rows(iso_tensor *x)
{
    int axes[ISO_MAX_RANK], last = iso_tensor_shape(x)->rank - 1;
    for (int d = 0; d < last; d++)
        axes[d] = d;
    return iso_reduce_mean(x, axes, last, false);
}

static void measure_balance(const iso_layer *layer, const iso_mixture_of_experts_options *o, const router *r)
{
    if (!o->chosen && !o->probability && o->balance == 0)
        return;
    iso_tensor *choices = iso_one_hot(r->choice, o->experts, iso_graph_precision(layer->graph));
    iso_tensor *chosen = mean_of_rows(iso_reduce_sum(choices, (const int[]){-2}, 1, false));
    iso_tensor *probability = mean_of_rows(r->probabilities);
    if (o->chosen)
        *o->chosen = chosen;
    if (o->probability)
        *o->probability = probability;
    if (o->balance > 0)
        iso_graph_add_loss(layer->graph, iso_affine(iso_balance_loss(chosen, probability), o->balance, 0));
}

iso_tensor *iso_balance_loss(iso_tensor *chosen, iso_tensor *probability)
{
    ISO_NEED_TENSORS(chosen, probability);
    const iso_shape *shape = iso_tensor_shape(chosen);
    const double experts = shape->rank == 1 ? (double)shape->dim[0] : 1;
    return iso_affine(iso_sum(iso_multiply(chosen, probability)), experts, 0);
}

iso_tensor *iso_mixture_of_experts_with(const iso_mixture_of_experts_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_mixture_of_experts_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "MixtureOfExperts", "mixture_of_experts", options.name))
        return iso_layer_broken(options.x);
    if (!experts_numbers_fit(&layer, &options))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    const int64_t features = shape->dim[shape->rank - 1];
    const iso_shape up = ISO_SHAPE(options.experts, features, options.hidden),
                    down = ISO_SHAPE(options.experts, options.hidden, features);
    const router r = route(&layer, &options, features);
    iso_experts_form form = {.activation = options.activation};
    if (!options.no_gate)
        form.gate = experts_kernel(&layer, "gate", options.gate_initializer, options.gate_layout, up);
    form.up = experts_kernel(&layer, "up", options.up_initializer, options.up_layout, up);
    form.down = experts_kernel(&layer, "down", options.down_initializer, options.down_layout, down);
    measure_balance(&layer, &options, &r);
    return iso_layer_end(&layer, iso_experts_op(options.x, r.choice, r.share, &form));
}
