"""Figure 7: utility by how many spot GPUs there are on average.

Counts are scaled down, as the paper scales its own.
"""

from collections.abc import Sequence

from auctune.spot import SpotJob
from spot_harness.markets import Markets, with_counts
from spot_harness.options import main
from spot_harness.sweeps import LAST, Setting, Varied, sweep_figure

FACTORS = (0.25, 0.5, 0.75, 1.0)


def settings(markets: Markets) -> Sequence[Setting]:
    """A factor each."""
    job = SpotJob(workload=80, deadline=10)
    return [Setting(f"x {factor:g}", with_counts(markets, factor), job) for factor in FACTORS]


FIGURE = sweep_figure(
    Varied("fig07_availability", "Figure 7: availability", "spot GPUs", settings, LAST)
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
