"""Figure 4: jobs submitted on the testbed, and how many of them do not run."""

from auctune.sim.edge.settings import paper_testbed
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import point

FIGURE = trials_figure(
    "fig04_testbed_rejected",
    "Figure 4",
    "jobs submitted",
    [point(f"{count}", paper_testbed(num_jobs=count)) for count in (5, 10, 15, 20)],
    [Shown("rejected", "jobs rejected"), Shown("run", "jobs run")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
