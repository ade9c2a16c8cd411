#include "runtime/graph/initializers.h"

#include <math.h>
#include <string.h>

#include "runtime/base/options.h"

/* Standard deviation of a standard normal truncated at +-2 (Keras:
 * keras/src/initializers/random_initializers.py). */
static const double cut_deviation = 0.87962566103423978;
static const double pi = 3.14159265358979323846;

static iso_draw uniform(double variance)
{
    double limit = sqrt(3 * variance);
    return (iso_draw){ISO_DRAW_UNIFORM, -limit, limit};
}

static iso_draw normal(double variance)
{
    return (iso_draw){ISO_DRAW_TRUNCATED, 0, sqrt(variance) / cut_deviation};
}

/* ---- what elements are drawn from ---- */
#define DRAW(name, ...)                                                                                      \
    static iso_draw name(const iso_initializer *init, double in, double out)                                 \
    {                                                                                                        \
        (void)init, (void)in, (void)out;                                                                     \
        return __VA_ARGS__;                                                                                  \
    }
DRAW(zeros, (iso_draw){ISO_DRAW_CONSTANT, 0, 0})
DRAW(ones, (iso_draw){ISO_DRAW_CONSTANT, 1, 0})
DRAW(constant, (iso_draw){ISO_DRAW_CONSTANT, init->value, 0})
DRAW(glorot_uniform, uniform(2 / (in + out))) /* Glorot and Bengio 2010 */
DRAW(glorot_normal, normal(2 / (in + out)))
DRAW(he_uniform, uniform(2 / in)) /* He, Zhang, Ren and Sun 2015, arXiv 1502.01852 */
DRAW(he_normal, normal(2 / in))
DRAW(lecun_uniform, uniform(1 / in))
DRAW(lecun_normal, normal(1 / in))
DRAW(random_uniform, (iso_draw){ISO_DRAW_UNIFORM, init->low, init->high})
DRAW(random_normal, (iso_draw){ISO_DRAW_NORMAL, init->mean, init->stddev})
DRAW(truncated_normal, (iso_draw){ISO_DRAW_TRUNCATED, init->mean, init->stddev})
DRAW(orthogonal, (iso_draw){ISO_DRAW_ORTHOGONAL, init->scale, 0})

static iso_draw variance_scaling(const iso_initializer *init, double in, double out)
{
    double fan = init->mode == ISO_FAN_IN ? in : init->mode == ISO_FAN_OUT ? out : (in + out) / 2;
    double variance = init->scale / (fan > 1 ? fan : 1);
    if (init->distribution == ISO_FAN_UNIFORM)
        return uniform(variance);
    if (init->distribution == ISO_FAN_NORMAL)
        return (iso_draw){ISO_DRAW_NORMAL, 0, sqrt(variance)};
    return normal(variance);
}

/* ---- what elements are ---- */
static double identity(const iso_initializer *init, const iso_shape *shape, int64_t index)
{
    return index / shape->dim[1] == index % shape->dim[1] ? init->scale : 0;
}

/* Element k of a window of n (scipy.signal.windows.hann, hamming). */
static double window_at(const iso_stft *stft, int64_t n, int64_t k)
{
    double mean = stft->window == ISO_STFT_HANN ? 0.5 : 0.54;
    if (stft->window == ISO_STFT_NO_WINDOW || n == 1)
        return 1;
    return mean - (1 - mean) * cos(2 * pi * (double)k / (double)(stft->periodic ? n : n - 1));
}

/* The divisor of the window: its L2 or L1 norm. From 4 elements on, sums of cosines over a period are 0. */
static double window_norm(const iso_stft *stft, int64_t n)
{
    double a = stft->window == ISO_STFT_HANN ? 0.5 : 0.54, b = 1 - a, sum = 0, squares = 0;
    double period = (double)(stft->periodic ? n : n - 1), end = stft->periodic ? 0 : a - b;
    if (stft->window == ISO_STFT_NO_WINDOW || stft->scaling == ISO_STFT_NO_SCALING)
        return 1;
    for (int64_t k = 0; n < 4 && k < n; k++) {
        sum += window_at(stft, n, k);
        squares += window_at(stft, n, k) * window_at(stft, n, k);
    }
    if (n >= 4) {
        sum = period * a + end;
        squares = period * (a * a + b * b / 2) + end * end;
    }
    return stft->scaling == ISO_STFT_SPECTRUM ? sum : sqrt(squares);
}

/* shape: [frame, 1, frequencies], half of the frequencies of an FFT
 * (keras/src/initializers/constant_initializers.py) */
static double stft(const iso_initializer *init, const iso_shape *shape, int64_t index)
{
    int64_t frequencies = shape->dim[2], time = index / (shape->dim[1] * frequencies),
            k = index % frequencies;
    double angle = frequencies > 1 ? -pi * (double)time * (double)k / (double)(frequencies - 1) : 0;
    double wave = init->stft.side == ISO_STFT_REAL ? cos(angle) : sin(angle);
    return wave * window_at(&init->stft, shape->dim[0], time) / window_norm(&init->stft, shape->dim[0]);
}

/* ---- rows ---- */
#define NUMBER(member, value, keras_name)                                                                    \
    {                                                                                                        \
#member, ISO_SETTING_REAL, offsetof(iso_initializer, member), value, .keras = keras_name             \
    }
#define CHOICE(member)                                                                                       \
    {                                                                                                        \
#member, ISO_SETTING_INT, offsetof(iso_initializer, member), .fallback = 0                           \
    }
static const iso_setting of_constant[] = {NUMBER(value, 0, NULL), {0}};
static const iso_setting of_uniform[] = {NUMBER(low, -0.05, "minval"), NUMBER(high, 0.05, "maxval"), {0}};
static const iso_setting of_normal[] = {NUMBER(mean, 0, NULL), NUMBER(stddev, 0.05, NULL), {0}};
static const iso_setting of_matrix[] = {NUMBER(scale, 1, "gain"), {0}};
static const iso_setting of_scaling[] = {NUMBER(scale, 1, NULL), CHOICE(mode), CHOICE(distribution), {0}};
static const iso_setting of_stft[] = {
    {"side", ISO_SETTING_INT, offsetof(iso_initializer, stft.side), .fallback = 0},
    {"window", ISO_SETTING_INT, offsetof(iso_initializer, stft.window), .fallback = 0},
    {"periodic", ISO_SETTING_FLAG, offsetof(iso_initializer, stft.periodic), .fallback = 0},
    {"scaling", ISO_SETTING_INT, offsetof(iso_initializer, stft.scaling), .fallback = 0},
    {0}};
static const char *const sides[] = {"real", "imag", NULL};
static const char *const windows[] = {"hann", "hamming", ISO_NO_CHOICE, NULL};
static const char *const scalings[] = {"density", "spectrum", ISO_NO_CHOICE, NULL};
static const char *const modes[] = {"fan_in", "fan_out", "fan_avg", NULL};
static const char *const distributions[] = {"truncated_normal", "untruncated_normal", "uniform", NULL};

#define ROW(text, class, settings, ...)                                                                      \
    (&(const iso_initializer_type){.row = {text, class, settings}, __VA_ARGS__}.row)
// clang-format off
const iso_descriptor *const iso_initializers[] = {
    [ISO_INIT_ZEROS - 1] = ROW("zeros", "Zeros", NULL, .distribution = zeros),
    [ISO_INIT_ONES - 1] = ROW("ones", "Ones", NULL, .distribution = ones),
    [ISO_INIT_CONSTANT - 1] = ROW("constant", "Constant", of_constant, .distribution = constant),
    [ISO_INIT_GLOROT_UNIFORM - 1] = ROW("glorot_uniform", "GlorotUniform", NULL, .seeded = true, .distribution = glorot_uniform),
    [ISO_INIT_GLOROT_NORMAL - 1] = ROW("glorot_normal", "GlorotNormal", NULL, .seeded = true, .distribution = glorot_normal),
    [ISO_INIT_HE_UNIFORM - 1] = ROW("he_uniform", "HeUniform", NULL, .seeded = true, .distribution = he_uniform),
    [ISO_INIT_HE_NORMAL - 1] = ROW("he_normal", "HeNormal", NULL, .seeded = true, .distribution = he_normal),
    [ISO_INIT_LECUN_UNIFORM - 1] = ROW("lecun_uniform", "LecunUniform", NULL, .seeded = true, .distribution = lecun_uniform),
    [ISO_INIT_LECUN_NORMAL - 1] = ROW("lecun_normal", "LecunNormal", NULL, .seeded = true, .distribution = lecun_normal),
    [ISO_INIT_RANDOM_UNIFORM - 1] = ROW("random_uniform", "RandomUniform", of_uniform, .other_name = "uniform", .seeded = true,
                                        .distribution = random_uniform),
    [ISO_INIT_RANDOM_NORMAL - 1] = ROW("random_normal", "RandomNormal", of_normal, .other_name = "normal", .seeded = true,
                                       .distribution = random_normal),
    [ISO_INIT_TRUNCATED_NORMAL - 1] = ROW("truncated_normal", "TruncatedNormal", of_normal, .seeded = true,
                                          .distribution = truncated_normal),
    [ISO_INIT_VARIANCE_SCALING - 1] = ROW("variance_scaling", "VarianceScaling", of_scaling, .choice = {NULL, modes, distributions},
                                          .seeded = true, .distribution = variance_scaling),
    [ISO_INIT_ORTHOGONAL - 1] = ROW("orthogonal", "Orthogonal", of_matrix, .least_rank = 2, .seeded = true,
                                    .distribution = orthogonal),
    [ISO_INIT_IDENTITY - 1] = ROW("identity", "Identity", of_matrix, .least_rank = 2, .most_rank = 2, .element = identity),
    [ISO_INIT_STFT - 1] = ROW("stft", "STFT", of_stft, .choice = {sides, windows, NULL, scalings}, .least_rank = 3, .most_rank = 3,
                              .element = stft),
    NULL,
};
// clang-format on

const iso_initializer_type *iso_initializer_type_of(iso_initializer_kind kind)
{
    size_t count = sizeof iso_initializers / sizeof iso_initializers[0] - 1;
    size_t index = (size_t)(kind == ISO_INIT_DEFAULT ? ISO_INIT_GLOROT_UNIFORM : kind) - 1;
    return index < count ? (const iso_initializer_type *)iso_initializers[index] : NULL;
}

bool iso_initializer_find(const char *name, iso_initializer_kind *kind)
{
    for (int i = 0; iso_initializers[i]; i++) {
        const char *other = ((const iso_initializer_type *)iso_initializers[i])->other_name;
        *kind = (iso_initializer_kind)(i + 1);
        if (strcmp(name, iso_initializers[i]->name) == 0 || strcmp(name, iso_initializers[i]->keras) == 0 ||
            (other && strcmp(name, other) == 0))
            return true;
    }
    return false;
}

iso_initializer iso_initializer_filled(const iso_initializer *init)
{
    iso_initializer full = *init;
    const iso_initializer_type *type = iso_initializer_type_of(init->kind);
    for (const iso_setting *s = type ? type->row.setting : NULL; s && s->name; s++)
        iso_setting_set(s, &full, iso_setting_option(s, init));
    if (init->low != 0 || init->high != 0) { /* Keras's range is a single default */
        full.low = iso_option_number(init->low, 0);
        full.high = iso_option_number(init->high, 0);
    }
    return full;
}
