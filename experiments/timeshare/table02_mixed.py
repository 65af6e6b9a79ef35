"""Table 2: the mixed bundle, with N and eps of the first calibrated bundle."""

from auctune.sim.timeshare.table_bundles import MIXED
from timeshare_harness.options import main
from timeshare_harness.settings import PaperTable, settings_figure

MODELS = (
    *("ViT", "ViT", "DAgger+CNN", "Transformer", "Attention+LSTM"),
    *("ResNet18", "ResNet18", "Attention+LSTM", "Transformer", "DAgger+CNN"),
)
FIRST = ("1.1", "1.35", "0.0011", "0.06", "0.0007", "0.55", "0.55", "0.0009", "0.08", "0.0012")
SECOND = (
    *("0.99", "1.215", "0.0011", "0.09", "0.00063"),
    *("0.46", "0.48", "0.00045", "0.108", "0.0006"),
)

FIGURE = settings_figure(
    PaperTable(
        name="table02_mixed",
        title="Table 2: the mixed bundle",
        bundle=MIXED,
        models=tuple(f"{number} {model}" for number, model in enumerate(MODELS, start=1)),
        rates=(176, 176, 69, 293, 139, 107, 107, 139, 293, 69),
        thresholds=(FIRST, SECOND),
    )
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
