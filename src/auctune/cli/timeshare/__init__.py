"""`auctune timeshare`: training to a target loss on a shared pool."""

import typer

from auctune.cli._support.lazy import Entry, lazy_group

timeshare = typer.Typer(
    cls=lazy_group(
        {
            "simulate": Entry(
                "timeshare.simulate:simulate", "Simulate one allocator on a bundle.", ("sim",)
            ),
            "compare": Entry(
                "timeshare.simulate:compare", "Compare allocators on bundles.", ("sim",)
            ),
            "run": Entry(
                "timeshare.run:run",
                "Train threads to their target losses on one device.",
                ("service", "train"),
            ),
        }
    ),
    help="Train to a target loss: simulate, compare, run.",
    rich_markup_mode=None,
)
