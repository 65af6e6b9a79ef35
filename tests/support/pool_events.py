"""Events that a timeshare zone's pool might have sent."""

from collections.abc import Sequence

from auctune.run.pool.events import JobJoined, QuantumTrained


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
    )
