"""Work that a zone's workshop does for jobs beside their training: packing, mending.

Work that fails is done again when it is begun again, as a disk that is full may have room by then;
after some tries, or where it is of no use, the job is given up.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.service.tasks import TaskSet

_log = structlog.get_logger(__name__)

_TRIES = 20


class Chores:
    """Of one zone.

    Args:
        give_up: told a job whose work is no use, and why.

    Attributes:
        busy: jobs for which something is under way.
    """

    def __init__(self, give_up: Callable[[str, str], Awaitable[None]]) -> None:
        self.busy: set[str] = set()
        self._give_up = give_up
        self._failures: Counter[str] = Counter()
        self._background = TaskSet()

    def start_once(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin work for a job, unless some is under way."""
        if job in self.busy:
            work.close()
            return
        self.busy.add(job)
        self._background.spawn(self._run(job, work))

    async def close(self) -> None:
        """End what is under way."""
        await self._background.close()

    async def _run(self, job: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            del self._failures[job]
        except (AuctuneError, OSError) as error:
            await self._failed(job, error)
        finally:
            self.busy.discard(job)

    async def _failed(self, job: str, error: Exception) -> None:
        self._failures[job] += 1
        _log.error("work for a job failed", job=job, reason=str(error))
        if isinstance(error, InputError) or self._failures[job] >= _TRIES:
            del self._failures[job]
            await self._give_up(job, str(error))
