"""The log of a metered zone once more, as it was: what zones that meter show of it alike."""

from collections.abc import Callable

import typer

from auctune.cli._support.options import print_json
from auctune.cli._support.progress import ProgressBars
from auctune.cli.replays.replay import Figures
from auctune.cli.replays.shown import bounds, difference_json, show_head
from auctune.service.zones.core.events import EventType
from auctune.service.zones.metered.again import Judge, MeteredAgain, go_again, nobody
from auctune.service.zones.period import Period

# More are in the figures.
_SHOWN = 20


def show_again(
    period: Period,
    mechanism: str,
    make_judge: Callable[[], Judge],
    *,
    as_json: bool,
    payments: int | None = None,
) -> tuple[Figures, bool]:
    """Go through a period again, and show what came of it.

    Args:
        period: of the zone's log.
        mechanism: that decided, for people.
        make_judge: at the zone's beginning.
        as_json: in place of words.
        payments: how many of its decisions were paid for at once; none: use is charged.
    """
    with ProgressBars() as bars:
        tick = bars.counter(period.zone, period.count(EventType.DECIDED))
        again = go_again(period.events(), make_judge(), period.has, tick or nobody)
    paid, num_paid = ("charge", again.num_charges) if payments is None else ("payment", payments)
    figures = {
        **bounds(period),
        "mechanism": mechanism,
        "identical": not again.differences,
        "num_decisions": again.num_decisions,
        f"num_{paid}s": num_paid,
        "num_differences": len(again.differences),
        "differences": [difference_json(one) for one in again.differences],
    }
    if as_json:
        print_json(figures)
    else:
        show_head(period)
        counted = f"{_count(again.num_decisions, 'decision')} and {_count(num_paid, paid)}"
        _show(mechanism, again, counted)
    return figures, not again.differences


def _show(mechanism: str, again: MeteredAgain, counted: str) -> None:
    if not again.differences:
        typer.echo(f"identical under {mechanism}: {counted}")
        return
    differences = _count(len(again.differences), "difference")
    typer.echo(f"{counted} gone through, {differences} under {mechanism}")
    for one in again.differences[:_SHOWN]:
        typer.echo(f"  {one.name}: {one.what}: recorded {one.recorded}, found {one.found}")
    if len(again.differences) > _SHOWN:
        typer.echo("  ...")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
