"""What replays of all kinds show alike: the period, and what came out otherwise."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.tables import make_table, print_table
from auctune.cli.replays.replay import Figures
from auctune.domain import Decision
from auctune.domain.events import PricesLearned, SlotAdvanced
from auctune.domain.recorded import Difference
from auctune.service.zones.period import Period
from auctune.sim.comparison import Contender
from auctune.sim.result_file import decision_json

T = TypeVar("T")


def bounds(period: Period) -> Figures:
    """Of a period, as figures."""
    last = period.newest_slot
    return {
        "zone": period.zone,
        "kind": period.kind,
        "first_slot": period.first_slot,
        "last_slot": last,
        "begin": period.clock.slot_start(period.first_slot),
        "end": period.clock.slot_end(last),
    }


def show_head(period: Period) -> None:
    """Say which zone and slots it is about."""
    found = bounds(period)
    slots = f"slots {found['first_slot']} to {found['last_slot']}"
    begin, end = format_time(found["begin"]), format_time(found["end"])
    typer.echo(f"zone {period.zone}, {begin} to {end} ({slots})")


def contender_figures(contender: Contender, takings: Figures) -> Figures:
    """What a contender came to, with what it is."""
    return {
        "name": contender.label,
        "mechanism": contender.mechanism,
        "settings": dict(contender.settings),
        **takings,
    }


def show_side_by_side(
    period: Period,
    contenders: Sequence[Contender],
    before: T,
    others: Sequence[T],
    rows: Sequence[tuple[str, Callable[[T], str]]],
) -> None:
    """Say what it is about, and a table of takings.

    Args:
        period: of all of them.
        contenders: beside what was recorded.
        before: what was taken, as recorded.
        others: what contenders took, in their order.
        rows: each with what is in it.
    """
    show_head(period)
    names = ["as recorded", *(contender.label for contender in contenders)]
    heads = [name.replace(":", "\n") for name in names]
    table = make_table("", *heads, right=tuple(heads))
    for what, figure in rows:
        table.add_row(what, *map(figure, (before, *others)))
    print_table(table)


def show_left_out(count: int, why: str) -> None:
    """Say how many jobs of the period are not in a table, and what may have befallen them."""
    typer.echo(f"left out: {count:,} jobs" + (f" ({why})" if count else ""))


def difference_json(one: Difference) -> Figures:
    """In plain values."""
    return {
        "what": one.what,
        "name": one.name,
        "recorded": _told(one.recorded),
        "found": _told(one.found),
    }


def _told(value: Any) -> Any:
    if isinstance(value, Decision):
        return decision_json(value)
    if isinstance(value, SlotAdvanced | PricesLearned):
        words = "learned" if isinstance(value, PricesLearned) else "began"
        return f"slot {value.now} {words}"
    return [_told(one) for one in value] if isinstance(value, list | tuple) else value
