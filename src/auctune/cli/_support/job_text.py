"""Text for jobs, times and durations."""

import time
from collections import Counter
from typing import Any

from rich.text import Text

from auctune.client import Job

_DAY = 86_400


def format_time(timestamp: float | None) -> str:
    """Format unix time in local time, with the date unless it is today; `None` as a dash."""
    if timestamp is None:
        return "-"
    moment, today = time.localtime(timestamp), time.localtime()
    is_today = moment[:3] == today[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", moment)


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes, hours or days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} days"


def decision_text(job: Job) -> Text:
    """Describe the decision on a bid."""
    line = Text(job.name, style="bold")
    market = job.market
    if not job.is_decided:
        return line.append(": checking the data ...", style="not bold")
    is_what_if = market["state"] == "what_if"
    if job.is_admitted:
        line.append(" would be admitted" if is_what_if else " admitted", style="not bold green")
        if job.metered is not None:
            return line.append(f" in {market['zone']}: {_metered_text(job)}", style="not bold")
        plan = market["plan"]
        pays = f", at {market['payment']}" if is_what_if else f": pays {market['payment']}"
        line.append(f"{pays} (bid {market['bid']})", style="not bold")
        return line.append(f", {_plan_text(plan)}" if plan else "", style="not bold")
    # A job that failed before the decision was not rejected.
    word = job.state if market["decision"] is None else "rejected"
    word = "would be rejected" if is_what_if else word
    line.append(f" {word}", style="not bold red")
    return line.append(f": {job.failure_reason}{_min_bid_text(market)}", style="not bold")


def _metered_text(job: Job) -> str:
    metered = job.metered or {}
    text = f"{metered['max_cost']} at most"
    estimate = metered["estimate"]
    if estimate is None:
        return text
    text += f", {estimate['expected_cost']} expected, done by {format_time(estimate['finish'])}"
    probability = estimate["success_probability"]
    if probability is not None:
        return f"{text}, loss {job.target_loss:g} reached with a probability of {probability:.0%}"
    return f"{text}, risk of being late {estimate['risk']:.0%}"


def _cost_text(job: Job) -> str:
    metered = job.metered
    if metered is None or not job.is_admitted:
        return ""
    return f", cost {metered['cost']} of {metered['max_cost']}"


def _loss_text(job: Job, loss: str) -> str:
    target = job.target_loss
    return f"loss {loss}" + ("" if target is None else f" (to reach {target:g})")


def _min_bid_text(market: dict[str, Any]) -> str:
    if market["min_bid"]:
        return f"; minimum bid: {market['min_bid']}"
    if market["earliest_deadline"] is not None:
        return f"; earliest possible deadline: {format_time(market['earliest_deadline'])}"
    return ""


def _plan_text(plan: dict[str, object]) -> str:
    """Summarize a plan: its times, the slots on each node, and the vendor that repairs the data."""
    cells = plan["cells"]
    assert isinstance(cells, list)
    by_node = Counter(cell["node"] for cell in cells)
    where = ", ".join(f"{count} on {node}" for node, count in sorted(by_node.items()))
    start, finish = plan["start"], plan["finish"]
    assert isinstance(start, float | int)
    assert isinstance(finish, float | int)
    slots = "slot" if len(cells) == 1 else "slots"
    text = f"{format_time(start)} to {format_time(finish)}, {slots}: {where}"
    return text + (f", data repaired by {plan['vendor']}" if plan["vendor"] else "")


def end_text(job: Job) -> Text:
    """Describe how a job ended."""
    line = Text(job.name, style="bold")
    first, last = job.losses[0], job.loss
    if job.status == "succeeded":
        line.append(f" {job.state}", style="not bold green")
        loss = "" if first is None or last is None else f": loss {first:.3f} to {last}"
        if first is not None and f"{first:.3f}" == last:
            # A job of one slot may have a single measurement.
            loss = f": loss {last}"
        return line.append(f"{loss}{_cost_text(job)}", style="not bold")
    line.append(f" {job.state}", style="not bold red")
    why = f": {job.failure_reason}" if job.failure_reason else ""
    return line.append(f"{why}{_cost_text(job)}", style="not bold")


def state_text(job: Job) -> str:
    """Summarize a job's state."""
    rows, total = job.rows
    loss = job.loss
    state, plan = job.state, job.market["plan"]
    if job.is_over or not (total or rows):
        return f"{state}{_cost_text(job)}"
    text = f"{state} {rows}/{total} rows" if total else f"{state} {rows} rows"
    if loss is not None:
        return f"{text}, {_loss_text(job, loss)}{_cost_text(job)}"
    return f"{text}, starts {format_time(plan['start'])}" if plan and not rows else text
