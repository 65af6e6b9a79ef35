"""The paper's mechanism as printed: its prices in three units of money, and what mends it.

`as printed` is Algorithms 1 and 2 to the letter: prices (7) and (8) with alpha and beta from all
bids of the day, recursion (13), capacity checked after the choice, payment (14). Three rows differ
in `scale` alone: counting money in units c times as small makes prices rise c times as fast beside
bids, as does scale = c. With 1 the money is the workload's, in which the least b-bar is about 2e-5;
with 50,000 the least b-bar is 1, as Lemma 2 assumes; the third is the best of a grid at each
setting, chosen on the days that are shown. Then the exact search takes the place of the recursion,
and capacity is seen before the choice, each with its best scale.
"""

import polars as pl

from harness.market import setting
from harness.output import main
from harness.trials import LEARNED, PRINTED
from harness.welfare import welfare_figure

SCALES = (10, 100, 1000, 50_000)
_EXACT = PRINTED.replace(":search=printed", "")
_MASKED = _EXACT.replace(":capacity=checked", "")
_BEST = {
    "pdFTSP, as printed, best scale": PRINTED,
    "the same, exact search": _EXACT,
    "the same, capacity seen before the choice": _MASKED,
}


def scaled(mechanism: str) -> list[str]:
    """The mechanism with each scale."""
    return [mechanism, *(f"{mechanism}:scale={scale}" for scale in SCALES)]


def rows(frame: pl.DataFrame) -> pl.DataFrame:
    """What the table shows: of each way the best scale, at each setting, and the fixed ones."""
    shown = [
        frame.filter(pl.col("entry").is_in([LEARNED, "eft", PRINTED])),
        frame.filter(pl.col("entry") == f"{PRINTED}:scale=50000").with_columns(
            entry=pl.lit("pdFTSP, as printed, b-bar >= 1")
        ),
    ]
    for name, mechanism in _BEST.items():
        own = frame.filter(pl.col("entry").is_in(scaled(mechanism)))
        means = own.group_by("setting", "entry").agg(pl.mean("ratio"))
        best = means.sort("ratio", descending=True).unique("setting", keep="first")
        chosen = own.join(best.select("setting", "entry"), on=["setting", "entry"])
        shown.append(chosen.with_columns(entry=pl.lit(name)).select(frame.columns))
    return pl.concat(shown)


FIGURE = welfare_figure(
    "printed",
    "The mechanism as printed",
    "mean number of bids a slot",
    [setting(f"{rate}", {"rate": f"{rate}"}) for rate in (50, 80)],
    [label for way in _BEST.values() for label in scaled(way) if label != PRINTED],
    rows,
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
