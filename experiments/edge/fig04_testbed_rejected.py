"""Figure 4: jobs submitted on the testbed, and how many of them do not run."""

from auctune.sim.edge.settings import paper_testbed
from edgelab.output import Shown, main, trials_figure
from edgelab.trials import point

FIGURE = trials_figure(
    "fig04_testbed_rejected",
    "Figure 4",
    "jobs submitted",
    [point(f"{count}", paper_testbed(num_jobs=count)) for count in (5, 10, 15, 20)],
    [Shown("rejected", "jobs rejected"), Shown("run", "jobs run")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
