"""weights/*.h5: files of weights as Keras saves them, as people make them with
h5py, and such as must be refused; weights.h5: what is in them."""

import shutil

import h5py
import numpy as np

import common

FOLDER = common.HERE / "weights"



def networks(keras):
    layers = keras.layers

    def sequential():
        return keras.Sequential([
            keras.Input((6, 6, 2)), layers.Conv2D(3, 3, name="first"),
            layers.BatchNormalization(), layers.Flatten(),
            layers.Dropout(0.5), layers.Dense(4, use_bias=False, name="last")])

    def nested():
        inner = keras.Sequential([keras.Input((5,)), layers.Dense(7)],
                                 name="inner")
        words = keras.Input((3,), dtype="int32")
        x = layers.Embedding(11, 5)(words)
        x = layers.GlobalAveragePooling1D()(x)
        return keras.Model(words, layers.Dense(2)(inner(x)), name="outer")

    return {"sequential": sequential, "nested": nested}


def save(keras, name, built, policy, optimizer):
    """A model with weights and optimizer state from a generator, saved."""
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
    model = built()
    model.compile(optimizer, "mse")
    model.optimizer.build(model.trainable_variables)
    generator = common.rng(name)
    for variable in model.weights + model.optimizer.variables:
        if variable.dtype in ("float32", "bfloat16", "float16"):
            variable.assign(common.normal(generator, variable.shape))
    keras.config.set_dtype_policy("float32")
    model.save_weights(FOLDER / f"{name}.weights.h5")


def by_keras():
    keras = common.keras_on_jax("float32")
    built = networks(keras)
    adam, sgd = keras.optimizers.Adam, keras.optimizers.SGD
    save(keras, "keras_adam", built["sequential"], "float32", adam())
    save(keras, "keras_sgd", built["sequential"], "float32", sgd(momentum=0.9))
    save(keras, "keras_nested", built["nested"], "float32",
         keras.optimizers.RMSprop(centered=True, momentum=0.1))
    save(keras, "keras_mixed", built["sequential"], "mixed_float16", adam())
    save(keras, "keras_bfloat16", built["nested"], "bfloat16", adam())
    save(keras, "keras_float16", built["sequential"], "float16", sgd())


def new(name, **how):
    return h5py.File(FOLDER / f"{name}.weights.h5", "w", **how)


def types(file):
    """Every type there is, contiguous, little- and big-endian."""
    for name in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split():
        values = np.arange(24).reshape(2, 3, 4)
        if name[0] == "f":
            values = common.normal(common.rng(name), (2, 3, 4), 100)
        elif name[0] == "i":
            values = values * (-1) ** values
        for order in "<>":
            file[f"{'little' if order == '<' else 'big'}/{name}"] = \
                values.astype(order + name)
    file["limits/i8"] = np.array([-2**53, 2**53], "<i8")
    file["limits/u8"] = np.array([0, 2**53], "<u8")
    file["limits/u4"] = np.array([0, 2**32 - 1], "<u4")
    file["limits/f2"] = np.array([2**-24, 65504, -2**-14, -0.0], "<f2")
    file["bool"] = np.arange(6).reshape(2, 3) % 3 == 0


def storage(file):
    """Everything but contiguous: chunks, filters, compact, never written."""
    data = common.normal(common.rng("storage"), (13, 7, 5))
    file.create_dataset("chunked", data=data, chunks=(4, 3, 5))
    file.create_dataset("gzip", data=data, chunks=(5, 7, 2), compression=6,
                        shuffle=True, fletcher32=True)
    file.create_dataset("resizable", data=data, maxshape=(None, 7, 5))
    file.create_dataset("gzip_half", data=data.astype("f2"), compression=1)
    file.create_dataset("gzip_bool", data=data > 0, compression=1)
    file.create_dataset("gzip_big", data=(data * 100).astype(">i2"),
                        compression=1)
    file.create_dataset("never_written", (3, 4), "f4", fillvalue=2.5)
    file.create_dataset("never_chunked", (9, 9), "i4", chunks=(2, 2),
                        fillvalue=-7)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE,
                    h5py.h5s.create_simple((2, 5)), create).write(
        h5py.h5s.ALL, h5py.h5s.ALL, data[0, :2].copy())


def shapes(file):
    data = common.normal(common.rng("shapes"), (3, 2, 1, 2, 2, 1, 3, 2))
    file["scalar"] = np.float32(1.5)
    file["one"] = np.array([3], "i4")
    file["empty"] = np.zeros((0,), "f4")
    file["empty_rows"] = np.zeros((4, 0, 3), "f4")
    file["eight"] = data
    file.create_dataset("empty_chunked", (0, 3), "f4", chunks=(2, 3),
                        maxshape=(None, 3))
    file.create_group("group/without/members")
    file["group"].attrs["name"] = "a group"
    file["group/without"].attrs["name"] = np.bytes_("fixed length")
    file["group/without/members"].attrs["name"] = 7  # no text


def good():
    with new("types") as file:
        types(file)
    with new("storage") as file:
        storage(file)
    with new("shapes") as file:
        shapes(file)
    with new("version_110", libver=("v110", "v110")) as file:
        types(file)
        storage(file)
        for i in range(40):  # past what a compact group holds
            file[f"many/{i}"] = np.float32(i)
    with new("user_block", userblock_size=1024) as file:
        types(file)
    with new("twice") as file:  # one dataset with two names
        file["a"] = np.arange(5, dtype="f4")
        file["b"] = file["a"]


def weights(file):
    file["layers/dense/vars/0"] = np.ones((3, 4), "f4")


REFUSED = {}


def refused(reason):
    def note(make):
        REFUSED[make.__name__] = reason
        with new(make.__name__) as file:
            weights(file)
            make(file)
        return make
    return note


def bad():
    @refused("is a soft link")
    def soft_link(file):
        file["layers/dense/vars/1"] = h5py.SoftLink("/layers/dense/vars/0")

    @refused("is a soft link")
    def dangling_link(file):
        file["layers/dense/vars/1"] = h5py.SoftLink("/nowhere")

    @refused("is an external link")
    def external_link(file):
        file["layers/dense/vars/1"] = h5py.ExternalLink("keras_adam.weights.h5",
                                                        "/layers")

    @refused("is an external dataset")
    def external(file):
        file.create_dataset("layers/dense/vars/1", (64,), "u1",
                            external=[("/etc/passwd", 0, 64)])

    @refused("is a virtual dataset")
    def virtual(file):
        layout = h5py.VirtualLayout((3, 4), "f4")
        layout[:] = h5py.VirtualSource(".", "layers/dense/vars/0", (3, 4))
        file.create_virtual_dataset("layers/dense/vars/1", layout)

    @refused("is a virtual dataset")
    def virtual_other(file):
        layout = h5py.VirtualLayout((20,), "f4", maxshape=(None,))
        end = h5py.h5s.UNLIMITED
        layout[0:end:1] = h5py.VirtualSource(
            "other.h5", "x", (10,), maxshape=(None,))[0:end:1]
        file.create_virtual_dataset("layers/dense/vars/1", layout)

    @refused("contains itself")
    def cycle(file):
        file["layers/dense/again"] = file["layers"]

    @refused("contains itself")
    def root_cycle(file):
        file["layers/root"] = file["/"]

    @refused("nested deeper than 64")
    def deep(file):
        file.create_group("/".join("d" * 70))

    @refused("references")
    def references(file):
        file["layers/dense/vars/1"] = np.array(
            [file["layers"].ref], h5py.ref_dtype)

    @refused("references")
    def region_references(file):
        data = file["layers/dense/vars/0"]
        file["layers/dense/vars/1"] = np.array(
            [data.regionref[0:1, 0:2]], h5py.regionref_dtype)

    @refused("texts")
    def texts(file):
        file["layers/dense/vars/1"] = "not a number"

    @refused("structures")
    def structures(file):
        file["layers/dense/vars/1"] = np.zeros(3, "f4, i4")

    @refused("structures")
    def complex_numbers(file):
        file["layers/dense/vars/1"] = np.zeros(3, "c8")

    @refused("variable length")
    def variable_length(file):
        set = file.create_dataset("layers/dense/vars/1", (2,),
                                  h5py.vlen_dtype("f4"))
        set[0] = [1, 2]

    @refused("arrays")
    def arrays(file):
        file.create_dataset("layers/dense/vars/1", (2,), "(3,)f4")

    @refused("an enumeration")
    def enumeration(file):
        file.create_dataset("layers/dense/vars/1", (2,),
                            h5py.enum_dtype({"no": 0, "yes": 1}, "i4"))

    @refused("bytes without meaning")
    def opaque(file):
        file["layers/dense/vars/1"] = np.zeros(3, "V2")

    @refused("unusual floats of 16 bytes")
    def long_doubles(file):
        file["layers/dense/vars/1"] = np.zeros(3, np.longdouble)

    @refused("neither group nor dataset")
    def named_type(file):
        file["layers/dense/type"] = np.dtype("f4")

    @refused("has no shape")
    def null_space(file):
        file["layers/dense/vars/1"] = h5py.Empty("f4")

    @refused("has 9 dimensions")
    def nine_dimensions(file):
        file["layers/dense/vars/1"] = np.zeros((1,) * 9, "f4")

    @refused("unprintable")
    def control_characters(file):
        file["layers/a\x1b[31mb"] = np.zeros(3, "f4")

    @refused("chunks of 2147483648 bytes")
    def large_chunks(file):
        file.create_dataset("layers/dense/vars/1", (1 << 30,), "f4",
                            chunks=(1 << 29,))

    @refused("claims")
    def claims(file):
        file.create_dataset("layers/dense/vars/1", (1 << 40,), "f4",
                            chunks=(1 << 10,))

    @refused("claims")
    def claims_unwritten(file):
        file.create_dataset("layers/dense/vars/1", (1 << 40,), "f4")

    @refused("overflows")
    def overflows(file):
        file.create_dataset("layers/dense/vars/1", (1 << 32, 1 << 31), "f8",
                            chunks=(1 << 10, 1))


def describe(oracle, path):
    """What h5py finds, in the order of the names."""
    found = []
    with h5py.File(path) as file:
        def visit(name, item):
            if isinstance(item, h5py.Dataset):
                values = item[()]
                if item.attrs.get("dtype") == "bfloat16":
                    bits = np.frombuffer(values.tobytes(), "<u2")
                    values = (bits.astype("<u4") << 16).view("<f4").reshape(
                        item.shape)
                found.append(("/" + name, np.asarray(values, np.float64)))
        file.visititems(visit)
        names = {"/" + n: g.attrs["name"] for n, g in groups(file)
                 if isinstance(g.attrs.get("name"), (str, bytes))}
    if path.stem.startswith("twice"):  # h5py visits an object once
        found.append(("/b", found[0][1]))
    names = {k: v.decode() if isinstance(v, bytes) else v
             for k, v in names.items()}
    oracle.case(path.name.split(".")[0], {
        "places": "\n".join(p for p, _ in found),
        "groups": "\n".join(names), "names": "\n".join(names.values())},
        **common.numbered("t", [v for _, v in found]))


def groups(file):
    found = []
    file.visititems(lambda n, o: found.append((n, o))
                    if isinstance(o, h5py.Group) else None)
    return found


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    by_keras()
    good()
    read = sorted(FOLDER.iterdir())
    bad()
    with common.File("weights.h5") as oracle:
        for path in read:
            describe(oracle, path)
        for name, reason in REFUSED.items():
            oracle.case(name, {"refused": reason})
    total = sum(p.stat().st_size for p in FOLDER.iterdir())
    print(f"{len(read)} files to read, {len(REFUSED)} to refuse, {total} bytes")


if __name__ == "__main__":
    main()
