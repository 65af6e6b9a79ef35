"""Default terms: what an operator may set, and whose default a request gets."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from auctune.service.accounts.registry import NO_TERMS, AppliedTerm, DefaultTerms, resolve

NAMES = ("bid", "max_cost", "deadline", "zone")
OWNERS = ("key key-1", "user ada", "team lab", "service")
TERMS = st.builds(
    DefaultTerms,
    bid=st.none() | st.integers(0, 99).map(Decimal),
    max_cost=st.none() | st.integers(0, 99).map(Decimal),
    deadline=st.none() | st.integers(1, 99).map(lambda hours: f"+{hours}h"),
    zone=st.none() | st.sampled_from(["owned", "rented"]),
)


@given(st.tuples(TERMS, TERMS, TERMS, TERMS), st.sets(st.sampled_from(NAMES)))
def test_each_field_is_that_of_the_first_owner_who_has_it(
    terms: tuple[DefaultTerms, ...], names: set[str]
) -> None:
    found = resolve(list(zip(OWNERS, terms, strict=True)), names)
    for name in NAMES:
        holders = [place for place, one in enumerate(terms) if getattr(one, name) is not None]
        if name not in names or not holders:
            assert name not in found
        else:
            value = str(getattr(terms[holders[0]], name))
            assert found[name] == AppliedTerm(value, OWNERS[holders[0]])


@given(TERMS)
def test_terms_come_back_from_their_record(terms: DefaultTerms) -> None:
    assert DefaultTerms.model_validate(terms.to_record()) == terms
    assert bool(terms) == (terms != NO_TERMS)


@pytest.mark.parametrize("deadline", ["+1s", "+90m", "+9999h", "+999d"])
def test_a_default_deadline_is_a_span(deadline: str) -> None:
    assert DefaultTerms(deadline=deadline).deadline == deadline


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bid", "-1"),
        ("bid", "1.00001"),
        ("bid", True),
        ("max_cost", "much"),
        ("deadline", "2h"),
        ("deadline", "-2h"),
        ("deadline", "+0h"),
        ("deadline", "+1000d"),
        ("deadline", "2031-05-04T09:00:00Z"),
        ("zone", ""),
        ("zones", "owned"),
    ],
)
def test_other_values_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        DefaultTerms.model_validate({field: value})
