"""Settings of a zone that change between two starts of its service."""

from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.edge import ErisParams
from auctune.service.config.edge import EdgeConfig, PricingConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.auction import kind
from auctune.service.zones.edge.state import SiteDatasets
from support.edge_zones import TOKENS, edge_constants, edge_entry
from support.serving import Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone


def refused(folder: Path, created: ZoneConfig, changed: ZoneConfig) -> str:
    """Create a zone, and return why the service does not start with its changed settings."""
    with serving(folder / "data", make_file([created])) as served:
        # The first command on a zone commits its first event.
        served.service.zones[created.name].actor.submit(lambda _: None).result(60)
    with pytest.raises(InputError) as error, serving(folder / "data", make_file([changed])):
        pass
    return f"{error.value.place} {error.value.found}"


def test_slots_of_an_auction_do_not_change(tmp_path: Path) -> None:
    found = refused(tmp_path, make_zone(slots=30), make_zone(slots=20))
    assert found == "zone default: slots 20, but the zone was created with 30"


def test_the_price_of_a_pool_does_not_change(tmp_path: Path) -> None:
    changed = make_pool(price_per_second="0.5")
    assert refused(tmp_path, make_pool(), changed).startswith("zone pool: price_per_second 0.5")


@pytest.mark.parametrize(
    ("setting", "value", "found"),
    [
        ("rows_move", False, "rows_move False"),
        ("pricing", PricingConfig(reserve_value=3.0), "pricing.reserve_value 3.0"),
    ],
)
def test_how_an_edge_zone_sells_does_not_change(
    tmp_path: Path, setting: str, value: object, found: str
) -> None:
    created = edge_entry()
    changed = created.model_copy(update={setting: value})
    assert refused(tmp_path, created, changed).startswith(f"zone {created.name}: {found}, but")


def test_the_start_of_a_replayed_market_does_not_change(tmp_path: Path) -> None:
    created = spot_zone(tmp_path)
    assert created.start is not None
    changed = created.model_copy(update={"start": created.start + 1})
    assert refused(tmp_path, created, changed).startswith(f"zone {created.name}: start")


def test_a_zone_does_not_become_one_of_another_kind(tmp_path: Path) -> None:
    found = refused(tmp_path, make_zone("lab"), make_pool("lab"))
    assert found == "zone lab: kind timeshare, but the zone was created with auction"


def test_a_zone_keeps_what_its_log_has_of_what_was_a_setting_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_file([make_zone(), edge_entry("sites")])
    facts = SiteDatasets({"a": 50}, DataSize(50, TOKENS))

    def sold(served: Served) -> list[Any]:
        sites = served.service.zones["sites"].actor.submit(lambda zone: zone.supply).result(60)
        auction = served.ask(lambda zone: zone.supply)
        rows = sites.chunk_rows(facts)
        return [auction.sample_tokens, auction.cluster, sites.market, sites.params, rows]

    prices = ErisParams("paper", edge_entry().pricing.reserve_value, 0.5, 2.0)
    with monkeypatch.context() as patch, edge_constants():
        patch.setattr(kind, "SAMPLE_TOKENS", 32.0)
        patch.setattr(EdgeConfig, "params", property(lambda _: prices))
        with serving(tmp_path / "data", file) as served:
            first = sold(served)
    assert (first[0], first[3].pricing, first[4]) == (32.0, "paper", 4)
    with serving(tmp_path / "data", file) as served:
        assert sold(served) == first
    with serving(tmp_path / "new", file) as served:
        assert all(now != then for now, then in zip(sold(served), first, strict=True))


def test_settings_that_no_plan_rests_on_may_change(tmp_path: Path) -> None:
    created = make_zone()
    changed = created.model_copy(update={"max_length": created.max_length // 2})
    for entry in (created, changed):
        with serving(tmp_path / "data", make_file([entry])) as served:
            zone = served.service.zones["default"]
            assert zone.actor.submit(lambda zone: zone.model.seq).result(60) > 0
