"""How jobs are told of to people: the same on the page, on the command line and in every table.

The service's API names states as zones of a kind know them; what is the same to an owner is the
same word here.
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
    "what_if": "only asked",
}


REASON_WORDS: Mapping[str, str] = {
    "unprofitable": "bid too low",
    "no_capacity": "no room in time",
    "no_feasible_schedule": "deadline too tight",
}


def reason_words(reason: str) -> str:
    """Why a bid was rejected, or a job failed, in a few words.

    Args:
        reason: `market.reason` of a job, or its error's code.
    """
    return REASON_WORDS.get(reason, reason.replace("_", " "))


def state_word(state: str) -> str:
    """A state in a word or two.

    Args:
        state: `market.state` of a job; one that only a newer service has stays as it is.
    """
    return STATE_WORDS.get(state, state.replace("_", " "))


def loss_text(loss: float, target: float | None = None) -> str:
    """A loss with three decimals, or as many more as tell on which side of a target it is."""
    text = ""
    for digits in range(3, 10):
        text = f"{loss:.{digits}f}"
        if target is None or _side(float(text), target) == _side(loss, target):
            break
    return text


def _side(loss: float, target: float) -> int:
    return (loss > target) - (loss < target)


def is_overdue(job: Mapping[str, Any], now: float) -> bool:
    """Whether a metered job goes on beyond the time by which it was thought to be done.

    Args:
        job: as the service's API shows it.
        now: unix time.
    """
    expected = job["estimated_finish"]
    is_open = job["finished_at"] is None and job["market"]["metered"] is not None
    return is_open and expected is not None and expected < now
