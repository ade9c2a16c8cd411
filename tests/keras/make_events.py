"""events.tfevents: a small event file made by TensorBoard's own writer and messages:
what ours must be able to say, field by field.

    python make_events.py
"""

import common
import numpy as np
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram import summary_v2 as histogram
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.plugins.text import summary_v2 as text
from tensorboard.summary.writer.record_writer import RecordWriter


def events():
    yield event_pb2.Event(wall_time=1.5, file_version="brain.Event:2")
    yield event_pb2.Event(wall_time=2.5, step=7, summary=scalar.scalar_pb("epoch_loss", 0.25))
    data = np.array([0.0, 1.0, 1.5, 2.0, 3.0, 3.0])
    yield event_pb2.Event(wall_time=3.5, step=8, summary=histogram.histogram_pb("d/kernel/histogram", data))
    yield event_pb2.Event(wall_time=4.5, step=0, summary=text.text_pb("hyperparameters", "| a | b |"))


def main():
    with open(common.HERE / "events.tfevents", "wb") as file:
        writer = RecordWriter(file)
        for event in events():
            writer.write(event.SerializeToString(deterministic=True))
        writer.flush()


if __name__ == "__main__":
    main()
