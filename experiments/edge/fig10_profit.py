"""Figure 10: the operator's profit, by the number of sites and by the number of jobs."""

from auctune.sim.edge.settings import EdgeSetting
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import SIMULATION, Point

POINTS = [
    *(Point(f"{count} sites", EdgeSetting(num_sites=count), SIMULATION) for count in (25, 50, 100)),
    *(Point(f"{count} jobs", EdgeSetting(num_jobs=count), SIMULATION) for count in (50, 150)),
]
FIGURE = trials_figure(
    "fig10_profit",
    "Figure 10",
    "50 sites and 100 jobs, but for",
    POINTS,
    [Shown("profit", "profit, money")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
