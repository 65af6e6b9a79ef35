"""Figure 6: welfare by what the nodes are: 50 of one type, or 25 of each."""

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

FIGURE = welfare_figure(
    "fig06_node_types",
    "Figure 6: types of 50 nodes",
    "nodes",
    [
        setting("A100", {"nodes": "a100:50"}),
        setting("A40", {"nodes": "a40:50"}),
        setting("A100 and A40", {"nodes": "a100:25,a40:25"}),
    ],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
