"""The tables' bundles with other curves: calibrated like Figure 4's, curves drawn by seed.

Each thread has a curve drawn among all that were recorded; again where no bundle can be calibrated.
"""

from dataclasses import replace

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import BundleTable, calibrated_bundle
from timeshare_harness.options import Options, main
from timeshare_harness.tables import bundles_figure


def draw(table: BundleTable, number: int, options: Options, index: int) -> RecordedBundle:
    """A calibrated bundle on drawn curves."""
    random, curves = stream(options.seed, "drawn tables", table.name, index), options.curves
    while True:
        picked = random.integers(len(curves), size=len(table.deadlines))
        own = [replace(curves[k], name=f"{n}-{curves[k].name}") for n, k in enumerate(picked)]
        try:
            return calibrated_bundle(table, own, number, seed=options.seed, index=index)
        except InputError:
            continue


FIGURE = bundles_figure("drawn_tables", "The tables' bundles with curves drawn by seed", draw)

if __name__ == "__main__":
    main(FIGURE, __doc__)
