/* Calls of ops that take indices, with some that are wrong. */
#ifndef ISO_TESTS_BACKEND_FAULTS_H
#define ISO_TESTS_BACKEND_FAULTS_H

#include "tests/backend/harness.h"

static const char *const faulty_ops[] = {
    "sparse_crossentropy", "sparse_crossentropy_grad", "class_pick", "class_sparse_grad", "embedding",
    "embedding_grad",      "embedding_grad_add",       "top_k_grad", "experts",           "experts_grad"};
enum { FAULTY_OPS = sizeof faulty_ops / sizeof *faulty_ops };

enum { ROWS = 70, CLASSES_OF_FAULTS = 9 };

/* Runs a trial whose indices are input `labels`. */
static inline iso_fault run_with_faults(trial *t, int labels, const iso_backend *backend, const int *wrong,
                                        int32_t earlier)
{
    void *owner[MOST_ARRAYS], *memory[ISO_MAX_OUTPUTS];
    const iso_dtype dtype = t->in[labels].dtype;
    place_inputs(t, 0, NULL, owner);
    for (int i = 0; wrong[i] >= 0; i++)
        iso_element_set(t->in[labels].data, dtype, wrong[i], dtype == ISO_I64 ? -7 - i : 2.5 + i);
    for (int i = 0; i < t->outputs; i++)
        t->out[i].data = room_for(&t->out[i], 0, &memory[i]);
    /* An earlier fault is found without the lock, which is never free here. */
    iso_fault fault = {
        .lock = earlier != 0, .code = earlier ? ISO_FAULT_INTEGER : ISO_FAULT_NONE, .instruction = earlier};
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = t->outputs,
                            .in = t->in,
                            .out = t->out,
                            .info = &step_info,
                            .fault = &fault,
                            .instruction = 12};
    const iso_kernel *kernel = backend->find(t->op, &call);
    call.scratch = kernel->scratch ? aligned_alloc(64, (kernel->scratch(&call) + 63) / 64 * 64) : NULL;
    kernel->run(&call);
    free(call.scratch);
    free_all(memory, t->outputs);
    free_all(owner, t->inputs);
    return fault;
}

/* Ops that take indices [ROWS, 1] of experts, or of elements of a row. */
static inline iso_fault fault_of_choices(const char *op, const iso_backend *backend, iso_dtype dtype,
                                         const int *wrong, int32_t earlier)
{
    enum { D = 3, HIDDEN = 4 };
    trial t = {.op = op};
    const bool experts = strstr(op, "experts");
    if (experts)
        input(&t, ISO_F32, -1, 1, DIMS(ROWS, D));
    input(&t, dtype, 0, CLASSES_OF_FAULTS, DIMS(ROWS, 1));
    t.whole = 1u << experts;
    input(&t, ISO_F32, -1, 1, DIMS(ROWS, 1));
    output(&t, ISO_F32, DIMS(ROWS, experts ? D : CLASSES_OF_FAULTS));
    if (experts) {
        t.attrs.experts.activation = ISO_UNARY_RELU;
        input(&t, ISO_F32, -1, 1, DIMS(CLASSES_OF_FAULTS, D, HIDDEN));
        input(&t, ISO_F32, -1, 1, DIMS(CLASSES_OF_FAULTS, HIDDEN, D));
    }
    if (strcmp(op, "experts_grad") == 0) {
        for (int i = 2; i < 5; i++)
            t.out[t.outputs++] = t.in[i];
        input(&t, ISO_F32, -1, 1, DIMS(ROWS, D));
    }
    return run_with_faults(&t, experts, backend, wrong, earlier);
}

/* Runs an op of labels [ROWS]; the labels at `wrong`, which ends with -1, are none. earlier: the instruction
 * that has met a fault before; 0: none. */
static inline iso_fault fault_of(const char *op, const iso_backend *backend, iso_dtype dtype,
                                 const int *wrong, int32_t earlier)
{
    trial t = {.op = op};
    if (strcmp(op, "top_k_grad") == 0 || strstr(op, "experts"))
        return fault_of_choices(op, backend, dtype, wrong, earlier);
    bool gradient = strstr(op, "grad"), table = strstr(op, "embedding"), part = strstr(op, "class_");
    bool added = strstr(op, "grad_add");
    t.attrs.embedding.rows = CLASSES_OF_FAULTS;
    if (part)
        t.attrs.classes = (iso_class_attrs){1, 0};
    if (table && (!gradient || added))
        input(&t, ISO_F32, -1, 1, DIMS(CLASSES_OF_FAULTS, 3));
    int labels = t.inputs;
    input(&t, dtype, 0, CLASSES_OF_FAULTS, DIMS(ROWS));
    t.whole = 1u << labels;
    if (!table)
        input(&t, ISO_F32, -1, 1, DIMS(ROWS, CLASSES_OF_FAULTS));
    if (table ? gradient : gradient && !part)
        input(&t, ISO_F32, -1, 1, 1 + table, (int64_t[]){ROWS, 3});
    for (int i = 0; part && gradient && i < 3; i++) /* max, sum, dloss */
        input(&t, ISO_F32, 2, 3, 2 - (i == 2), (int64_t[]){ROWS, 1});
    output(&t, ISO_F32, 2,
           table ? gradient ? (int64_t[]){CLASSES_OF_FAULTS, 3} : (int64_t[]){ROWS, 3}
                 : (int64_t[]){ROWS, gradient ? CLASSES_OF_FAULTS : 1});
    return run_with_faults(&t, labels, backend, wrong, earlier);
}

#endif
