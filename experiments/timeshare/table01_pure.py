"""Table 1: the pure bundle, with N and eps of the first calibrated bundle."""

from auctune.sim.timeshare.table_bundles import PURE
from timeshare_harness.options import main
from timeshare_harness.settings import PaperTable, settings_figure

FIGURE = settings_figure(
    PaperTable(
        name="table01_pure",
        title="Table 1: the pure bundle",
        bundle=PURE,
        models=("ViT", "LSTM", "CNN", "ResNet18", "ResNet34"),
        rates=(163, 220, 375, 97, 55),
        thresholds=(("1.35", "1.18", "0.15", "0.35", "0.45"),),
    )
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
