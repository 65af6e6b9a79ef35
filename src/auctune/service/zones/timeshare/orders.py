"""Who is wanted in the pool, by what its zone has come to."""

import os
from collections.abc import Callable
from pathlib import Path

from auctune.device_profile import Profile
from auctune.domain import Money
from auctune.run.open_pool.wanted import WantedThread, Wish
from auctune.service.jobs.device_limits import step_seconds
from auctune.service.zones.timeshare.open_job import Phase, TargetJob
from auctune.service.zones.timeshare.state import TimeshareState

# How long it trains nobody knows, and what it keeps is by its loss in training.
_NOT_ITS_OWN = ("epochs", "schedule", "patience")


class Orders:
    """Of one zone.

    Args:
        content: where the content of a file lies, by its id.
        pool: folder of the pool, from which paths start.
        price: of a second of the pool.
        profile: of the pool's device, by which a job's speed is estimated.
        unit_seconds: length of a unit.
    """

    def __init__(
        self,
        content: Callable[[str], Path],
        pool: Path,
        price: Money,
        profile: Profile,
        unit_seconds: float,
    ) -> None:
        self._content, self._pool, self._price = content, pool, price
        self._profile, self._unit_seconds = profile, unit_seconds

    def desired_threads(self, state: TimeshareState) -> tuple[WantedThread, ...]:
        """All jobs that are to be in the pool, and what they are to do."""
        return tuple(
            self._thread(job) for job in state.jobs.values() if job.phase is not Phase.LEFT
        )

    def _thread(self, job: TargetJob) -> WantedThread:
        settings = job.training.settings()
        lasting = {key: value for key, value in settings.items() if key not in _NOT_ITS_OWN}
        lasting["target_modules"] = list(lasting["target_modules"])
        # A data folder that is moved takes its pools along.
        lasting["data"] = os.path.relpath(self._content(job.training.data), self._pool)
        return WantedThread(
            id=job.id,
            deadline=job.deadline_unit,
            threshold=job.target_loss,
            lasting=lasting,
            batches_per_unit=self._unit_seconds
            / step_seconds(job.training, job.size, self._profile),
            wish=self._wish(job),
        )

    def _wish(self, job: TargetJob) -> Wish:
        if job.is_cap_reached and self._price:
            return Wish.END
        return Wish.REST if job.phase is Phase.PAUSED else Wish.LEARN
