"""The log of a timeshare zone once more: by what it had seen, or shared out by other allocators."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from auctune.cli._support.options import print_json
from auctune.cli._support.progress import ProgressBars
from auctune.cli.replays.metered import show_again
from auctune.cli.replays.replay import Figures, Logged
from auctune.cli.replays.shown import (
    bounds,
    contender_figures,
    show_left_out,
    show_side_by_side,
)
from auctune.domain import Money
from auctune.registry import timeshare_allocator
from auctune.run.open_pool.how import How
from auctune.service.zones.core.events import EventType
from auctune.service.zones.timeshare.again import TimeshareAgain
from auctune.service.zones.timeshare.past import LoggedThread, logged_threads
from auctune.sim.comparison import Contender
from auctune.sim.timeshare.past_pool import PastThread, PoolTakings, play_again, pool_takings
from auctune.timeshare import Allocator, LearningThread
from auctune.train.timeshare.estimators import ESTIMATORS


class TimeshareReplay:
    """A `Replay` of a timeshare zone's log."""

    def __init__(self, logged: Logged) -> None:
        self._period = logged.period

    def check(self, contender: Contender) -> None:
        """See `Replay`."""
        _allocator(contender)

    def decide_again(self, *, as_json: bool) -> tuple[Figures, bool]:
        """See `Replay`."""
        return show_again(self._period, "what its jobs had shown", self._judge, as_json=as_json)

    def compare_with(self, contenders: Sequence[Contender], *, as_json: bool) -> Figures:
        """See `Replay`."""
        period = self._period
        logged = logged_threads(period.events(), period.first_slot)
        threads = past_threads(logged, period.clock.slot_seconds, period.newest_slot)
        before = pool_takings(threads)
        with ProgressBars() as bars:
            others = []
            for contender in contenders:
                bars.counter(contender.label, None)
                others.append(play_again(threads, _allocator(contender)) if threads else before)
        seconds = period.clock.slot_seconds
        figures = {
            **bounds(period),
            "num_left_out": len(logged) - before.num_jobs,
            "recorded": {
                "mechanism": period.opened["allocator"],
                **_takings_json(before, seconds),
            },
            "mechanisms": [
                contender_figures(contender, _takings_json(takings, seconds))
                for contender, takings in zip(contenders, others, strict=True)
            ],
        }
        if as_json:
            print_json(figures)
        else:
            show_side_by_side(period, contenders, before, others, _rows(seconds))
            show_left_out(
                figures["num_left_out"], "cancelled, paused, never in the pool, or not over"
            )
        return figures

    def _judge(self) -> TimeshareAgain:
        period = self._period
        asked = (
            one for one in period.events() if one.kind == EventType.DECIDED and period.has(one)
        )
        return TimeshareAgain(Money(period.opened["price_per_second"]), period.clock, asked)


def past_threads(
    logged: Sequence[LoggedThread], unit_seconds: float, newest: int
) -> list[PastThread]:
    """Threads on record as another allocator can be tried on them; unit 0 is the first of any.

    Args:
        logged: of the period; those that learned nothing are left out.
        unit_seconds: how long a unit is.
        newest: the last unit on record.
    """
    begin = min((one.start for one in logged if one.start is not None), default=0)
    found = []
    for one in logged:
        if one.start is None or not one.batches:
            continue
        # Others take what they took of the pool, and then are gone.
        end = newest if one.end is None else one.end
        deadline = one.deadline if one.tells else min(one.deadline, end + 1)
        if deadline > one.start:
            times = one.start - begin, deadline - begin
            found.append(
                PastThread(
                    learning=LearningThread(one.id, *times, one.target_loss),
                    batches=tuple(one.batches),
                    losses=tuple(one.losses),
                    rate=one.learned / one.seconds * unit_seconds if one.seconds else one.rate,
                    counts=one.tells,
                    was_done=one.how == How.REACHED,
                    was_capped=one.how == How.ENDED,
                )
            )
    return found


def _allocator(contender: Contender) -> Allocator:
    return timeshare_allocator(contender.mechanism, contender.settings, ESTIMATORS)


def _takings_json(takings: PoolTakings, unit_seconds: float) -> Figures:
    return asdict(takings) | {"pool_seconds": takings.units * unit_seconds}


def _rows(unit_seconds: float) -> tuple[tuple[str, Callable[[PoolTakings], str]], ...]:
    return (
        ("jobs", lambda one: f"{one.num_jobs:,}"),
        ("done in time", lambda one: f"{one.num_done:,}"),
        ("of them foretold", lambda one: f"{one.num_foretold:,}"),
        ("seconds of the pool", lambda one: f"{one.units * unit_seconds:,.1f}"),
    )
