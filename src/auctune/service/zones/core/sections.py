"""What an operator sees of a zone: titled tables, with the charts of the page.

The API, the page and the command line show the sections of a zone of any kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from auctune.engine.unix_time import SlotClock
from auctune.pages import count
from auctune.service.charts.renderer import ChartSpec

MAX_CHART_SLOTS = 120
"""Slots of a chart, the newest ones."""
JobName = Callable[[str], str]
"""Returns the label of a job, by its id."""
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Attributes:
        name: heading.
        format: of the values, any of which may be None: `share` in [0, 1], `time` in unix seconds.
        digits: decimals of numbers.
    """

    name: str
    format: Literal["text", "number", "share", "time"] = "text"
    digits: int = 0

    @property
    def is_numeric(self) -> bool:
        return self.format in ("number", "share")


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a zone's state.

    Attributes:
        caption: sentences that explain the rows and charts.
        columns: those of the table. If the first is `slot`, rows begin with the current slot, or
            else with the newest.
        rows: a value for each column.
        charts: at most two, for the page only, which has the table beside them.
    """

    title: str
    caption: str
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    charts: Annotated[tuple[ChartSpec, ...], Field(exclude=True)] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """Node of a zone: `up`, `lost`, or `drained` by an operator.

    Attributes:
        compute_used: share of its compute that is sold in the current slot.
    """

    id: str
    type: str
    state: Literal["up", "lost", "drained"]
    compute_used: float


@dataclass(frozen=True, slots=True)
class ZoneView:
    """State of a zone for operators; `nodes` are those that can be drained, if it has any."""

    sections: tuple[Section, ...]
    nodes: tuple[NodeState, ...] | None = None


SLOT_COLUMNS = (Column("slot", "number"), Column("begins", "time"))


def with_state(name: str, state: str) -> str:
    """Return the name of a node or site, followed by its state unless it is up."""
    return name if state == "up" else f"{name} ({state})"


def price_section(
    title: str,
    caption: str,
    chart: str,
    names: Sequence[str],
    price: Sequence[Sequence[float]],
    used: Sequence[Sequence[float]],
    first_slot: int,
    clock: SlotClock,
) -> Section:
    """Return the prices and use of some resources by slot, as a table and as two heat maps.

    Args:
        title: of the section.
        caption: of the section.
        chart: prefix of the charts' names in `auctune.service.charts.worker.CHARTS`.
        names: of the resources.
        price: money, [slot, resource].
        used: shares in [0, 1], [slot, resource].
        first_slot: slot of the first row.
        clock: of the zone.
    """
    grid = {
        "nodes": list(names),
        "times": {"start": clock.slot_start(first_slot), "seconds": clock.slot_seconds},
        "busiest": max((share for row in used for share in row), default=0.0),
    }
    prices_text = _extremes(f"{title}. Price", names, price, "{:.4g}")
    use_text = _extremes(f"{title}. In use", names, used, "{:.0%}")
    columns = ((Column(name, "number", 6), Column(f"{name} in use", "share")) for name in names)
    return Section(
        title,
        caption,
        (*SLOT_COLUMNS, *(column for pair in columns for column in pair)),
        tuple(
            (slot, clock.slot_start(slot), *(value for pair in cells for value in pair))
            for slot, cells in enumerate(map(zip, price, used), first_slot)
        ),
        (
            ChartSpec(f"{chart}-price", {**grid, "values": price}, prices_text),
            ChartSpec(f"{chart}-use", {**grid, "values": used}, use_text),
        ),
    )


def _extremes(
    what: str, names: Sequence[str], values: Sequence[Sequence[float]], format_: str
) -> str:
    """Return the least and the largest value of a heat map, and where it is the largest."""
    cells = [(value, name) for row in values for value, name in zip(row, names, strict=True)]
    if not cells:
        return f"{what}: no slots"
    (least, _), (most, name) = min(cells), max(cells, key=lambda cell: cell[0])
    low, high, slots = format_.format(least), format_.format(most), count(len(values), "slot")
    if least == most:
        return f"{what}: {high} everywhere in {slots}"
    return f"{what}: {low} to {high} in {slots}, highest on {name}"
