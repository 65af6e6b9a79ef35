"""Tables, as wide as the terminal, or as their content if output is redirected."""

from typing import TYPE_CHECKING, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from auctune.numerics.estimates import Estimate

# Width of files and pipes: wider than any table.
_MAX_WIDTH = 1000


def make_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table; `right` are the headers of columns of numbers.

    The first column holds ids to copy and is never wrapped.
    """
    table = Table(box=SIMPLE_HEAD)
    for index, header in enumerate(columns):
        side: Literal["left", "right"] = "right" if header in right else "left"
        table.add_column(header, justify=side, no_wrap=index == 0, overflow="fold")
    return table


def print_table(table: Table, optional: tuple[str, ...] = ()) -> None:
    """Print a table; `optional` columns are dropped on a narrow terminal, in this order."""
    console = make_console(table)
    wide = console.options.update(max_width=_MAX_WIDTH)
    for header in optional:
        if Measurement.get(console, wide, table).maximum <= console.width:
            break
        table.columns = [column for column in table.columns if column.header != header]
    console.print(table)


def make_console(table: Table) -> Console:
    """Return a console as wide as the terminal, or as the table if output is redirected."""
    console = Console()
    if console.is_terminal:
        return console
    wide = console.options.update(max_width=_MAX_WIDTH)
    return Console(width=Measurement.get(console, wide, table).maximum)


def interval_text(estimate: "Estimate", form: str) -> str:
    """Return a figure and half the width of its interval, both in a form such as `.2f`."""
    half = "" if estimate.half_width is None else f" ± {estimate.half_width:{form}}"
    return f"{estimate.value:{form}}{half}"
