"""Figure 5: welfare by the number of vendors that quote for data that need work."""

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

FIGURE = welfare_figure(
    "fig05_vendors",
    "Figure 5: number of vendors",
    "vendors",
    [setting(f"{count}", {"num_vendors": f"{count}"}) for count in (1, 2, 4, 6, 8, 10)],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
