"""`auctune edge`: training at the sites of the data."""

import typer

from auctune.cli._support.lazy import Entry, lazy_group

edge = typer.Typer(
    cls=lazy_group(
        {
            "make": Entry(
                "edge.simulate:make", "Generate an edge market in the paper's setting.", ("sim",)
            ),
            "simulate": Entry(
                "edge.simulate:simulate", "Simulate a market under one mechanism.", ("sim",)
            ),
            "compare": Entry("edge.simulate:compare", "Compare mechanisms on a market.", ("sim",)),
            "run": Entry(
                "edge.run:run", "Decide on bids, and train adapters at sites.", ("service", "train")
            ),
        }
    ),
    help="Train at the edge: make, simulate, compare, run.",
    rich_markup_mode=None,
)
