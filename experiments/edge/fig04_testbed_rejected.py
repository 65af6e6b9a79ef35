"""Figure 4: jobs submitted on the testbed, and how many of them do not run.

A job may run to its end when it is worth next to nothing any more: a second count adds those that
come to less than a tenth of what they were worth at their arrival.
"""

from auctune.sim.edge.settings import paper_testbed
from edge_harness.options import main
from edge_harness.output import Shown, trials_figure
from edge_harness.trials import TESTBED, Point

FIGURE = trials_figure(
    "fig04_testbed_rejected",
    "Figure 4",
    "jobs submitted",
    [Point(f"{count}", paper_testbed(num_jobs=count), TESTBED) for count in (5, 10, 15, 20)],
    [Shown("rejected", "rejected"), Shown("rejected_or_late", "rejected or late", tabled=True)],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
