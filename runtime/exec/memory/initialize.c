/* Initial values: Keras's initializers from counter-based random numbers, so that an element depends on seed,
 * path and global index alone. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/random.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/graph/initializers.h"

/* Fan in and fan out as Keras counts them: the receptive field times the last two dimensions. */
static void fans(const iso_shape *shape, double *in, double *out)
{
    double field = 1;
    if (shape->rank == 0) {
        *in = *out = 1;
        return;
    }
    if (shape->rank == 1) {
        *in = *out = (double)shape->dim[0];
        return;
    }
    for (int d = 0; d < shape->rank - 2; d++)
        field *= (double)shape->dim[d];
    *in = field * (double)shape->dim[shape->rank - 2];
    *out = field * (double)shape->dim[shape->rank - 1];
}

/* A standard normal number by Box and Muller (1958). */
static double initialize_normal(uint64_t key, uint64_t index, uint64_t stream)
{
    iso_philox draw = iso_philox_draw(key, index, stream);
    double u = iso_uniform_f64(draw.word[0], draw.word[1]), v = iso_uniform_f64(draw.word[2], draw.word[3]);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

double iso_normal(uint64_t key, uint64_t index)
{
    return initialize_normal(key, index, 1);
}

/* Drawn again, from the next stream, until it is within two standard deviations. */
static double truncated(uint64_t key, uint64_t index)
{
    for (uint64_t stream = 1;; stream++) {
        double x = initialize_normal(key, index, stream);
        if (fabs(x) < 2)
            return x;
    }
}

static double initialize_draw(const iso_draw *from, uint64_t key, uint64_t index)
{
    iso_philox words;
    switch (from->kind) {
    case ISO_DRAW_UNIFORM:
        words = iso_philox_draw(key, index, 0);
        return from->a + (from->b - from->a) * (1 - iso_uniform_f64(words.word[0], words.word[1]));
    case ISO_DRAW_NORMAL:
        return from->a + from->b * initialize_normal(key, index, 1);
    case ISO_DRAW_TRUNCATED:
        return from->a + from->b * truncated(key, index);
    default:
        return from->a;
    }
}

/* Fills a box from the matrix [all dimensions but the last, last]. */
static void from_matrix(const iso_variable *variable, const iso_box *box, const double *q, double scale,
                        void *data)
{
    int64_t count = iso_box_count(box);
    for (int64_t i = 0; i < count; i++)
        iso_element_set(data, variable->dtype, i, scale * q[iso_box_global_index(box, &variable->shape, i)]);
}

static iso_status orthogonal(const iso_variable *variable, double scale, uint64_t key, const iso_box *box,
                             void *data)
{
    double *q;
    int64_t rows = 1, columns = variable->shape.dim[variable->shape.rank - 1];
    for (int d = 0; d < variable->shape.rank - 1; d++)
        rows *= variable->shape.dim[d];
    iso_status status = iso_orthogonal(key, rows, columns, &q);
    if (status != ISO_OK)
        return status;
    from_matrix(variable, box, q, scale, data);
    free(q);
    return ISO_OK;
}

iso_status iso_initialize(const iso_variable *variable, uint64_t seed, const iso_box *box, void *data)
{
    const iso_initializer init = iso_initializer_filled(&variable->initializer);
    const iso_initializer_type *type = iso_initializer_type_of(init.kind);
    iso_draw from = {0};
    double in, out;
    uint64_t key = iso_random_key(seed, variable->path);
    int64_t count = iso_box_count(box);
    fans(&variable->shape, &in, &out);
    if (type->distribution)
        from = type->distribution(&init, in, out);
    if (from.kind == ISO_DRAW_ORTHOGONAL)
        return orthogonal(variable, from.a, key, box, data);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = iso_box_global_index(box, &variable->shape, i);
        iso_element_set(data, variable->dtype, i,
                        type->element ? type->element(&init, &variable->shape, at)
                                      : initialize_draw(&from, key, (uint64_t)at));
    }
    return ISO_OK;
}
