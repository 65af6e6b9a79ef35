"""A worker that sends which GPUs it sees."""

import os
from dataclasses import dataclass

from auctune.engine.messages.base import Alive, Ready, Stop, WorkerMessages
from auctune.engine.runtime.channel import ParentChannel


@dataclass(frozen=True, slots=True, kw_only=True)
class SeesGpus(Ready):
    """The worker sees these GPUs, as CUDA_VISIBLE_DEVICES has them."""

    gpus: str


MESSAGES = WorkerMessages(Stop, Alive | SeesGpus)


def main(parent: ParentChannel[Alive | SeesGpus, Stop], _: object) -> None:
    parent.send(SeesGpus(gpus=os.environ.get("CUDA_VISIBLE_DEVICES", "")))
    parent.stop_requested.wait()
