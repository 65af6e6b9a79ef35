"""`auctune spot`: training on spot instances by a deadline."""

import typer

from auctune.cli._support.lazy import Entry, lazy_group

spot = typer.Typer(
    cls=lazy_group(
        {
            "simulate": Entry(
                "spot.simulate:simulate", "Simulate a job under one policy.", ("sim",)
            ),
            "compare": Entry(
                "spot.simulate:compare", "Compare policies on many starts of a job.", ("sim",)
            ),
            "select": Entry(
                "spot.select:select", "Learn online which policy of a pool to follow.", ("sim",)
            ),
            "advise": Entry("spot.advise:advise", "Advise on the instances to hold now.", ("sim",)),
            "import": Entry(
                "spot.importing:import_market",
                "Convert a published series or a price history to a market file.",
                ("sim",),
            ),
            "run": Entry(
                "spot.run:run",
                "Train an adapter on instances of a replayed spot market.",
                ("service", "train"),
            ),
        }
    ),
    help="Spot instances: simulate, compare, select, advise, import, run.",
    rich_markup_mode=None,
)
