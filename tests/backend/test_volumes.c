/* Convolutions that take the windows along the depth of volumes themselves, for each instruction set of this machine:
 * forward and both gradients, by Winograd and by some slices at a time, against the plain kernels; equal bits for
 * every part of the batch, and for the blocks that threads take; parts of volumes; the edges of the rule.
 * Ranks: 1, Sanitize: 1 */
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

typedef struct shape {
    int64_t n, d, h, w, c, f;
    int64_t taps, stride, dilation, pad, after; /* along the depth */
    int64_t side, image_stride, image_pad;      /* of the kernel in a slice */
    int64_t x_offset, y_offset;                 /* along the depth, of parts */
} shape;

typedef enum pass { FORWARD, OF_INPUT, OF_KERNEL, PASSES } pass;

static const char *const ops[PASSES] = {"conv2d", "conv2d_grad_input", "conv2d_grad_kernel"};
static const char *const slices = "some slices at a time", *const winograd = "Winograd F(2x2, 3x3) of slices";

static trial trial_of(const shape *s, pass which)
{
    trial t = {.op = ops[which]};
    const int64_t pad = s->image_pad;
    const int64_t positions = (s->d + s->pad + s->after - (s->taps - 1) * s->dilation - 1) / s->stride + 1;
    const int64_t x[] = {s->n, s->d, s->h, s->w, s->c}, kernel[] = {s->side, s->side, s->taps * s->c, s->f};
    const int64_t y[] = {s->n, positions, (s->h + 2 * pad - s->side) / s->image_stride + 1,
                         (s->w + 2 * pad - s->side) / s->image_stride + 1, s->f};
    t.attrs.conv.geometry = (iso_conv_geometry){.stride = {s->image_stride, s->image_stride},
                                                .dilation = {1, 1},
                                                .pad_before = {pad, pad},
                                                .pad_after = {pad, pad},
                                                .groups = 1};
    t.attrs.conv.depth = (iso_unfold_geometry){s->taps, s->stride, s->dilation, s->pad, s->after};
    input(&t, ISO_F32, -1, 1, which == OF_INPUT ? 4 : 5, which == OF_INPUT ? kernel : x);
    input(&t, ISO_F32, -1, 1, which == FORWARD ? 4 : 5, which == FORWARD ? kernel : y);
    output(&t, ISO_F32, which == OF_KERNEL ? 4 : 5, which == OF_INPUT ? x : which == OF_KERNEL ? kernel : y);
    (which == OF_INPUT ? &t.out[0] : &t.in[0])->offset[1] = s->x_offset;
    (which == FORWARD ? &t.out[0] : &t.in[1])->offset[1] = s->y_offset;
    t.by_rows = which == FORWARD ? 1 : which == OF_INPUT ? 2 : 0;
    return t;
}

/* The kernel of this name, and others for all other calls. */
static const char *wanted;
static const iso_kernel *find_wanted(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *const *kernels = iso_cpu_kernels();
    for (int i = 0; kernels[i]; i++)
        if (strcmp(kernels[i]->op, op) == 0 && strcmp(kernels[i]->name, wanted) == 0 &&
            kernels[i]->fits(call))
            return kernels[i];
    return iso_backend_cpu()->find(op, call);
}

static void check_by(const trial *t, const trial *moved, const result *want, const char *kernel)
{
    iso_backend backend = *iso_backend_cpu();
    backend.find = find_wanted;
    wanted = kernel;
    result got = run_trial(t, &backend, 0), again = run_trial(moved, &backend, 320);
    CHECK(strcmp(got.kernel, kernel) == 0, "%s was done by %s, not %s", describe(t), got.kernel, kernel);
    compare(t, want, &got);
    compare_bits(t, &got, &again);
    free_result(t, &got);
    free_result(t, &again);
}

/* How often threads divided the work of a kernel: [by Winograd]. */
static int divided[PASSES][2];

/* Returns the name of the kernel that the backend takes. */
static const char *check_pass(const shape *s, pass which)
{
    trial t = trial_of(s, which), moved = t;
    void *owner[MOST_ARRAYS], *moved_owner[MOST_ARRAYS];
    place_inputs(&t, 0, NULL, owner);
    place_inputs(&moved, 192, &t, moved_owner);
    result want = run_trial(&t, iso_backend_reference(), 0), got = run_trial(&t, iso_backend_cpu(), 0);
    const char *name = got.kernel;
    compare(&t, &want, &got);
    if (t.by_rows && s->n % 2 == 0)
        check_rows(&t, &got);
    divided[which][strcmp(name, winograd) == 0] += check_division(&t, &got);
    check_by(&t, &moved, &want, slices);
    if (strcmp(name, winograd) == 0)
        check_by(&t, &moved, &want, winograd);
    free_result(&t, &want);
    free_result(&t, &got);
    free_all(owner, t.inputs);
    free_all(moved_owner, t.inputs);
    return name;
}

/* Limits the instruction set; false: the processor does not have it. */
static bool choose_isa(int index, iso_isa most)
{
    iso_isa isa = (iso_isa)(ISO_ISA_AVX512 - index);
    if (isa > most) {
        char what[64];
        snprintf(what, sizeof what, "volumes for %s", iso_isa_name(isa));
        report_skipped(what, "this processor does not have these instructions");
        return false;
    }
    iso_cpu_limit_isa(isa);
    return true;
}

/* Whether Winograd takes the passes of each. Blocks have 8 tiles of 16 positions. */
static const struct {
    shape s;
    bool winograd;
} shapes[] = {
    {{2, 5, 8, 9, 16, 16, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, true},
    {{1, 19, 6, 11, 17, 33, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, true}, /* two blocks along the depth */
    {{2, 4, 13, 12, 48, 20, 2, 1, 1, 0, 1, 3, 1, 1, 0, 0}, true},
    {{1, 9, 8, 8, 16, 65, 3, 1, 2, 2, 2, 3, 1, 1, 0, 0}, true}, /* dilation along the depth */
    {{1, 1, 8, 8, 16, 16, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, true},
    {{1, 2, 8, 8, 16, 16, 5, 1, 1, 3, 1, 3, 1, 1, 0, 0}, true},  /* windows deeper than the volume */
    {{2, 6, 8, 8, 16, 16, 3, 1, 1, 1, -1, 3, 1, 1, 4, 4}, true}, /* a part, with slices of its neighbours */
    {{2, 6, 8, 8, 16, 24, 3, 1, 1, -1, 1, 3, 1, 1, 0, 0}, true}, /* a part that begins before its windows */
    {{2, 5, 8, 9, 15, 16, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, false},
    {{2, 5, 8, 9, 16, 15, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, false},
    {{2, 5, 5, 5, 16, 16, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, false}, /* it would not multiply much less */
    {{2, 7, 9, 8, 16, 16, 3, 2, 1, 1, 1, 3, 1, 1, 0, 0}, false},
    {{2, 7, 9, 8, 20, 18, 3, 1, 1, 1, 1, 3, 2, 1, 0, 0}, false},
    {{2, 4, 4, 4, 16, 32, 2, 2, 1, 0, 0, 2, 2, 0, 0, 0}, false},
    {{1, 21, 20, 21, 13, 8, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0}, false}, /* 16 and 5 slices at a time */
    {{3, 8, 3, 5, 4, 16, 4, 3, 2, 5, 4, 1, 1, 0, 0, 0}, false},
    {{2, 6, 7, 5, 3, 5, 3, 2, 1, 1, -1, 3, 1, 1, 4, 2}, false},
};

START_TEST(agrees_with_the_plain_kernels)
{
    const iso_isa most = iso_cpu_isa();
    if (!choose_isa(_i, most))
        return;
    random_state = 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (pass which = FORWARD; which < PASSES; which++) {
            const char *name = check_pass(&shapes[i].s, which);
            CHECK(strcmp(name, shapes[i].winograd ? winograd : slices) == 0, "shape %zu, %s, %s: by %s", i,
                  ops[which], iso_isa_name(iso_cpu_isa()), name);
        }
    for (pass which = FORWARD; which < OF_KERNEL; which++)
        for (int i = 0; i < 2; i++)
            CHECK(divided[which][i] > 0, "%s %s: no shape was divided", ops[which], i ? winograd : slices);
    iso_cpu_limit_isa(most);
}
END_TEST

/* A slot may have no rows of the batch, no slice or no position. */
START_TEST(empty_parts)
{
    random_state = 1;
    for (int i = 0; i < 3; i++)
        for (pass which = FORWARD; which < PASSES; which++) {
            const shape s = {2, 5, 8, 8, 16, 16, 3, 1, 1, 1, 1, 3, 1, 1, 0, 0};
            trial t = trial_of(&s, which);
            iso_array *x = which == OF_INPUT ? &t.out[0] : &t.in[0];
            iso_array *y = which == FORWARD ? &t.out[0] : &t.in[1];
            if (i == 0)
                x->dim[0] = y->dim[0] = 0;
            else
                (i == 1 ? x : y)->dim[1] = 0;
            void *owner[MOST_ARRAYS];
            place_inputs(&t, 0, NULL, owner);
            result want = run_trial(&t, iso_backend_reference(), 0),
                   got = run_trial(&t, iso_backend_cpu(), 0);
            compare(&t, &want, &got);
            free_result(&t, &want);
            free_result(&t, &got);
            free_all(owner, t.inputs);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("volumes");
    TCase *tests = tcase_create("volumes");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, agrees_with_the_plain_kernels, 0, ISO_ISA_AVX512 + 1);
    tcase_add_test(tests, empty_parts);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
