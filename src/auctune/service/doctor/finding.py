"""What a check has found."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is: as it should be, worth a look, or so that the service cannot do its work."""

    OK = "ok"
    WARN = "warn"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check looked at.

    Attributes:
        name: of the check.
        state: how it is.
        said: what was found, in one line.
        mend: the command or setting that mends it; empty where nothing is to be done.
    """

    name: str
    state: State
    said: str
    mend: str = ""


def ok(name: str, said: str) -> Finding:
    """It is as it should be."""
    return Finding(name, State.OK, said)


def warn(name: str, said: str, mend: str = "") -> Finding:
    """It works, but somebody should know."""
    return Finding(name, State.WARN, said, mend)


def wrong(name: str, said: str, mend: str) -> Finding:
    """The service cannot do its work so."""
    return Finding(name, State.WRONG, said, mend)
