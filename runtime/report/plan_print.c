/* A report as text. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/report/plan_time.h"

typedef struct printer {
    const iso_plan_report *report;
    iso_text *text;
} printer;

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static const char *shape_text(const iso_shape *shape, char text[160])
{
    return iso_shape_text(shape, text, 160);
}

static const char *bytes_text(double bytes, char text[32])
{
    return iso_text_scaled(bytes, "B", text, 32);
}

/* ---- the head ---- */

/* "slots 0-3 on rank 0, 4 on rank 1"; long lists are shortened. */
static void print_ranks(const printer *p)
{
    enum { SHOWN = 16 };
    const int *rank = p->report->rank_of_slot;
    int slots = p->report->n_slots, runs = 0;
    iso_text_add(p->text, "slots ");
    for (int begin = 0, end; begin < slots && runs <= SHOWN; begin = end, runs++) {
        for (end = begin + 1; end < slots && rank[end] == rank[begin]; end++)
            ;
        iso_text_add(p->text, "%s", runs ? ", " : "");
        if (runs == SHOWN)
            iso_text_add(p->text, "...");
        else if (end - begin > 1)
            iso_text_add(p->text, "%d-%d on rank %d", begin, end - 1, rank[begin]);
        else
            iso_text_add(p->text, "%d on rank %d", begin, rank[begin]);
    }
    iso_text_add(p->text, "\n");
}

static void print_head(const printer *p)
{
    const iso_plan_report *r = p->report;
    iso_text_add(p->text, "plan of %s on %lld row%s; mesh %s: %d slot%s",
                 r->training ? "training" : "inference", (long long)r->rows, r->rows == 1 ? "" : "s", r->mesh,
                 r->n_slots, r->n_slots == 1 ? "" : "s");
    if (r->n_hosts == 1)
        iso_text_add(p->text, " on one host");
    else
        iso_text_add(p->text, " on %d hosts, %s%d on each", r->n_hosts,
                     r->n_hosts * r->n_host_slots == r->n_slots ? "" : "up to ", r->n_host_slots);
    if (r->n_domains != r->n_hosts)
        iso_text_add(p->text, ", in %d memory domains", r->n_domains);
    iso_text_add(p->text, "; backend %s\n", r->backend);
    if (r->rank_of_slot)
        print_ranks(p);
}

/* ---- variables ---- */

static void print_variable(const printer *p, const iso_report_variable *v, const int width[3])
{
    char shape[160], bytes[32];
    iso_text_add(p->text, "  %-*s  %-*s  %-*s  %8s", width[0], v->path, width[1],
                 shape_text(&v->shape, shape), width[2], v->layout, bytes_text((double)v->bytes, bytes));
    bool said = strcmp(v->reason, "default") != 0;
    if (v->key)
        iso_text_add(p->text, "  key '%s'", v->key);
    else if (said)
        iso_text_add(p->text, "  %s",
                     !strcmp(v->reason, "own")            ? "its own layout"
                     : !strcmp(v->reason, "zero")         ? "ZeRO 3"
                     : !strcmp(v->reason, "accumulation") ? "accumulated gradients"
                     : !strcmp(v->reason, "optimizer")    ? "the optimizer's state"
                                                          : "the distribution");
    if (v->split > 1)
        iso_text_add(p->text, "%supdate split over %s", said ? "; " : "  ", v->split_axes);
    iso_text_add(p->text, "\n");
}

static void print_variables(const printer *p)
{
    const iso_plan_report *r = p->report;
    int width[3] = {8, 5, 6};
    char shape[160];
    for (int i = 0; i < r->n_variables; i++) {
        width[0] = wider(width[0], r->variables[i].path);
        width[1] = wider(width[1], shape_text(&r->variables[i].shape, shape));
        width[2] = wider(width[2], r->variables[i].layout);
    }
    iso_text_add(p->text, "\n  %-*s  %-*s  %-*s  %8s  why\n", width[0], "variable", width[1], "shape",
                 width[2], "layout", "a slot");
    for (int i = 0; i < r->n_variables; i++)
        print_variable(p, &r->variables[i], width);
}

/* ---- ops ---- */

/* "matmul of d1", "matmul of d1, backward", "matmul of d1, again" */
static void add_origin(iso_text *text, const iso_report_origin *origin, const char *nothing)
{
    if (!origin->op) {
        iso_text_add(text, "%s", nothing);
        return;
    }
    iso_text_add(text, "%s%s%s%s", origin->op, *origin->layer ? " of " : "", origin->layer,
                 origin->again      ? ", again"
                 : origin->backward ? ", backward"
                                    : "");
}

static void name_op(const iso_report_op *op, iso_text *name)
{
    switch (op->kind) {
    case ISO_REPORT_READ:
        iso_text_add(name, "read %s", op->tensor);
        break;
    case ISO_REPORT_OP:
        add_origin(name, &op->origin, "");
        break;
    case ISO_REPORT_PRODUCT:
        iso_text_add(name, "in parts at the end: ");
        add_origin(name, &op->origin, "");
        break;
    case ISO_REPORT_COPY:
        iso_text_add(name, "slice");
        iso_text_add(name, op->origin.op ? ": " : "");
        add_origin(name, &op->origin, "");
        break;
    case ISO_REPORT_BEGIN:
        iso_text_add(name, "begin of an exchange");
        break;
    case ISO_REPORT_EXCHANGE:
        iso_text_add(name, "exchange");
        break;
    case ISO_REPORT_END:
        iso_text_add(name, "end of the step: exchange and update");
        break;
    }
}

static void print_op(const printer *p, int number, const iso_report_op *before, int width)
{
    const iso_report_op *op = &p->report->ops[number];
    char shape[160];
    iso_text name = {0};
    name_op(op, &name);
    iso_text_add(p->text, "  %4d  %-*s", number, width, iso_text_get(&name));
    iso_text_free(&name);
    if (op->tensor &&
        (!before || !iso_shape_equal(&op->local, &before->local) || strcmp(op->layout, before->layout)))
        iso_text_add(p->text, "  %s%s%s%s", shape_text(&op->local, shape), op->local.rank ? " (" : "",
                     op->layout, op->local.rank ? ")" : "");
    if (op->kernel)
        iso_text_add(p->text, "  [%s]", op->kernel);
    if (op->repeated > 1)
        iso_text_add(p->text, "  the same on %.0f slots", op->repeated);
    iso_text_add(p->text, "\n");
}

static void print_ops(const printer *p)
{
    const iso_plan_report *r = p->report;
    const iso_report_op *before = NULL;
    int width = 8;
    for (int i = 0; i < r->n_ops; i++) {
        iso_text name = {0};
        name_op(&r->ops[i], &name);
        width = wider(width, iso_text_get(&name));
        iso_text_free(&name);
    }
    iso_text_add(p->text, "\n     #  %-*s  a slot's part (layout), where it changes\n", width, "op");
    for (int i = 0; i < r->n_ops; i++) {
        print_op(p, i, before, width);
        if (r->ops[i].tensor)
            before = &r->ops[i];
    }
}

/* ---- collectives ---- */

static void print_collective(const printer *p, const iso_report_collective *c, const int width[2])
{
    char all[32], each[32];
    iso_text_add(p->text, "  %4d  %-*s  %-*s  %8s  %8s  ", c->begin, width[0], c->kind, width[1], c->axes,
                 bytes_text(c->bytes / p->report->n_slots, each), bytes_text(c->bytes, all));
    bool named = !c->from.op || strcmp(c->tensor, c->from.op) != 0;
    iso_text_add(p->text, "%s%s", named ? c->tensor : "", named && c->from.op ? " from " : "");
    add_origin(p->text, &c->from, "");
    iso_text_add(p->text, " for ");
    add_origin(p->text, &c->to, c->next_step ? "the next step" : "the end of the step");
    if (c->overlaps)
        iso_text_add(p->text, "; overlaps %d to %d%s", c->begin + 1, c->end - 1,
                     c->next_step ? " of it" : "");
    iso_text_add(p->text, "\n");
}

static void print_collectives(const printer *p)
{
    const iso_plan_report *r = p->report;
    int width[2] = {10, 4};
    for (int i = 0; i < r->n_collectives; i++) {
        width[0] = wider(width[0], r->collectives[i].kind);
        width[1] = wider(width[1], r->collectives[i].axes);
    }
    if (!r->n_collectives) {
        iso_text_add(p->text, "\nno collectives\n");
        return;
    }
    iso_text_add(p->text, "\n    at  %-*s  %-*s  %8s  %8s  what\n", width[0], "collective", width[1], "axes",
                 "a slot", "in all");
    for (int i = 0; i < r->n_collectives; i++)
        print_collective(p, &r->collectives[i], width);
}

/* ---- memory ---- */

/* A row of the table. */
static void print_use(const printer *p, const char *use, int64_t slot, int64_t together)
{
    char a[32], b[32];
    iso_text_add(p->text, "  %-12s  %8s  %8s\n", use, bytes_text((double)slot, a),
                 bytes_text((double)together, b));
}

static void print_memory(const printer *p)
{
    const iso_plan_report *r = p->report;
    bool gpus = r->n_gpu_slots > 0;
    const iso_report_memory *s = &r->slot, *m = gpus ? &r->gpu : &r->host;
    char a[32], b[32];
    iso_text name = {0};
    iso_text_add(p->text, "\n  %-12s  %8s  %8s\n", gpus ? "GPU memory" : "memory", "a slot",
                 gpus ? "a GPU" : "a host");
    print_use(p, "weights", s->weights, m->weights);
    print_use(p, "gradients", s->gradients, m->gradients);
    print_use(p, "optimizer", s->optimizer, m->optimizer);
    print_use(p, "activations", s->activations, m->activations);
    print_use(p, gpus ? "workspaces" : "buffers", s->buffers, m->buffers);
    print_use(p, "total", s->total, m->total);
    if (gpus)
        iso_text_add(p->text, "  %d slot%s on the fullest GPU; memory of a host: %s\n", r->n_gpu_slots,
                     r->n_gpu_slots == 1 ? "" : "s", bytes_text((double)r->host.total, a));
    if (r->nccl_peers > 0)
        iso_text_add(
            p->text,
            "  not counted: %s (PCIe) to %s (NVLink) that NCCL takes for %d other GPU%s of the host\n",
            bytes_text((double)r->nccl_least, a), bytes_text((double)r->nccl_most, b), r->nccl_peers,
            r->nccl_peers == 1 ? "" : "s");
    if (r->nccl_sets > 0)
        iso_text_add(
            p->text,
            "  for NCCL's reductions: %s of the workspaces of a GPU, and what NCCL takes for itself, "
            "which is not counted\n",
            bytes_text((double)r->nccl_sums, a));
    name_op(&r->ops[r->peak], &name);
    iso_text_add(p->text, "  peak of a slot: %s, at op %d: %s\n", bytes_text((double)r->peak_bytes, a),
                 r->peak, iso_text_get(&name));
    iso_text_free(&name);
}

/* Prints the cost of recomputation and the memory that it saves. */
static void print_again(const printer *p)
{
    const iso_plan_report *r = p->report;
    char a[32], b[32], c[32];
    if (r->flops_again <= 0)
        return;
    iso_text_add(p->text, "  computed again in the backward pass: %s (%.1f%% of a step)",
                 iso_text_scaled(r->flops_again, "FLOP", a, sizeof a), 100 * r->flops_again / r->flops);
    if (r->activations_kept > 0)
        iso_text_add(p->text, "; activations of a slot: %s instead of %s",
                     bytes_text((double)r->slot.activations, b), bytes_text((double)r->activations_kept, c));
    iso_text_add(p->text, "\n");
}

static void print_totals(const printer *p)
{
    const iso_plan_report *r = p->report;
    char a[32], b[32], c[32], d[32];
    iso_text_add(p->text, "\nparameters %lld; a step: %s, of a slot %s; exchanged %s, by a slot %s",
                 (long long)r->parameters, iso_text_scaled(r->flops, "FLOP", a, sizeof a),
                 iso_text_scaled(r->flops / r->n_slots, "FLOP", b, sizeof b), bytes_text(r->bytes, c),
                 bytes_text(r->bytes / r->n_slots, d));
    if (r->n_domains > 1 && r->bytes > 0)
        iso_text_add(p->text, ", %.0f%% while slots compute", 100 * r->hidden / r->bytes);
    if (r->accumulation_bytes < r->bytes)
        iso_text_add(p->text, "; %s, by a slot %s, in a step that only accumulates gradients",
                     bytes_text(r->accumulation_bytes, a), bytes_text(r->accumulation_bytes / r->n_slots, b));
    iso_text_add(p->text, "\n");
}

void iso_plan_report_print(const iso_plan_report *report, iso_text *text)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(report, text))
        return;
    printer p = {report, text};
    print_head(&p);
    print_variables(&p);
    print_ops(&p);
    print_collectives(&p);
    print_memory(&p);
    print_again(&p);
    print_totals(&p);
    if (report->time)
        iso_report_time_print(report, text);
}
