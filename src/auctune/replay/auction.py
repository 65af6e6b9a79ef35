"""The log of an auction once more: under the mechanism that decided, or under others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import typer

from auctune.cli._support.options import print_json
from auctune.cli._support.progress import ProgressBars
from auctune.cli.replays.replay import Figures, Logged
from auctune.cli.replays.shown import (
    bounds,
    contender_figures,
    difference_json,
    show_head,
    show_side_by_side,
)
from auctune.domain import Admission, Cluster, RepeatedEnergy
from auctune.domain.recorded import BidMade, Happened, RecordedPeriod
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.registry import build
from auctune.service.storage import Snapshots
from auctune.service.zones.auction.period import LoggedPeriod
from auctune.sim.comparison import Contender
from auctune.sim.replay import recorded_takings, replay_other, replay_same
from auctune.sim.takings import Takings


class AuctionReplay:
    """A `Replay` of an auction's log."""

    def __init__(self, logged: Logged) -> None:
        self._period, self._reader = logged.period, logged.reader
        self._logged = LoggedPeriod(logged.period)

    def check(self, contender: Contender) -> None:
        """See `Replay`."""
        build_over(self._logged.whole().cluster, contender)

    def decide_again(self, *, as_json: bool) -> tuple[Figures, bool]:
        """See `Replay`."""
        _warn_compiling()
        logged = self._logged
        recorded, mechanism = logged.shortest(Snapshots(self._reader))
        with ProgressBars() as bars:
            tick = bars.counter(logged.mechanism, logged.count_bids(recorded))
            same = replay_same(_ticking(recorded, tick), mechanism)
        differences = [difference_json(one) for one in same.differences[:1]]
        figures = {
            **bounds(self._period),
            "mechanism": logged.mechanism,
            "identical": not same.differences,
            "num_decisions": same.num_decisions,
            "num_lessons": same.num_lessons,
            "num_plans": same.num_plans,
            "num_differences": len(same.differences),
            "first_difference": differences[0] if differences else None,
        }
        if as_json:
            print_json(figures)
        else:
            show_head(self._period)
            _show_same(figures)
        return figures, not same.differences

    def compare_with(self, contenders: Sequence[Contender], *, as_json: bool) -> Figures:
        """See `Replay`."""
        _warn_compiling()
        whole = self._logged.whole()
        total = self._logged.count_bids(whole)
        with ProgressBars() as bars:
            before = recorded_takings(_ticking(whole, bars.counter("as recorded", total)))
            others = [
                replay_other(
                    _ticking(whole, bars.counter(contender.label, total)),
                    build_over(whole.cluster, contender),
                )
                for contender in contenders
            ]
        figures = {
            **bounds(self._period),
            "recorded": {"mechanism": self._logged.mechanism, **_takings_json(before)},
            "mechanisms": [
                contender_figures(contender, _takings_json(takings))
                for contender, takings in zip(contenders, others, strict=True)
            ],
        }
        if as_json:
            print_json(figures)
        else:
            show_side_by_side(self._period, contenders, before, others, _ROWS)
        return figures


_ROWS: tuple[tuple[str, Callable[[Takings], str]], ...] = (
    ("bids", lambda one: f"{one.num_bids:,}"),
    ("admitted", lambda one: f"{one.num_admitted:,}"),
    ("refunded", lambda one: f"{one.num_refunded:,}"),
    ("welfare", lambda one: f"{one.welfare:,.4f}"),
    ("revenue", lambda one: f"{one.revenue:,.4f}"),
    ("vendor cost", lambda one: f"{one.vendor_cost:,.4f}"),
    ("operating cost", lambda one: f"{one.operating_cost:,.4f}"),
    ("compute used", lambda one: f"{one.compute_used:.1%}"),
)


def build_over(cluster: Cluster, contender: Contender) -> Admission:
    """A contender's mechanism over an empty cluster whose window moves on.

    Raises:
        InputError: for a mechanism or a setting that there is not.
    """
    energy = RepeatedEnergy(cluster)
    return build(contender.mechanism, cluster, contender.settings, energy=energy)


@dataclass(frozen=True, slots=True)
class _Ticking:
    """What happened, with a tick for each bid."""

    happened: Iterable[Happened]
    tick: Callable[[], None]

    def __iter__(self) -> Iterator[Happened]:
        for one in self.happened:
            yield one
            if isinstance(one, BidMade):
                self.tick()


def _ticking(period: RecordedPeriod, tick: Callable[[], None] | None) -> RecordedPeriod:
    if tick is None:
        return period
    return replace(period, happened=_Ticking(period.happened, tick))


def _warn_compiling() -> None:
    if not kernels_are_compiled():
        typer.echo(COMPILING, err=True)


def _takings_json(takings: Takings) -> Figures:
    money = {"revenue": str(takings.revenue), "vendor_cost": str(takings.vendor_cost)}
    return asdict(takings) | money


def _show_same(figures: Figures) -> None:
    mechanism = figures["mechanism"]
    counted = ", ".join(
        f"{figures[f'num_{what}']:,} {name}"
        for what, name in (("decisions", "decisions"), ("lessons", "lessons of prices"))
    )
    counted += f" and {figures['num_plans']:,} new plans"
    if figures["identical"]:
        typer.echo(f"identical under {mechanism}: {counted}")
        return
    first = figures["first_difference"]
    typer.echo(f"{figures['num_differences']:,} of {counted} differ under {mechanism}")
    typer.echo(f"the first one: the {first['what']} of {first['name']}")
    for side in ("recorded", "found"):
        typer.echo(f"  {side}: {first[side]}")
