/* A network that judges whether two images are of one kind: both go through the same tower, whose first layer
 * is not trained. */
#include <isogrid.h>

/* x: [batch, 28, 28, 1] -> [batch, 16] */
static iso_tensor *tower(iso_graph *g, iso_tensor *x)
{
    iso_name_scope_begin(g, "tower");
    iso_freeze_begin(g);
    x = iso_conv2d(x, 8, 5, .strides = 2, .activation = ISO_RELU); /* its weights are not trained */
    iso_freeze_end(g);
    x = iso_dense(iso_flatten(x), 16, .activation = ISO_TANH);
    return iso_name_scope_end(g, x);
}

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *left = iso_input(g, "left", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_tensor *right = iso_input(g, "right", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_tensor *a = tower(g, left);
    iso_share_begin(g); /* from here on, the variables made before are used again */
    iso_tensor *b = tower(g, right);
    iso_share_end(g);
    iso_tensor *far = iso_square(iso_subtract(a, b)); /* [batch, 16] */
    return iso_model_create_several(g, (iso_tensor *[]){left, right}, 2,
                                    (iso_tensor *[]){iso_dense(far, 1, .activation = ISO_SIGMOID)}, 1);
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_dataset_random(ctx, 200, &data, .inputs = 2,
                               .input = {{ISO_SHAPE(28, 28, 1)}, {ISO_SHAPE(28, 28, 1)}}, .outputs = 1,
                               .output = {{ISO_SHAPE(1)}}));
    ISO_TRY(iso_dataset_batch(data, 32));
    model = build(ctx);
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_BINARY_CROSSENTROPY));
    ISO_TRY(iso_fit(model, data, .epochs = 2));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
