"""Learned prices where they were not built: bursts, shifts, days unlike the day before, first days.

Beside them exponential prices with ranges set by hand, on a grid: the best of these at each setting
is what a first day of learned prices is held against.
"""

from dataclasses import replace

import polars as pl

from harness.market import setting
from harness.output import main
from harness.trials import HAND_SET
from harness.welfare import welfare_figure

BUSY = {"rate": "80"}
MIXED = {"nodes": "a100:25,a40:25"}


def best_set_by_hand(frame: pl.DataFrame) -> pl.DataFrame:
    """Of the prices set by hand those alone that come nearest to the bound, at each setting."""
    is_set = pl.col("entry").is_in(HAND_SET)
    means = frame.filter(is_set).group_by("setting", "entry").agg(pl.mean("ratio"))
    best = means.sort("ratio", descending=True).unique("setting", keep="first")
    chosen = frame.filter(is_set).join(best.select("setting", "entry"), on=["setting", "entry"])
    renamed = chosen.with_columns(entry=pl.lit("pdFTSP, best set by hand"))
    return pl.concat([frame.filter(~is_set), renamed.select(frame.columns)])


FIGURE = welfare_figure(
    "untuned",
    "Beyond the paper's settings",
    "the day",
    [
        setting("made-up bursts", {"arrivals": "bursty"}),
        setting("busy, tight", {**BUSY, "deadlines": "tight"}),
        setting("busy, loose", {**BUSY, "deadlines": "loose"}),
        replace(setting("values double at noon"), afternoon=2.0),
        replace(setting("values halve at noon"), afternoon=0.5),
        replace(setting("twice the day before", BUSY), before=(("rate", "40"),)),
        replace(setting("half the day before", {"rate": "40"}), before=(("rate", "80"),)),
        replace(setting("first day"), before=None),
        replace(setting("first day, busy", BUSY), before=None),
        replace(setting("first day, mixed nodes", MIXED), before=None),
        replace(setting("first day, bursts", {"arrivals": "bursty"}), before=None),
    ],
    HAND_SET,
    best_set_by_hand,
    attainable=True,
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
