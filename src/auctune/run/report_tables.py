"""Tables of a report as HTML: totals, decisions, a vendor's repairs. All texts are escaped."""

from collections.abc import Iterator
from html import escape
from urllib.parse import quote

from auctune.domain import Reason
from auctune.run.report_data import MarketReport, ReportTask, TaskState, Totals
from auctune.run.report_task import format_money
from auctune.run.vendors import RepairReport

NOTHING = "–"  # noqa: RUF001 (an en dash is what a table shows for nothing)
MAX_DROPPED_SHOWN = 50
MAX_DECISIONS_SHOWN = 400
REASONS = {
    Reason.NO_FEASIBLE_SCHEDULE: "cannot be done by its deadline, even in an empty market",
    Reason.NO_CAPACITY: "no room left before its deadline",
    Reason.UNPROFITABLE: "bid not above the price",
}
STATES = {
    TaskState.REJECTED: "rejected",
    TaskState.PLANNED: "planned",
    TaskState.TRAINING: "training",
    TaskState.DONE: "done",
    TaskState.FAILED: "failed",
}


def count(number: int, thing: str) -> str:
    """ "1 slot", "2 slots"."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def total_tiles(totals: Totals) -> str:
    """The run in a row of large numbers."""
    tiles = [
        ("Welfare", format_money(totals.welfare), "bids less vendors and operation"),
        ("Revenue", format_money(totals.revenue), "payments"),
        ("Vendors", format_money(totals.vendor_cost), "paid on to data vendors"),
        ("Operation", format_money(totals.operating_cost), "cost of running the plans"),
        ("Surplus", format_money(totals.surplus), "what the operator keeps"),
        ("Compute", f"{totals.compute_utilization:.0%}", "in use, mean over the horizon"),
        ("Memory", f"{totals.memory_utilization:.0%}", "in use, mean over the horizon"),
        ("Tokens", f"{totals.tokens:,}", "trained on"),
    ]
    items = "".join(
        f'<div class="tile"><dt>{name}</dt><dd>{value}</dd><p>{note}</p></div>'
        for name, value, note in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def decisions_table(report: MarketReport) -> str:
    """A row a task: what was asked, what was answered, and what came of it."""
    headings = ("Task", "Bid", "Price", "Paid", "Decision", "Plan", "Deadline", "Vendor", "Result")
    head = "".join(f'<th scope="col"{_classes(name)}>{name}</th>' for name in headings)
    rows = "".join(_decision_row(task) for task in report.tasks[:MAX_DECISIONS_SHOWN])
    if not rows:
        return '<p class="empty">No bid was made.</p>'
    more = len(report.tasks) - MAX_DECISIONS_SHOWN
    rest = f"<p>{count(more, 'more task')} in report.json.</p>" if more > 0 else ""
    head = f"<thead><tr>{head}</tr></thead>"
    return f'<table class="stacking">{head}<tbody>{rows}</tbody></table>{rest}'


def _classes(name: str, value: str = "") -> str:
    classes = ["number"] if name in ("Bid", "Price", "Paid") else []
    classes += ["nothing"] if value == NOTHING else []
    return f' class="{" ".join(classes)}"' if classes else ""


def _decision_row(task: ReportTask) -> str:
    decision = task.decision
    price = NOTHING if decision.price is None else format_money(decision.price)
    cells = [
        ("Bid", format_money(task.bid)),
        ("Price", price),
        ("Paid", format_money(decision.payment) if task.admitted else NOTHING),
        ("Decision", _explain(task)),
        ("Plan", _plan(task)),
        ("Deadline", _deadline(task)),
        ("Vendor", _vendor(task)),
        ("Result", _result(task)),
    ]
    data = "".join(
        f'<td data-label="{name}"{_classes(name, value)}>{value}</td>' for name, value in cells
    )
    return f'<tr class="{task.state}"><th scope="row">{escape(task.id)}</th>{data}</tr>'


def _explain(task: ReportTask) -> str:
    reason = task.decision.reason
    if reason is None:
        return "admitted"
    least = task.decision.min_bid
    advice = "" if least is None else f"; {format_money(least)} would have sufficed"
    return escape(REASONS[reason] + advice)


def _plan(task: ReportTask) -> str:
    if not task.cells:
        return NOTHING
    nodes = list(dict.fromkeys(cell.node for cell in task.cells))
    where = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    slots = f"{count(len(task.cells), 'slot')}, {task.cells[0].slot} to {task.finish}"
    return escape(f"{slots} on {where}")


def _deadline(task: ReportTask) -> str:
    ended = task.finished_slot if task.finished_slot is not None else task.finish
    if ended is None:
        return f"slot {task.deadline}"
    spare = task.deadline - ended
    margin = "on it" if spare == 0 else f"{abs(spare)} {'spare' if spare > 0 else 'late'}"
    return f"slot {task.deadline}, {margin}"


def _vendor(task: ReportTask) -> str:
    if task.vendor is None:
        return NOTHING
    delay = count(task.vendor_delay, "slot")
    return escape(f"{task.vendor}, {format_money(task.vendor_price)}, {delay}")


def _result(task: ReportTask) -> str:
    badge = f'<span class="badge {task.state}">{STATES[task.state]}</span>'
    if task.adapter is None:
        return badge
    # Quoting the colon as well leaves no scheme that a browser could run.
    return f'{badge} <a href="{escape(quote(task.adapter, safe="/"))}">adapter</a>'


def repair_section(repair: RepairReport) -> str:
    """What a vendor did: counts, examples, and the rows that were left out."""
    actions = ", ".join(f"{rows} × {action}" for action, rows in repair.actions.items())  # noqa: RUF001
    facts = [
        f"{repair.rows_in} rows in, {repair.rows_out} out ({repair.kind}), by {repair.vendor}.",
        f"Mended: {actions or 'nothing'}.",
    ]
    summary = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    return summary + _examples(repair) + _dropped(repair)


def _examples(repair: RepairReport) -> str:
    if not repair.examples:
        return ""
    items = "".join(
        f"<li><p>Line {example.line}: {escape(', '.join(example.actions))}</p>"
        f"<pre><del>{escape(example.before)}</del>\n<ins>{escape(example.after)}</ins></pre></li>"
        for example in repair.examples
    )
    return f'<details><summary>Examples</summary><ul class="plain">{items}</ul></details>'


def _dropped(repair: RepairReport) -> str:
    if not repair.dropped:
        return ""
    items = "".join(_dropped_rows(repair))
    table = (
        '<table><thead><tr><th scope="col" class="number">Line</th><th scope="col">Why</th>'
        f'<th scope="col">Found</th></tr></thead><tbody>{items}</tbody></table>'
    )
    more = len(repair.dropped) - MAX_DROPPED_SHOWN
    rest = f"<p>{more} more stand in report.json.</p>" if more > 0 else ""
    return f"<details><summary>{len(repair.dropped)} rows left out</summary>{table}{rest}</details>"


def _dropped_rows(repair: RepairReport) -> Iterator[str]:
    for row in repair.dropped[:MAX_DROPPED_SHOWN]:
        reason = str(row.reason).replace("_", " ")
        yield (
            f'<tr><td class="number">{row.line}</td><td>{escape(reason)}</td>'
            f"<td>{escape(row.note)}</td></tr>"
        )
