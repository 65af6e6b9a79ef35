"""Figure 9: welfare by the number of jobs."""

from auctune.sim.edge.settings import EdgeSetting
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import SIMULATION, Point

FIGURE = trials_figure(
    "fig09_jobs",
    "Figure 9",
    "jobs",
    [Point(f"{count}", EdgeSetting(num_jobs=count), SIMULATION) for count in (50, 100, 150, 200)],
    [Shown("welfare", "welfare, money"), Shown("run", "jobs run")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
