"""The zone that a job goes to by default, among those that have its model."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import AuctuneError, InputError
from auctune.engine.data.client import DataError
from auctune.service.accounts.registry import Principal, Role
from auctune.service.jobs.quotes import QuoteSummary, ZoneQuote
from auctune.service.jobs.request import JobRequest, MarketTerms
from auctune.service.jobs.training import Training
from auctune.service.submissions import ZoneChoice, choose_zone
from auctune.service.zones.core.gateway import AnyGateway

WHO = Principal("key", "ada", None, Role.USER)


@dataclass(frozen=True)
class Said:
    """An offer that is nothing but its outlook."""

    summary: QuoteSummary | None
    size: int = 1

    @property
    def unavailable_reason(self) -> str | None:
        return None if self.summary is not None else "it cannot be done by its deadline"

    def to_response(self) -> dict[str, Any]:
        return {"lines": []}


@dataclass
class Zone:
    """A zone that says what it was told to, and counts how often it is asked."""

    name: str
    summary: QuoteSummary | None = None
    unavailable_reason: str | None = None
    error: AuctuneError | None = None
    kind: str = "auction"
    asked: int = 0

    def unsupported_reason(self, _: JobRequest) -> str | None:
        return self.unavailable_reason

    async def quote(self, _: Principal, __: JobRequest) -> ZoneQuote:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return ZoneQuote(Training("file-a"), 9.0, Said(self.summary))


def outlook(cost: float, risk: float = 0.0) -> QuoteSummary:
    return QuoteSummary(Decimal(str(cost)), 1.0, risk)


def chosen(*zones: Zone, risk: float = 0.1, paused: tuple[str, ...] = ()) -> ZoneChoice:
    request = JobRequest(model="tiny", training_file="file-a", market=MarketTerms(risk=risk))
    return asyncio.run(choose_zone(cast(list[AnyGateway], zones), WHO, request, paused))


OUTLOOKS = st.builds(
    outlook, st.integers(1, 4).map(float), st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.9])
)


@given(st.lists(st.none() | OUTLOOKS, min_size=2, max_size=5), st.sampled_from([0.0, 0.1, 0.5]))
def test_nothing_that_keeps_the_limit_is_cheaper_and_nothing_at_all_safer_if_none_keeps_it(
    outlooks: list[QuoteSummary | None], limit: float
) -> None:
    zones = [Zone(f"z{place}", one) for place, one in enumerate(outlooks)]
    found = cast(Zone, chosen(*zones, risk=limit).zone).summary
    able = [one for one in outlooks if one is not None]
    within = [one for one in able if one.risk <= limit]
    if within:
        assert found in within
        assert found.cost == min(one.cost for one in within)
    elif able:
        assert found is not None
        assert found.risk == min(one.risk for one in able)
    else:
        assert found is None


def test_of_equals_the_first_in_the_settings_is_the_default() -> None:
    assert (
        chosen(Zone("a", outlook(2)), Zone("b", outlook(1)), Zone("c", outlook(1))).zone.name == "b"
    )


def test_each_zone_that_cannot_have_the_job_says_why() -> None:
    wrong, failed = InputError("rank", "9", "less"), DataError("the data process was closed")
    zones = (
        Zone("full"),
        Zone("other", outlook(0), unavailable_reason="has no sites"),
        Zone("small", outlook(0), error=wrong),
        Zone("hurt", outlook(0), error=failed),
        Zone("shut", outlook(0)),
        Zone("able", outlook(5)),
    )
    found = chosen(*zones, paused=("shut",))
    assert found.zone.name == "able"
    assert [one.unavailable_reason for one in found.alternatives] == [
        "it cannot be done by its deadline",
        "has no sites",
        str(wrong),
        str(failed),
        "it takes no bids now",
        None,
    ]
    assert [zone.asked for zone in zones] == [1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(("paused", "expected"), [((), "a"), (("a",), "b"), (("a", "b"), "a")])
def test_where_none_can_have_it_the_first_that_takes_bids_is_to_say_why(
    paused: tuple[str, ...], expected: str
) -> None:
    found = chosen(Zone("a"), Zone("b"), paused=paused)
    assert found.zone.name == expected


def test_what_those_that_could_train_it_agree_on_is_the_answer() -> None:
    wrong = InputError("training_file", "line 2", "text")
    other = Zone("pool", unavailable_reason="needs market.target_loss", kind="timeshare")
    # It is asked again, and raises the error with its field.
    assert chosen(other, Zone("a", error=wrong), Zone("b", error=wrong)).zone.name == "a"
    late = InputError("market.deadline", "is early", "a later one")
    with pytest.raises(InputError, match=r"pool .*target_loss; a .*line 2.*; b .*early"):
        chosen(other, Zone("a", error=wrong), Zone("b", error=late))
