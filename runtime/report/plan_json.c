/* A report as JSON. docs/plan.md describes every field. */
#include "runtime/base/arguments.h"
#include "runtime/base/json.h"
#include "runtime/base/thread_modes.h"
#include "runtime/report/plan_report.h"

static json_t *json_shape_of(const iso_shape *shape)
{
    json_t *list = json_array();
    for (int d = 0; d < shape->rank; d++)
        json_array_append_new(list, json_integer(shape->dim[d]));
    return list;
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *variable(const iso_report_variable *v)
{
    return json_pack("{ss ss so ss sb so so ss si ss sI sI sI}", "path", v->path, "reason", v->reason, "key",
                     text_or_null(v->key), "dtype", iso_dtype_name(v->dtype), "trainable", v->trainable,
                     "shape", json_shape_of(&v->shape), "local_shape", json_shape_of(&v->local), "layout",
                     v->layout, "update_split", v->split, "update_axes", v->split_axes, "bytes",
                     (json_int_t)v->bytes, "gradient_bytes", (json_int_t)v->gradient_bytes, "optimizer_bytes",
                     (json_int_t)v->state_bytes);
}

static json_t *origin(const iso_report_origin *o)
{
    if (!o->op)
        return json_null();
    return json_pack("{ss so sb sb}", "op", o->op, "layer", text_or_null(o->layer), "backward", o->backward,
                     "recomputed", o->again);
}

static json_t *op(const iso_report_op *o)
{
    static const char *const kinds[] = {
        [ISO_REPORT_READ] = "read",  [ISO_REPORT_OP] = "op",       [ISO_REPORT_PRODUCT] = "fused_gradient",
        [ISO_REPORT_COPY] = "slice", [ISO_REPORT_BEGIN] = "begin", [ISO_REPORT_EXCHANGE] = "exchange",
        [ISO_REPORT_END] = "end"};
    json_t *object = json_pack("{ss so so}", "kind", kinds[o->kind], "from", origin(&o->origin), "tensor",
                               text_or_null(o->tensor));
    if (o->tensor && object) {
        json_object_set_new(object, "shape", json_shape_of(&o->shape));
        json_object_set_new(object, "local_shape", json_shape_of(&o->local));
        json_object_set_new(object, "layout", json_string(o->layout));
        json_object_set_new(object, "kernel", text_or_null(o->kernel));
        json_object_set_new(object, "flops", json_real(o->flops));
        json_object_set_new(object, "repeated", json_real(o->repeated));
    }
    if (object)
        json_object_set_new(object, "live_bytes", json_integer(o->live));
    return object;
}

static json_t *collective(const iso_plan_report *r, const iso_report_collective *c)
{
    return json_pack("{ss ss ss so so so so si si si sb}", "kind", c->kind, "axes", c->axes, "tensor",
                     c->tensor, "from", origin(&c->from), "to", origin(&c->to), "bytes", json_real(c->bytes),
                     "bytes_per_slot", json_real(c->bytes / r->n_slots), "begin", c->begin, "end", c->end,
                     "overlaps", c->overlaps, "next_step", c->next_step);
}

static json_t *memory(const iso_report_memory *m)
{
    return json_pack("{sI sI sI sI sI sI}", "weights", (json_int_t)m->weights, "gradients",
                     (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "activations",
                     (json_int_t)m->activations, "buffers", (json_int_t)m->buffers, "total",
                     (json_int_t)m->total);
}

static json_t *heaviest(const iso_plan_report *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->heaviest; i++)
        json_array_append_new(list, json_pack("{ss sb so sI}", "name", r->heavy[i].name, "variable",
                                              r->heavy[i].variable, "from", origin(&r->heavy[i].from),
                                              "bytes", (json_int_t)r->heavy[i].bytes));
    return list;
}

static json_t *lists_of(const iso_plan_report *r, json_t *object)
{
    json_t *variables = json_array(), *ops = json_array(), *collectives = json_array();
    for (int i = 0; i < r->n_variables; i++)
        json_array_append_new(variables, variable(&r->variables[i]));
    for (int i = 0; i < r->n_ops; i++)
        json_array_append_new(ops, op(&r->ops[i]));
    for (int i = 0; i < r->n_collectives; i++)
        json_array_append_new(collectives, collective(r, &r->collectives[i]));
    json_object_set_new(object, "variables", variables);
    json_object_set_new(object, "ops", ops);
    json_object_set_new(object, "collectives", collectives);
    return object;
}

static json_t *op_times(const iso_report_time *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n_ops; i++)
        json_array_append_new(list, json_pack("{ss so si sf sb}", "op", t->ops[i].type, "from",
                                              origin(&t->ops[i].origin), "count", t->ops[i].count, "seconds",
                                              t->ops[i].seconds, "measured", t->ops[i].measured));
    return list;
}

static json_t *time_of(const iso_plan_report *r)
{
    const iso_report_time *t = r->time;
    return json_pack("{sf sf sf sf sf sf sf sf sf ss so so so so so so so}", "step", t->step,
                     "rows_per_second", (double)r->rows / t->step, "computation", t->computation, "update",
                     t->update, "intra_host", t->intra_host, "exposed", t->exposed, "inter_host",
                     t->in_flight, "hidden", t->hidden, "measured", t->measured, "machine", t->machine,
                     "this_processor", text_or_null(t->processor), "this_backend", text_or_null(t->backend),
                     "measured_backend", text_or_null(t->measured_backend), "this_build",
                     text_or_null(t->build), "measured_build", text_or_null(t->measured_build), "network",
                     text_or_null(t->network), "ops", op_times(t));
}

static json_t *ranks(const iso_plan_report *r)
{
    json_t *list = json_array();
    for (int s = 0; s < r->n_slots; s++)
        json_array_append_new(list, json_integer(r->rank_of_slot[s]));
    return list;
}

static json_t *whole(const iso_plan_report *r)
{
    json_t *object =
        json_pack("{si ss ss si si si si sI ss sI so so so so so so}", "version", 2, "function",
                  r->training ? "training" : "inference", "mesh", r->mesh, "slots", r->n_slots, "hosts",
                  r->n_hosts, "slots_per_host", r->n_host_slots, "domains", r->n_domains, "rows",
                  (json_int_t)r->rows, "backend", r->backend, "parameters", (json_int_t)r->parameters,
                  "flops", json_real(r->flops), "exchanged_bytes", json_real(r->bytes), "hidden_bytes",
                  json_real(r->hidden), "slot_memory", memory(&r->slot), "host_memory", memory(&r->host),
                  "peak", json_pack("{si sI}", "op", r->peak, "bytes", (json_int_t)r->peak_bytes));
    if (object) {
        json_object_set_new(object, "accumulation_bytes", json_real(r->accumulation_bytes));
        json_object_set_new(object, "heaviest", heaviest(r));
    }
    if (object && r->n_gpu_slots > 0) {
        json_object_set_new(object, "gpu_memory", memory(&r->gpu));
        json_object_set_new(object, "slots_per_gpu", json_integer(r->n_gpu_slots));
        json_object_set_new(object, "nccl_memory",
                            json_pack("{si sI sI}", "peers", r->nccl_peers, "least",
                                      (json_int_t)r->nccl_least, "most", (json_int_t)r->nccl_most));
        json_object_set_new(object, "nccl_sums",
                            json_pack("{si sI}", "sets", r->nccl_sets, "bytes", (json_int_t)r->nccl_sums));
    }
    if (object && r->flops_again > 0)
        json_object_set_new(object, "recomputation",
                            json_pack("{so sI}", "flops", json_real(r->flops_again), "activations_kept",
                                      (json_int_t)r->activations_kept));
    if (object && r->time)
        json_object_set_new(object, "time", time_of(r));
    if (object && r->rank_of_slot)
        json_object_set_new(object, "rank_of_slot", ranks(r));
    return object ? lists_of(r, object) : NULL;
}

iso_status iso_plan_report_json(const iso_plan_report *report, iso_text *text)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(report, text);
    json_t *object = whole(report);
    iso_json_add(text, object, JSON_INDENT(1));
    iso_text_add(text, "\n");
    return !text->failed ? ISO_OK : iso_no_memory("a plan as JSON");
}
