"""Tables as wide as they need to be where no terminal cuts them off."""

from typing import TYPE_CHECKING

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
        columns: their heads.
        right: heads of those whose cells are numbers.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for head in columns:
        table.add_column(head, justify="right" if head in right else "left", no_wrap=True)
    return table


def show(table: "Table") -> None:
    """Print a table."""
    console_for(table).print(table)
