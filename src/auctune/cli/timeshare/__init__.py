"""`auctune timeshare`: training to a loss, by threads that share a device."""

import typer

from auctune.cli.timeshare.record import record

timeshare = typer.Typer(help="Train to a loss by a deadline.", rich_markup_mode=None)
for _command in (record,):
    timeshare.command(_command.__name__)(_command)
