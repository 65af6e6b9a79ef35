"""Figure 8: welfare by the number of sites."""

from auctune.sim.edge.settings import EdgeSetting
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import point

FIGURE = trials_figure(
    "fig08_sites",
    "Figure 8",
    "sites",
    [point(f"{count}", EdgeSetting(num_sites=count)) for count in (25, 50, 75, 100)],
    [Shown("welfare", "welfare, money"), Shown("run", "jobs run")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
