"""What the make_*.py scripts share: Keras on JAX set up for one precision,
repeatable random arrays, and HDF5 files whose bytes repeat."""

import os
import zlib
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).resolve().parent


def keras_on_jax(precision="float64", threads=1):
    """Keras 3 with the JAX backend. In float64 everything (weights, optimizer,
    metrics) is float64; in float32 JAX's 64-bit types stay off, as in normal use."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["NPROC"] = str(threads)  # size of XLA's thread pool
    if threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax
    jax.config.update("jax_enable_x64", precision == "float64")
    import keras
    keras.config.set_floatx(precision)
    if precision == "float64":
        # On JAX (not on TensorFlow) Keras turns float64 into float32 in tanh, cos,
        # floor, var, batch and layer normalization, whatever floatx says.
        from keras.src.backend.common import dtypes
        dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    return keras


def rng(name):
    """A generator that depends on the name of the case only, so that adding a
    case leaves all others as they are."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def normal(generator, shape, scale=1.0):
    """Normal numbers that float32 holds exactly, as float32."""
    return (scale * generator.standard_normal(shape)).astype(np.float32)


def versions():
    import jax
    import jaxlib
    import keras
    return (f"keras {keras.__version__}, jax {jax.__version__}, "
            f"jaxlib {jaxlib.__version__}, numpy {np.__version__}")


class File:
    """An HDF5 file of groups with contiguous little-endian datasets; no times in
    it, so equal content gives equal bytes."""

    def __init__(self, name):
        self.path = HERE / name
        self.file = h5py.File(self.path, "w", driver="core", backing_store=False)

    def __enter__(self):
        return self

    def __exit__(self, error, *more):
        if error:
            return
        groups = []
        self.file.visititems(
            lambda name, o: groups.append(name)
            if isinstance(o, h5py.Group) and len(o.attrs) else None)
        with h5py.File(self.path, "w", libver="earliest") as stored:
            stored.attrs["versions"] = np.bytes_(versions())
            for name in self.file:  # a copy, which packs the headers
                self.file.copy(name, stored)
        self.file.close()
        print(f"{self.path.name}: {len(groups)} cases, "
              f"{self.path.stat().st_size} bytes", flush=True)

    def case(self, name, attributes, **datasets):
        """Write one group. Attributes are int32, float64 or fixed-length strings;
        datasets float32 (exact inputs), float64 (results) or int32."""
        group = self.file.create_group(name)
        for key, value in attributes.items():
            group.attrs[key] = _attribute(value)
        for key, value in datasets.items():
            if value is None:
                continue
            value = np.asarray(value, order="C")
            if value.dtype not in (np.float32, np.float64, np.int32):
                raise TypeError(f"{name}/{key}: {value.dtype}")
            if not np.isfinite(value).all():
                raise ValueError(f"{name}/{key}: not finite")
            group.create_dataset(key, data=value)
        return group


def _attribute(value):
    if isinstance(value, str):
        return np.bytes_(value)
    if isinstance(value, (bool, int, np.integer)):
        return np.int32(value)
    if isinstance(value, float):
        return np.float64(value)
    items = list(value)
    if all(isinstance(i, (bool, int, np.integer)) for i in items):
        return np.array(items, np.int32)
    return np.array(items, np.float64)


def numbered(prefix, arrays):
    """{'w0': ..., 'w1': ...} for a list."""
    return {f"{prefix}{i}": a for i, a in enumerate(arrays)}
