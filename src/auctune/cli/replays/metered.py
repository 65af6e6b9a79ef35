"""The log of a metered zone once more, as it was: what zones that meter show of it alike."""

from collections.abc import Callable

import typer

from auctune.cli.progress import Bars
from auctune.cli.replays.replay import Figures
from auctune.cli.replays.shown import bounds, difference_json, show_head
from auctune.cli.service_options import print_json
from auctune.service.zones.event import Kind
from auctune.service.zones.metered.again import Judge, MeteredAgain, go_again, nobody
from auctune.service.zones.period import Period

# More are in the figures.
_SHOWN = 20


def show_again(
    period: Period, mechanism: str, make_judge: Callable[[], Judge], *, as_json: bool
) -> tuple[Figures, bool]:
    """Go through a period again, and show what came of it.

    Args:
        period: of the zone's log.
        mechanism: that decided, for people.
        make_judge: at the zone's beginning.
        as_json: in place of words.
    """
    with Bars() as bars:
        tick = bars.counter(period.zone, period.count(Kind.DECIDED))
        again = go_again(period.events(), make_judge(), period.has, tick or nobody)
    figures = {
        **bounds(period),
        "mechanism": mechanism,
        "identical": not again.differences,
        "num_decisions": again.num_decisions,
        "num_charges": again.num_charges,
        "num_differences": len(again.differences),
        "differences": [difference_json(one) for one in again.differences],
    }
    if as_json:
        print_json(figures)
    else:
        show_head(period)
        _show(mechanism, again)
    return figures, not again.differences


def _show(mechanism: str, again: MeteredAgain) -> None:
    counted = f"{again.num_decisions:,} decisions and {again.num_charges:,} charges"
    if not again.differences:
        typer.echo(f"identical under {mechanism}: {counted}")
        return
    typer.echo(f"{counted} gone through, {len(again.differences):,} differences under {mechanism}")
    for one in again.differences[:_SHOWN]:
        typer.echo(f"  {one.name}: {one.what}: recorded {one.recorded}, found {one.found}")
    if len(again.differences) > _SHOWN:
        typer.echo("  ...")
