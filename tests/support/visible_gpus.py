"""A worker that says which GPUs it sees."""

import os
from typing import Any

from auctune.engine.runtime.channel import ParentChannel


def main(parent: ParentChannel[Any], _: object) -> None:
    parent.send({"kind": "ready", "visible": os.environ.get("CUDA_VISIBLE_DEVICES")})
    parent.stop_requested.wait()
