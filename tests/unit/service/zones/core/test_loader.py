"""What of a zone's settings may change between starts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.domain import InputError
from auctune.service.config.auction import AuctionConfig
from auctune.service.zones.auction.kind import AuctionLoader
from auctune.service.zones.core.kind import ensure_unchanged


def found(current: dict[str, Any], recorded: dict[str, Any]) -> str:
    with pytest.raises(InputError) as refused:
        ensure_unchanged("lab", current, recorded)
    return f"{refused.value.place} {refused.value.found}"


def test_the_first_setting_that_was_changed_is_named_with_what_it_was() -> None:
    recorded = {"base": "tiny", "slots": 12}
    ensure_unchanged("lab", dict(recorded), recorded)
    assert found({"base": "tiny", "slots": 9}, recorded) == (
        "zone lab: slots 9, but the zone was created with 12"
    )


def test_a_setting_that_was_left_out_or_added_is_named_too() -> None:
    assert found({}, {"seed": "1"}) == "zone lab: seed nothing, but the zone was created with 1"
    assert found({"seed": "1"}, {}) == "zone lab: seed 1, but the zone was created with nothing"


def test_an_auction_s_own_settings_are_named_as_its_table_names_them() -> None:
    dependencies = SimpleNamespace(
        store=SimpleNamespace(reader=None),
        data=None,
        files=None,
        now=None,
        vendor_gateway=SimpleNamespace(vendors=lambda params: ()),
    )
    loader = AuctionLoader(AuctionConfig(), {}, cast(Any, dependencies))
    cluster = {"slots": 12, "slot_seconds": 60.0, "nodes": []}
    record = {"base": "tiny", "cluster": cluster, "sample_tokens": 64.0, "mechanism": "pdftsp"}
    selected = loader._select_fixed(record | {"settings": {"compute_low": "0.0005"}})
    assert selected["auction.compute_low"] == "0.0005"
    assert selected["auction.mechanism"] == "pdftsp"
