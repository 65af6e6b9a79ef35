"""`auctune timeshare`: training to a loss, by threads that share a pool."""

import typer

from auctune.cli.timeshare.compare import compare
from auctune.cli.timeshare.record import record
from auctune.cli.timeshare.run import run
from auctune.cli.timeshare.simulate import simulate

timeshare = typer.Typer(
    help="Train to a loss: simulate, compare, run, record.", rich_markup_mode=None
)
for _command in (simulate, compare, run, record):
    timeshare.command(_command.__name__)(_command)
