#!/usr/bin/env python3
"""The Fortran module `isogrid`, made from the public headers.

Reads what the preprocessor makes of the headers and writes the module's source: a constant for each enumerator, a type for
each struct and handle, and a procedure for each function. A declaration that the tables below do not cover is an error:
whoever adds one says here how Fortran sees it.

Usage: mpicc -E -I. -Iruntime runtime/isogrid_mpi.h | make_module.py module.f90 > isogrid.f90
"""
import re
import sys

WIDTH = 110

# Functions that Fortran does not have, and why.
SKIPPED = {
    "variable arguments": "iso_error iso_error_prefix iso_no_memory iso_warn",
    "a FILE": "iso_layout_print iso_model_summary iso_layout_visualize iso_layout_visualize_with",
    "argv, or MPI's handles: module.f90 has them": "iso_init iso_init_on iso_init_on_fortran iso_communicator",
    "a result that may be an argument: module.f90 has it": "iso_option",
    "texts in a buffer or in memory of C": "iso_shape_text iso_fingerprint_text iso_function_print iso_layout_describe "
                                           "iso_devices_parse iso_keras_read_member iso_free "
                                           "iso_tokenizer_encode iso_tokenizer_encode_pair iso_tokenizer_decode iso_tokenizer_token",
    "pointers to elements of a type that a number gives": "iso_element_get iso_element_set",
    "pointers to pointers to numbers": "iso_function_evaluate",
    "options that are not the last argument": "iso_model_describe_with",
    "structs of C functions, and unions": "iso_builtin_model_find iso_builtin_model_at iso_builtin_model_create "
                              "iso_builtin_model_create_adapted iso_pretrained_read "
                              "iso_builtin_model_objective iso_pretrained_objective iso_pretrained_classifier_dropout "
                              "iso_function_suggest iso_suggestion_destroy iso_sequential_rows",
}
SKIPPED = {name: why for why, names in SKIPPED.items() for name in names.split()}

# Fortran does not tell capitals from small letters, and the functions iso_relu and iso_reduce_sum have their names.
RENAMED = {"iso_activation_kind": ("ISO_", "ISO_ACTIVATION_"), "iso_reduction": ("ISO_REDUCE_", "ISO_REDUCTION_")}
RENAMED_CONSTANTS = {"ISO_STOPPED": "ISO_STATUS_STOPPED", "ISO_BATCH": "ISO_BATCH_ROWS"}

# Options that a program also passes as they are, as those of a file to iso_compile_with.
PUBLIC_OPTIONS = {"iso_compile_options"}

# Options that are a member of other options: a program fills the struct.
INNER_OPTIONS = {"iso_recurrent_options"}

# Pointers to several elements; the others that are not const are to one, and those that are const to several.
ARRAYS = {("iso_gradients", "gradients"), ("iso_function_run", "results"), ("iso_variable_read", "values"),
          ("iso_evaluate_options", "metrics")}

C_TYPES = {
    "int": "integer(c_int)", "int32_t": "integer(c_int32_t)", "int64_t": "integer(c_int64_t)", "uint64_t": "integer(c_int64_t)", "size_t": "integer(c_size_t)",
    "double": "real(c_double)", "float": "real(c_float)", "bool": "logical(c_bool)", "char": "character(kind=c_char)",
    "uint32_t": "integer(c_int32_t)", "int8_t": "integer(c_int8_t)", "uint8_t": "integer(c_int8_t)",
}
INTEGERS = {"int", "int32_t", "int64_t", "uint64_t", "size_t", "uint32_t"}


def fail(text):
    sys.exit(f"make_module.py: {text}")


# ---- reading C ----

def declarations(text):
    """The declarations of Isogrid's headers: (header, text)."""
    lines, header = [], None
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            header = marker.group(1)
        elif header and not header.startswith(("/", "<")):
            lines.append((header, line))
    depth, piece, begun = 0, "", None
    for header, line in lines:
        for char in line + " ":
            if not piece.strip():
                piece, begun = "", header
            piece += char
            depth += (char in "{(") - (char in "})")
            if depth == 0 and (char == ";" or (char == "}" and re.match(r"\s*(static|extern)?\s*inline", piece))):
                yield begun, " ".join(piece.split())
                piece = ""


def without_attributes(text):
    while "__attribute__" in text:
        start = text.index("__attribute__")
        end, depth = text.index("(", start), 0
        for end in range(end, len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if depth == 0:
                break
        text = text[:start] + text[end + 1:]
    return " ".join(text.replace("_Bool", "bool").replace("__extension__", "").split())


class Member:
    """A member, parameter or result: base type, number of stars, array extents, constness of what is pointed to."""

    def __init__(self, text):
        self.text = text = " ".join(text.split())
        self.function = "(*" in text
        if self.function:
            self.name = re.search(r"\(\*(\w+)\)", text).group(1)
            self.base, self.stars, self.extents, self.const = "", 0, [], False
            return
        match = re.match(r"(.*?)(\w+)\s*((?:\[[^\]]*\])*)$", text)
        before, self.name, extents = match.groups()
        self.extents = re.findall(r"\[([^\]]*)\]", extents)
        self.stars = before.count("*")
        words = [w for w in re.findall(r"\w+", before) if w not in ("struct", "enum")]
        self.const = "const" in words
        words = [w for w in words if w != "const"]
        self.base = words[0] if words else ""


def members_of(body):
    """The members of a struct: `int a, *b;` is two."""
    result = []
    for piece in split_top(body, ";"):
        piece = piece.strip()
        if not piece:
            continue
        nested = re.match(r"enum \{.*\} (\w+)$", piece)
        if nested:
            result.append(Member("int " + nested.group(1)))
            continue
        parts = split_top(piece, ",")
        first = Member(parts[0])
        result.append(first)
        base = re.match(r"((?:const )?(?:struct )?\w+)", parts[0])
        for other in parts[1:]:
            result.append(Member(base.group(1) + " " + other.strip()))
    return result


def split_top(text, separator):
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


class Header:
    def __init__(self, text):
        self.constants = []  # (enum, [(name, value)])
        self.values = {}
        self.structs = {}  # name: members
        self.handles = []
        self.enums = set()
        self.callbacks = set()
        self.unions = set()
        self.functions = []  # (name, result, parameters)
        for header, piece in declarations(text):
            self.take(header, without_attributes(piece).rstrip(";").strip())

    def take(self, header, text):
        text = re.sub(r"^extern ", "", text)
        if not text or text.startswith(("static", "inline", "_Static_assert")):
            return
        enum = re.match(r"(?:typedef )?enum (\w*) ?\{(.*)\} ?(\w*)$", text)
        struct = re.match(r"(?:typedef )?struct (\w+) ?\{(.*)\} ?(\w*)$", text)
        handle = re.match(r"typedef struct (\w+) \1$", text)
        callback = re.match(r"typedef .*?(?:\(\*(\w+)\)|\b(\w+))\(.*\)$", text)
        function = re.match(r"(.*?)\b(iso_\w+)\((.*)\)$", text)
        if enum:
            self.take_enum(enum.group(3) or enum.group(1), enum.group(2))
        elif struct:
            for nested in re.findall(r"enum \{([^}]*)\}", struct.group(2)):
                self.take_enum("", nested)
            self.structs[struct.group(1)] = members_of(struct.group(2))
        elif handle:
            self.handles.append(handle.group(1))
        elif text.startswith("typedef union"):
            self.unions.add(text.split()[-1])
        elif callback:
            self.callbacks.add(callback.group(1) or callback.group(2))
        elif function:
            self.take_function(*function.groups())
        elif not re.match(r"(struct \w+|typedef \w+ \w+(, \w+)*)$", text):
            fail(f"{header}: cannot read: {text}")

    def take_function(self, result, name, parameters):
        members = [] if parameters in ("void", "") else \
            [None if p.strip() == "..." else Member(p) for p in split_top(parameters, ",")]
        self.functions.append((name, Member(result + " result_"), members))

    def take_enum(self, name, body):
        value, rows = -1, []
        for row in split_top(body, ","):
            if not row.strip():
                continue
            key, _, expression = (part.strip() for part in row.partition("="))
            value = self.evaluate(expression) if expression else value + 1
            self.values[key] = value
            rows.append((key, value))
        self.constants.append((name, rows))
        if name:
            self.enums.add(name)

    def evaluate(self, expression):
        expression = re.sub(r"\((?:int|unsigned|int64_t)\)", "", expression).replace("/", "//")
        expression = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", expression)
        return int(eval(expression, {"__builtins__": {}}, self.values))


# ---- writing Fortran ----

def wrapped(text, indent="    "):
    """A statement in lines of at most WIDTH columns, split after commas."""
    lines, line = [], indent
    for part in re.findall(r"[^,]*,?", text):
        if len(line) + len(part) > WIDTH and line.strip():
            lines.append(line.rstrip() + " &")
            line = indent + "    "
            part = part.lstrip()
        line += part
    return "\n".join(lines + [line])


class Writer:
    def __init__(self, header):
        self.h = header
        self.handles = [name for i, name in enumerate(header.handles)
                        if name not in header.structs and name not in header.handles[:i]]
        self.options = {p[-2].base for function, _, p in header.functions
                        if function.endswith("_with") and p[-1].base == "size_t" and p[-2].base in header.structs}
        self.types, self.interfaces, self.procedures, self.public = [], [], [], []

    # ---- types ----

    def is_options(self, name):
        return name in self.options

    def type_name(self, name):
        return ("c_" if self.is_options(name) and name not in PUBLIC_OPTIONS | INNER_OPTIONS else "") + name

    def component(self, member):
        """The declaration of a struct's member."""
        extents = f"({', '.join(reversed(member.extents))})" if member.extents else ""
        base, start = member.base, None
        if member.function or base in self.h.callbacks and not member.stars:
            kind, start = "type(c_funptr)", "c_null_funptr"
        elif member.stars:
            kind, start = "type(c_ptr)", "c_null_ptr"
        elif base in self.h.enums:
            kind, start = "integer(c_int)", "0"
        elif base in C_TYPES:
            kind = C_TYPES[base]
            start = {"r": "0", "i": "0", "l": ".false.", "c": "c_null_char"}[kind[0]]
            start = "0.0_c_double" if base == "double" else start
        elif base in self.h.structs:
            kind = f"type({self.type_name(base)})"
        else:
            fail(f"a member of unknown type: {member.text}")
        return f"{kind} :: {member.name}{extents}" + (f" = {start}" if start else "")

    def write_type(self, name, written):
        if name in written:
            return
        written.add(name)
        for member in self.h.structs[name]:
            if member.base in self.h.structs and not member.stars:
                self.write_type(member.base, written)
        lines = [f"    type, bind(C) :: {self.type_name(name)}"]
        lines += [wrapped(self.component(member), " " * 8) for member in self.h.structs[name]]
        self.types.append("\n".join(lines + [f"    end type {self.type_name(name)}", ""]))
        if self.type_name(name) == name:
            self.public.append(name)

    def write_types(self):
        for name in self.handles:
            self.types.append(f"    type, bind(C) :: {name}\n        type(c_ptr) :: handle = c_null_ptr\n    end type {name}\n")
            self.public.append(name)
        written = set()
        for name, members in self.h.structs.items():
            if not any(m.base in self.h.unions and not m.stars for m in members):  # Fortran has no unions
                self.write_type(name, written)

    def constants(self):
        lines = []
        for enum, rows in self.h.constants:
            for name, value in rows:
                if enum in RENAMED:
                    old, new = RENAMED[enum]
                    name = name.replace(old, new, 1)
                name = RENAMED_CONSTANTS.get(name, name)
                lines.append(f"    integer(c_int), parameter :: {name} = {value}")
                self.public.append(name)
        return "\n".join(lines)

    # ---- arguments of functions ----

    def is_handle(self, member):
        return member.base in self.handles or member.base in self.h.unions

    def argument(self, function, m):
        """Of a parameter: its declaration in the interface to C; then, if the procedure converts it, its declaration there
        and what it passes."""
        array = (function, m.name) in ARRAYS or (m.stars and m.const and m.base in C_TYPES) or m.extents
        if m.function or (m.base in self.h.callbacks and m.stars < 2):
            return f"type(c_funptr), value :: {m.name}", None, None
        if m.base == "char" and m.stars == 1 and m.const:
            return (f"character(kind=c_char), intent(in) :: {m.name}(*)", f"character(*), intent(in) :: {m.name}",
                    f"trim({m.name}) // c_null_char")
        if m.base == "void" and m.stars == 1:
            if m.name == "user":
                return f"type(c_ptr), value :: {m.name}", None, None
            intent = "intent(in)" if m.const else "intent(inout)"
            return f"type(*), {intent} :: {m.name}(*)", None, None
        if self.is_handle(m):
            if m.stars == 1:
                return f"type({m.base}), value :: {m.name}", None, None
            if "*const *" in m.text or array:
                return f"type({m.base}), intent({'in' if '*const *' in m.text else 'inout'}) :: {m.name}(*)", None, None
            return f"type({m.base}), intent(inout) :: {m.name}", None, None
        if m.base == "iso_shape" and m.stars < 2 and (m.const or not m.stars):
            passed = "type(iso_shape), intent(in)" if m.stars else "type(iso_shape), value"
            return f"{passed} :: {m.name}", f"integer, intent(in) :: {m.name}(:)", f"shape_of({m.name})"
        if m.base in self.h.structs:
            if self.is_options(m.base):
                fail(f"{function}: {m.text}: options must be the last argument; or name the function in SKIPPED")
            if m.stars > 1:
                return f"type(c_ptr), intent(inout) :: {m.name}", None, None
            how = "value" if not m.stars else "intent(in)" if m.const else "intent(inout)"
            return f"type({self.type_name(m.base)}), {how} :: {m.name}", None, None
        kind = "integer(c_int)" if m.base in self.h.enums else C_TYPES.get(m.base)
        if not kind or m.stars > 1:
            fail(f"{function}: {m.text}")
        if m.stars or array:
            return f"{kind}, intent({'in' if m.const else 'inout'}) :: {m.name}{'(*)' if array else ''}", None, None
        if m.base == "bool":
            return f"{kind}, value :: {m.name}", f"logical, intent(in) :: {m.name}", f"logical({m.name}, c_bool)"
        if m.base in INTEGERS and m.base != "int":
            return f"{kind}, value :: {m.name}", f"integer, intent(in) :: {m.name}", f"int({m.name}, {kind[8:-1]})"
        return f"{kind}, value :: {m.name}", None, None

    def result(self, function, m):
        """Of a result: its type in the interface, and where the procedure converts it its type there and the conversion."""
        if m.base == "void" and not m.stars:
            return None, None, None
        if m.base == "char" and m.stars == 1:
            return "type(c_ptr)", "character(:), allocatable", "text_of({})"
        if m.base == "bool" and not m.stars:
            return "logical(c_bool)", "logical", "logical({})"
        if self.is_handle(m) and m.stars == 1:
            return f"type({m.base})", None, None
        if m.base == "iso_shape":
            return ("type(c_ptr)", "integer, allocatable, dimension(:)", "extents_at({})") if m.stars else \
                ("type(iso_shape)", "integer, allocatable, dimension(:)", "extents_of({})")
        if m.base in self.h.structs and not m.stars:
            return f"type({m.base})", None, None
        if m.base in self.h.enums:
            return "integer(c_int)", None, None
        if m.base in C_TYPES and not m.stars:
            return C_TYPES[m.base], None, None
        if m.stars == 1:
            return "type(c_ptr)", None, None
        fail(f"{function}: {m.text}")

    # ---- arguments that are members of an options struct ----

    def option(self, struct, m, result):
        """The declaration of an optional argument, its locals, and the statements that store it in o_."""
        name, target = m.name, f"o_%{m.name}"
        array = bool(m.extents) or (struct, m.name) in ARRAYS
        if m.function or (m.base in self.h.callbacks and not m.stars):
            return f"type(c_funptr), intent(in), optional :: {name}", [], [f"{target} = {name}"]
        if m.base == "char" and m.stars and m.extents:
            local = f"type(c_text), target :: {name}_({m.extents[0]})"
            return f"character(*), intent(in), optional :: {name}(:)", [local], [f"call set_texts({target}, {name}, {name}_)"]
        if m.base == "char" and m.stars == 1 and result.base in self.h.structs and not result.stars:
            return f"character(*), intent(in), optional :: {name}", [], [f"{target} = lasting({name})"] # the result keeps it
        if m.base == "char" and m.stars == 1:
            local = f"character(kind=c_char), allocatable, target :: {name}_(:)"
            return (f"character(*), intent(in), optional :: {name}", [local],
                    [f"call set_text({target}, {name}, {name}_)"])
        if m.base == "iso_shape" and not m.extents:
            return f"integer, intent(in), optional :: {name}(:)", [], [f"{target} = shape_of({name})"]
        if m.base in PUBLIC_OPTIONS and m.stars == 1:
            return f"type({m.base}), intent(inout), target, optional :: {name}", [], [f"{target} = c_loc({name})"]
        if self.is_handle(m):
            if m.stars == 1 and m.extents:
                return (f"type({m.base}), intent(in), optional :: {name}(:)", [],
                        [f"{target}(1:ubound({name}, 1)) = {name}%handle"])
            if m.stars == 1:
                return f"type({m.base}), intent(in), optional :: {name}", [], [f"{target} = {name}%handle"]
            if "*const *" in m.text or m.text.replace(" ", "").startswith("iso_callback**"):
                return (f"type({m.base}), intent(in), optional :: {name}(:)",
                        [f"type(c_ptr), allocatable, target :: {name}_(:)"],
                        [f"allocate({name}_, source=[{name}%handle, c_null_ptr])", # a list may end at NULL
                         f"{target} = c_loc({name}_)"])
            if not m.extents:
                return f"type({m.base}), intent(inout), target, optional :: {name}", [], [f"{target} = c_loc({name})"]
        if m.stars:
            if m.base in C_TYPES and m.base != "char" and not m.extents:
                shape = "(:)" if array or m.const else ""
                contiguous = ", contiguous" if shape else ""
                intent = "intent(in)" if m.const else "intent(inout)"
                return (f"{C_TYPES[m.base]}, {intent}, target{contiguous}, optional :: {name}{shape}", [],
                        [f"{target} = c_loc({name})"])
            dims = "(:)" if m.extents else ""
            return (f"type(c_ptr), intent(in), optional :: {name}{dims}", [],
                    [f"{target}(1:ubound({name}, 1)) = {name}" if dims else f"{target} = {name}"])
        dims = "(:)" if len(m.extents) == 1 else "(:, :)" if m.extents else ""
        if m.base in self.h.structs:
            kind = f"type({m.base})"
        elif m.base == "double":
            kind = "real(c_double)"
        elif m.base == "bool":
            kind = "logical"
        else:
            kind = "integer"
        value = {"logical": f"logical({name}, c_bool)"}.get(kind, name)
        if m.extents:
            target += "(" + ", ".join(f"1:ubound({name}, {i + 1})" for i in range(len(m.extents))) + ")"
        return f"{kind}, intent(in), optional :: {name}{dims}", [], [f"{target} = {value}"]

    # ---- procedures ----

    def interface(self, name, c_name, arguments, result):
        kind = "function" if result else "subroutine"
        names = ", ".join(declared.rsplit(":: ", 1)[1].split("(")[0] for declared in arguments)
        ending = f' bind(C, name="{c_name}")' + (" result(r_)" if result else "")
        lines = [wrapped(f"{kind} {name}({names}){ending}", " " * 8), " " * 12 + "import"]
        lines += [" " * 12 + declared for declared in arguments]
        if result:
            lines.append(f"            {result} :: r_")
        self.interfaces.append("\n".join(lines + [f"        end {kind} {name}"]))

    def procedure(self, name, dummies, locals_, statements, call, result):
        """dummies: declarations; call: the expression or statement that calls C."""
        kind = "function" if result else "subroutine"
        names = ", ".join(declared.rsplit(":: ", 1)[1].split("(")[0] for declared in dummies)
        lines = [wrapped(f"{kind} {name}({names})" + (" result(r_)" if result else ""))]
        lines += [wrapped(declared, " " * 8) for declared in dummies + locals_]
        if result:
            lines.append(f"        {result} :: r_")
        lines += [wrapped(statement, " " * 8) for statement in statements]
        lines.append(wrapped(f"r_ = {call}" if result else f"call {call}", " " * 8))
        self.procedures.append("\n".join(lines + [f"    end {kind} {name}", ""]))

    def write_function(self, name, result, parameters):
        last = parameters[-2:] if len(parameters) > 1 else []
        options = last[0].base if len(last) == 2 and self.is_options(last[0].base) and last[1].base == "size_t" else None
        public = name.removesuffix("_with") if options else name
        arguments = [self.argument(name, p) for p in (parameters[:-2] if options else parameters)]
        c_result, r_result, conversion = self.result(name, result)
        self.public.append(public)
        if not options and not conversion and not any(passed for _, _, passed in arguments):
            self.interface(name, name, [declared for declared, _, _ in arguments], c_result)
            return
        declared = [c for c, _, _ in arguments]
        passed = [p or c.rsplit(":: ", 1)[1].split("(")[0] for c, _, p in arguments]
        dummies = [f or self.by_reference(c) for c, f, _ in arguments]
        locals_, statements = [], []
        if options:
            declared += [f"type({self.type_name(options)}), intent(in) :: options_", "integer(c_size_t), value :: size_"]
            passed += ["o_", "c_sizeof(o_)"]
            locals_.append(f"type({self.type_name(options)}) :: o_")
            if r_result is None and c_result == "integer(c_int)" and result.base == "iso_status":
                statements.append("r_ = ISO_OK")
            members = [m for m in self.h.structs[options] if m.name != "begin_"]
            names = {m.name for m in members}
            for member in members:
                dummy, own, stores = self.option(options, member, result)
                stores = self.check_extents(public, member, dummy, result, "x" in names) + stores + \
                    self.counts(member, dummy, names)
                dummies.append(dummy)
                locals_ += own
                statements += [f"if (present({member.name})) {stores[0]}"] if len(stores) == 1 else \
                    [f"if (present({member.name})) then"] + ["    " + store for store in stores] + ["end if"]
            if options in PUBLIC_OPTIONS:
                self.public.append(name)
                self.procedure(name, [d for d in dummies if "optional" not in d] + [f"type({options}), intent(in) :: options"],
                               [], [], f"c_{name}({', '.join(passed[:-2])}, options, c_sizeof(options))", c_result)
        self.interface("c_" + name, name, declared, c_result)
        call = f"c_{name}({', '.join(passed)})"
        self.procedure(public, dummies, locals_, statements, conversion.format(call) if conversion else call,
                       r_result or c_result)

    @staticmethod
    def check_extents(function, member, dummy, result, has_x):
        """Statements that refuse an array with more elements than the option has."""
        checks = []
        if not member.extents or "(:" not in dummy:
            return checks
        for i, extent in enumerate(reversed(member.extents)):
            what = f'"{function}: {member.name}", ubound({member.name}, {i + 1}), {extent}'
            if result.base == "iso_status":
                checks += [f"r_ = room_for({what})", "if (r_ /= ISO_OK) return"]
            elif result.base == "iso_tensor" and has_x:
                checks += ["r_ = x", f"if (lacks_room(x, {what})) return"]
            else:
                fail(f"{function}: {member.text}: nothing can tell of too many elements")
        return checks

    @staticmethod
    def counts(member, dummy, names):
        """The number of elements of an array, which C takes in a member of its own."""
        singular = member.name[:-2] if member.name.endswith("axes") else member.name
        for count in (f"{member.name}_count", f"{singular}is_count", "count" if member.name == "x" else ""):
            if count in names and "(:" in dummy:
                return [f"o_%{count} = ubound({member.name}, 1)"]
        return []

    @staticmethod
    def by_reference(declared):
        return declared.replace(", value ::", ", intent(in) ::")

    def write_functions(self):
        for name, result, parameters in self.h.functions:
            if name in SKIPPED or name.endswith("_row"):
                continue
            if None in parameters or any(p.base == "FILE" for p in parameters):
                fail(f"{name} cannot be called from Fortran: name it in SKIPPED, with the reason")
            self.write_function(name, result, parameters)

    def write(self, template):
        constants = self.constants()
        self.write_types()
        self.write_functions()
        known = {name for name, _, _ in self.h.functions}
        for name in SKIPPED:
            if name not in known:
                fail(f"SKIPPED names {name}, which the headers do not have")
        parts = {"public": "\n".join(f"    public :: {name}" for name in self.public), "constants": constants,
                 "types": "\n".join(self.types), "interfaces": "\n".join(self.interfaces),
                 "procedures": "\n".join(self.procedures)}
        return re.sub(r"^ *!@(\w+)\n", lambda match: parts[match.group(1)] + "\n", template, flags=re.M)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as template:
        sys.stdout.write(Writer(Header(sys.stdin.read())).write(template.read()))
