"""`auctune edge`: training where the data are."""

import typer

from auctune.cli.edge.compare import compare
from auctune.cli.edge.make import make
from auctune.cli.edge.run import run
from auctune.cli.edge.simulate import simulate

edge = typer.Typer(
    help="Train where the data are: make, simulate, compare, run.", rich_markup_mode=None
)
for _command in (make, simulate, compare, run):
    edge.command(_command.__name__)(_command)
