"""Verification of a zone's log: each event must follow from the events before it.

A verifier applies the recorded events to the zone's state. Before it applies an event, it computes
the body that the event must have: decisions from their recorded inputs, by the functions that
decide in the service, and charges from usage and prices. Fields that differ are reported.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from auctune.domain import InputError
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.events import old_token_amount, storage_charge, token_charge
from auctune.service.zones.core.state import ZoneModel, ZoneState

Body = dict[str, Any]
Rule = Callable[[Any, ZoneEvent], Body | None]
"""Method of a verifier: the body that an event must have, or None if it cannot have happened."""

_ABSENT = "(none)"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of an event that is not as recorded; `name` is the id of the job, or the slot."""

    what: str
    name: str
    recorded: Any
    found: Any


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Numbers of verified events by name, and differences: none if the log is identical."""

    counts: Mapping[str, int]
    differences: tuple[Difference, ...]

    @property
    def is_identical(self) -> bool:
        return not self.differences


def noop() -> None:
    """Do nothing: the callback of a verification without progress."""


S = TypeVar("S", bound=ZoneState[Any])
M = TypeVar("M")


class LogVerifier(ABC, Generic[S, M]):
    """Verifies the log of one zone; a subclass knows the events of its kind of zone."""

    count_names: ClassVar[tuple[str, ...]] = ("decisions", "charges")
    """Names of what is counted; see `counts_of`."""

    rules: ClassVar[Mapping[str, Rule]] = {}
    """By type of event, the method that computes its body. Other events need an open job."""

    def __init__(self, model: ZoneModel[S, M]) -> None:
        self._model = model
        self.state: S = model.state
        self.mechanism: M = model.mechanism
        self.differences: list[Difference] = []

    @abstractmethod
    def decided_body(self, event: ZoneEvent) -> Body | None:
        """Decide again, and return the body of a `job.decided` event of a job that is not admitted.

        Return None if the recorded inputs cannot have existed.
        """

    def counts_of(self, event: ZoneEvent) -> Iterator[str]:
        """Yield the names in `count_names` under which an event counts."""
        if event.type == EventType.DECIDED:
            yield "decisions"
        elif event.type == EventType.METERED:
            yield "charges"

    def expected_body(self, event: ZoneEvent) -> Body | None:
        """Return the body that an event must have, or None if it cannot have happened."""
        if event.type == EventType.DECIDED:
            return None if event.job in self.state.jobs else self.decided_body(event)
        if event.type == EventType.RECEIVED:
            return None if self.is_open(event) else event.body
        if event.type == EventType.TOKENS_USED:
            tokens = event.body["prompt_tokens"] + event.body["completion_tokens"]
            price = Decimal(event.body["price"])
            if event.body["carried"] is None:
                return {**event.body, "amount": str(old_token_amount(tokens, price))}
            carried = self.state.carried(event.body["user"], event.body["model"])
            amount, carried = token_charge(tokens, price, carried)
            return {**event.body, "amount": str(amount), "carried": str(carried)}
        if event.type == EventType.STORAGE_USED:
            body = event.body
            amount, rest = storage_charge(
                int(body["byte_seconds"]), Decimal(body["price"]), body["carried_before"]
            )
            return {**body, "amount": str(amount), "carried": rest}
        rule = self.rules.get(event.type)
        if rule is not None:
            return rule(self, event)
        return event.body if event.job is None or self.is_open(event) else None

    def apply(self, event: ZoneEvent) -> None:
        self._model.apply(event)

    def missing(self) -> Iterable[Difference]:
        """Return the events that the log should have and lacks."""
        return ()

    def is_open(self, event: ZoneEvent) -> bool:
        """Return whether the job of an event is pending or admitted, and not over."""
        return event.job in self.state.jobs or event.job in self.state.received

    def verify_log(
        self,
        events: Iterable[ZoneEvent],
        contains: Callable[[ZoneEvent], bool] = lambda _: True,
        on_decision: Callable[[], None] = noop,
    ) -> VerificationResult:
        """Verify a log from the state on.

        Args:
            events: of the zone.
            contains: returns whether to verify an event; the others are applied as recorded.
            on_decision: called after each decision.

        Raises:
            InputError: if the service cannot have written an event.
        """
        counts: Counter[str] = Counter()
        self.differences = []
        for event in events:
            try:
                if contains(event):
                    counts.update(self.counts_of(event))
                    self._verify(event)
                else:
                    self.apply(event)
            except (AssertionError, KeyError, TypeError, ValueError, ArithmeticError) as error:
                found = f"cannot be read ({type(error).__name__}: {error})"
                expected = "a log as this release writes it"
                raise InputError(f"event {event.seq}", found, expected) from error
            if event.type == EventType.DECIDED:
                on_decision()
        self.differences += self.missing()
        return VerificationResult(
            {name: counts[name] for name in self.count_names}, tuple(self.differences)
        )

    def _verify(self, event: ZoneEvent) -> None:
        body = self.expected_body(event)
        self.differences += diff_event(event, body)
        if body is None:
            return
        # Only charges continue as computed: a wrong one would change all later ones of its job.
        is_charge = event.type == EventType.METERED
        self.apply(replace(event, body=body) if is_charge else event)


def diff_event(event: ZoneEvent, body: Body | None) -> Iterator[Difference]:
    """Yield the fields in which an event is not as recorded; without a body it is impossible."""
    name = event.job or f"slot {event.slot}"
    if body is None:
        yield Difference(event.type, name, f"event {event.seq}", "cannot have happened")
        return
    recorded, found = dict(_fields(event.body)), dict(_fields(body))
    for field in sorted(recorded.keys() | found.keys()):
        pair = recorded.get(field, _ABSENT), found.get(field, _ABSENT)
        if pair[0] != pair[1]:
            yield Difference(f"{event.type}: {field}", name, *pair)


def _fields(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in body.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
