"""Default terms: bid, cap, deadline and zone of requests that do not state them.

An operator sets them for a key, a user, a team or the whole service. Field by field, the first of
these that has one applies.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from auctune.domain import InputError, parse_money

_SPAN = re.compile(r"\+([1-9][0-9]{0,3}[smh]|[1-9][0-9]{0,2}d)")


def _check_span(text: str) -> str:
    if not _SPAN.fullmatch(text):
        expected = "a span of whole seconds, minutes, hours or days, such as +90m, +2h or +1d"
        raise InputError("", repr(text), expected)
    return text


Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Span = Annotated[str, StringConstraints(max_length=64), AfterValidator(_check_span)]
Zone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class DefaultTerms(BaseModel):
    """Default terms as an operator sets them; a request on them is like one that states them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bid: Amount | None = Field(
        default=None,
        description="bid of a request that states no `bid`, `value` or `max_cost`; the cap in "
        "zones of kind `spot` and `timeshare`, if `max_cost` is not set",
        examples=["10.00"],
    )
    max_cost: Amount | None = Field(
        default=None,
        description="cap of such a request on its job's cost",
        examples=["10.00"],
    )
    deadline: Span | None = Field(
        default=None,
        description="deadline of a request without one, as a span from when it arrives: `+90m`, "
        "`+2h`, `+1d`",
        examples=["+4h"],
    )
    zone: Zone | None = Field(
        default=None,
        description="zone of a request that names none, if its model is that zone's base; "
        "without a default it goes to the cheapest zone that has its model",
        examples=["default"],
    )

    def to_record(self) -> dict[str, Any]:
        """Return the terms that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def __bool__(self) -> bool:
        return bool(self.to_record())


NO_TERMS = DefaultTerms()

Sources = Sequence[tuple[str, DefaultTerms]]
"""Default terms by owner ("key key-1", "user ada", "team lab", "service"), the first one first."""


@dataclass(frozen=True, slots=True)
class AppliedTerm:
    """A default term that a request was given: its value as text, and whose default it is."""

    value: str
    of: str


def resolve(sources: Sources, names: Iterable[str]) -> dict[str, AppliedTerm]:
    """Return the terms with these names that a source has, each of the first one that has it."""
    found = {}
    for name in names:
        for of, terms in sources:
            value = getattr(terms, name)
            if value is not None:
                found[name] = AppliedTerm(str(value), of)
                break
    return found
