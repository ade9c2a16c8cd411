"""initializers.h5: what keras.initializers.STFT makes, in float64."""

import common
keras = common.keras_on_jax()
import numpy as np  # noqa: E402

CASES = {
    "default": ((9, 1, 5), {}),
    "imaginary": ((9, 1, 5), dict(side="imag")),
    "hamming": ((10, 1, 7), dict(window="hamming", scaling="spectrum")),
    "periodic": ((8, 1, 6), dict(periodic=True)),
    "periodic_hamming": ((5, 1, 3), dict(window="hamming", periodic=True,
                                         scaling=None)),
    "no_window": ((6, 1, 4), dict(window=None, side="imag")),
    "one": ((1, 1, 3), {}),
    "three_hamming": ((3, 1, 4), dict(window="hamming")),
    "three_periodic": ((3, 1, 4), dict(periodic=True, scaling="spectrum")),
}
with common.File("initializers.h5") as file:
    for name, (shape, given) in CASES.items():
        made = keras.initializers.STFT(**given)
        config = {k: "none" if v is None else v
                  for k, v in made.get_config().items()}
        file.case(f"stft/{name}", config,
                  y=np.asarray(made(shape, dtype="float64"), np.float64))
