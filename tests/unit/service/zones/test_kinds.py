"""Kinds of zones, found by their names."""

from auctune.service.config.models import AnyZone
from auctune.service.config.zone import AUCTION
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.event import Kind
from auctune.service.zones.kinds import KINDS, TOLD, kind_of_opening
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.spot.event import SpotKind
from auctune.service.zones.timeshare.event import TimeshareKind


def test_a_zone_that_was_opened_before_there_were_kinds_is_an_auction() -> None:
    assert kind_of_opening({"version": 1}) is KINDS[AUCTION]


def test_each_kind_that_settings_may_name_is_one_that_can_be_opened() -> None:
    (by_kind,) = AnyZone.__metadata__  # type: ignore[attr-defined]
    assert by_kind.models.keys() == KINDS.keys()
    fields = {name: model.model_fields["kind"] for name, model in by_kind.models.items()}
    assert all(field.default == name for name, field in fields.items())


def test_owners_are_told_of_each_kind_of_event_once() -> None:
    assert len(set(TOLD)) == len(TOLD)
    assert {Kind.DECIDED, Kind.FAILED, AuctionKind.REPLANNED} <= set(TOLD)
    assert Kind.SLOT_BEGAN not in TOLD


def test_no_kind_calls_an_event_of_its_own_as_all_kinds_call_another() -> None:
    for own in (AuctionKind, MeteredKind, SpotKind, TimeshareKind, EdgeKind):
        assert not set(map(str, Kind)) & set(map(str, own))
