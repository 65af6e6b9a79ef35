"""`auctune spot`: renting by deadline."""

import typer

from auctune.cli.spot.advise import advise
from auctune.cli.spot.compare import compare
from auctune.cli.spot.run import run
from auctune.cli.spot.select import select
from auctune.cli.spot.simulate import simulate

spot = typer.Typer(
    help="Rent by deadline: simulate, compare, select, advise, run.", rich_markup_mode=None
)
for _command in (simulate, compare, select, advise, run):
    spot.command(_command.__name__)(_command)
