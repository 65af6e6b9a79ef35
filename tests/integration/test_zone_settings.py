"""Settings of a zone that change between two starts of its service."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.config.zone import ZoneConfig
from support.edge_zones import edge_entry
from support.serving import make_file, make_pool, make_zone, serving
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


@pytest.mark.parametrize(("setting", "value"), [("chunk_mb", 1.0), ("rows_move", False)])
def test_how_rows_move_in_an_edge_zone_does_not_change(
    tmp_path: Path, setting: str, value: float
) -> None:
    created = edge_entry()
    changed = created.model_copy(update={setting: value})
    found = refused(tmp_path, created, changed)
    assert found.startswith(f"zone {created.name}: {setting} {value}, but")


def test_the_start_of_a_replayed_market_does_not_change(tmp_path: Path) -> None:
    created = spot_zone(tmp_path)
    assert created.start is not None
    changed = created.model_copy(update={"start": created.start + 1})
    assert refused(tmp_path, created, changed).startswith(f"zone {created.name}: start")


def test_a_zone_does_not_become_one_of_another_kind(tmp_path: Path) -> None:
    found = refused(tmp_path, make_zone("lab"), make_pool("lab"))
    assert found == "zone lab: kind timeshare, but the zone was created with auction"


def test_settings_that_no_plan_rests_on_may_change(tmp_path: Path) -> None:
    created = make_zone()
    changed = created.model_copy(update={"max_length": created.max_length // 2})
    for entry in (created, changed):
        with serving(tmp_path / "data", make_file([entry])) as served:
            zone = served.service.zones["default"]
            assert zone.actor.submit(lambda zone: zone.model.seq).result(60) > 0
