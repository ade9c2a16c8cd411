/* What the CUDA backend computes by NVIDIA's libraries, on the stand-ins for them: every case of these ops in
 * float32, float64 and bfloat16 (by default in one of them) gives the numbers of the reference, at addresses that the
 * libraries take and at others; convolutions take the engines that the rules name, and own kernels where there is
 * none; a bias and a relu that follow a product in place are fused with it, and give the bits of three instructions;
 * sums have one order; an error names the op, its layer, the shapes and the library's number. Ranks: 1 */
#include "tests/standin/library_calls.h"
#include "tests/support/run_tests.h"

START_TEST(products_agree)
{
    check_op("matmul", 30);
}
END_TEST

START_TEST(attention_agrees)
{
    every = 5; /* of 8 forms and 9 shapes */
    check_op("attention", 40);
    check_op("attention_grad", 40);
    every = 1;
}
END_TEST

/* ---- convolutions ---- */

START_TEST(convolutions_agree)
{
    const int least = 420;
    check_op("conv2d", least);
    check_op("conv2d_grad_input", least);
    check_op("conv2d_grad_kernel", least);
}
END_TEST

/* Without cuDNN the large ones are products of cuBLASLt's. */
START_TEST(products_of_windows_agree)
{
    backend->limit(0);
    only = "im2col";
    check_op("conv2d", 50);
    check_op("conv2d_grad_input", 50);
    check_op("conv2d_grad_kernel", 50);
    only = "cublaslt";
    check_op("conv2d", 4);
    check_op("conv2d_grad_input", 4);
    check_op("conv2d_grad_kernel", 4);
    only = NULL;
    backend->limit(1);
}
END_TEST

/* A convolution of images of `rows` rows, 3x3, with zeros around. */
static trial make_sized(const char *op, iso_dtype dtype, const int64_t x[4], int64_t filters, int64_t stride,
                        int64_t after)
{
    trial t = {.op = op};
    const int64_t kernel[] = {3, 3, x[3], filters};
    const int64_t y[] = {x[0], (x[1] + 1 + after - 3) / stride + 1, (x[2] - 1) / stride + 1, filters};
    bool of_input = strcmp(op, "conv2d_grad_input") == 0, of_kernel = strcmp(op, "conv2d_grad_kernel") == 0;
    t.attrs.conv.geometry = (iso_conv_geometry){.stride = {stride, stride},
                                                .dilation = {1, 1},
                                                .pad_before = {1, 1},
                                                .pad_after = {after, 1},
                                                .groups = 1};
    t.attrs.conv.shape = (iso_shape){4, {0}};
    memcpy(t.attrs.conv.shape.dim, of_input ? x : kernel, sizeof kernel);
    input(&t, dtype, -1, 1, 4, of_input ? kernel : x);
    input(&t, dtype, -1, 1, 4, of_input || of_kernel ? y : kernel);
    output(&t, dtype, 4, of_input ? x : of_kernel ? kernel : y);
    return t;
}

static trial make_convolution(const char *op, iso_dtype dtype, int64_t rows, int64_t stride, int64_t after)
{
    return make_sized(op, dtype, (const int64_t[]){2, rows, 7, 4}, 6, stride, after);
}

static void check_noted(trial t, const char *kernel, const char *noted)
{
    void *owner[MOST_ARRAYS];
    char text[2000];
    place_inputs(&t, 0, NULL, owner);
    result want = run_trial(&t, iso_backend_reference(), 0), got;
    take_notes(text, sizeof text);
    ck_assert_str_eq(run_case(&t, 0, &got), kernel);
    compare(&t, &want, &got);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, noted);
    free_result(&t, &want);
    free_result(&t, &got);
    free_all(owner, t.inputs);
}

/* The first engine whose results are the same each time and of the type, and that can be had; in float64 that of the
 * last resort. With --tf32 one that multiplies so. */
START_TEST(engines_are_chosen_by_rules)
{
    check_noted(make_convolution("conv2d", ISO_F32, 8, 1, 1), "cudnn",
                "convolution engine 7 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    check_noted(make_convolution("conv2d_grad_input", ISO_F32, 8, 1, 1), "cudnn",
                "convolution input engine 7 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    check_noted(make_convolution("conv2d_grad_kernel", ISO_F64, 8, 1, 1), "cudnn",
                "convolution kernel engine 0 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    backend->set(&(iso_backend_settings){.tf32 = true});
    trial fast = make_convolution("conv2d", ISO_F32, 8, 1, 1);
    fast.tf32 = true;
    check_noted(fast, "cudnn", "convolution engine 3 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    backend->set(&(iso_backend_settings){.tf32 = false});
}
END_TEST

/* Where no engine takes zeros on one side alone, x gets them before; and a slot may have more rows than its windows
 * reach, above and below. */
START_TEST(images_are_framed)
{
    static const char *const ops[] = {"conv2d", "conv2d_grad_input", "conv2d_grad_kernel"};
    check_noted(make_convolution("conv2d_grad_kernel", ISO_F32, 8, 2, 0), "cudnn",
                "convolution kernel engine 7 of 2 x 9 x 9 x 4 by 3 x 3 x 6\n");
    check_noted(make_convolution("conv2d_grad_input", ISO_F64, 8, 2, 0), "cudnn",
                "convolution input engine 0 of 2 x 9 x 9 x 4 by 3 x 3 x 6\n");
    for (int i = 0; i < 3; i++) {
        trial t = make_convolution(ops[i], ISO_F32, 30, 2, 0);
        iso_array *x = i == 1 ? &t.out[0] : &t.in[0], *y = i == 0 ? &t.out[0] : &t.in[1];
        char noted[100];
        x->dim[1] = 12, x->offset[1] = 2; /* positions 2, 3 and 4 reach rows 3 to 9 */
        y->dim[1] = 3, y->offset[1] = 2;
        snprintf(noted, sizeof noted, "convolution%s engine 7 of 2 x 7 x 9 x 4 by 3 x 3 x 6\n",
                 i == 0   ? ""
                 : i == 1 ? " input"
                          : " kernel");
        check_noted(t, "cudnn", noted);
    }
}
END_TEST

/* Windows of more images than the scratch memory holds are multiplied in parts, here of 32 and 5 images. */
START_TEST(windows_in_parts_agree)
{
    const int64_t x[] = {37, 29, 30, 32};
    backend->limit(0);
    check_noted(make_sized("conv2d", ISO_F32, x, 16, 1, 1), "im2col",
                "product 27840 x 16 x 288 of 1\nproduct 4350 x 16 x 288 of 1\n");
    check_noted(make_sized("conv2d_grad_input", ISO_F32, x, 16, 1, 1), "im2col",
                "product 27840 x 288 x 16 of 1\nproduct 4350 x 288 x 16 of 1\n");
    check_noted(make_sized("conv2d_grad_kernel", ISO_F32, x, 16, 1, 1), "im2col",
                "product 288 x 16 x 27840 of 1\nproduct 288 x 16 x 4350 of 1\n");
    backend->limit(1);
}
END_TEST

/* A float32 result of bfloat16 is computed with TF32, from float32 copies of the operands: of as many images as the
 * scratch memory holds, here of 8 and 1, and gradients of the kernel are added. */
START_TEST(copies_in_parts_agree)
{
    static const struct {
        const char *op, *name;
        int64_t channels, filters;
    } all[] = {
        {"conv2d", "", 4, 1}, {"conv2d_grad_input", " input", 1, 4}, {"conv2d_grad_kernel", " kernel", 3, 2}};
    for (int i = 0; i < 3; i++) {
        char noted[200], *end = noted;
        trial t = make_sized(all[i].op, ISO_BF16, (const int64_t[]){9, 520, 510, all[i].channels},
                             all[i].filters, 1, 1);
        t.out[0].dtype = ISO_F32;
        for (int images = 8; images > 0; images -= 7)
            end += sprintf(end, "convolution%s engine 3 of %d x 520 x 510 x %d by 3 x 3 x %d\n", all[i].name,
                           images, (int)all[i].channels, (int)all[i].filters);
        check_noted(t, "cudnn", noted);
    }
}
END_TEST

/* What cuDNN does not plan is done by an own kernel; what it then refuses is an error that says where. */
START_TEST(cudnn_may_refuse)
{
    setenv("STANDIN_FAIL", "cudnnPlan:3000", 1);
    check_noted(make_convolution("conv2d", ISO_F32, 11, 1, 1), "own", "");
    unsetenv("STANDIN_FAIL");
    check_failing(make_convolution("conv2d_grad_input", ISO_F32, 11, 1, 1), "cudnnBackendFinalize:2000:3",
                  "GPU 0 (Stand-in): cuDNN refuses the gradient of the input of a convolution of float32 "
                  "[2, 11, 7, 4] and kernel [3, 3, 4, 6]: CUDNN_STATUS_BAD_PARAM (2000)");
    check_failing(make_convolution("conv2d_grad_kernel", ISO_F32, 11, 1, 1), "cudnnPlan:3009",
                  "GPU 0 (Stand-in): cuDNN refuses the gradient of the kernel of a convolution of float32 "
                  "[2, 11, 7, 4] and kernel [3, 3, 4, 6]: another status (3009)");
    trial t = make_convolution("conv2d", ISO_F32, 12, 1, 1);
    void *owner[MOST_ARRAYS];
    placed p;
    place_inputs(&t, 0, NULL, owner);
    begin_case();
    begin(&p, &t, 0);
    setenv("STANDIN_FAIL", "cudnnBackendExecute:5000", 1);
    check_refused_thunks(
        &(iso_thunk){.kernel = p.kernel, .call = &p.call, .layer = "c1"}, 1,
        "GPU 0 (Stand-in): the op conv2d of layer 'c1': cuDNN refuses the convolution of float32 "
        "[2, 12, 7, 4] and kernel [3, 3, 4, 6]: CUDNN_STATUS_EXECUTION_FAILED (5000)");
    unsetenv("STANDIN_FAIL");
    free_all(owner, t.inputs);
}
END_TEST

/* ---- a product, a bias and a relu ---- */

enum { M = 7, N = 24, K = 40 };

typedef struct dense {
    placed product, add, relu;
    iso_thunk thunks[3];
} dense;

/* The results are all in place, or, with `apart`, the relu's is not. */
static void begin_dense(dense *d, trial t[3], bool apart)
{
    begin_case();
    begin(&d->product, &t[0], 0);
    begin(&d->add, &t[1], 0);
    begin(&d->relu, &t[2], 0);
    d->add.in[0].data = d->add.out[0].data = d->relu.in[0].data = d->product.out[0].data;
    if (!apart)
        d->relu.out[0].data = d->product.out[0].data;
    placed *all[] = {&d->product, &d->add, &d->relu};
    for (int i = 0; i < 3; i++)
        d->thunks[i] = (iso_thunk){.kernel = all[i]->kernel, .call = &all[i]->call, .layer = "d1"};
}

static void make_dense(trial t[3], iso_dtype dtype)
{
    t[0] = (trial){.op = "matmul"};
    input(&t[0], dtype, -1, 1, DIMS(M, K));
    input(&t[0], dtype, -1, 1, DIMS(K, N));
    t[1] = (trial){.op = "add"};
    input(&t[1], dtype, -1, 1, DIMS(M, N));
    input(&t[1], dtype, -1, 1, DIMS(N));
    t[2] = (trial){.op = "relu"};
    t[2].attrs.unary.kind = ISO_UNARY_RELU;
    input(&t[2], dtype, -1, 1, DIMS(M, N));
    for (int i = 0; i < 3; i++)
        output(&t[i], dtype, DIMS(M, N));
}

static void check_dense(iso_dtype dtype, bool apart, const char *noted)
{
    trial t[3];
    void *owner[3][MOST_ARRAYS];
    dense d;
    char text[400];
    double alone[M * N], together[M * N];
    make_dense(t, dtype);
    random_state = 1;
    for (int i = 0; i < 3; i++)
        place_inputs(&t[i], 0, NULL, owner[i]);
    begin_dense(&d, t, apart);
    for (int i = 0; i < 3; i++)
        run_thunks(&d.thunks[i], 1);
    fetch(&d.relu.out[0], alone);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, "product 7 x 24 x 40 of 1\n");
    run_thunks(d.thunks, 3);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, noted);
    fetch(&d.relu.out[0], together);
    if (dtype != ISO_BF16) /* whose sum is then rounded once */
        ck_assert_mem_eq(alone, together, iso_array_bytes(&d.relu.out[0]));
    for (int i = 0; i < 3; i++)
        free_all(owner[i], t[i].inputs);
}

START_TEST(bias_and_relu_are_fused)
{
    char text[100000];
    take_notes(text, sizeof text);
    check_dense(ISO_F32, false, "product+bias+relu 7 x 24 x 40 of 1\n");
    check_dense(ISO_F32, true, "product+bias 7 x 24 x 40 of 1\n");
    check_dense(ISO_BF16, false, "product+bias+relu 7 x 24 x 40 of 1\n");
    check_dense(ISO_F64, false, "product 7 x 24 x 40 of 1\n");
}
END_TEST

/* ---- attention in blocks ---- */

static trial make_attention(const char *op, iso_dtype dtype, int64_t heads, int64_t rows, int64_t keys,
                            bool causal, int64_t features)
{
    trial t = {.op = op};
    const int64_t q[] = {1, rows, heads, features}, k[] = {1, keys, heads, features};
    t.attrs.attention = (iso_attention_attrs){.scale = 0.7, .band = {.fill = -1e9, .causal = causal}};
    input(&t, dtype, -2, 2, 4, q);
    input(&t, dtype, -2, 2, 4, k);
    input(&t, dtype, -1, 1, 4, k);
    output(&t, dtype, 4, q);
    if (strcmp(op, "attention") == 0)
        return t;
    input(&t, dtype, -1, 1, 4, q);
    output(&t, dtype, 4, k);
    output(&t, dtype, 4, k);
    return t;
}

#define TWICE(text) text text

/* Keys that no query of a block attends to are left out. Weights of bfloat16 are the sum of two numbers. */
START_TEST(causal_blocks_agree)
{
    check_noted(make_attention("attention", ISO_F32, 3, 300, 300, true, 2), "cublaslt",
                "product 192 x 192 x 2 of 3\nproduct 192 x 2 x 192 of 3\n"
                "product 108 x 300 x 2 of 3\nproduct 108 x 2 x 300 of 3\n");
    check_noted(make_attention("attention_grad", ISO_F64, 3, 300, 310, true, 2), "cublaslt",
                TWICE("product 192 x 192 x 2 of 3\n") "product 192 x 2 x 192 of 3\n" TWICE(
                    "product 192 x 2 x 192 of 3\n")
                    TWICE("product 108 x 300 x 2 of 3\n") "product 108 x 2 x 300 of 3\n" TWICE(
                        "product 300 x 2 x 108 of 3\n"));
    check_noted(make_attention("attention_grad", ISO_BF16, 1, 300, 310, true, 136), "cublaslt",
                TWICE("product 192 x 192 x 136 of 1\n") TWICE("product 192 x 136 x 192 of 1\n")
                    TWICE(TWICE("product 192 x 136 x 192 of 1\n")) TWICE("product 108 x 300 x 136 of 1\n")
                        TWICE("product 108 x 136 x 300 of 1\n")
                            TWICE(TWICE("product 300 x 136 x 108 of 1\n")));
    check_noted(make_attention("attention_grad", ISO_BF16, 1, 300, 310, true, 128), "fused", "");
}
END_TEST

/* Scores of more queries, or heads, than the scratch memory holds. */
START_TEST(bounded_blocks_agree)
{
    check_noted(make_attention("attention_grad", ISO_F32, 1, 150, 60000, false, 2), "cublaslt",
                TWICE("product 80 x 60000 x 2 of 1\n") "product 80 x 2 x 60000 of 1\n" TWICE(
                    "product 60000 x 2 x 80 of 1\n")
                    TWICE("product 70 x 60000 x 2 of 1\n") "product 70 x 2 x 60000 of 1\n" TWICE(
                        "product 60000 x 2 x 70 of 1\n"));
    check_noted(make_attention("attention_grad", ISO_F64, 3, 24, 60000, false, 2), "cublaslt",
                TWICE("product 24 x 60000 x 2 of 2\n") "product 24 x 2 x 60000 of 2\n" TWICE(
                    "product 60000 x 2 x 24 of 2\n")
                    TWICE("product 24 x 60000 x 2 of 1\n") "product 24 x 2 x 60000 of 1\n" TWICE(
                        "product 60000 x 2 x 24 of 1\n"));
}
END_TEST

/* A convolution, a bias and a relu: as three instructions, and as one, which the library is told of. */
static void check_fused_convolution(iso_dtype dtype, const int64_t x[4], int64_t filters,
                                    const char *alone_noted, const char *noted)
{
    trial t[3] = {make_sized("conv2d", dtype, x, filters, 1, 1), {.op = "add"}, {.op = "relu"}};
    const int64_t y[] = {x[0], x[1], x[2], filters};
    int64_t count = x[0] * x[1] * x[2] * filters;
    void *owner[3][MOST_ARRAYS];
    dense d;
    char text[400];
    double *alone = calloc((size_t)count, sizeof *alone), *together = calloc((size_t)count, sizeof *together);
    t[2].attrs.unary.kind = ISO_UNARY_RELU;
    for (int i = 1; i < 3; i++) {
        input(&t[i], dtype, -1, 1, 4, y);
        if (i == 1)
            input(&t[i], dtype, -1, 1, 1, &filters);
        output(&t[i], dtype, 4, y);
    }
    for (int i = 0; i < 3; i++)
        place_inputs(&t[i], 0, NULL, owner[i]);
    begin_dense(&d, t, false);
    take_notes(text, sizeof text);
    for (int i = 0; i < 3; i++)
        run_thunks(&d.thunks[i], 1);
    fetch(&d.relu.out[0], alone);
    take_notes(text, sizeof text);
    if (!real_cudnn)
        ck_assert_str_eq(text, alone_noted);
    run_thunks(d.thunks, 3);
    take_notes(text, sizeof text);
    if (real_cudnn)
        ck_assert_msg(strncmp(text, noted, strlen(noted)) == 0, "%s", text);
    else
        ck_assert_str_eq(text, noted);
    fetch(&d.relu.out[0], together);
    for (int64_t i = 0; dtype != ISO_BF16 && i < iso_array_count(&d.relu.out[0]); i++) {
        double a = iso_element_get(alone, dtype, i), b = iso_element_get(together, dtype, i);
        ck_assert_msg(fabs(a - b) <= 1e-6 * fabs(a) + 1e-7, "element %lld: %g and %g", (long long)i, a, b);
    }
    for (int i = 0; i < 3; i++)
        free_all(owner[i], t[i].inputs);
    free(alone);
    free(together);
}

/* Engines that are allowed plan the graph of all three, in each type. */
START_TEST(fused_convolutions_are_planned)
{
    static const int64_t x[][4] = {{2, 8, 7, 4}, {4, 28, 28, 1}, {4, 28, 28, 12}, {3, 14, 15, 32}},
                         filters[] = {6, 12, 24, 64};
    static const iso_dtype dtypes[] = {ISO_F32, ISO_BF16, ISO_F64};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            check_fused_convolution(dtypes[k], x[i], filters[i], NULL, "convolution+bias+relu engine ");
}
END_TEST

START_TEST(bias_and_relu_of_convolutions_are_fused)
{
    const int64_t small[] = {2, 8, 7, 4}, large[] = {2, 8, 7, 8}, in_parts[] = {37, 29, 30, 32};
    check_fused_convolution(ISO_F32, small, 6, "convolution engine 7 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n",
                            "convolution+bias+relu engine 7 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    check_fused_convolution(ISO_BF16, small, 6, "convolution engine 3 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n",
                            "convolution+bias+relu engine 3 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    check_fused_convolution(ISO_F64, small, 6, "convolution engine 0 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n",
                            "convolution+bias+relu engine 0 of 2 x 8 x 7 x 4 by 3 x 3 x 6\n");
    backend->limit(0);
    check_fused_convolution(ISO_F32, large, 16, "product 112 x 16 x 72 of 1\n",
                            "product+bias+relu 112 x 16 x 72 of 1\n");
    check_fused_convolution(
        ISO_F32, in_parts, 16, "product 27840 x 16 x 288 of 1\nproduct 4350 x 16 x 288 of 1\n",
        "product+bias+relu 27840 x 16 x 288 of 1\nproduct+bias+relu 4350 x 16 x 288 of 1\n");
    backend->limit(1);
}
END_TEST

/* One after the other, as a profile makes the executor do: the same calls, and those of a graph. */
START_TEST(parts_of_a_sequence_are_the_same)
{
    trial t[3];
    void *owner[3][MOST_ARRAYS];
    dense d;
    char text[400];
    float whole[M * N], parts[M * N], captured[M * N];
    iso_sequence *sequence = NULL, *without = NULL;
    make_dense(t, ISO_F32);
    for (int i = 0; i < 3; i++)
        place_inputs(&t[i], 0, NULL, owner[i]);
    begin_dense(&d, t, false);
    run_thunks(d.thunks, 3);
    fetch(&d.relu.out[0], whole);
    check_ok(backend->sequence(d.thunks, 3, stream, &sequence));
    take_notes(text, sizeof text);
    for (int i = 0; i < 3; i++)
        check_ok(backend->launch(sequence, i, 1));
    fetch(&d.relu.out[0], parts);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, "product+bias+relu 7 x 24 x 40 of 1\n");
    ck_assert_mem_eq(whole, parts, sizeof whole);
    setenv("ISOGRID_CUDA_GRAPHS", "0", 1);
    setenv("STANDIN_FAIL", "cudaStreamBeginCapture:900", 1);
    check_ok(backend->sequence(d.thunks, 3, stream, &without));
    check_ok(backend->capture(without)); /* nothing is captured */
    unsetenv("ISOGRID_CUDA_GRAPHS");
    unsetenv("STANDIN_FAIL");
    check_ok(backend->launch(without, 0, 3));
    backend->discard(without);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, "product+bias+relu 7 x 24 x 40 of 1\n");
    check_ok(backend->capture(sequence));
    device->fill(stream, d.relu.out[0].data, &(char){0}, 1, sizeof captured);
    check_ok(backend->launch(sequence, 0, 3));
    fetch(&d.relu.out[0], captured);
    take_notes(text, sizeof text);
    ck_assert_str_eq(text, "product+bias+relu 7 x 24 x 40 of 1\n"); /* of the capture alone */
    ck_assert_mem_eq(whole, captured, sizeof whole);
    backend->discard(sequence);
    for (int i = 0; i < 3; i++)
        free_all(owner[i], t[i].inputs);
}
END_TEST

START_TEST(an_error_says_where)
{
    trial t[3];
    void *owner[3][MOST_ARRAYS];
    dense d;
    make_dense(t, ISO_F32);
    for (int i = 0; i < 3; i++)
        place_inputs(&t[i], 0, NULL, owner[i]);
    trial smaller = t[0];
    smaller.in[0].dim[0] = smaller.out[0].dim[0] = M - 2;
    check_failing(smaller, "cublasLtMatmulAlgoGetHeuristic:14",
                  "GPU 0 (Stand-in): cuBLASLt refuses the product of float32 [5, 40] and float32 [40, 24]: "
                  "another status (14)");
    begin_case();
    begin_dense(&d, t, false);
    setenv("STANDIN_FAIL", "cublasLtMatmul:13", 1);
    check_refused_thunks(
        d.thunks, 3,
        "GPU 0 (Stand-in): the op matmul of layer 'd1': cuBLASLt refuses the product of float32 [7, "
        "40] and float32 [40, 24]: CUBLAS_STATUS_EXECUTION_FAILED (13)");
    unsetenv("STANDIN_FAIL");
    run_thunks(d.thunks, 3); /* the error is over */
    for (int i = 0; i < 3; i++)
        free_all(owner[i], t[i].inputs);
}
END_TEST

int main(void)
{
    if (!begin_all()) {
        report_skipped("the libraries of the backend cuda", "this build has no CUDA");
        return 77;
    }
    int failed = real_cudnn
                     ? RUN_TESTS("real cuDNN", 300, convolutions_agree, fused_convolutions_are_planned)
                     : RUN_TESTS("libraries of CUDA", 300, products_agree, attention_agrees,
                                 causal_blocks_agree, bounded_blocks_agree, convolutions_agree,
                                 products_of_windows_agree, windows_in_parts_agree, copies_in_parts_agree,
                                 engines_are_chosen_by_rules, images_are_framed, cudnn_may_refuse,
                                 bias_and_relu_are_fused, bias_and_relu_of_convolutions_are_fused,
                                 parts_of_a_sequence_are_the_same, an_error_says_where);
    end_all();
    return failed;
}
