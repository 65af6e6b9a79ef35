"""How results depend on what the paper does not say: values, a task's share of a node, speed, cost.

A device's `alone` limits what one task takes of a node (0.1 to 0.4 of the shipped one), whatever
`share` is; tasks that take most of a node need a device of their own. Electricity is 0.07% of a
typical value with the shipped prices. Here `price_per_mwh` stands in for the price of a GPU-hour:
80,000 makes the running cost of a sample two thirds of the median value (2e-4) and 0.56 of the
mean at full speed; at half the speed 40,000 does.
"""

from pathlib import Path

from harness.market import setting
from harness.output import main
from harness.welfare import welfare_figure

DEVICES = Path(__file__).parent / "devices"
WHOLE = {"nodes": "whole:50", "device.whole": f"{DEVICES}/whole.json", "share": "1.0"}
HALF_WHOLE = {
    "nodes": "half-whole:50",
    "device.half-whole": f"{DEVICES}/half-whole.json",
    "share": "1.0",
}
FIGURE = welfare_figure(
    "sensitivity",
    "Sensitivity to what the paper does not say",
    "what is assumed",
    [
        setting("as elsewhere", {}),
        setting("values alike", {"value_sigma": "0.3"}),
        setting("values far apart", {"value_sigma": "1.2"}),
        setting("tasks take 10% of a node", {"share": "0.1"}),
        setting("tasks take 70 to 100% of a node", WHOLE),
        setting("running cost 1/3 of the median value", {"price_per_mwh": "40000"}),
        setting("running cost 2/3", {"price_per_mwh": "80000"}),
        setting("70 to 100% of a node, cost 1/3", {**WHOLE, "price_per_mwh": "40000"}),
        setting("70 to 100% of a node, cost 2/3", {**WHOLE, "price_per_mwh": "80000"}),
        setting("half the speed", {"nodes": "half:50", "device.half": f"{DEVICES}/half.json"}),
        setting(
            "half the speed, 70 to 100% of a node, cost 2/3",
            {**HALF_WHOLE, "price_per_mwh": "40000"},
        ),
        setting(
            "quarter of the speed",
            {"nodes": "quarter:50", "device.quarter": f"{DEVICES}/quarter.json"},
        ),
    ],
)

if __name__ == "__main__":
    main(FIGURE, __doc__)
