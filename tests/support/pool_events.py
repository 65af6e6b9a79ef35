"""Events that a timeshare zone's pool might have sent."""

from collections.abc import Iterable, Sequence

from auctune.engine.pool.events import JobJoined, JobOutlook, PoolEvent, PoolState, QuantumTrained
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.worker import record_event
from support.serving import Served


def joined(job: str, time: int, seconds: float = 0.0, rate: float = 9.0) -> JobJoined:
    """A job joins in quantum `time`."""
    return JobJoined(job, time, time + 20, 0.5, {}, rate, memory_bytes=9, seconds=seconds)


def quantum(
    time: int,
    shares: dict[str, float],
    *,
    batches: Sequence[int],
    losses: Sequence[float],
    seconds: Sequence[float],
    read: Sequence[tuple[int, int]],
    accuracies: Sequence[float] = (),
) -> QuantumTrained:
    """A quantum of jobs with these shares."""
    return QuantumTrained(
        time=time,
        moment=time + 1.0,
        span=1.0,
        jobs=list(shares),
        shares=list(shares.values()),
        batches=list(batches),
        losses=list(losses),
        seconds=list(seconds),
        rates=[9.0] * len(shares),
        read=list(read),
        accuracies=list(accuracies),
    )


def fold(events: Iterable[PoolEvent]) -> PoolState:
    """Return the state of a pool after these events."""
    state = PoolState()
    for event in events:
        state.apply(event)
    return state


def send_pool_event(served: Served, event: PoolEvent, outlooks: Sequence[JobOutlook] = ()) -> None:
    """Apply an event of the pool to the zone `pool` of a market."""
    actor = _pool(served).actor
    actor.submit(lambda zone: record_event(zone, event, outlooks)).result(600)


def settle_dropped(served: Served) -> None:
    """Settle the cancelled jobs of the zone `pool`: the pool has dropped them."""
    _pool(served).actor.submit(lambda zone: zone.settle_dropped(zone.state.seq)).result(600)


def _pool(served: Served) -> TimeshareGateway:
    zone = served.service.zones["pool"]
    assert isinstance(zone, TimeshareGateway)
    return zone
