/* Convolutions by Winograd's F(2 x 2, 3 x 3), for each instruction set of this machine: forward and both gradients
 * against the plain kernels, at sizes that the rule would leave to other loops too; equal bits for every part of the
 * batch; the edges of the rule; elements that are not numbers. Ranks: 1, Sanitize: 1 */
#include "runtime/backend/cpu/functions.h"
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

typedef struct shape {
    int64_t n, h, w, c, f, pad[2], after[2];
} shape;

typedef enum pass { FORWARD, OF_INPUT, OF_KERNEL, PASSES } pass;

static const char *const ops[PASSES] = {"conv2d", "conv2d_grad_input", "conv2d_grad_kernel"};

/* Makes a trial: x [n, h, w, c], kernel [3, 3, c, f]. */
static trial trial_of(const shape *s, pass which)
{
    trial t = {.op = ops[which]};
    const int64_t x[] = {s->n, s->h, s->w, s->c}, kernel[] = {3, 3, s->c, s->f};
    const int64_t y[] = {s->n, s->h + s->pad[0] + s->after[0] - 2, s->w + s->pad[1] + s->after[1] - 2, s->f};
    t.attrs.conv.geometry = (iso_conv_geometry){.stride = {1, 1},
                                                .dilation = {1, 1},
                                                .pad_before = {s->pad[0], s->pad[1]},
                                                .pad_after = {s->after[0], s->after[1]},
                                                .groups = 1};
    input(&t, ISO_F32, -1, 1, 4, which == OF_INPUT ? kernel : x);
    input(&t, ISO_F32, -1, 1, 4, which == FORWARD ? kernel : y);
    output(&t, ISO_F32, 4, which == OF_INPUT ? x : which == OF_KERNEL ? kernel : y);
    t.attrs.conv.shape = (iso_shape){4, {0}};
    memcpy(t.attrs.conv.shape.dim, which == OF_INPUT ? x : kernel, sizeof x);
    return t;
}

static iso_conv conv_of(const trial *t, const shape *s, pass which)
{
    const iso_array *x = which == OF_INPUT ? &t->out[0] : &t->in[0];
    const iso_array *y = which == FORWARD ? &t->out[0] : &t->in[1];
    iso_conv conv = {.n = x->dim[0], .c = s->c, .f = s->f};
    for (int i = 0; i < 2; i++) {
        conv.in[i] = x->dim[1 + i];
        conv.out[i] = y->dim[1 + i];
        conv.kernel[i] = 3;
        conv.stride[i] = 1;
        conv.pad[i] = s->pad[i];
    }
    return conv;
}

static iso_conv rotated_of(const iso_conv *conv)
{
    iso_conv rotated = *conv;
    rotated.c = conv->f, rotated.f = conv->c;
    for (int i = 0; i < 2; i++) {
        rotated.in[i] = conv->out[i], rotated.out[i] = conv->in[i];
        rotated.pad[i] = 2 - conv->pad[i];
    }
    return rotated;
}

/* The functions themselves, whatever the rule says. */
static result run_winograd(const trial *t, const shape *s, pass which)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    result r = {.kernel = "Winograd"};
    r.out[0] = t->out[0];
    r.out[0].data = room_for(&t->out[0], 0, &r.owner[0]);
    memset(r.out[0].data, 0xa5, bytes_of(&t->out[0]) + GUARD);
    const iso_conv conv = conv_of(t, s, which), rotated = rotated_of(&conv);
    const size_t scratch = which == OF_KERNEL ? f->winograd_grad_kernel_scratch(&conv, true)
                                              : f->winograd_scratch(which == OF_INPUT ? &rotated : &conv);
    unsigned char *memory = aligned_alloc(64, (scratch + 2 * GUARD) / 64 * 64 + 64);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xff, scratch + GUARD); /* NaN */
    if (which == FORWARD)
        f->winograd(&conv, false, t->in[0].data, t->in[1].data, r.out[0].data, memory);
    else if (which == OF_INPUT)
        f->winograd(&rotated, true, t->in[1].data, t->in[0].data, r.out[0].data, memory);
    else
        f->winograd_grad_kernel(&conv, -1, t->in[0].data, t->in[1].data, r.out[0].data, memory);
    for (int i = 0; i < GUARD; i++)
        CHECK(memory[scratch + (size_t)i] == 0xff, "%s wrote past its %zu bytes of scratch", describe(t),
              scratch);
    free(memory);
    check_guards(t, &r);
    return r;
}

/* Each row of the batch alone has the bits of this row of the whole. */
static void check_each_row(const trial *t, const shape *s, pass which, const result *whole)
{
    const int batch = which == OF_INPUT ? 1 : 0; /* the input with a batch */
    trial one = *t;
    one.in[batch].dim[0] = one.out[0].dim[0] = 1;
    for (int64_t i = 0; i < s->n; i++) {
        one.in[batch].data = (char *)t->in[batch].data + (size_t)i * bytes_of(&one.in[batch]);
        result r = run_winograd(&one, s, which);
        const char *row = (const char *)whole->out[0].data + (size_t)i * bytes_of(&one.out[0]);
        CHECK(memcmp(r.out[0].data, row, bytes_of(&one.out[0])) == 0, "%s, %s: row %lld alone has other bits",
              describe(t), iso_isa_name(iso_cpu_isa()), (long long)i);
        free_result(&one, &r);
    }
}

static void check_shape(const shape *s)
{
    for (pass which = FORWARD; which < PASSES; which++) {
        trial t = trial_of(s, which), moved = t;
        void *owner[MOST_ARRAYS], *moved_owner[MOST_ARRAYS];
        place_inputs(&t, 0, NULL, owner);
        place_inputs(&moved, 192, &t, moved_owner);
        result want = run_trial(&t, iso_backend_reference(), 0), got = run_winograd(&t, s, which);
        compare(&t, &want, &got);
        result again = run_winograd(&moved, s, which);
        compare_bits(&t, &got, &again);
        if (which != OF_KERNEL)
            check_each_row(&t, s, which, &got);
        free_result(&t, &want);
        free_result(&t, &got);
        free_result(&t, &again);
        free_all(owner, t.inputs);
        free_all(moved_owner, t.inputs);
    }
}

/* Limits the instruction set; false: the processor does not have it. */
static bool choose_isa(int index, iso_isa most)
{
    iso_isa isa = (iso_isa)(ISO_ISA_AVX512 - index);
    if (isa > most) {
        char what[64];
        snprintf(what, sizeof what, "Winograd for %s", iso_isa_name(isa));
        report_skipped(what, "this processor does not have these instructions");
        return false;
    }
    iso_cpu_limit_isa(isa);
    return true;
}

static const int64_t channels[] = {1, 3, 4, 8, 16, 17, 32, 33, 48, 65};
enum { CHANNEL_COUNTS = sizeof channels / sizeof *channels };

/* Every size from 1 to 9 pixels in each direction, with zeros around (same), without (valid) and on one side. */
START_TEST(agrees_with_the_plain_kernels)
{
    static const int64_t pads[][2][2] = {
        {{1, 1}, {1, 1}}, {{0, 0}, {0, 0}}, {{2, 0}, {0, 2}}, {{0, 1}, {2, 0}}};
    static const int64_t rows[] = {1, 2, 5, 0};
    const iso_isa most = iso_cpu_isa();
    if (!choose_isa(_i, most))
        return;
    random_state = 1;
    int count = 0;
    for (int64_t h = 1; h <= 9; h++)
        for (int64_t w = 1; w <= 9; w++, count++) {
            shape s = {rows[count % 4], h, w, channels[count % CHANNEL_COUNTS], 0, {0}, {0}};
            s.f = channels[(count / 3 + 4) % CHANNEL_COUNTS];
            memcpy(s.pad, pads[count / 2 % 4][0], sizeof s.pad);
            memcpy(s.after, pads[count / 2 % 4][1], sizeof s.after);
            if (h + s.pad[0] + s.after[0] >= 3 && w + s.pad[1] + s.after[1] >= 3)
                check_shape(&s);
        }
    iso_cpu_limit_isa(most);
}
END_TEST

/* Several blocks of tiles and panels of filters, and a last one that is not full. */
START_TEST(agrees_over_many_tiles)
{
    static const shape shapes[] = {
        {5, 15, 14, 65, 70, {1, 1}, {1, 1}},
        {3, 13, 13, 8, 24, {1, 1}, {1, 1}},
        {1, 3, 30, 130, 201, {0, 0}, {0, 0}},
    };
    const iso_isa most = iso_cpu_isa();
    if (!choose_isa(_i, most))
        return;
    random_state = 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i]);
    iso_cpu_limit_isa(most);
}
END_TEST

static const char *kernel_for(const trial *t)
{
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = (iso_array *)t->out};
    return iso_backend_cpu()->find(t->op, &call)->name;
}

static bool takes(const trial *t)
{
    return strcmp(kernel_for(t), "Winograd F(2x2, 3x3)") == 0;
}

static bool takes_shape(const shape *s, pass which)
{
    trial t = trial_of(s, which);
    return takes(&t);
}

static void check_choice(bool want, int64_t n, int64_t h, int64_t w, int64_t c, int64_t f, int64_t pad)
{
    shape s = {n, h, w, c, f, {pad, pad}, {pad, pad}};
    for (pass which = FORWARD; which < PASSES; which++) {
        if (which == OF_INPUT && pad == 0)
            continue; /* it has zeros around */
        CHECK(takes_shape(&s, which) == want,
              "%s of %lld x %lld pixels, %lld to %lld channels, %lld rows%s taken by Winograd, %s",
              ops[which], (long long)h, (long long)w, (long long)c, (long long)f, (long long)n,
              want ? ": not" : ":", iso_isa_name(iso_cpu_isa()));
    }
}

/* From 16 channels and 16 filters on, and three vectors of them together, where it multiplies 1.4 times less: 4 x 4
 * and 6 x 6 pixels, and 7 x 7 (361 to 256), but not 5 x 5 (169 to 144). */
START_TEST(the_rule_has_these_edges)
{
    const iso_isa most = iso_cpu_isa();
    if (!choose_isa(_i, most))
        return;
    const int64_t lanes = iso_cpu_functions()->lanes(), sum = 3 * lanes > 32 ? 3 * lanes : 32,
                  least = sum / 2;
    static const bool pixels[10] = {[4] = true, [6] = true, [7] = true, [8] = true, [9] = true};
    for (int64_t i = 1; i < 10; i++)
        for (int64_t n = 0; n < 3; n++)
            check_choice(pixels[i], n, i, i, least, least, 1);
    check_choice(true, 2, 8, 8, 16, sum - 16, 1);
    check_choice(true, 2, 8, 8, sum - 16, 16, 1);
    check_choice(false, 2, 8, 8, 16, sum - 17, 1);
    check_choice(false, 2, 8, 8, sum - 17, 16, 1);
    check_choice(false, 2, 8, 8, 15, 64, 1);
    check_choice(false, 2, 8, 8, 64, 15, 1);
    check_choice(false, 2, 5, 9, 64, 64, 1); /* 325 to 240 */
    check_choice(true, 2, 6, 6, 64, 64, 0);
    check_choice(false, 2, 3, 3, 64, 64, 0);
    const shape valid = {2, 6, 6, 64, 64, {0, 0}, {0, 0}};
    ck_assert(!takes_shape(&valid, OF_INPUT)); /* 144 to 144 */
    iso_cpu_limit_isa(most);
}
END_TEST

/* Strides, dilation, groups and other types. */
START_TEST(other_convolutions_are_left_alone)
{
    const shape s = {2, 8, 8, 64, 64, {1, 1}, {1, 1}};
    for (pass which = FORWARD; which < PASSES; which++) {
        trial t = trial_of(&s, which);
        ck_assert(takes(&t));
        t = trial_of(&s, which);
        iso_array *kernel = which == FORWARD ? &t.in[1] : which == OF_INPUT ? &t.in[0] : &t.out[0];
        iso_array *x = which == OF_INPUT ? &t.out[0] : &t.in[0];
        iso_array *y = which == FORWARD ? &t.out[0] : &t.in[1];
        x->global[0] = 7; /* parts of the batch, of images, channels and filters are taken */
        x->global[1] = y->global[1] = 9;
        x->global[2] = y->global[2] = 11;
        x->global[3] = kernel->global[2] = kernel->global[3] = 128;
        ck_assert(takes(&t));
        t = trial_of(&s, which);
        t.attrs.conv.geometry.stride[1] = 2;
        ck_assert(!takes(&t));
        t = trial_of(&s, which);
        t.in[0].dtype = t.in[1].dtype = t.out[0].dtype = ISO_F64;
        ck_assert(!takes(&t));
        t = trial_of(&s, which);
        t.attrs.conv.geometry.dilation[0] = 2;
        ck_assert(!takes(&t));
        t = trial_of(&s, which);
        t.attrs.conv.geometry.groups = 2;
        ck_assert(!takes(&t));
    }
}
END_TEST

/* An element that is not a number reaches the tiles whose patch holds it, and no others. */
START_TEST(nan_stays_in_its_tiles)
{
    const shape s = {2, 8, 8, 32, 32, {1, 1}, {1, 1}};
    enum { ROW = 3, COLUMN = 4, PIXELS = 8, DEPTH = 32 };
    trial t = trial_of(&s, FORWARD);
    void *owner[MOST_ARRAYS];
    random_state = 1;
    place_inputs(&t, 0, NULL, owner);
    result want = run_winograd(&t, &s, FORWARD);
    ((float *)t.in[0].data)[(ROW * PIXELS + COLUMN) * DEPTH + 5] = NAN;
    result got = run_winograd(&t, &s, FORWARD);
    const float *before = want.out[0].data, *after = got.out[0].data;
    for (int64_t i = 0; i < iso_array_count(&t.out[0]); i++) {
        const int64_t place = i / DEPTH, image = place / (PIXELS * PIXELS);
        const int64_t row = place / PIXELS % PIXELS, column = place % PIXELS;
        /* Tile k reads rows 2 k - 1 to 2 k + 2. */
        const bool reads = image == 0 && row / 2 >= (ROW - 1) / 2 && row / 2 <= (ROW + 1) / 2 &&
                           column / 2 >= (COLUMN - 1) / 2 && column / 2 <= (COLUMN + 1) / 2;
        const bool in_window = image == 0 && labs(row - ROW) <= 1 && labs(column - COLUMN) <= 1;
        CHECK(reads || after[i] == before[i], "element %lld: %g", (long long)i, after[i]);
        CHECK(!in_window || isnan(after[i]), "element %lld: %g", (long long)i, after[i]);
    }
    free_result(&t, &want);
    free_result(&t, &got);
    free_all(owner, t.inputs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("winograd");
    TCase *tests = tcase_create("winograd");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, agrees_with_the_plain_kernels, 0, ISO_ISA_AVX512 + 1);
    tcase_add_loop_test(tests, agrees_over_many_tiles, 0, ISO_ISA_AVX512 + 1);
    tcase_add_loop_test(tests, the_rule_has_these_edges, 0, ISO_ISA_AVX512 + 1);
    tcase_add_test(tests, other_convolutions_are_left_alone);
    tcase_add_test(tests, nan_stays_in_its_tiles);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
