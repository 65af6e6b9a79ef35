"""Tables as wide as they need to be where no terminal cuts them off."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A file or a pipe has no width; no table of ours is as wide as this.
_WIDEST = 1000


def console_for(table: "Table") -> "Console":
    """One as wide as a table; what a terminal cannot show beside, it shows in more lines."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    if console.is_terminal:
        return console
    wide = console.options.update(max_width=_WIDEST)
    return Console(width=Measurement.get(console, wide, table).maximum)


def table_of(*columns: str, right: tuple[str, ...] = ()) -> "Table":
    """An empty table in the manner of all commands.

    Args:
        columns: their heads. What stands in the first one is never broken: it is to be copied.
        right: heads of those whose cells are numbers.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for place, head in enumerate(columns):
        side: Literal["left", "right"] = "right" if head in right else "left"
        table.add_column(head, justify=side, no_wrap=place == 0, overflow="fold")
    return table


def show(table: "Table", spare: tuple[str, ...] = ()) -> None:
    """Print a table.

    Args:
        table: of `table_of`.
        spare: heads of columns that a terminal too narrow for all of them does without, the one
            that is missed least first.
    """
    from rich.measure import Measurement

    console = console_for(table)
    wide = console.options.update(max_width=_WIDEST)
    for head in spare:
        if Measurement.get(console, wide, table).maximum <= console.width:
            break
        table.columns = [column for column in table.columns if column.header != head]
    console.print(table)
