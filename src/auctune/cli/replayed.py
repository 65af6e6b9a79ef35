"""What `auctune replay` does once its options are understood: go through a period, and show it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from auctune.cli.job_lines import clock
from auctune.cli.progress import Bars
from auctune.cli.service_options import print_json
from auctune.cli.wide import show, table_of
from auctune.domain import Admission, Cluster, Decision, RepeatedEnergy
from auctune.domain.events import PricesLearned, SlotAdvanced
from auctune.domain.recorded import BidMade, Happened, RecordedPeriod
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.registry import build
from auctune.service.store import Snapshots
from auctune.service.zones.auction.period import LoggedPeriod
from auctune.sim.comparison import Contender
from auctune.sim.replay import Difference, recorded_takings, replay_other, replay_same
from auctune.sim.result_file import decision_json
from auctune.sim.takings import Takings

if TYPE_CHECKING:
    from sqlalchemy import Engine

Figures = dict[str, Any]


def decide_again(period: LoggedPeriod, reader: "Engine", *, as_json: bool) -> tuple[Figures, bool]:
    """Replay a period under the mechanism that decided; what came of it, and whether it was so."""
    _tell_compiling()
    recorded, mechanism = period.shortest(Snapshots(reader))
    with Bars() as bars:
        tick = bars.counter(period.mechanism, period.count_bids(recorded))
        same = replay_same(_ticking(recorded, tick), mechanism)
    differences = [_difference_json(one) for one in same.differences[:1]]
    figures = {
        **_bounds(period),
        "mechanism": period.mechanism,
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
        _show_same(period, figures)
    return figures, not same.differences


def compare_with(
    contenders: Sequence[Contender], period: LoggedPeriod, *, as_json: bool
) -> Figures:
    """What a period came to, and would have come to under other mechanisms."""
    _tell_compiling()
    whole = period.whole()
    total = period.count_bids(whole)
    with Bars() as bars:
        before = recorded_takings(_ticking(whole, bars.counter("as recorded", total)))
        others = [
            replay_other(
                _ticking(whole, bars.counter(contender.label, total)),
                build_over(whole.cluster, contender),
            )
            for contender in contenders
        ]
    figures = {
        **_bounds(period),
        "recorded": {"mechanism": period.mechanism, **_takings_json(before)},
        "mechanisms": [
            {
                "name": contender.label,
                "mechanism": contender.mechanism,
                "settings": dict(contender.settings),
                **_takings_json(takings),
            }
            for contender, takings in zip(contenders, others, strict=True)
        ],
    }
    if as_json:
        print_json(figures)
    else:
        names = ["as recorded", *(contender.label for contender in contenders)]
        _show_takings(period, names, [before, *others])
    return figures


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


def _tell_compiling() -> None:
    if not kernels_are_compiled():
        typer.echo(COMPILING, err=True)


def _bounds(period: LoggedPeriod) -> Figures:
    last = period.newest_slot
    return {
        "zone": period.zone,
        "first_slot": period.first_slot,
        "last_slot": last,
        "begin": period.clock.begins(period.first_slot),
        "end": period.clock.ends(last),
    }


def _takings_json(takings: Takings) -> Figures:
    money = {"revenue": str(takings.revenue), "vendor_cost": str(takings.vendor_cost)}
    return asdict(takings) | money


def _head(period: LoggedPeriod) -> str:
    bounds = _bounds(period)
    slots = f"slots {bounds['first_slot']} to {bounds['last_slot']}"
    return f"zone {period.zone}, {clock(bounds['begin'])} to {clock(bounds['end'])} ({slots})"


def _show_same(period: LoggedPeriod, figures: Figures) -> None:
    typer.echo(_head(period))
    counted = ", ".join(
        f"{figures[f'num_{what}']:,} {name}"
        for what, name in (("decisions", "decisions"), ("lessons", "lessons of prices"))
    )
    counted += f" and {figures['num_plans']:,} new plans"
    if figures["identical"]:
        typer.echo(f"identical under {period.mechanism}: {counted}")
        return
    first = figures["first_difference"]
    typer.echo(f"{figures['num_differences']:,} of {counted} differ under {period.mechanism}")
    typer.echo(f"the first one: the {first['what']} of {first['name']}")
    for side in ("recorded", "found"):
        typer.echo(f"  {side}: {first[side]}")


def _show_takings(period: LoggedPeriod, names: Sequence[str], all_of: Sequence[Takings]) -> None:
    typer.echo(_head(period))
    heads = [name.replace(":", "\n") for name in names]
    table = table_of("", *heads, right=tuple(heads))
    for what, figure in (
        ("bids", lambda one: f"{one.num_bids:,}"),
        ("admitted", lambda one: f"{one.num_admitted:,}"),
        ("refunded", lambda one: f"{one.num_refunded:,}"),
        ("welfare", lambda one: f"{one.welfare:,.4f}"),
        ("revenue", lambda one: f"{one.revenue:,.4f}"),
        ("vendor cost", lambda one: f"{one.vendor_cost:,.4f}"),
        ("operating cost", lambda one: f"{one.operating_cost:,.4f}"),
        ("compute used", lambda one: f"{one.compute_used:.1%}"),
    ):
        table.add_row(what, *map(figure, all_of))
    show(table)


def _difference_json(one: Difference) -> Figures:
    return {
        "what": one.what,
        "name": one.name,
        "recorded": _told(one.recorded),
        "found": _told(one.found),
    }


def _told(value: Any) -> Any:
    """A side of a difference, in plain values."""
    if isinstance(value, Decision):
        return decision_json(value)
    if isinstance(value, SlotAdvanced | PricesLearned):
        words = "learned" if isinstance(value, PricesLearned) else "began"
        return f"slot {value.now} {words}"
    return [_told(one) for one in value] if isinstance(value, list | tuple) else value
