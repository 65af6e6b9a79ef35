"""Figure 11: welfare by the price base of eq. 6, the same for traffic and all types."""

from auctune.sim.edge.settings import EdgeSetting
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import Point

LABELS = {"eris:pricing=paper": "Eris, eq. 6", "eris": "Eris"}
FIGURE = trials_figure(
    "fig11_price_bases",
    "Figure 11",
    "price base",
    [
        Point(f"{base:g}", EdgeSetting(price_base=base), LABELS)
        for base in (2.0, 10.0, 100.0, 1000.0, 10_000.0)
    ],
    [Shown("welfare", "welfare, money")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
