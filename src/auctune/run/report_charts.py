"""The charts of a report, drawn for its page."""

from collections.abc import Callable
from dataclasses import dataclass

from auctune.charts import (
    Bill,
    LossCurve,
    Palette,
    PlanRow,
    compute_price_map,
    loss_chart,
    memory_price_map,
    payment_chart,
    plan_chart,
    to_figure,
    utilization_map,
)
from auctune.charts.theme import AnyChart
from auctune.run.report_data import FloatArray, MarketReport, ReportTask

WIDE = 1040
HALF = 496
NARROW = 336
MAX_PLAN_ROWS = 400


@dataclass(frozen=True, slots=True)
class Figures:
    """HTML of each chart; `losses` is empty if nothing was trained."""

    plan: str
    payments: str
    compute_prices: str
    memory_prices: str
    compute_used: str
    memory_used: str
    losses: str


def draw_figures(report: MarketReport) -> Figures:
    """All charts of a report; a market without tasks has words in the place of two of them."""
    return Figures(
        plan=_plan(report),
        payments=_payments(report),
        compute_prices=_grid(report, "compute-price", report.compute_prices, compute_price_map),
        memory_prices=_grid(report, "memory-price", report.memory_prices, memory_price_map),
        compute_used=_grid(report, "compute-use", report.compute_used, _compute_use),
        memory_used=_grid(report, "memory-use", report.memory_used, _memory_use),
        losses=_losses(report),
    )


def plan_row(task: ReportTask) -> PlanRow:
    """A task as the plan shows it."""
    reason = task.decision.reason
    return PlanRow(
        task=task.id,
        arrival=task.arrival,
        deadline=task.deadline,
        cells=tuple((cell.slot, cell.node) for cell in task.cells),
        vendor_delay=task.vendor_delay,
        finished_slot=task.finished_slot,
        remark="" if reason is None else str(reason).replace("_", " "),
    )


def bill(task: ReportTask) -> Bill:
    """A task's money."""
    return Bill(
        task=task.id,
        bid=task.bid,
        payment=task.decision.payment,
        vendor=task.vendor_price,
        operating=task.operating_cost,
        asked=None if task.admitted else task.decision.price,
    )


def loss_curve(task: ReportTask) -> LossCurve:
    """A task's losses by rows."""
    return LossCurve(
        task=task.id,
        training=tuple((point.rows, point.loss) for point in task.losses),
        validation=tuple((point.rows, point.loss) for point in task.validation),
    )


def _plan(report: MarketReport) -> str:
    # By arrival, so that the eye runs down a diagonal.
    rows = [plan_row(task) for task in sorted(report.tasks, key=lambda task: task.arrival)]
    rows = rows[:MAX_PLAN_ROWS]
    if not rows:
        return '<p class="empty">No bid was made.</p>'
    nodes = [node.id for node in report.nodes]

    def draw(palette: Palette, width: int) -> AnyChart:
        return plan_chart(rows, nodes, report.slots, palette, width=width)

    text = f"Gantt chart of {len(rows)} tasks over {report.slots} slots"
    return to_figure(draw, "plan", wide=WIDE, narrow=NARROW, alt_text=text)


def _payments(report: MarketReport) -> str:
    bills = [bill(task) for task in report.tasks]
    if not bills:
        return '<p class="empty">No bid was made.</p>'

    def draw(palette: Palette, width: int) -> AnyChart:
        return payment_chart(bills, palette, width=width)

    text = "Bars of each task's payment by its parts, with its bid"
    return to_figure(draw, "payments", wide=WIDE, narrow=NARROW, alt_text=text)


def _losses(report: MarketReport) -> str:
    curves = [loss_curve(task) for task in report.tasks]
    curves = [curve for curve in curves if curve.is_drawable]
    if not curves:
        return ""

    def draw(palette: Palette, width: int) -> AnyChart:
        return loss_chart(curves, palette, width=width)

    text = f"Loss curves of {len(curves)} tasks"
    return to_figure(draw, "losses", wide=WIDE, narrow=NARROW, alt_text=text)


DrawGrid = Callable[[FloatArray, tuple[str, ...], Palette, int], AnyChart]


def _grid(report: MarketReport, prefix: str, values: FloatArray, draw_grid: DrawGrid) -> str:
    nodes = tuple(node.id for node in report.nodes)

    def draw(palette: Palette, width: int) -> AnyChart:
        return draw_grid(values, nodes, palette, width)

    text = f"Heat map of {prefix.replace('-', ' ')} for {len(nodes)} nodes and {report.slots} slots"
    return to_figure(draw, prefix, wide=HALF, narrow=NARROW, alt_text=text)


def _compute_use(
    values: FloatArray, nodes: tuple[str, ...], palette: Palette, width: int
) -> AnyChart:
    return utilization_map(values, nodes, "compute", palette, width=width)


def _memory_use(
    values: FloatArray, nodes: tuple[str, ...], palette: Palette, width: int
) -> AnyChart:
    return utilization_map(values, nodes, "memory", palette, width=width)
