"""Figure 5: utility by the deadline, for the paper's job of 80 units of work.

Beside the paper's policies plays the robust one of auctune, with the same forecasts as AHAP.
"""

from collections.abc import Sequence

from auctune.spot import SpotJob
from spot_harness.markets import Markets
from spot_harness.options import main
from spot_harness.sweeps import Setting, Varied, sweep_figure

DEADLINES = (6, 8, 10, 12, 14)


def settings(markets: Markets) -> Sequence[Setting]:
    """A deadline each."""
    return [
        Setting(f"d = {slots}", markets, SpotJob(workload=80, deadline=slots))
        for slots in DEADLINES
    ]


FIGURE = sweep_figure(
    Varied("fig05_deadlines", "Figure 5: deadlines", "deadline, slots", settings, robust=True)
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
