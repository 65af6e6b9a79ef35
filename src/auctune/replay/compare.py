"""Replay of a range of a zone's log and comparison of mechanisms, for all kinds of zones."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from auctune.replay.log_range import LogRange
from auctune.replay.verify import LogVerifier, VerificationResult, noop
from auctune.service.config.zone import ZoneConfig
from auctune.service.storage import Snapshots
from auctune.service.storage.events import EventType
from auctune.sim.comparison import Contender

Tick = Callable[[], None]
Progress = Callable[[str, int | None], Tick | None]
"""Begins a stage, given its label and number of steps; returns what to call after each step."""

Row = tuple[str, str, str]
"""Header, attribute of an outcome, and format of its value."""

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Input of a replay: a range, the snapshots of its log, and the zone in auctune.toml."""

    log: LogRange
    snapshots: Snapshots
    entry: ZoneConfig | None


@dataclass(frozen=True, slots=True)
class Comparison(Generic[O]):
    """The outcome of a range as recorded, and under other mechanisms."""

    mechanism: str
    recorded: O
    others: tuple[tuple[Contender, O], ...]


class ZoneReplay(ABC, Generic[O]):
    """Replay of a range of a zone's log; one subclass for each kind of zone."""

    rows: ClassVar[tuple[Row, ...]]
    """Rows of the table of a comparison."""

    skipped: ClassVar[str] = ""
    """Why jobs may be skipped in a comparison."""

    def __init__(self, source: ReplayInput) -> None:
        self.source = source
        self.log = source.log

    @property
    @abstractmethod
    def basis(self) -> str:
        """Basis of the decisions in a verification, as a short text."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The recorded mechanism."""

    @property
    def num_skipped(self) -> int | None:
        """Jobs that are not compared, or None if every bid is."""
        return None

    @abstractmethod
    def check(self, contender: Contender) -> None:
        """Check a mechanism and its settings without running it; raise InputError."""

    @abstractmethod
    def verifier(self) -> LogVerifier[Any, Any]:
        """Return a verifier whose state is that of the zone at or before the range's begin."""

    @abstractmethod
    def recorded_outcome(self, progress: Progress) -> O:
        """Return the outcome as recorded."""

    @abstractmethod
    def outcome_under(self, contender: Contender, progress: Progress) -> O:
        """Return the outcome of the same range under another mechanism."""

    def verify(self, progress: Progress) -> VerificationResult:
        """Verify the range; raise InputError if the service cannot have written an event."""
        verifier, log = self.verifier(), self.log
        after = verifier.state.seq
        tick = progress(log.zone, log.count(EventType.DECIDED, after))
        return verifier.verify_log(log.events(after), log.contains, tick or noop)

    def compare(self, contenders: Sequence[Contender], progress: Progress) -> Comparison[O]:
        recorded = self.recorded_outcome(progress)
        others = [(one, self.outcome_under(one, progress)) for one in contenders]
        return Comparison(self.mechanism, recorded, tuple(others))


AnyReplay = ZoneReplay[Any]
