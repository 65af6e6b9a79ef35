"""Adapters of one base as threads of a standing pool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.train.job import LoraJob
from auctune.train.timeshare.lora_thread import LoraPool, LoraThread


class LoraShop:
    """See `auctune.run.open_pool.open_thread.ThreadShop`.

    Args:
        pool: of the base.
        nowhere: a folder that does not exist: the pool keeps the threads' checkpoints.
    """

    def __init__(self, pool: LoraPool, nowhere: Path) -> None:
        self._pool, self._nowhere = pool, nowhere

    def make(self, thread: str, lasting: Mapping[str, Any]) -> LoraThread:
        """The thread of a job, as `job_record` wrote it."""
        values = dict(lasting)
        values["data"] = Path(values["data"])
        values["target_modules"] = tuple(values.get("target_modules", ()))
        try:
            job = LoraJob(id=thread, schedule="constant", **values)
        except TypeError as error:
            raise InputError("settings", str(error), "settings of a job") from None
        return self._pool.thread(job, self._nowhere)

    def let_go(self, thread: str) -> None:
        """A thread that was made is not needed any more."""
        self._pool.let_go(thread)
