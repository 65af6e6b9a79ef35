"""Measured overheads, beside the assumed ones: mu_1 and mu_2 by total, a start by instance.

In a slot that begins with a change, instance i is held for h_i and not ready for l_i of it: its
process starts, loads base and data, waits for a checkpoint and for the policy's answer. The share
left for work is

    mu_t = 1 - sum of l_i / sum of h_i

with h_i the whole slot, unless the instance was preempted. mu_1 is the mean of mu_t over
slots with more instances than the slot before, mu_2 over slots with fewer (Kong et al., arXiv
2512.20967, eq. 2). A slot in which the job was done before all were ready has no measurement.
Instances that stay train on while new ones start, so l_i is small for them. So a start takes the
sum of l_i over the number of instances that were started, in all such slots.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from auctune.engine.spot.state import SlotRecord
from auctune.spot.job import InstanceStart, SpotJob
from auctune.spot.policy import IDLE


@dataclass(frozen=True, slots=True)
class MeasuredOverhead:
    """Overheads of a run; None where there was no such slot.

    Attributes:
        mu1, mu2: effective shares of a slot of this run.
        num_grown, num_shrunk: slots with more and with fewer instances than the slot before.
        start: slots from the start of an instance until it can train.
        num_started: instances of which it is the mean.
    """

    mu1: float | None
    mu2: float | None
    num_grown: int
    num_shrunk: int
    start: float | None
    num_started: int

    def at(self, ratio: float) -> "MeasuredOverhead":
        """Return the same seconds as shares of slots `ratio` times as long."""
        mu1, mu2 = (None if mu is None else 1.0 - (1.0 - mu) / ratio for mu in (self.mu1, self.mu2))
        start = None if self.start is None else self.start / ratio
        return replace(self, mu1=mu1, mu2=mu2, start=start)


def measure_overhead(slots: Sequence[SlotRecord]) -> MeasuredOverhead:
    """Measure the overheads of finished slots."""
    grown: list[float] = []
    shrunk: list[float] = []
    lost, num_started = 0.0, 0
    last, left = 0, IDLE
    for record in slots:
        held = record.allocation
        count = held.total
        started = max(held.on_demand - left.on_demand, 0) + max(held.spot - left.spot, 0)
        if record.overhead is not None and count != last:
            (grown if count > last else shrunk).append(1.0 - record.overhead)
        if record.overhead is not None and started:
            lost += record.overhead * count
            num_started += started
        last, left = count, record.remaining
    start = lost / num_started if num_started else None
    return MeasuredOverhead(
        _mean(grown), _mean(shrunk), len(grown), len(shrunk), start, num_started
    )


def assumed_overhead(job: SpotJob) -> dict[str, float]:
    """Return what the job assumes, by the names of a `MeasuredOverhead`."""
    if isinstance(job.overhead, InstanceStart):
        return {"start": job.overhead.slots}
    return asdict(job.overhead)


class ReadinessTracker:
    """Times at which the instances of one slot became ready.

    Args:
        start: of the slot.
        held: ids of all its instances.
    """

    def __init__(self, start: float, held: Sequence[str]) -> None:
        self._start = start
        self._ready: dict[str, float | None] = dict.fromkeys(held)
        self._preempted: dict[str, float] = {}

    def ready(self, instance: str, now: float) -> None:
        """Note that an instance can train; only the first time counts."""
        if instance in self._ready and self._ready[instance] is None:
            self._ready[instance] = now

    def preempted(self, instance: str, now: float) -> None:
        """Note that an instance was preempted."""
        self._preempted[instance] = now

    def overhead(self, end: float, observed: float) -> float | None:
        """Return the share of the held time that was lost; None if nothing was held, or unknown.

        Args:
            end: of the slot.
            observed: when the job was done, or `end`.
        """
        lost = held = 0.0
        for name, ready in self._ready.items():
            until = self._preempted.get(name, end)
            if ready is None and until > observed:
                return None
            held += until - self._start
            lost += (until if ready is None else min(ready, until)) - self._start
        return lost / held if held > 0 else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
