"""Worker of a further device of a node: computes the passes that the node's worker sends it.

It has no job of its own and writes nothing; it ends as soon as the node's worker does.
"""

from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.engine.messages.base import ErrorRecord, Failed, Stop
from auctune.engine.messages.devices import (
    DEVICE_MESSAGES,
    DeviceLoaded,
    DeviceReply,
    DeviceRequest,
    JoinDevices,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.nodes import NodeSettings
from auctune.train.base import load_base
from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.device_group import Follower, join_devices
from auctune.train.multilora.step import ForwardBackward

MESSAGES = DEVICE_MESSAGES


def main(parent: ParentChannel[DeviceReply, DeviceRequest], argument: dict[str, Any]) -> None:
    """Serve a device; the argument is the `NodeSettings` of its node, with its own device."""
    import torch

    settings = NodeSettings(**argument)
    torch.set_num_threads(settings.threads)
    try:
        base = load_base(
            settings.base,
            cache=Path(settings.cache),
            device=settings.device,
            dtype=settings.dtype,
        )
        backend = choose_backend(settings.backend, base.device, base.dtype)
    except AuctuneError as error:
        parent.send(Failed(error=ErrorRecord.of(error)))
        parent.exit(1)
    parent.send(DeviceLoaded(base_digest=base.digest))
    adapted = AdaptedModel(base.fresh_model(), backend)
    step = ForwardBackward(
        adapted, checkpointing=settings.gradient_checkpointing, uses_graphs=settings.mode == "fused"
    )
    follower = Follower(step, base.dtype)
    while not isinstance(request := parent.inbox.get(), Stop):
        if isinstance(request, JoinDevices):
            join_devices(request.store, base.device, request.number, request.num_devices)
        elif (reply := follower.handle(request)) is not None:
            parent.send(reply)
