"""layouts.json: what Keras's LayoutMap answers: the cases of its own
documentation and unit tests, expressions of all kinds, and maps by lot.

    python make_layouts.py        (see README.md for the format)
"""

import json
import re

import common

keras = common.keras_on_jax("float32")

import jax
import numpy as np
from keras import distribution
from keras.src.distribution import distribution_lib

jax.config.update("jax_num_cpu_devices", 8)
MESH = {"data": 4, "model": 2}


def device_mesh():
    return distribution.DeviceMesh(tuple(MESH.values()), list(MESH),
                                   distribution.list_devices())


def kind(error):
    """The kind of a refusal, by Keras's (or Python's, or JAX's) own words."""
    text = str(error)
    for part, name in (("already exist", "key twice"),
                       ("Invalid axis names", "no such axis"),
                       ("matches multiple", "several keys"),
                       ("at most one positional dimension", "axis twice")):
        if part in text:
            return name
    if isinstance(error, re.error):
        return "no expression"
    raise error


def lay_out(layout_map, key, axes):
    """Set a key; "ok" or the kind of error, those included that show only
    when the layout is used."""
    try:
        layout_map[key] = tuple(axes)
        layout_map._layout_map[key].backend_layout
        re.compile(key)
    except Exception as error:  # JAX's own is no ValueError; kind() lets no other pass
        if key in layout_map._layout_map and kind(error) != "key twice":
            del layout_map[key]  # so that the others can be asked
        return kind(error)
    return "ok"


def ask(layout_map, path):
    try:
        layout = layout_map[path]
    except ValueError as error:
        return {"path": path, "error": kind(error)}
    return {"path": path, "axes": None if layout is None else list(layout.axes)}


def map_case(name, keys, paths):
    layout_map = distribution.LayoutMap(device_mesh())
    return {"name": name,
            "set": [{"key": key, "axes": list(axes),
                     "result": lay_out(layout_map, key, axes)}
                    for key, axes in keys],
            "ask": [ask(layout_map, path) for path in paths]}


# ---- Keras's own: docstring of LayoutMap and ModelParallel, LayoutMapTest,
# ModelParallelDistributionTest, LayoutTest
D2, D1, D4 = (None, "model"), ("model",), (None, None, None, "model")
R2, R1 = (None, None), (None,)
DOCUMENTED = [
    ("docstring",
     [(".*dense.*kernel", D2), (".*dense.*bias", D1),
      (".*conv2d.*kernel", D4), (".*conv2d.*bias", D1)],
     ["dense_1.kernel", "dense_1.bias", "dense_2.kernel", "dense_2.bias",
      "my_model/conv2d_123/kernel", "my_model/conv2d_123/bias",
      "my_model/conv3d_1/kernel", "my_model/conv3d_1/bias"]),
    ("guide", [("d1/kernel", D2), ("d1/bias", D1), ("d2/output", ("data", None))],
     ["d1/kernel", "d1/bias", "d2/output", "d2/kernel", "d1/output",
      "functional/d1/kernel"]),
    ("test_add",
     [("dense/kernel", D2), ("dense/bias", D1), ("conv/bias", D1),
      ("dense/kernel", D2)],
     ["dense/kernel", "dense/bias", "conv/bias", "conv/kernel"]),
    ("test_get",
     [("dense/kernel", D2), ("dense/bias", D1), (".*dense.*kernel", R2),
      (".*dense.*bias", R1), (".*bias", D1)],
     ["dense/kernel", "dense/bias", "dense_2/kernel", "dense_2/bias",
      "conv2d/kernel", "conv2d/bias"]),
    ("test_get_tensor_layout",
     [(".*kernel", D2), (".*bias", D1), ("/model/layer/tensor", ("data", None))],
     ["/model/layer/tensor", "/model/layer/other_tensor"]),
    ("test_distribute_weights", [(".*kernel", D2), (".*bias", D1)],
     ["kernel", "bias", "seed"]),
    ("layouts",
     [("a", ("data", "unknown_axis")), ("b", ("model", "model")),
      ("c", ("data", None, "model")), ("d", ()), ("e", ("Data",)),
      ("f", ("", None))],
     ["a", "b", "c", "d", "e", "f"]),
    ("tutorial", [("feature.*kernel", ("data", None)), ("feature.*bias", ("data",))],
     ["feature/kernel", "feature_2/kernel", "feature/bias", "feature_2/bias",
      "sequential/feature/kernel", "my_feature/kernel", "feature/kernels"]),
    ("exact_first", [(".*", D1), ("d.", R1), ("d1", D1), ("d[12]", ("data",))],
     ["d1", "d2", "d3", "e", "d11"]),
    ("plain_keys", [("a.b", D1), ("a+b", D1), ("a|b", D1), ("a(b", D1), ("[x", D1)],
     ["a.b", "a/b", "a+b", "aab", "a|b", "a", "b", "a(b", "[x"]),
]

# ---- one expression, some paths
PATHS = ["d1/kernel", "d12/kernel", "dense/bias", "a/dense_1/kernel", "aa",
         "ab", "aba", "größe/kernel", "k\u0131rmızı/bias", "x.y", "x-y", "A/B",
         "", "a\n", "a", "a]", "a{,2}", "[a]", "0/1", "١/b", "a:b", "_", "aaa"]
EXPRESSIONS = [
    "d1/kernel", "d.*", ".*kernel", ".+", "", "d1|d1/kernel", "(d1|d12)/kernel",
    "d[0-9]+/kernel", r"d\d+/kernel", r"\d/\w", r"\w+", r"\W", r"\S+", r".*\s",
    r".", r"..", r"gr..e/kernel", r"gr(.)\1e/kernel", r"(a)\1", r"(.)(.)\1",
    r"(?P<n>a)(?P=n)", r"(?P<n>a)b(?P=n)", r"^d1/kernel$", r"a$", r"a\Z",
    r"\Ad1/kernel", r"\ba", r"\Ba", r"a{2}", r"a{,2}", r"a{1,}", r"a{2,3}?",
    r"a{", r"a{,}", r"a{x}", r"a\{,2\}", r"a*?", r"a+b+", r"a??b", r"(?:a|b)+",
    r"(?=a)..", r"(?!d).*", r"a(?!b).*", r".*(?<=1)/kernel", r".*(?<!2)/kernel",
    r"(?>a+)b", r"a++", r"a*+a", r"(?i)a/b", r"(?i:a)/B", r"(?s)a.", r"(?x) a a # b",
    r"[ab]+", r"[^/]+", r"[^/]+/[^/]+", r"[]a]+", r"a[]]", r"[^]]+", r"[[a]+\]",
    r"[\]a]+", r"[\w/]+", r"[a\-x.y]+", r"[a-]+", r"x[.]y", r"x\.y", r"x\-y",
    r"\141", r"\x61", r"\x61b", r"[\x61-\x62]+", r"\(", r"(?#word)aa",
    r"(a)?b", r"(a)?(?(1)b|x)", r"a|", r"|a", r"()", r"(|a)", r"a\:b", r"\_",
    r"(a|aa)", r"(a|ab)(b|a)?", r"\D+", r"[[:alpha:]]+", r"a\/b", r"[\d]/.",
    # what Python refuses
    "a(b", "a)b", "[x", "*", "+a", "a**", "(?P<1>a)", "(?P=x)", r"\1", "a\\",
    r"\q", r"\Kaa", r"\R", r"\Qa\E", r"\h", r"[\q]", "(*UTF8)a", "(?R)", "(?1)",
    "(?|a|b)", "(?&n)", "(?P>n)", "(?C1)a", "(?+1)", "[b-a]", "a{3,2}",
    "a(?i)b", "(?<n>a)", r"\g{1}", r"(?<=a+)b", r"\Z*", "(", "(?", "(?P", "(?:",
    r"[[:alpha:", r"\N", r"\X", r"\o{101}", r"\pL", r"\cA", r"\e",
]


def expression_case(expression):
    try:
        pattern = re.compile(expression)
    except re.error:
        return [expression, None]
    return [expression, "".join("1" if pattern.fullmatch(path) else "0"
                                for path in PATHS)]


# ---- maps by lot: words joined into paths, keys made from such paths by
# replacing parts with expressions
WORDS = ["dense", "dense_1", "dense_12", "conv2d", "d1", "d2", "block", "kernel",
         "bias", "gamma", "output", "embeddings"]
PARTS = [".*", "[^/]+", r"\w+", "dense.*", "dense(_\\d+)?", "d[0-9]", "(kernel|bias)",
         ".*a", "[a-z]+", "conv2d|d1", "d.", "(?!bias).*"]


def lot(number):
    generator = common.rng(f"layouts/{number}")

    def path():
        return "/".join(generator.choice(WORDS, generator.integers(1, 4)))

    def key():
        return "/".join(word if generator.random() < 0.5 else str(generator.choice(PARTS))
                        for word in path().split("/"))

    keys, paths = [], []
    for _ in range(generator.integers(1, 7)):
        axes = [str(a) if a else None for a in generator.permutation(
            ["data", "model", "", ""])[:generator.integers(1, 4)]]
        if generator.random() < 0.1:
            axes[0] = str(generator.choice(["dat", "x", "model"]))
        keys.append((key(), axes))
    if generator.random() < 0.2:
        keys.append((keys[0][0], keys[-1][1]))
    for _ in range(8):
        paths.append(path())
    paths += [k for k, _ in keys if not set(k) & set(".*[](|)?\\+")]
    return map_case(f"lot_{number}", keys, paths)


# ---- ranks: a layout against the shape of a variable
def rank_case(axes, shape):
    layout = distribution.TensorLayout(axes, device_mesh())
    try:
        distribution_lib.distribute_tensor(np.zeros(shape, np.float32), layout)
        return [axes, shape, "ok"]
    except ValueError:
        return [axes, shape, "error"]


def ranks():
    return [rank_case(axes, shape) for axes in ([], ["model"], [None, "model"],
                                                ["data", None, "model"])
            for shape in ([], [8], [8, 8], [8, 8, 8])]


# ---- the paths of variables and outputs that Keras asks a map for
class Asked(distribution.LayoutMap):
    def __init__(self, mesh):
        super().__init__(mesh)
        self.paths = []

    def __getitem__(self, path):
        if path not in self.paths:
            self.paths.append(path)
        return super().__getitem__(path)


class Block(keras.layers.Layer):
    def __init__(self, name):
        super().__init__(name=name)
        self.feature = keras.layers.Dense(4, name="feature")
        self.feature_2 = keras.layers.Dense(4, name="feature_2")

    def build(self, shape):
        self.feature.build(shape)
        self.feature_2.build((None, 4))

    def call(self, x):
        return self.feature_2(self.feature(x))


def chain(x):
    x = keras.layers.Dense(4, name="feature")(x)
    x = keras.layers.Dropout(0.1)(x)
    x = keras.layers.Dense(3)(x)
    return keras.layers.Dense(2)(x)


def nested(x):
    return Block("outer")(Block("inner")(x))


def table(x):
    return keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(4, name="feature"),
         keras.layers.Dense(3)], name="table")(x)


def paths_of(build):
    keras.utils.clear_session()
    asked = Asked(device_mesh())
    distribution.set_distribution(
        distribution.ModelParallel(layout_map=asked, batch_dim_name="data"))
    x = keras.Input((8,), name="x")
    model = keras.Model(x, build(x), name="model")
    model(np.zeros((4, 8), np.float32))
    distribution.set_distribution(None)
    paths = [p for p in asked.paths
             if "seed_generator" not in p and p != "model/output"]
    return {"variables": sorted(v.path for v in model.variables
                                if "seed_generator" not in v.path),
            "asked": sorted(paths)}


def main():
    cases = {
        "versions": common.versions(),
        "mesh": ",".join(f"{axis}={size}" for axis, size in MESH.items()),
        "maps": [map_case(*case) for case in DOCUMENTED] +
                [lot(n) for n in range(120)],
        "paths": PATHS,
        "expressions": [expression_case(e) for e in EXPRESSIONS],
        "ranks": ranks(),
        "models": {name: paths_of(build) for name, build in
                   (("chain", chain), ("nested", nested), ("table", table))},
    }
    path = common.HERE / "layouts.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n")
        for i, (name, value) in enumerate(cases.items()):
            rows = [json.dumps(row, ensure_ascii=False) for row in value] \
                if isinstance(value, list) and name != "paths" else None
            text = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else \
                json.dumps(value, ensure_ascii=False)
            file.write(f' "{name}": {text}{"," if i + 1 < len(cases) else ""}\n')
        file.write("}\n")
    print(f"{path.name}: {len(cases['maps'])} maps, {len(EXPRESSIONS)} "
          f"expressions, {path.stat().st_size} bytes", flush=True)


main()
