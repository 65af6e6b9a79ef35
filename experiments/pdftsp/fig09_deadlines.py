"""Figure 9: welfare by how much time tasks leave."""

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

FIGURE = welfare_figure(
    "fig09_deadlines",
    "Figure 9: deadlines",
    "deadlines",
    [setting(kind, {"deadlines": kind}) for kind in ("tight", "medium", "loose")],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
