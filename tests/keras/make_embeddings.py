"""layers_embeddings.h5: output and gradients of the embeddings of language models, in float64.

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


with common.File("layers_embeddings.h5") as file:
    reversible(Writer(file))
    position(Writer(file))
