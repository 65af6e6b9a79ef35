"""`auctune spot`: training on spot instances by a deadline."""

import typer

from auctune.cli._support.lazy import Entry, lazy_group

spot = typer.Typer(
    cls=lazy_group(
        {
            "simulate": Entry("spot.simulate:simulate", "Simulate a job under one policy."),
            "compare": Entry("spot.simulate:compare", "Compare policies on many starts of a job."),
            "select": Entry("spot.select:select", "Learn online which policy of a pool to follow."),
            "advise": Entry("spot.advise:advise", "Advise on the instances to hold now."),
            "import": Entry(
                "spot.importing:import_market",
                "Convert a published series or a price history to a market file.",
            ),
            "run": Entry(
                "spot.run:run", "Train an adapter on instances of a replayed spot market."
            ),
        }
    ),
    help="Spot instances: simulate, compare, select, advise, import, run.",
    rich_markup_mode=None,
)
