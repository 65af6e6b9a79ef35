"""Instances of a replayed market: each is a worker, taken away by SIGKILL, or by Ray."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.run.spot.availability import Availability, Recorded
from auctune.run.spot.kind import Kind
from auctune.run.spot.launcher import FreshLauncher, Launcher, WarmLauncher
from auctune.run.spot.provider import Instance, Offer, Provider
from auctune.run.spot.trace import MarketTrace
from auctune.run.spot.worker import WorkerSettings
from auctune.spot.job import SpotJob


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedMarket:
    """A `Supply`: a trace replayed on this machine.

    Attributes:
        trace: what there was; its slot 0 is the job's first.
        warm: workers are forked from a process that has loaded everything; else each loads for
            itself, as a new machine would.
    """

    trace: MarketTrace
    warm: bool = False

    def check(self, job: SpotJob) -> None:
        """See `Supply`."""
        check_reach(self.trace, job)

    def lasting(self) -> dict[str, Any]:
        """See `Supply`."""
        return {"provider": "market", "trace": self.trace.digest}

    def open(self, settings: WorkerSettings, log: Path) -> Provider:
        """See `Supply`."""
        kind = WarmLauncher if self.warm else FreshLauncher
        return MarketProvider(self.trace, kind(settings, log), Recorded(self.trace))


def check_reach(trace: MarketTrace, job: SpotJob) -> None:
    """Refuse a job that the market ends before.

    Raises:
        InputError: naming `market`.
    """
    if trace.num_slots < job.deadline:
        expected = f"{job.deadline}, up to the deadline"
        raise InputError("market", f"{trace.num_slots} slots", expected)


class MarketProvider:
    """A `Provider` after a trace.

    When fewer spot instances are there than are held, the newest ones are taken away: their
    processes are killed, whatever they are at. So are those whose machines are lost.

    Args:
        trace: prices.
        launcher: starts the workers; closed with the provider.
        availability: counts the spot instances that there are.
    """

    def __init__(self, trace: MarketTrace, launcher: Launcher, availability: Availability) -> None:
        self._trace = trace
        self._availability = availability
        self._launcher = launcher
        self._held: dict[str, Instance] = {}
        self._num_rented = 0
        self._looked: float | None = None

    def offer(self, now: float) -> Offer:
        """See `Provider`."""
        price, _ = self._trace.at(now)
        available = self._availability.at(now, len(self._spot()))
        return Offer(price, available, self._trace.on_demand_price)

    def acquire(self, kind: Kind, count: int, now: float) -> Sequence[Instance]:
        """See `Provider`."""
        if kind is Kind.SPOT:
            held = len(self._spot())
            count = min(count, self._availability.at(now, held) - held)
        rented = []
        for _ in range(count):
            name = f"{kind}-{self._num_rented}"
            self._num_rented += 1
            self._held[name] = Instance(name, kind, self._launcher.launch(kind))
            rented.append(self._held[name])
        return rented

    def restart(self, instance: Instance) -> Instance | None:
        """See `Provider`."""
        if instance.id not in self._held:
            return None
        instance.process.kill()
        again = Instance(instance.id, instance.kind, self._launcher.launch(instance.kind))
        self._held[instance.id] = again
        return again

    def release(self, instance: Instance) -> None:
        """See `Provider`."""
        self._held.pop(instance.id).process.kill()

    def taken_back(self, now: float) -> Sequence[Instance]:
        """See `Provider`."""
        since = now if self._looked is None else self._looked
        self._looked = now
        taken = [instance for instance in self._spot() if instance.process.is_gone()]
        spot = [instance for instance in self._spot() if instance not in taken]
        num_taken = len(spot) - self._availability.least(since, now, len(spot))
        taken += spot[::-1][: max(0, num_taken)]
        for instance in taken:
            self.release(instance)
        return taken

    def close(self) -> None:
        """See `Provider`."""
        for instance in list(self._held.values()):
            self.release(instance)
        self._launcher.close()

    def _spot(self) -> list[Instance]:
        return [instance for instance in self._held.values() if instance.kind is Kind.SPOT]
