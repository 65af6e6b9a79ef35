"""A further device of a node whose memory holds passes of 25 tokens at most."""

from typing import Any

import torch

from auctune.engine.messages.devices import DEVICE_MESSAGES, DeviceReply, DeviceRequest
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.workers import device
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.step import ForwardBackward

MESSAGES = DEVICE_MESSAGES
MAX_TOKENS = 25


class CrampedStep(ForwardBackward):
    """Says that memory ran out in passes of training that are longer."""

    def train(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        if batch.num_tokens > MAX_TOKENS:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().train(batch)


def main(parent: ParentChannel[DeviceReply, DeviceRequest], argument: dict[str, Any]) -> None:
    device.ForwardBackward = CrampedStep  # type: ignore[attr-defined]
    device.main(parent, argument)
