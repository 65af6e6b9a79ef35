"""Adapters of one base as threads of a standing pool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory, PreemptibleLoraJob


class LoraShop:
    """See `auctune.run.open_pool.open_thread.ThreadShop`.

    Args:
        pool: of the base.
        beside: folder that paths of data start from.
    """

    def __init__(self, pool: LoraJobFactory, beside: Path) -> None:
        self._pool, self._beside = pool, beside

    def make(self, thread: str, lasting: Mapping[str, Any]) -> PreemptibleLoraJob:
        """The thread of a job, by the fields of `LoraJob` but for its id and its schedule."""
        values = dict(lasting)
        values["data"] = self._beside / values["data"]
        values["target_modules"] = tuple(values.get("target_modules", ()))
        try:
            job = LoraJob(id=thread, schedule="constant", **values)
        except TypeError as error:
            raise InputError("settings", str(error), "settings of a job") from None
        # The trainer's own checkpoints are never written: the pool keeps the threads'.
        return self._pool.make(job, self._beside / "none")

    def let_go(self, thread: str) -> None:
        """A thread that was made is not needed any more."""
        self._pool.release(thread)
