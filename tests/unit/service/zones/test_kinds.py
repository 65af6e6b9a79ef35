"""Kinds of zones, found by their names."""

from auctune.service.config.models import AnyZone
from auctune.service.zones.auction.job import AuctionEventType
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.edge.job import EdgeEventType
from auctune.service.zones.kinds import KINDS, OWNER_EVENT_TYPES
from auctune.service.zones.spot.job import SpotEventType
from auctune.service.zones.timeshare.job import TimeshareEventType


def test_each_kind_that_settings_may_name_is_one_that_can_be_opened() -> None:
    (by_kind,) = AnyZone.__metadata__  # type: ignore[attr-defined]
    assert by_kind.models.keys() == KINDS.keys()
    fields = {name: model.model_fields["kind"] for name, model in by_kind.models.items()}
    assert all(field.default == name for name, field in fields.items())


def test_owners_are_told_of_each_kind_of_event_once() -> None:
    assert len(set(OWNER_EVENT_TYPES)) == len(OWNER_EVENT_TYPES)
    assert {EventType.DECIDED, EventType.FAILED, AuctionEventType.REPLANNED} <= set(
        OWNER_EVENT_TYPES
    )
    assert EventType.SLOT_BEGAN not in OWNER_EVENT_TYPES


def test_no_kind_calls_an_event_of_its_own_as_all_kinds_call_another() -> None:
    for own in (
        AuctionEventType,
        MeteredEventType,
        SpotEventType,
        TimeshareEventType,
        EdgeEventType,
    ):
        assert not set(map(str, EventType)) & set(map(str, own))
