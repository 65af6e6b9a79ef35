"""The tables' bundles without calibration: needs drawn from the same ranges, none selected.

Calibrated bundles are selected for what even shares and nearest deadline first do on them, so that
figures of these two are given and not found.
"""

from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import BundleTable, uncalibrated_bundle
from timeshare_harness.options import Options, main
from timeshare_harness.tables import bundles_figure


def draw(table: BundleTable, number: int, options: Options, index: int) -> RecordedBundle:
    """An uncalibrated bundle on the table's curves."""
    curves = options.curves_of(table.name)
    return uncalibrated_bundle(table, curves, number, seed=options.seed, index=index)


FIGURE = bundles_figure("uncalibrated_tables", "The tables' bundles without calibration", draw)

if __name__ == "__main__":
    main(FIGURE, __doc__)
