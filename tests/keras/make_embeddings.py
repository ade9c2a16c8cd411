"""layers_embeddings.h5: output and gradients of the embeddings of language models, in float64. KerasHub has the
angles of rotary positions in float32.

    KERAS_BACKEND=jax python make_embeddings.py    (the format is that of layers.h5)

Needs, besides requirements.txt, `pip install --no-deps keras-hub==0.32.0 regex tokenizers`.
"""

import numpy as np

import common
from make_layers import L, Writer

import keras_hub


def reversible(case):
    tokens = common.rng("tokens").integers(0, 9, (4, 6)).astype(np.int32)
    case("reversible_embedding/rows", "ReversibleEmbedding", tokens, input_dim=9, output_dim=5)

    def logits(**given):
        layer = L.ReversibleEmbedding(input_dim=9, output_dim=5, **given)
        layer.build()
        return layer

    for name, given in (("logits", {}), ("soft_cap", dict(logit_soft_cap=0.7))):
        case(f"reversible_embedding/{name}", "ReversibleEmbedding", (2, 6, 5),
             build=lambda given=given: logits(**given), call=lambda layer, x: layer(x[0], reverse=True),
             called=dict(reverse=True), input_dim=9, output_dim=5, **given)


def position(case):
    for name, length in (("whole", 6), ("first", 11)):
        case(f"position_embedding/{name}", "PositionEmbedding", (2, 6, 5),
             build=lambda length=length: keras_hub.layers.PositionEmbedding(length), masked=0,
             sequence_length=length)
    case("position_embedding/rank4", "PositionEmbedding", (2, 3, 4, 5),
         build=lambda: keras_hub.layers.PositionEmbedding(4), masked=0, sequence_length=4)


def rotary(case):
    def build(**given):
        return lambda: keras_hub.layers.RotaryEmbedding(**given)

    for name, shape, given in (("rank3", (2, 6, 8), {}), ("heads", (2, 5, 3, 6), {}),
                               ("inner", (2, 3, 5, 6), dict(sequence_axis=2)),
                               ("from_end", (2, 3, 5, 6), dict(sequence_axis=-2)),
                               ("wavelength", (2, 7, 2, 10), dict(max_wavelength=50)),
                               ("scaled", (2, 7, 4), dict(scaling_factor=4.0, max_wavelength=500000)),
                               ("pair", (3, 9, 2), {})):
        case(f"rotary_embedding/{name}", "RotaryEmbedding", shape, build=build(**given), called=dict(tolerance=1e-5),
             **given)


with common.File("layers_embeddings.h5") as file:
    reversible(Writer(file))
    position(Writer(file))
    rotary(Writer(file))
