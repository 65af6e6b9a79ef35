"""`auctune spot`: renting by deadline."""

import typer

from auctune.cli._support.lazy import Entry, lazy_group

spot = typer.Typer(
    cls=lazy_group(
        {
            "simulate": Entry("spot.simulate:simulate", "Simulate a job under one policy."),
            "compare": Entry("spot.simulate:compare", "Compare policies on many starts of a job."),
            "select": Entry("spot.select:select", "Learn online which policy of a pool to follow."),
            "advise": Entry("spot.advise:advise", "Advise what a job should hold now."),
            "run": Entry("spot.run:run", "Train an adapter on instances that come and go."),
        }
    ),
    help="Rent by deadline: simulate, compare, select, advise, run.",
    rich_markup_mode=None,
)
