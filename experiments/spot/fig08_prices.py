"""Figure 8: utility by how much spot prices vary, around the same mean."""

from collections.abc import Sequence

from auctune.spot import SpotJob
from spot_harness.markets import Markets, with_deviation
from spot_harness.options import main
from spot_harness.sweeps import LAST, Setting, Varied, sweep_figure

DEVIATIONS = (0.0, 0.1, 0.2, 0.3)


def settings(markets: Markets) -> Sequence[Setting]:
    """A standard deviation each, in units of the on-demand price."""
    job = SpotJob(workload=80, deadline=10)
    return [
        Setting(f"{deviation:g}", with_deviation(markets, deviation), job)
        for deviation in DEVIATIONS
    ]


FIGURE = sweep_figure(
    Varied(
        "fig08_prices", "Figure 8: prices", "standard deviation of the spot price", settings, LAST
    )
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
