"""A further device of a node whose memory holds passes of 25 tokens and ranks of 8 at most."""

from typing import Any

import torch
from peft import LoraConfig

from auctune.engine.messages.devices import DEVICE_MESSAGES, DeviceReply, DeviceRequest
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.workers import device
from auctune.train.multilora import device_group
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.weights import AdapterWeights, new_weights

MESSAGES = DEVICE_MESSAGES
MAX_TOKENS, MAX_RANK = 25, 8


class CrampedStep(ForwardBackward):
    """Says that memory ran out in passes of training that are longer."""

    def train(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        if batch.num_tokens > MAX_TOKENS:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().train(batch)


def main(parent: ParentChannel[DeviceReply, DeviceRequest], argument: dict[str, Any]) -> None:
    def cramped(name: str, config: LoraConfig, *args: Any, **options: Any) -> AdapterWeights:
        if config.r > MAX_RANK:
            # No machine's addresses reach that far, so that the allocator itself refuses.
            torch.empty(1 << 60, dtype=torch.uint8)
        return new_weights(name, config, *args, **options)

    device_group.new_weights = cramped  # type: ignore[attr-defined]
    device.ForwardBackward = CrampedStep  # type: ignore[attr-defined]
    device.main(parent, argument)
