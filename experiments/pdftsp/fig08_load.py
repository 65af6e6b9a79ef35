"""Figure 8: welfare by the rate at which bids arrive, as a Poisson process."""

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

FIGURE = welfare_figure(
    "fig08_load",
    "Figure 8: bids a slot",
    "mean number of bids a slot",
    [setting(f"{rate}", {"rate": f"{rate}"}) for rate in (30, 50, 80)],
    attainable=True,
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
