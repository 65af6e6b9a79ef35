"""What figures are made with, and the command of one."""

from rich.console import Console

from auctune.sim import figures
from auctune.sim.figures import Rows, exits, show, write_chart, write_data
from harness.options import Options, parse

__all__ = ["Figure", "Rows", "exits", "main", "show", "write_chart", "write_data"]

Figure = figures.Figure[Options]


def main(figure: Figure, description: str | None) -> None:
    """The command of one figure; exit code 2 for bad input, 130 when interrupted."""
    with exits():
        figure.run(parse(None, description or ""), Console())
