"""Where instances come from: a replayed market, here or on a cluster, and one day a cloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from auctune.run.spot.kind import Kind
from auctune.run.spot.launcher import WorkerProcess
from auctune.run.spot.worker import WorkerSettings
from auctune.spot.job import SpotJob


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is to rent.

    Attributes:
        price: of a spot instance for a slot.
        available: spot instances that can be held, those that are held included.
        on_demand_price: of an on-demand instance for a slot; there are always enough of them.
    """

    price: float
    available: int
    on_demand_price: float


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A rented machine with a worker on it.

    Attributes:
        id: unique within a run.
        kind: how it is rented.
        process: the worker's.
    """

    id: str
    kind: Kind
    process: WorkerProcess


class Provider(Protocol):
    """Rents instances. Times are slots since the job began, and never fall from call to call."""

    def offer(self, now: float) -> Offer:
        """What there is to rent now."""
        ...

    def acquire(self, kind: Kind, count: int, now: float) -> Sequence[Instance]:
        """Rent instances; their workers may take a while to be ready.

        Returns:
            The new ones; fewer than `count` of spot instances if the market was quicker.
        """
        ...

    def restart(self, instance: Instance) -> Instance | None:
        """A new worker on an instance whose worker has died; none if the instance is gone too."""
        ...

    def release(self, instance: Instance) -> None:
        """Give an instance back; its worker is ended."""
        ...

    def taken_back(self, now: float) -> Sequence[Instance]:
        """Spot instances that were taken away since this was last asked; their workers are dead.

        A provider that gets word in advance takes them away as soon as the word comes.
        """
        ...

    def close(self) -> None:
        """Give all back."""
        ...


class Supply(Protocol):
    """A way to rent, before a job is known."""

    def check(self, job: SpotJob) -> None:
        """Refuse a job that cannot be run here.

        Raises:
            InputError: saying why.
        """
        ...

    def lasting(self) -> dict[str, Any]:
        """What a run that goes on must find as it was, as JSON can hold it."""
        ...

    def open(self, settings: WorkerSettings, log: Path) -> Provider:
        """Begin to rent for one job.

        Args:
            settings: of the workers.
            log: file to which they write what they have to say to people.
        """
        ...
