"""report.html of a market run."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from markupsafe import Markup

from auctune.charts import (
    LIGHT,
    Bill,
    LossCurve,
    PlanRow,
    payment_chart,
    plan_chart,
    price_map,
    utilization_map,
)
from auctune.charts.render import DrawChart
from auctune.domain import Reason
from auctune.engine.market.report_data import MarketReport, ReportTask
from auctune.engine.report import figure, loss_figure, render_template
from auctune.files.atomic import write_atomically
from auctune.pages import count

HALF = 496
"""Width in pixels of a chart beside another."""
MAX_PLAN_ROWS = 400
MAX_DECISIONS_SHOWN = 400
MAX_DROPPED_SHOWN = 50
REASONS = {
    Reason.NO_FEASIBLE_SCHEDULE: "cannot be done by its deadline, even in an empty market",
    Reason.NO_CAPACITY: "no room left before its deadline",
    Reason.UNPROFITABLE: "bid not above the price",
}


def render_report(report: MarketReport) -> str:
    """Return the page of a market run."""
    totals = report.totals
    task_notes = (f"{task.id}: {note}" for task in report.tasks for note in task.notes)
    return render_template(
        "market_report.html",
        heading=report.title,
        facts=(
            f"{totals.admitted} of {totals.tasks} bids admitted",
            f"{count(totals.done, 'adapter')} done",
            f"base {report.base}",
            count(len(report.nodes), "node"),
            f"{count(report.slots, 'slot')} of {report.slot_seconds:g} s",
            report.mechanism,
        ),
        totals=totals,
        tasks=report.tasks,
        notes=[*report.notes, *task_notes],
        charts=_charts(report),
        by_node=len(report.nodes) <= len(LIGHT.nodes),
        reasons=REASONS,
        max_decisions=MAX_DECISIONS_SHOWN,
        max_dropped=MAX_DROPPED_SHOWN,
    )


def write_report(report: MarketReport, path: Path) -> None:
    """Write the page to `path`, complete or not at all."""
    write_atomically(path, render_report(report).encode())


def _charts(report: MarketReport) -> Mapping[str, Markup | None]:
    nodes = tuple(node.id for node in report.nodes)
    prices, used = report.prices, report.utilization
    charts: dict[str, Markup | None] = {
        "losses": loss_figure([_loss_curve(task) for task in report.tasks], "tasks")
    }
    if report.tasks:
        # By arrival: the bars form a diagonal.
        rows = [_plan_row(task) for task in sorted(report.tasks, key=lambda task: task.arrival)]
        rows = rows[:MAX_PLAN_ROWS]
        charts["plan"] = figure(
            partial(plan_chart, rows, nodes, report.slots),
            "plan",
            f"Gantt chart of {len(rows)} tasks over {report.slots} slots",
        )
        charts["payments"] = figure(
            partial(payment_chart, [_bill(task) for task in report.tasks]),
            "payments",
            "Bars of each task's payment by its parts, with its bid",
        )
    maps: dict[str, DrawChart] = {
        "compute-price": partial(price_map, prices.compute, nodes, "sample"),
        "memory-price": partial(price_map, prices.memory, nodes, "GB-slot"),
        "compute-use": partial(utilization_map, used.compute, nodes, "compute"),
        "memory-use": partial(utilization_map, used.memory, nodes, "memory"),
    }
    extent = f"for {len(nodes)} nodes and {report.slots} slots"
    for name, draw in maps.items():
        text = f"Heat map of {name.replace('-', ' ')} {extent}"
        charts[name.replace("-", "_")] = figure(draw, name, text, wide=HALF)
    return charts


def _plan_row(task: ReportTask) -> PlanRow:
    return PlanRow(
        task=task.id,
        arrival=task.arrival,
        deadline=task.deadline,
        cells=tuple((cell.slot, cell.node) for cell in task.schedule),
        vendor_delay=task.vendor_delay,
        finished_slot=task.finished_slot,
        remark="" if task.reason is None else task.reason.replace("_", " "),
    )


def _bill(task: ReportTask) -> Bill:
    return Bill(
        task=task.id,
        bid=task.bid,
        payment=task.payment,
        vendor=task.vendor_price,
        operating=task.operating_cost,
        asked=None if task.admitted else task.price,
    )


def _loss_curve(task: ReportTask) -> LossCurve:
    return LossCurve(
        task=task.id,
        training=tuple((point.rows, point.loss) for point in task.losses),
        validation=tuple((point.rows, point.loss) for point in task.validation),
    )
