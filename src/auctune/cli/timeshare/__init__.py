"""`auctune timeshare`: training to a loss, by threads that share a device."""

import typer

from auctune.cli.timeshare.record import record
from auctune.cli.timeshare.run import run

timeshare = typer.Typer(help="Train to a loss by a deadline: run, record.", rich_markup_mode=None)
for _command in (run, record):
    timeshare.command(_command.__name__)(_command)
