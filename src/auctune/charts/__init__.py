"""Every chart as one function from data to an altair chart."""

from auctune.charts.comparison import (
    BoundLine,
    EntryOutcome,
    cumulative_chart,
    use_chart,
    welfare_chart,
)
from auctune.charts.curves import Growth, edge_use_chart, growth_chart
from auctune.charts.heat_map import (
    HeatGrid,
    heat_map,
    price_map,
    utilization_map,
)
from auctune.charts.losses import LossCurve, loss_chart
from auctune.charts.menu import MenuPoint, menu_chart
from auctune.charts.payments import Bill, payment_chart
from auctune.charts.plan import PlanRow, plan_chart
from auctune.charts.render import to_figure, to_inline_svg, to_png, to_svg
from auctune.charts.spot import PolicyPoint, SlotPoint, policy_comparison_chart, spot_job_chart
from auctune.charts.theme import DARK, LIGHT, Palette

__all__ = [
    "DARK",
    "LIGHT",
    "Bill",
    "BoundLine",
    "EntryOutcome",
    "Growth",
    "HeatGrid",
    "LossCurve",
    "MenuPoint",
    "Palette",
    "PlanRow",
    "PolicyPoint",
    "SlotPoint",
    "cumulative_chart",
    "edge_use_chart",
    "growth_chart",
    "heat_map",
    "loss_chart",
    "menu_chart",
    "payment_chart",
    "plan_chart",
    "policy_comparison_chart",
    "price_map",
    "spot_job_chart",
    "to_figure",
    "to_inline_svg",
    "to_png",
    "to_svg",
    "use_chart",
    "utilization_map",
    "welfare_chart",
]
