"""Figure 4: welfare by the number of nodes, all A100."""

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

FIGURE = welfare_figure(
    "fig04_nodes",
    "Figure 4: number of nodes",
    "nodes",
    [setting(f"{count}", {"nodes": f"a100:{count}"}) for count in (50, 75, 100, 150, 200)],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
