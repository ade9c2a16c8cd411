/* Initial values: Keras's initializers from counter-based random numbers, so that an element depends on seed,
 * path and global index alone. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/random.h"
#include "runtime/exec/runtime_impl.h"

/* Standard deviation of a standard normal cut at +-2 (Keras: keras/src/initializers/random_initializers.py).
 */
static const double cut_deviation = 0.87962566103423978;

typedef struct distribution {
    enum { CONSTANT, UNIFORM, NORMAL, TRUNCATED } kind;
    double a, b; /* constant a; low a, high b; mean a, deviation b */
} distribution;

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

static distribution scaled_uniform(double variance)
{
    double limit = sqrt(3 * variance);
    return (distribution){UNIFORM, -limit, limit};
}

static distribution scaled_normal(double variance)
{
    return (distribution){TRUNCATED, 0, sqrt(variance) / cut_deviation};
}

static double scale_of(const iso_initializer *init)
{
    return init->scale == 0 ? 1 : init->scale;
}

static distribution variance_scaling(const iso_initializer *init, double in, double out)
{
    double fan = init->mode == ISO_FAN_IN ? in : init->mode == ISO_FAN_OUT ? out : (in + out) / 2;
    double variance = scale_of(init) / (fan > 1 ? fan : 1);
    if (init->distribution == ISO_FAN_UNIFORM)
        return scaled_uniform(variance);
    if (init->distribution == ISO_FAN_NORMAL)
        return (distribution){NORMAL, 0, sqrt(variance)};
    return scaled_normal(variance);
}

static distribution distribution_of(const iso_initializer *init, const iso_shape *shape)
{
    double in, out;
    fans(shape, &in, &out);
    bool no_range = init->low == 0 && init->high == 0;
    double deviation = init->stddev == 0 ? 0.05 : init->stddev;
    switch (init->kind) {
    case ISO_INIT_ONES:
        return (distribution){CONSTANT, 1, 0};
    case ISO_INIT_CONSTANT:
        return (distribution){CONSTANT, init->value, 0};
    case ISO_INIT_DEFAULT:
    case ISO_INIT_GLOROT_UNIFORM:
        return scaled_uniform(2 / (in + out));
    case ISO_INIT_GLOROT_NORMAL:
        return scaled_normal(2 / (in + out));
    case ISO_INIT_HE_UNIFORM:
        return scaled_uniform(2 / in);
    case ISO_INIT_HE_NORMAL:
        return scaled_normal(2 / in);
    case ISO_INIT_LECUN_UNIFORM:
        return scaled_uniform(1 / in);
    case ISO_INIT_LECUN_NORMAL:
        return scaled_normal(1 / in);
    case ISO_INIT_RANDOM_UNIFORM:
        return (distribution){UNIFORM, no_range ? -0.05 : init->low, no_range ? 0.05 : init->high};
    case ISO_INIT_RANDOM_NORMAL:
        return (distribution){NORMAL, init->mean, deviation};
    case ISO_INIT_TRUNCATED_NORMAL:
        return (distribution){TRUNCATED, init->mean, deviation};
    case ISO_INIT_VARIANCE_SCALING:
        return variance_scaling(init, in, out);
    case ISO_INIT_ORTHOGONAL: /* made as a whole, below */
    case ISO_INIT_IDENTITY:
    case ISO_INIT_ZEROS:
        break;
    }
    return (distribution){CONSTANT, 0, 0};
}

/* A standard normal number by Box and Muller (1958). */
static double normal(uint64_t key, uint64_t index, uint64_t stream)
{
    iso_philox draw = iso_philox_draw(key, index, stream);
    double u = iso_uniform_f64(draw.word[0], draw.word[1]), v = iso_uniform_f64(draw.word[2], draw.word[3]);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

double iso_normal(uint64_t key, uint64_t index)
{
    return normal(key, index, 1);
}

/* Drawn again, from the next stream, while outside of two deviations. */
static double truncated(uint64_t key, uint64_t index)
{
    for (uint64_t stream = 1;; stream++) {
        double x = normal(key, index, stream);
        if (fabs(x) < 2)
            return x;
    }
}

static double draw(const distribution *from, uint64_t key, uint64_t index)
{
    iso_philox words;
    switch (from->kind) {
    case UNIFORM:
        words = iso_philox_draw(key, index, 0);
        return from->a + (from->b - from->a) * (1 - iso_uniform_f64(words.word[0], words.word[1]));
    case NORMAL:
        return from->a + from->b * normal(key, index, 1);
    case TRUNCATED:
        return from->a + from->b * truncated(key, index);
    default:
        return from->a;
    }
}

/* Where the elements of a box lie in the matrix [all dimensions but the last, last]. */
static void from_matrix(const iso_variable *variable, const iso_box *box, const double *q, double scale,
                        void *data)
{
    int64_t count = iso_box_count(box);
    for (int64_t i = 0; i < count; i++)
        iso_element_set(data, variable->dtype, i, scale * q[iso_box_global_index(box, &variable->shape, i)]);
}

static iso_status orthogonal(const iso_variable *variable, uint64_t key, const iso_box *box, void *data)
{
    double *q;
    int64_t rows = 1, columns = variable->shape.dim[variable->shape.rank - 1];
    for (int d = 0; d < variable->shape.rank - 1; d++)
        rows *= variable->shape.dim[d];
    iso_status status = iso_orthogonal(key, rows, columns, &q);
    if (status != ISO_OK)
        return status;
    from_matrix(variable, box, q, scale_of(&variable->initializer), data);
    free(q);
    return ISO_OK;
}

static void identity(const iso_variable *variable, const iso_box *box, void *data)
{
    double scale = scale_of(&variable->initializer);
    int64_t count = iso_box_count(box), columns = variable->shape.dim[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t at = iso_box_global_index(box, &variable->shape, i);
        iso_element_set(data, variable->dtype, i, at / columns == at % columns ? scale : 0);
    }
}

iso_status iso_initialize(const iso_variable *variable, uint64_t seed, const iso_box *box, void *data)
{
    distribution from = distribution_of(&variable->initializer, &variable->shape);
    uint64_t key = iso_random_key(seed, variable->path);
    int64_t count = iso_box_count(box);
    if (variable->initializer.kind == ISO_INIT_ORTHOGONAL)
        return orthogonal(variable, key, box, data);
    if (variable->initializer.kind == ISO_INIT_IDENTITY) {
        identity(variable, box, data);
        return ISO_OK;
    }
    for (int64_t i = 0; i < count; i++)
        iso_element_set(data, variable->dtype, i,
                        draw(&from, key, (uint64_t)iso_box_global_index(box, &variable->shape, i)));
    return ISO_OK;
}
