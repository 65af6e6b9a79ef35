"""The reference of events lists each event of each kind of zone with all of its fields."""

from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from auctune.service.storage.event_log import EventType
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.core.state import ZoneState
from auctune.service.zones.edge.state import EdgeState
from auctune.service.zones.spot.state import SpotState
from auctune.service.zones.timeshare.state import TimeshareState
from support.pages import rows

PAGE = Path("docs/reference/events.md")
KINDS = (
    (AuctionState, {"Auction"}),
    (SpotState, {"Spot and timeshare", "Spot"}),
    (TimeshareState, {"Spot and timeshare", "Timeshare"}),
    (EdgeState, {"Edge"}),
)


def listed(headings: set[str]) -> dict[str, set[str]]:
    """The fields of each event in the tables under some headings."""
    found = defaultdict[str, set[str]](set)
    for row in rows(PAGE):
        if row.heading in headings:
            for event in row.codes():
                found[event] |= set(row.codes(1))
    return found


@pytest.mark.parametrize(("state", "headings"), KINDS)
def test_all_events_of_a_kind_are_listed_with_their_fields(
    state: type[ZoneState[Any]], headings: set[str]
) -> None:
    expected = defaultdict[str, set[str]](set)
    for data in state.reducers:
        expected[data.type] |= {field.name for field in fields(data)}
    shown = listed({"All kinds"} | headings)
    assert listed(headings).keys() <= expected.keys() <= shown.keys()
    assert {event: shown[event] for event in expected} == expected


def test_all_types_that_kinds_have_in_common_are_listed() -> None:
    assert listed({"All kinds"}).keys() | {EventType.METERED} == set(EventType)
