"""How results depend on what the paper does not say: values, a task's share of a node, speed."""

from pathlib import Path

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

DEVICES = Path(__file__).parent / "devices"
FIGURE = welfare_figure(
    "sensitivity",
    "Sensitivity to what the paper does not say",
    "what is assumed",
    [
        setting("as elsewhere", {}),
        setting("values alike", {"value_sigma": "0.3"}),
        setting("values far apart", {"value_sigma": "1.2"}),
        setting("tenth of a node", {"share": "0.1"}),
        # A device gives one task 40% at most (`alone`), whatever its share.
        setting("share not limited (40% at most)", {"share": "1.0"}),
        setting("half the speed", {"nodes": "half:50", "device.half": f"{DEVICES}/half.json"}),
        setting(
            "quarter of the speed",
            {"nodes": "quarter:50", "device.quarter": f"{DEVICES}/quarter.json"},
        ),
    ],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
