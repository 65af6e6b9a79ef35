"""Figure 4: threads done by each allocator, on bundles of Tables 1 and 2.

The curves are the tables' own; needs, thresholds and rates are drawn so that even shares and
nearest deadline first do as many threads as in the paper (`auctune.sim.timeshare.table_bundles`).
"""

from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.sim.timeshare.table_bundles import BundleTable, calibrated_bundle
from timeshare_harness.options import Options, main
from timeshare_harness.tables import bundles_figure


def draw(table: BundleTable, number: int, options: Options, index: int) -> RecordedBundle:
    """A calibrated bundle on the table's curves."""
    curves = options.curves_of(table.name)
    return calibrated_bundle(table, curves, number, seed=options.seed, index=index)


FIGURE = bundles_figure(
    "fig04_bundles",
    "Figure 4: threads done on the tables' bundles",
    draw,
    {
        "UA": ("0", "6", "3"),
        "STF": ("0", "2", "5"),
        "LRF": ("2", "4", "-"),
        "ETF": ("2", "4", "-"),
        "LARA, the paper's H": ("4", "8", "6"),
    },
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
