"""Jobs in words, as all commands show them."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from auctune.client import Job

_DAY = 86_400


def clock(at: float | None) -> str:
    """A moment of unix time in local time; the day too where it is not today."""
    if at is None:
        return "-"
    moment, today = time.localtime(at), time.localtime()
    is_today = moment[:3] == today[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", moment)


def span(seconds: float) -> str:
    """A span of time, as one would say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} days"


def decision_line(job: "Job") -> "Text":
    """What was answered to a bid."""
    from rich.text import Text

    line = Text(job.name, style="bold")
    market = job.market
    if not job.is_decided:
        return line.append(": checking the data ...", style="not bold")
    is_asked = market["state"] == "what_if"
    if job.is_admitted:
        line.append(" would be admitted" if is_asked else " admitted", style="not bold green")
        if job.metered is not None:
            return line.append(f" in {market['zone']}: {_metered_terms(job)}", style="not bold")
        plan = market["plan"]
        pays = f", at {market['payment']}" if is_asked else f": pays {market['payment']}"
        line.append(f"{pays} (bid {market['bid']})", style="not bold")
        return line.append(f", {plan_words(plan)}" if plan else "", style="not bold")
    # What ended before it was decided on was not rejected.
    word = job.state if market["decision"] is None else "rejected"
    word = "would be rejected" if is_asked else word
    line.append(f" {word}", style="not bold red")
    return line.append(f": {job.why}{_enough(market)}", style="not bold")


def _metered_terms(job: "Job") -> str:
    """What was said of a job that is metered, when it was taken."""
    metered = job.metered or {}
    words = f"{metered['max_cost']} at most"
    found = metered["estimate"]
    if found is None:
        return words
    words += f", {found['expected_cost']} expected, done by {clock(found['finish'])}"
    chance = found["success_probability"]
    if chance is not None:
        return f"{words}, loss {job.target_loss:g} reached with a probability of {chance:.0%}"
    return f"{words}, risk of being late {found['risk']:.0%}"


def _cost_words(job: "Job") -> str:
    """What a job that is metered has cost so far; nothing of one that has a price."""
    found = job.metered
    if found is None or not job.is_admitted:
        return ""
    return f", cost {found['cost']} of {found['max_cost']}"


def _loss_words(job: "Job", loss: str) -> str:
    """A loss, and that which is to be reached."""
    target = job.target_loss
    return f"loss {loss}" + ("" if target is None else f" (to reach {target:g})")


def _enough(market: "dict[str, Any]") -> str:
    """What would have been enough for a bid that was rejected."""
    if market["least_bid"]:
        return f"; {market['least_bid']} would have done"
    if market["earliest_deadline"] is not None:
        return f"; it could be done by {clock(market['earliest_deadline'])}"
    return ""


def plan_words(plan: "dict[str, object]") -> str:
    """A plan in short: from when to when, how much on which node, and who prepares the data."""
    cells = plan["cells"]
    assert isinstance(cells, list)
    by_node = Counter(cell["node"] for cell in cells)
    where = ", ".join(f"{count} on {node}" for node, count in sorted(by_node.items()))
    start, finish = plan["start"], plan["finish"]
    assert isinstance(start, float | int)
    assert isinstance(finish, float | int)
    slots = "slot" if len(cells) == 1 else "slots"
    words = f"{clock(start)} to {clock(finish)}, {slots}: {where}"
    return words + (f", data repaired by {plan['vendor']}" if plan["vendor"] else "")


def end_line(job: "Job") -> "Text":
    """What became of a job that is over."""
    from rich.text import Text

    line = Text(job.name, style="bold")
    first, last = job.losses[0], job.loss
    if job.status == "succeeded":
        line.append(f" {job.state}", style="not bold green")
        loss = "" if first is None or last is None else f": loss {first:.3f} to {last}"
        if first is not None and f"{first:.3f}" == last:
            # A job of one slot may have one measurement alone.
            loss = f": loss {last}"
        return line.append(f"{loss}{_cost_words(job)}", style="not bold")
    line.append(f" {job.state}", style="not bold red")
    why = f": {job.why}" if job.why else ""
    return line.append(f"{why}{_cost_words(job)}", style="not bold")


def state_words(job: "Job") -> str:
    """Where a job stands, in few words."""
    rows, total = job.rows
    loss = job.loss
    state, plan = job.state, job.market["plan"]
    if job.is_over or not (total or rows):
        return f"{state}{_cost_words(job)}"
    words = f"{state} {rows}/{total} rows" if total else f"{state} {rows} rows"
    if loss is not None:
        return f"{words}, {_loss_words(job, loss)}{_cost_words(job)}"
    return f"{words}, begins {clock(plan['start'])}" if plan and not rows else words
