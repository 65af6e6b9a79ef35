"""Figure 8: welfare by the number of sites."""

from auctune.sim.edge.settings import EdgeSetting
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import SIMULATION, Point

FIGURE = trials_figure(
    "fig08_sites",
    "Figure 8",
    "sites",
    [Point(f"{count}", EdgeSetting(num_sites=count), SIMULATION) for count in (5, 10, 25, 50, 100)],
    [Shown("welfare", "welfare, money"), Shown("run", "jobs run")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
