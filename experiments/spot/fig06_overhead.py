"""Figure 6: utility by what a change of GPUs costs, through the network's bandwidth.

A checkpoint of 14.4 GB takes 1,152 s at 100 Mbps (the paper, section II-A) and a start three
minutes at 800 Mbps, which leaves 36 s for the start itself. So of a slot of 1,800 s

    mu_1 = 1 - (115,200 / Mbps + 36) / 1800,

rounded to hundredths so that work lies on a grid; a shrinking costs half of it, as at 0.9 and 0.95.
"""

from collections.abc import Sequence

from auctune.spot import Overhead, SpotJob
from spot_harness.markets import Markets
from spot_harness.options import main
from spot_harness.sweeps import Setting, Varied, sweep_figure

BANDWIDTHS = (100, 200, 400, 800)


def overhead(mbps: float) -> Overhead:
    """mu_1 and mu_2 at a bandwidth."""
    mu1 = round(1 - (115_200 / mbps + 36) / 1800, 2)
    return Overhead(mu1, round((1 + mu1) / 2, 2))


def settings(markets: Markets) -> Sequence[Setting]:
    """A bandwidth each."""
    made = []
    for mbps in BANDWIDTHS:
        cost = overhead(mbps)
        job = SpotJob(workload=80, deadline=10, overhead=cost)
        made.append(Setting(f"{mbps} (mu_1 = {cost.mu1:g})", markets, job))
    return made


FIGURE = sweep_figure(
    Varied("fig06_overhead", "Figure 6: reconfiguration", "bandwidth, Mbps", settings)
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
