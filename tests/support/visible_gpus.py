"""A worker that sends, as the digest of its base, which GPUs it sees."""

import os
from typing import Any

from auctune.engine.messages.elastic import GRADIENT_MESSAGES, GradientWorkerReady
from auctune.engine.runtime.channel import ParentChannel

MESSAGES = GRADIENT_MESSAGES


def main(parent: ParentChannel[Any, Any], _: object) -> None:
    parent.send(GradientWorkerReady(base_digest=os.environ.get("CUDA_VISIBLE_DEVICES", "")))
    parent.stop_requested.wait()
