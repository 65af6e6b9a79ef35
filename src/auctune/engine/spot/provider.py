"""Provider of instances: quotes, acquires and preempts them after a recorded market.

Each instance has a gradient worker, which a launcher starts: a process of this machine, or an actor
of a Ray cluster (`auctune.engine.spot.ray_workers`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from auctune.domain import AuctuneError, InputError
from auctune.engine.elastic.gradient_worker import WORKER, WorkerSettings, gradient_worker
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import LocalLauncher, start_fork_server, wait_for_fork_server
from auctune.engine.runtime.worker import Launcher, WorkerHandle
from auctune.engine.spot.traces import MarketTrace
from auctune.spot.job import SpotJob


class SpotRunError(AuctuneError):
    """The workers of a run cannot do its work."""


def cannot_start(error: OSError | RuntimeError) -> SpotRunError:
    """Return the error of a process that cannot be started: none, or no thread, is left."""
    why = error.strerror if isinstance(error, OSError) else error
    return SpotRunError(f"a worker's process cannot be started: {why}")


class PurchaseOption(StrEnum):
    """How an instance is rented."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class SpotQuote:
    """What can be rented.

    Attributes:
        price: of a spot instance for a slot.
        available: spot instances that can be held, including those that are.
        on_demand_price: of an on-demand instance for a slot; their number is not limited.
    """

    price: float
    available: int
    on_demand_price: float


class Instance:
    """A rented machine with a gradient worker.

    Args:
        id: unique within a run.
        option: how it is rented.
        launcher: starts its worker, by the option.
    """

    def __init__(self, id: str, option: PurchaseOption, launcher: Launcher) -> None:
        self.id, self.option = id, option
        self._launcher = launcher
        self._worker: WorkerHandle | None = None

    def start(self, on_message: OnMessage) -> WorkerHandle:
        """Start its worker, once, and return it; does not wait until it is ready.

        Raises:
            SpotRunError: if it cannot be started.
        """
        try:
            self._worker = self._launcher.start(self.option, on_message)
            return self._worker
        except (OSError, RuntimeError) as error:
            raise cannot_start(error) from None

    def is_lost(self) -> bool:
        """Return whether it is gone, and not its worker alone."""
        return self._worker is not None and self._worker.is_lost()

    def kill(self) -> None:
        """End its worker at once; may be called again."""
        if self._worker is not None:
            self._worker.kill()


class Capacity(Protocol):
    """Number of spot instances that can be held."""

    def current(self, now: float, held: int) -> int:
        """Return the number now, including the `held` ones."""
        ...

    def minimum_since(self, since: float, now: float, held: int) -> int:
        """Return the least number since a moment: instances above it are preempted."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TraceCapacity:
    """The capacity of a recorded market."""

    trace: MarketTrace

    def current(self, now: float, held: int) -> int:
        return self.trace.at(now)[1]

    def minimum_since(self, since: float, now: float, held: int) -> int:
        return self.trace.min_available(since, now)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCapacity:
    """The capacity of a cluster; an instance stays until it is lost with its machine.

    Attributes:
        num_free: returns how many more instances fit.
    """

    num_free: Callable[[], int]

    def current(self, now: float, held: int) -> int:
        return held + self.num_free()

    def minimum_since(self, since: float, now: float, held: int) -> int:
        return held


class InstanceProvider:
    """Instances of one run, at the prices of a trace.

    When fewer spot instances are available than are held, the newest are preempted: their workers
    are killed. So are those whose machines are lost. Times are slots since the job began, and never
    decrease from call to call.

    Args:
        trace: prices.
        launcher: starts the workers; closed with the provider.
        capacity: of spot instances.
    """

    def __init__(self, trace: MarketTrace, launcher: Launcher, capacity: Capacity) -> None:
        self._trace = trace
        self._launcher = launcher
        self._capacity = capacity
        self._held: dict[str, Instance] = {}
        self._num_rented = 0
        self._checked_at: float | None = None

    def quote(self, now: float) -> SpotQuote:
        """Return what can be rented now."""
        price, _ = self._trace.at(now)
        available = self._capacity.current(now, len(self._spot()))
        return SpotQuote(price, available, self._trace.on_demand_price)

    def acquire(self, option: PurchaseOption, count: int, now: float) -> Sequence[Instance]:
        """Rent instances; return the new ones, at most as many spot instances as are available."""
        if option is PurchaseOption.SPOT:
            held = len(self._spot())
            count = min(count, self._capacity.current(now, held) - held)
        rented = []
        for _ in range(count):
            name = f"{option}-{self._num_rented}"
            self._num_rented += 1
            self._held[name] = Instance(name, option, self._launcher)
            rented.append(self._held[name])
        return rented

    def restart(self, instance: Instance) -> Instance | None:
        """Start a new worker in place of one that crashed; None if the instance is gone too."""
        if instance.id not in self._held:
            return None
        instance.kill()
        self._held[instance.id] = Instance(instance.id, instance.option, self._launcher)
        return self._held[instance.id]

    def release(self, instance: Instance) -> None:
        """Return an instance; its worker is killed."""
        self._held.pop(instance.id).kill()

    def check_preemptions(self, now: float) -> Sequence[Instance]:
        """Kill and return the spot instances that were preempted since the last call."""
        since = now if self._checked_at is None else self._checked_at
        self._checked_at = now
        preempted = [instance for instance in self._spot() if instance.is_lost()]
        spot = [instance for instance in self._spot() if instance not in preempted]
        excess = len(spot) - self._capacity.minimum_since(since, now, len(spot))
        preempted += spot[::-1][: max(0, excess)]
        for instance in preempted:
            self.release(instance)
        return preempted

    def close(self) -> None:
        """Release all instances."""
        for instance in list(self._held.values()):
            self.release(instance)
        self._launcher.close()

    def _spot(self) -> list[Instance]:
        return [one for one in self._held.values() if one.option is PurchaseOption.SPOT]


class ProviderFactory(Protocol):
    """Opens a provider for a job, once the job's data are loaded."""

    @property
    def trace(self) -> MarketTrace:
        """The market; its slot 0 is the job's first."""
        ...

    def check(self, job: SpotJob) -> None:
        """Check that a job can be run.

        Raises:
            InputError: if it cannot.
        """
        ...

    def identity(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON can hold it."""
        ...

    def is_warm(self, settings: WorkerSettings) -> bool:
        """Return whether workers are forked by a fork server that has base and data loaded."""
        ...

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        """Open the provider of a job.

        Args:
            settings: of the workers.
            log: file for their standard error.
        """
        ...


def check_trace_length(trace: MarketTrace, job: SpotJob) -> None:
    """Refuse a job whose deadline is after the end of the market.

    Raises:
        InputError: naming `market`.
    """
    if trace.num_slots < job.deadline:
        expected = f"{job.deadline}, up to the deadline"
        raise InputError("market", f"{trace.num_slots} slots", expected)


@dataclass(frozen=True, slots=True, eq=False)
class LocalProvider:
    """A `ProviderFactory`: a recorded market, with processes of this machine as instances.

    Attributes:
        trace: the market; its slot 0 is the job's first.
        warm: fork workers from a process that has base and data loaded: they start at once, and
            share the memory of the base. Otherwise each loads for itself, as a new machine would;
            so does each on a GPU, whose state does not survive a fork.
    """

    trace: MarketTrace
    warm: bool = False

    def check(self, job: SpotJob) -> None:
        check_trace_length(self.trace, job)

    def identity(self) -> dict[str, Any]:
        return {"provider": "market", "trace": self.trace.digest}

    def is_warm(self, settings: WorkerSettings) -> bool:
        return self.warm and settings.device == "cpu"

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        worker = gradient_worker(settings, log, fork=self.warm)
        if self.is_warm(settings):
            start_fork_server(WORKER, worker.argument)
            # The run's first slot is paid for: it begins once workers can be forked at once.
            try:
                wait_for_fork_server()
            except OSError as error:
                raise cannot_start(error) from None
        launcher = LocalLauncher(dict.fromkeys(PurchaseOption, worker))
        return InstanceProvider(self.trace, launcher, TraceCapacity(self.trace))
