"""Recorded events, decoded into their types and encoded again, are the JSON that they were."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from auctune.service.storage.event_log import EventType, upcast_event
from auctune.service.zones.auction.state import AuctionEventType, AuctionState
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.state import ZoneState
from auctune.service.zones.edge.state import EdgeState
from auctune.service.zones.spot.state import SpotState
from auctune.service.zones.timeshare.state import TimeshareState
from support.recorded_logs import FIXTURES, differences, read_lines

STATES: dict[str, type[ZoneState[Any]]] = {
    "owned": AuctionState,
    "pool": TimeshareState,
    "rented": SpotState,
    "sites": EdgeState,
}


def changes(recorded: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """Differences, but for optional fields that the recorded event is too old to have."""
    # How arrays are compressed depends on the machine.
    found = differences(recorded | {"update": None}, again | {"update": None})
    # A job that was refused before it was decided on was recorded without its results, of which
    # it has none.
    optional = (": not expected, found null", "['files']: not expected, found []")
    return [one for one in found if not one.endswith(optional)]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
@pytest.mark.parametrize("zone", STATES)
def test_each_recorded_event_is_written_again_as_it_was(fixture: Path, zone: str) -> None:
    version = json.loads((fixture / "recording.json").read_text())["version"]
    types = {data.type: data for data in STATES[zone].reducers}
    seen = set()
    for event in read_lines(fixture / f"events-{zone}.jsonl.xz"):
        if event["type"] == EventType.ZONE_CREATED:
            continue
        body = orjson.loads(upcast_event(version, event["type"], orjson.dumps(event["body"])))
        again = adapter(types[event["type"]]).validate_python(body).body()
        assert changes(body, again) == [], event["seq"]
        seen.add(event["type"])
    assert {EventType.DECIDED, EventType.RECEIVED, EventType.TRAINED} <= seen
    assert (AuctionEventType.PRICES_UPDATED in seen) == (zone == "owned")
