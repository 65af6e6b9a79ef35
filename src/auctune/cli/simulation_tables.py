"""Figures of simulated markets as tables."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from auctune.cli._support.tables import make_console
from auctune.sim.bound import WelfareBound
from auctune.sim.comparison import Played
from auctune.sim.metrics import SimulationReport

_MAX_DAYS = 14
# Less time than this at the starts of slots is not learning.
_MIN_LEARNING_SECONDS = 0.5


def print_figures(label: str, figures: SimulationReport) -> None:
    """Print one mechanism's figures, a line each."""
    table = Table(title=label, show_header=False, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for what, figure in _rows(figures):
        table.add_row(what, figure)
    Console().print(table)


def print_comparison(played: Sequence[Played], bound: WelfareBound) -> None:
    """Print a column of figures for each mechanism, and the bound under them."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for one in played:
        # Settings go under the name, to keep the column narrow.
        name = one.contender.label.replace(":", "\n")
        table.add_column(name, justify="right", overflow="fold")
    for rows in zip(*(_compared(one.report) for one in played), strict=True):
        table.add_row(rows[0][0], *(figure for _, figure in rows))
    console = make_console(table)
    console.print(table)
    console.print(_summary(bound, played[0].report), highlight=False, soft_wrap=True)


def _rows(figures: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "tasks", f"{figures.num_tasks:,}"
    yield "admitted", f"{figures.num_admitted:,}"
    for what in ("welfare", "revenue", "vendor_cost", "operating_cost"):
        yield what.replace("_", " "), f"{getattr(figures, what):,.4f}"
    if figures.bound.value is not None:
        yield f"bound ({_bound_name(figures)})", f"{figures.bound.value:,.4f}"
        yield "welfare / bound", _share(figures.bound.ratio)
        for day, one in enumerate(figures.by_day[:_MAX_DAYS], start=1):
            yield f"welfare / bound, day {day}", _share(one.ratio)
    if figures.outages is not None:
        yield "plans changed by outages", f"{figures.outages.num_replanned:,}"
        yield "refunded tasks", f"{figures.outages.num_refunded:,}"
        yield "refunds", f"{figures.outages.refunds:,.4f}"
    for what, by_slot in (
        ("compute", figures.utilization.compute),
        ("memory", figures.utilization.memory),
    ):
        yield f"{what} used", _mean(by_slot)
    seconds = figures.decision_seconds
    if seconds.p50 is not None and seconds.p99 is not None:
        yield "time to decide, median", f"{seconds.p50 * 1e6:,.0f} us"
        yield "time to decide, 99%", f"{seconds.p99 * 1e6:,.0f} us"
    if figures.learning_seconds > _MIN_LEARNING_SECONDS:
        yield "learning", _time(figures.learning_seconds)


def _bound_name(figures: SimulationReport) -> str:
    bound = figures.bound
    name = f"{bound.kind}, the optimum" if bound.exact else f"{bound.kind}"
    if bound.kind == "milp" and not bound.exact:
        name += ", search stopped"
    return name if figures.outages is None else f"{name}, no node lost"


def _compared(figures: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "welfare", f"{figures.welfare:,.0f}"
    if figures.bound.value is not None:
        yield "of bound", _share(figures.bound.ratio)
        for day, one in enumerate(figures.by_day[:_MAX_DAYS], start=1):
            yield f"  on day {day}", _share(one.ratio)
    yield "revenue", f"{figures.revenue:,.0f}"
    yield "admitted", f"{figures.num_admitted:,}"
    if figures.outages is not None:
        yield "plans changed", f"{figures.outages.num_replanned:,}"
        yield "refunded", f"{figures.outages.num_refunded:,}"
    yield "compute used", _mean(figures.utilization.compute)
    yield "memory used", _mean(figures.utilization.memory)
    yield "decides, median", _time(figures.decision_seconds.p50)
    yield "decides, 99%", _time(figures.decision_seconds.p99)
    learning = figures.learning_seconds
    yield "learns", _time(learning if learning > _MIN_LEARNING_SECONDS else None)


def _summary(bound: WelfareBound, figures: SimulationReport) -> str:
    tasks = f"{figures.num_tasks:,} tasks"
    if bound.value is None:
        return tasks
    name = "the optimum" if bound.exact else "no market has more welfare"
    if bound.kind == "milp" and not bound.exact:
        name += "; the search for the optimum was stopped before its end"
    if figures.outages is not None:
        name += ", even if no node had been lost"
    return f"{tasks}; bound ({bound.kind}): {bound.value:,.0f}, {name}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _mean(by_slot: Sequence[float]) -> str:
    return f"{sum(by_slot) / len(by_slot):.1%}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds * 1e6:,.0f} us"
