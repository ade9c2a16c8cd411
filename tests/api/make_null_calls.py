#!/usr/bin/env python3
"""Calls of every public function with NULL, and with indexes that there are not, as a C header for tests/api/test_null.c.

Reads the headers that tests/public_headers lists. Each pointer parameter of each function is NULL in one call, the
other arguments are those of the test's fixture; so is each pointer member of an options struct that a function cannot
do without. A type that is not in the tables below is an error: whoever adds it adds its line.

Usage: make_null_calls.py HEADER... > null_calls.h
"""
import re
import sys

# ---- what arguments are made of: C expressions; f is the fixture ----
POINTERS = {
    "iso_context *": "f->ctx",
    "iso_context **": "&f->made.ctx",
    "iso_graph *": "f->graph",
    "iso_tensor *": "f->x",
    "iso_tensor **": "f->tensors",
    "iso_tensor *const *": "f->tensors",
    "iso_variable *": "f->variable",
    "iso_update *": "f->update",
    "iso_layer_record *": "&f->layer",
    "iso_layer_record **": "(const iso_layer_record *[1]){NULL}",
    "iso_attribute *": "&f->attribute",
    "iso_layer_row *": "f->rows",
    "iso_conv_geometry *": "&f->conv",
    "iso_pool_geometry *": "&f->pool",
    "iso_unfold_geometry *": "&f->unfold",
    "iso_attention_form *": "&f->attention",
    "iso_experts_form *": "&f->experts",
    "iso_rotary_stretch *": "&f->stretch",
    "iso_weight_constraint *": "&f->constraint",
    "iso_recurrence_form *": "&f->recurrence",
    "iso_warp_form *": "&f->warp",
    "iso_optimizer *": "&f->optimizer",
    "iso_loss *": "&f->loss",
    "iso_metric *": "&f->metric",
    "iso_metric_settings *": "&f->metric_settings",
    "iso_mesh *": "f->mesh",
    "iso_mesh **": "&f->made.mesh",
    "iso_layout *": "f->layout",
    "iso_layout **": "&f->made.layout",
    "iso_layout_map *": "f->map",
    "iso_layout_map **": "&f->made.map",
    "iso_distribution *": "f->distribution",
    "iso_distribution **": "&f->made.distribution",
    "iso_value *": "f->value",
    "iso_value **": "&f->made.value",
    "iso_function *": "f->function",
    "iso_function **": "&f->made.function",
    "iso_function_options *": "&f->function_options",
    "iso_suggest_options *": "&f->suggest_options",
    "iso_suggestion *": "NULL",
    "iso_suggestion **": "&f->made.suggestion",
    "iso_plan_facts *": "&f->facts",
    "iso_plan_report *": "f->report",
    "iso_plan_report **": "&f->made.report",
    "iso_fingerprint *": "&f->fingerprint",
    "iso_state_shards *": "&f->made.shards",
    "iso_state_shard *": "f->shards.shards",
    "iso_batch *": "f->batch",
    "iso_batch **": "&f->made.batch",
    "iso_dataset *": "f->data",
    "iso_dataset **": "&f->made.data",
    "iso_model *": "f->model",
    "iso_model **": "&f->made.model",
    "iso_builtin_model *": "iso_builtin_model_at(0)",
    "iso_builtin_model **": "&f->builtin",
    "iso_builtin_settings *": "&f->settings",
    "iso_pretrained *": "&f->pretrained",
    "iso_pretrained_adapter *": "&f->adapter",
    "iso_lora_options *": "&f->lora",
    "iso_compile_options *": "&f->compile",
    "iso_callback *": "NULL",
    "iso_history *": "f->history",
    "iso_logs *": "&f->logs",
    "iso_fit_state *": "&f->state",
    "iso_progress *": "f->progress",
    "iso_progress **": "&f->made.progress",
    "iso_saved_file *": "f->file",
    "iso_saved_file **": "&f->made.file",
    "iso_keras_unpacked *": "&f->unpacked",
    "iso_text *": "&f->text",
    "iso_tokenizer *": "f->tokenizer",
    "iso_tokenizer **": "&f->made.tokenizer",
    "iso_shape *": "&f->shape",
    "iso_box *": "&f->box",
    "iso_sliding_window *": "&f->window",
    "iso_status *": "&f->status",
    "char *": "f->characters",
    "char **": "&f->made.characters",
    "char *const *": "f->names",
    "void *": "f->bytes",
    "double *": "f->numbers",
    "double *const *": "f->outputs",
    "int *": "f->integers",
    "int **": "&f->made.integers",
    "int32_t *": "f->ids",
    "int32_t **": "&f->made.ids",
    "int64_t *": "f->longs",
    "uint64_t *": "&f->number",
    "size_t *": "&f->size",
    "bool *": "&f->flag",
    "char ***": "NULL",
    "FILE *": "f->out",
    "iso_model *(*)(iso_context *ctx)": "build_model",
    "iso_status (*)(void *user)": "NULL",
    "void (*)(void *user, const char *text)": "NULL",
}
SCALARS = {
    "int": "1", "int32_t": "1", "int64_t": "1", "uint64_t": "1", "size_t": "sizeof f->bytes", "double": "1", "bool": "false",
    "iso_dtype": "ISO_F32", "iso_shape": "f->shape", "iso_initializer": "(iso_initializer){0}", "iso_masks": "(iso_masks){0}", "iso_part": "ISO_TRAIN",
    "iso_optimizer": "f->optimizer", "iso_status": "ISO_OK", "iso_loss": "ISO_LOSS_MSE", "iso_metric": "ISO_METRIC_MSE",
    "iso_activation_kind": "ISO_RELU", "iso_reduction": "ISO_REDUCE_SUM", "MPI_Comm": "MPI_COMM_WORLD", "MPI_Fint": "0",
    "iso_trace_detail": "ISO_TRACE_INSTRUCTIONS", "iso_uniform_function": "ISO_UNIFORM_VALUE",
}
# Arguments of one function that are not those of their type.
SPECIAL = {
    ("iso_variable_read", "variable"): "f->trained", ("iso_variable_assign", "variable"): "f->trained",
    ("iso_variable_layout", "variable"): "f->trained", ("iso_variable_read", "count"): "4",
    ("iso_variable_assign", "count"): "4", ("iso_graph_fingerprint", "graph"): "iso_model_graph(f->model)",
    ("iso_graph_shards", "graph"): "iso_model_graph(f->model)", ("iso_graph_mesh", "graph"): "iso_model_graph(f->model)",
    ("iso_function_evaluate", "function"): "f->whole", ("iso_function_trace", "function"): "f->function",
    ("iso_mesh_create", "spec"): '"data=*"', ("iso_mesh_create_on", "spec"): '"data=*"', ("iso_mesh_abstract", "spec"): '"data=2"',
    ("iso_layout_create", "text"): '"-"', ("iso_layout_batch_sharded", "axis"): '"data"', ("iso_layout_map_set", "layout"): '"-"',
    ("iso_variable_read_value", "variable"): "f->trained", ("iso_variable_assign_value", "variable"): "f->trained",
    ("iso_variable_assign_value", "value"): "f->same",
    ("iso_value_read", "slot"): "f->own_slot", ("iso_value_read", "box"): "NULL", ("iso_variable_read_part", "variable"): "f->trained",
    ("iso_variable_read_part", "slot"): "f->own_slot", ("iso_variable_read_part", "box"): "NULL",
    ("iso_layout_map_get", "layout"): "&f->lent", ("iso_layout_map_key", "index"): "0", ("iso_layout_map_layout", "index"): "0", ("iso_value_pack", "slot"): "f->own_slot",
    ("iso_dataset_open_with", "name"): '"random"', ("iso_model_save_weights", "path"): "f->file_name",
    ("iso_saved_file_open", "path"): "f->file_name", ("iso_checkpoint_find", "folder"): "f->folder", ("iso_checkpoint_newest", "folder"): "f->folder",
    ("iso_checkpoint_pointed", "folder"): "f->folder", ("iso_follow_with", "folder"): "f->followed",
    ("iso_model_restore_or_create", "folder"): "f->folder", ("iso_layout_visualize_svg", "path"): "f->picture",
    ("iso_keras_save", "path"): "f->keras_name", ("iso_keras_save_check", "path"): "f->keras_name",
    ("iso_keras_load_with", "path"): "f->keras_name", ("iso_keras_read_member", "path"): "f->keras_name",
    ("iso_keras_unpack_weights", "path"): "f->keras_name", ("iso_keras_read_member", "member"): '"config.json"',
    ("iso_tokenizer_open", "path"): "f->missing", ("iso_tokenizer_decode", "count"): "1", ("iso_tokenizer_encode", "bytes"): "4",
    ("iso_tokenizer_encode_pair", "first_bytes"): "4", ("iso_tokenizer_encode_pair", "second_bytes"): "4",
    ("iso_dataset_cache", "path"): "f->cache_name", ("iso_history_file", "path"): "f->history_name",
    ("iso_backup_remove", "folder"): "f->missing", ("iso_layout_map_read", "path"): "f->missing",
    ("iso_gather_all", "bytes"): "8", ("iso_broadcast", "bytes"): "8", ("iso_broadcast_from", "bytes"): "8", ("iso_broadcast_in_hosts", "bytes"): "8",
    ("iso_broadcast_from", "root"): "0", ("iso_all_reduce", "dtype"): "ISO_I64", ("iso_all_reduce", "count"): "1", ("iso_text_add_near", "count"): "2",
    ("iso_text_add_nearest", "count"): "2", ("iso_model_create_several", "input_count"): "1",
    ("iso_model_create_several", "output_count"): "1", ("iso_value_create", "shape"): "ISO_SHAPE(4)",
    ("iso_model_create_several", "outputs"): "&f->y",
    ("iso_optimizer_find", "name"): '"sgd"', ("iso_loss_find", "name"): '"mse"', ("iso_metric_find", "name"): '"mse"',
    ("iso_builtin_model_find", "name"): '"mlp"', ("iso_text_scaled", "unit"): '"B"',
    ("iso_function_suggest", "graph"): "f->graph", ("iso_function_plan", "rows"): "6",
    ("iso_builtin_model_create", "shape"): "ISO_SHAPE(28, 28, 1)", ("iso_builtin_model_create_adapted", "shape"): "ISO_SHAPE(28, 28, 1)", ("iso_model_create", "y"): "f->y",
}
# Parameters that may be NULL, as the headers say; the call is made and must not crash.
MAY_BE_NULL = {
    ("iso_top_k", "index"), ("iso_attention_op", "mask"), ("iso_metric_result", "settings"),
    ("iso_recurrence_op", "bias"), ("iso_recurrence_op", "h0"), ("iso_recurrence_op", "c0"), ("iso_recurrence_op", "mask"), ("iso_recurrence_op", "c"),
    ("iso_graph_check_replicas", "compared"), ("iso_set_warning_handler", "take"), ("iso_set_warning_handler", "user"),
    ("iso_set_failure_handler", "take"), ("iso_set_failure_handler", "user"),
    ("iso_init", "argc"), ("iso_init", "argv"), ("iso_init_on", "argc"), ("iso_init_on", "argv"), ("iso_init_on_fortran", "argc"), ("iso_init_on_fortran", "argv"), ("iso_finish", "ctx"),
    ("iso_option", "fallback"), ("iso_stopped", "saved"), ("iso_graph_create", "ctx"), ("iso_mesh_create", "spec"), ("iso_mesh_abstract_on", "devices"), ("iso_mesh_create_on", "rank_of_slot"),
    ("iso_distribution_create_with", "mesh"), ("iso_data_parallel_create", "mesh"), ("iso_auto_parallel_create_with", "mesh"), ("iso_graph_distribute", "distribution"),
    ("iso_saved_file_committed", "number"), ("iso_saved_file_stored", "bytes"),
    ("iso_checkpoint_find", "pattern"), ("iso_checkpoint_newest", "pattern"), ("iso_checkpoint_find", "passed_over"), ("iso_dataset_cache", "path"),
    ("iso_function_run", "batch"), ("iso_function_run", "results"), ("iso_function_evaluate", "batch"),
    ("iso_function_step", "batch"), ("iso_input", "name"), ("iso_input_unbatched", "name"), ("iso_mesh_equal", "a"),
    ("iso_mesh_equal", "b"), ("iso_value_read", "box"), ("iso_variable_read_part", "box"), ("iso_variable_set_layout", "layout"),
    ("iso_attribute_add", "to"), ("iso_name_scope_end", "y"), ("iso_update_join", "a"), ("iso_update_join", "b"),
    ("iso_model_set_trainable", "layer"), ("iso_graph_set_trainable", "name"),
    ("iso_graph_add_penalty", "variable"), ("iso_by_mode_unless_frozen", "variable"),
    ("iso_layer_norm_op", "gamma"), ("iso_rms_norm_op", "gamma"), ("iso_layer_norm_op", "beta"), ("iso_batch_norm_op", "gamma"),
    ("iso_batch_norm_op", "beta"), ("iso_reduce_loss", "weights"),
    ("iso_builtin_model_create", "settings"), ("iso_builtin_model_create_adapted", "settings"), ("iso_builtin_model_objective", "settings"), ("iso_builtin_model_create_adapted", "lora"),
    ("iso_pretrained_save_adapter", "base"), ("iso_pretrained_save_adapter_check", "base"), ("iso_graph_set_name", "name"), ("iso_graph_set_restore", "restore"), ("iso_graph_set_restore", "user"), ("iso_layout_print", "layout"), ("iso_history_file", "path"), ("iso_free", "memory"), ("iso_error", "format"), ("iso_error_text", "text"),
    ("iso_error_prefix", "format"), ("iso_no_memory", "format"),
}
# Contexts: NULL is a program of one rank.
ONE_RANK = re.compile(
    r"iso_(stop_requested|stopped|rank|ranks|host_ranks|hosts|is_host_leader|host_of_rank|threads|local_devices|local_device_kind|verbose|seed|role|is_chief|communicator|option|dataset_\w+"
    r"|broadcast|broadcast_from|broadcast_in_hosts|gather_all|all_reduce"
    r"|saved_file_open|checkpoint_find|checkpoint_newest|checkpoint_resolve|checkpoint_open|keras_load_with|pretrained_read|pretrained_has_weights|model_restore_or_create|progress_create_with|tokenize_files_with|tokenize_rows_with|builtin_model_create|builtin_model_create_adapted)$")
# Getters of layouts: of NULL they tell nothing.
EMPTY = re.compile(r"iso_layout_(rank|mesh|axes|axis|parts|placement|dimension_of|is_\w+|equal)$")
FREES = re.compile(r"iso_\w*(destroy|free|close|unpacked_remove)$")
# What an options struct must hold; the others of its pointers may be NULL.
NEEDED = {
    "iso_keras_load_options": {"model": "&f->made.model"}, "iso_load_weights_options": {"path": "f->file_name"},
    "iso_pretrained_save_options": {"path": "f->missing"},
    "iso_dataset_open_options": {"dataset": "&f->made.data"}, "iso_dataset_random_options": {"dataset": "&f->made.data"},
    "iso_dataset_arrays_options": {"dataset": "&f->made.data"}, "iso_dataset_map_options": {"function": "map_nothing"},
    "iso_tokenize_files_options": {"out": "f->missing"},
    "iso_tokenize_rows_options": {"out": "f->missing"},
    "iso_merge_options": {"x": "f->tensors"}, "iso_multi_head_attention_options": {"x": "f->x", "value": "f->x"},
    "iso_grouped_query_attention_options": {"x": "f->x", "value": "f->x"},
    "iso_crossentropy_options": {"y_true": "f->x", "y_pred": "f->x"}, "iso_metric_options": {"y_true": "f->x", "y_pred": "f->x"},
}
MEMBERS = {
    "iso_merge_options": ".count = 2", "iso_predict_options": ".outputs = {f->numbers}", "iso_metric_options": ".metric = ISO_METRIC_MSE", "iso_dataset_arrays_options": ".x = f->array",
}
LENDS = {"iso_tensor_graph", "iso_model_graph"}  # the caller does not own what these return

# Parameters that number the parts of something, and how many parts there are in the test's fixture.
INDEXES = {
    ("iso_builtin_model_at", "index"): "iso_builtin_model_count()", ("iso_saved_file_tensor", "index"): "iso_saved_file_tensors(f->file)",
    ("iso_saved_file_stored", "index"): "iso_saved_file_tensors(f->file)", ("iso_saved_file_group", "index"): "iso_saved_file_groups(f->file)",
    ("iso_saved_file_read", "tensor"): "iso_saved_file_tensors(f->file)", ("iso_saved_file_read_shard", "tensor"): "iso_saved_file_tensors(f->file)",
    ("iso_dataset_name", "index"): "iso_dataset_count()", ("iso_dataset_description", "index"): "iso_dataset_count()",
    ("iso_dataset_shape", "component"): "iso_dataset_components(f->data)", ("iso_dataset_dtype", "component"): "iso_dataset_components(f->data)",
    ("iso_function_part", "index"): "iso_function_part_count(f->function)", ("iso_value_pack", "slot"): "iso_mesh_slots(f->mesh)",
    ("iso_value_box", "slot"): "iso_mesh_slots(f->mesh)", ("iso_value_part", "slot"): "iso_mesh_slots(f->mesh)",
    ("iso_value_read", "slot"): "iso_mesh_slots(f->mesh)", ("iso_value_shard", "index"): "iso_value_shard_count(f->value)",
    ("iso_variable_box", "slot"): "iso_mesh_slots(f->mesh)", ("iso_variable_read_part", "slot"): "iso_mesh_slots(f->mesh)",
    ("iso_graph_variable", "index"): "iso_graph_variable_count(f->graph)", ("iso_graph_layer", "index"): "iso_graph_layer_count(f->graph)",
    ("iso_graph_block", "index"): "iso_graph_block_count(f->graph)", ("iso_host_of_rank", "rank"): "iso_ranks(f->ctx)",
    ("iso_mesh_axis_name", "axis"): "iso_mesh_axes(f->mesh)", ("iso_mesh_axis_size", "axis"): "iso_mesh_axes(f->mesh)",
    ("iso_mesh_rank_of_slot", "slot"): "iso_mesh_slots(f->mesh)", ("iso_layout_axes", "dimension"): "iso_layout_rank(f->layout)",
    ("iso_layout_axis", "dimension"): "iso_layout_rank(f->layout)", ("iso_layout_axis", "index"): "iso_layout_axes(f->layout, 1)",
    ("iso_layout_parts", "dimension"): "iso_layout_rank(f->layout)", ("iso_layout_placement", "axis"): "iso_mesh_axes(f->mesh)",
    ("iso_layout_dimension_of", "axis"): "iso_mesh_axes(f->mesh)", ("iso_layout_local_box", "slot"): "iso_mesh_slots(f->mesh)",
    ("iso_layout_map_key", "index"): "iso_layout_map_count(f->map)", ("iso_layout_map_layout", "index"): "iso_layout_map_count(f->map)",
    ("iso_model_input_at", "index"): "iso_model_input_count(f->model)", ("iso_model_output_at", "index"): "iso_model_output_count(f->model)",
    ("iso_model_input_key", "index"): "iso_model_input_count(f->model)", ("iso_model_set_input_key", "index"): "iso_model_input_count(f->model)",
    ("iso_model_output_name", "index"): "iso_model_output_count(f->model)", ("iso_model_set_output_name", "index"): "iso_model_output_count(f->model)",
    ("iso_model_output_has_name", "index"): "iso_model_output_count(f->model)", ("iso_model_output_dtype", "index"): "iso_model_output_count(f->model)",
    ("iso_model_compiled_output", "index"): "iso_model_output_count(f->model)",
    ("iso_model_value_name", "index"): "iso_model_value_count(f->model)", ("iso_optimizer_name", "index"): "iso_optimizer_count()",
    ("iso_history_logs", "epoch"): "iso_history_epochs(f->history)",
}
# Parameters of these names always number something.
NUMBERS = ("index", "slot", "dimension", "component", "epoch")
# How a struct says that there is nothing.
NOTHING = {"iso_output_part": "got.output == -1", "iso_shard": "got.slot == -1", "iso_logs": "got.count == 0 && !got.name",
           "iso_status": "got == ISO_INVALID", "iso_placement": "got == ISO_REPLICATED", "iso_dtype": "got == ISO_DTYPE_NONE",
           "int": "got <= 0", "bool": "!got"}


def clean(text):
    text = re.sub(r"^[ \t]*#(.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r"^ISO_API ", "", text, flags=re.M)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    return text.replace('extern "C" {', "")


def pieces_of(text):
    """(comment, declaration, body of its struct) at the outermost level of a header."""
    depth, comment, out, body, at = 0, "", "", "", 0
    while at < len(text):
        if text.startswith("/*", at):
            end = text.index("*/", at) + 2
            if depth == 0 and not out.strip():
                comment = text[at:end]
            at = end
            continue
        c = text[at]
        at += 1
        if c == "{":
            depth += 1
            body += c if depth > 1 else ""
        elif c == "}":
            depth = max(0, depth - 1)
            body += c if depth else ""
        elif depth:
            body += c
        elif c == ";":
            yield comment, " ".join(out.split()), body
            out = body = ""
            # a comment goes for the declarations that follow it without a blank line
            if re.match(r"[^\n]*\n\s*\n", text[at:]):
                comment = ""
        else:
            out += c


def split(text, mark=","):
    depth, parts, current = 0, [], ""
    for c in text:
        depth += c in "([{"
        depth -= c in ")]}"
        if c == mark and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return parts + [current.strip()]


def parameter(text):
    """(type without const in front, name, whether it is a pointer)"""
    function = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", text)
    if function:
        return f"{function[1]}(*){function[3]}", function[2], True
    array = re.match(r"(.*?)(\w+)\[.*\]$", text)
    if array:
        return re.sub(r"^const ", "", array[1]).strip() + " *", array[2], True
    kind, name = re.match(r"(.*?)(\w+)$", text).groups()
    kind = re.sub(r"^const ", "", kind).strip()
    return kind, name, "*" in kind


class Function:
    def __init__(self, header, comment, returns, name, parameters):
        self.header, self.returns, self.name = header, re.sub(r"^const ", "", returns).strip(), name
        self.changes = [parameter(p)[1] for p in parameters if re.match(r"iso_(graph|tensor|variable) \*\w+$", p)]
        self.parameters = [parameter(p) for p in parameters if p not in ("void", "...")]
        words = " ".join(comment.split())
        self.has = lambda wanted: wanted in [name for _, name, _ in self.parameters]
        self.collective = bool(re.search(r"\bCollective\b", words)) and self.returns == "iso_status"


# Called while an op is built or run, with what the library itself passes: not checked for NULL (docs/embedding.md). The others have tests of their own.
WITHIN_OPS = ("runtime/graph/op.h", "runtime/backend/kernel.h", "runtime/backend/register.h")

functions, members = [], {}
for header in [name for name in sys.argv[1:] if name not in WITHIN_OPS]:
    with open(header, encoding="utf-8") as file:
        for comment, text, body in pieces_of(clean(file.read())):
            struct = re.match(r"typedef struct (\w+)?\s*(\w+)$", text)
            if struct and body:
                members[struct[2]] = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
            match = re.match(r"([\w \*]*?)(iso_\w+)\((.*)\)$", text)
            if match and not text.startswith(("typedef", "static")):
                functions.append(Function(header, comment, match[1].strip(), match[2], split(match[3])))


def fail(text):
    sys.exit(f"make_null_calls.py: {text}: add a line to its tables")


def argument(function, kind, name):
    if (function.name, name) in SPECIAL:
        return SPECIAL[function.name, name]
    if name in ("options", "size") and needed(function)[0]:
        return name
    if "*" in kind:
        known = POINTERS.get(kind.replace("* ", "*")) or POINTERS.get(kind)
        return known or fail(f"{function.name}: no argument of type '{kind}' is known for '{name}'")
    if kind not in SCALARS:
        fail(f"{function.name}: no argument of type '{kind}' is known for '{name}'")
    return SCALARS[kind]


def needed(function):
    """The options struct of a function, and what it must hold."""
    for kind, name, _ in function.parameters:
        if name == "options" and kind.endswith("_options *") and function.has("size"):
            struct = kind[:-2]
            must = NEEDED.get(struct)
            if must is None:
                must = {"x": "f->x"} if re.search(r"^\s*iso_tensor \*x;", members.get(struct, ""), re.M) else {}
            return struct, must
    return None, {}


def graph_keeps(function, null, member):
    """Whether the error must stay in the fixture's graph: the function builds, and another argument knows the graph."""
    if function.returns == "iso_status" or not re.search(r"models/layers|graph/graph\.h|losses\.h", function.header):
        return False
    if null in [name for kind, name, _ in function.parameters if kind == "iso_graph *"]:
        return False
    others = [name for name in function.changes if name != null]
    if member:
        others = [n for n, value in needed(function)[1].items() if n != member and value == "f->x"]
    return bool(others)


TAKES_BACK = {"iso_graph *": "f->made.graph", "iso_model *": "f->made.model", "iso_callback *": "f->made.callback"}


def fill_options(function, member):
    """Lines that make the options of a call, its `member` NULL where it does not `give` it."""
    struct, must = needed(function)
    if not struct:
        return []
    given = [f".{name} = {f'give ? {value} : NULL' if name == member else value}" for name, value in must.items()]
    given += [MEMBERS[struct]] if struct in MEMBERS else []
    return [f"    {struct} filled = {{{', '.join(given) or '0'}}};", f"    const {struct} *options = &filled;",
            "    size_t size = sizeof filled;", "    (void)options, (void)size;"]


def write_call(function, null, member=None):
    """A C function that makes the call: `null`, or `member` of its options, is NULL unless it is to `give` it."""
    name = f"{function.name}__{member or null}"
    arguments = []
    for kind, parameter_name, _ in function.parameters:
        value = argument(function, kind, parameter_name)
        if parameter_name == null:
            value = f"give ? {value} : NULL" if value != "NULL" else value
        arguments.append(value)
    call = f"{function.name}({', '.join(arguments)})"
    lines = [f"static int {name}(fixture *f, bool give)", "{", "    (void)f, (void)give;"] + fill_options(function, member)
    if function.returns == "iso_status":
        lines += [f"    return (int){call};"]
    elif function.returns in TAKES_BACK and function.name not in LENDS:
        lines += [f"    {TAKES_BACK[function.returns]} = {call};", "    return -1;"]
    else:
        lines += [f"    {'' if function.returns == 'void' else '(void)'}{call};", "    return -1;"]
    print("\n".join(lines + ["}", ""]))
    return name


def may_be_null(function, null, member):
    if member:
        return False
    if FREES.match(function.name) or EMPTY.match(function.name) or (function.name, null) in MAY_BE_NULL:
        return True
    return (null == "ctx" and bool(ONE_RANK.match(function.name))) or (null == "options" and function.has("size"))


def write_row(function, null, member=None):
    name = write_call(function, None if member else null, member)
    plain = function.name[:-5] if function.name.endswith("_with") else function.name
    agreed = function.collective and not function.name.startswith("iso_init") and (member or null != function.parameters[0][1])
    flags = [may_be_null(function, null, member), function.returns == "iso_status", agreed, graph_keeps(function, null, member)]
    return f'    {{"{plain}", "{member or null}", {name}, {", ".join(str(bool(flag)).lower() for flag in flags)}}},'


def write_index_call(function, number):
    """A C function that makes the call with `index` for the parameter; whether the call says that there is no such part."""
    name = f"{function.name}__{number}_outside"
    arguments = ["index" if p == number else argument(function, kind, p) for kind, p, _ in function.parameters]
    call = f"{function.name}({', '.join(arguments)})"
    print(f"static bool {name}(fixture *f, int index)", "{", "    (void)f;", sep="\n")
    if function.returns == "void":
        print(f"    {call};", "    return true;")
    else:
        nothing = "!got" if "*" in function.returns else NOTHING.get(function.returns) or fail(f"{function.name}: NOTHING")
        const = "const " if "*" in function.returns else ""
        print(f"    {const}{function.returns} got = {call};", f"    return {nothing};", sep="\n")
    print("}", f"static int {name}_count(fixture *f)", "{", "    (void)f;",
          f"    return {INDEXES[function.name, number]};", "}", "", sep="\n")
    return f'    {{"{function.name}", "{number}", {name}, {name}_count}},'


print("/* Made by tests/api/make_null_calls.py. */")
print("#pragma GCC diagnostic ignored \"-Wformat\"\n#pragma GCC diagnostic ignored \"-Wformat-security\"")
print("#pragma GCC diagnostic ignored \"-Wformat-nonliteral\"\n#pragma GCC diagnostic ignored \"-Wnonnull\"\n")
rows = []
for function in functions:
    rows += [write_row(function, name) for _, name, pointer in function.parameters if pointer]
    rows += [write_row(function, "options", member) for member in needed(function)[1]]
index_rows = []
for function in functions:
    for kind, number, _ in function.parameters:
        if (function.name, number) in INDEXES:
            index_rows.append(write_index_call(function, number))
        elif kind == "int" and number in NUMBERS:
            fail(f"{function.name}: how many of '{number}' there are")
print("static const index_call index_calls[] = {", *index_rows, "};", sep="\n")
print(f"enum {{ INDEX_CALLS = {len(index_rows)} }};")
print("static const null_call null_calls[] = {", *rows, "};", sep="\n")
print(f"enum {{ NULL_CALLS = {len(rows)}, PUBLIC_FUNCTIONS = {len(functions)} }};")
