"""What figures are made with, and the command of one."""

from auctune.sim import figures
from auctune.sim.figures import Rows, exits, show, write_chart, write_data
from harness.options import COMMANDS, Options

__all__ = ["Figure", "Rows", "exits", "main", "show", "write_chart", "write_data"]

Figure = figures.Figure[Options]


main = COMMANDS.one
