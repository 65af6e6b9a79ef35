"""Text for the states of jobs, shared by the page, the command line and all tables.

The API's states depend on the kind of zone; states that mean the same to an owner have the same
text here.
"""

from collections.abc import Mapping
from typing import Any

STATE_WORDS: Mapping[str, str] = {
    "validating": "checking the data",
    "planned": "planned",
    "training": "training",
    "paused": "paused",
    "trained": "packing",
    "finished": "done",
    "failed": "failed",
    "refunded": "refunded",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "what_if": "what-if",
}


REASON_WORDS: Mapping[str, str] = {
    "unprofitable": "bid too low",
    "no_capacity": "no room in time",
    "no_feasible_schedule": "deadline too tight",
}


def reason_words(reason: str) -> str:
    """Return a short text for the reason of a rejection or failure.

    Args:
        reason: `market.reason` of a job, or its error's code.
    """
    return REASON_WORDS.get(reason, reason.replace("_", " "))


def state_word(state: str) -> str:
    """Return the text for a state.

    Args:
        state: `market.state` of a job; an unknown state, of a newer service, is its own text.
    """
    return STATE_WORDS.get(state, state.replace("_", " "))


def loss_text(loss: float, target: float | None = None) -> str:
    """Format a loss with three decimals, or as many as needed to distinguish it from a target."""
    text = ""
    for digits in range(3, 10):
        text = f"{loss:.{digits}f}"
        if target is None or _side(float(text), target) == _side(loss, target):
            break
    return text


def _side(loss: float, target: float) -> int:
    return (loss > target) - (loss < target)


def is_overdue(job: Mapping[str, Any], now: float) -> bool:
    """Return whether a metered job runs past its estimated finish.

    Args:
        job: a record of the service's API.
        now: unix time.
    """
    expected = job["estimated_finish"]
    is_open = job["finished_at"] is None and job["market"]["metered"] is not None
    return is_open and expected is not None and expected < now
