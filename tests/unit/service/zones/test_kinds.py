"""Kinds of zones, found by their names."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.files.device_profile import write_profile
from auctune.service.config.models import AnyZone, read_config
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.storage.event_log import EventType
from auctune.service.zones.auction.state import AuctionEventType
from auctune.service.zones.core.worker import DataDirs
from auctune.service.zones.edge.state import EdgeEventType
from auctune.service.zones.kinds import KINDS, check_service, find_kind
from auctune.service.zones.spot.kind import instance_settings
from auctune.service.zones.spot.state import SpotEventType
from auctune.service.zones.timeshare.kind import pool_settings
from auctune.service.zones.timeshare.state import TimeshareEventType
from support.packages import install
from support.serving import SLOT_SECONDS
from support.spot_zones import spot_zone
from support.zones import made_up_profile

EDGE_SITES = 'slots = 20\nsites = [{ id = "north", capacity = { cpu = 2.0 } }]\n'


def test_each_kind_that_settings_may_name_is_one_that_can_be_opened() -> None:
    (by_kind,) = AnyZone.__metadata__  # type: ignore[attr-defined]
    assert by_kind.models == {name: kind.config for name, kind in KINDS.items()}
    fields = {name: model.model_fields["kind"] for name, model in by_kind.models.items()}
    assert all(field.default == name for name, field in fields.items())


def test_adapters_of_metered_zones_compute_as_the_settings_say(tmp_path: Path) -> None:
    dirs = DataDirs(tmp_path, tmp_path)
    pool = TimeshareConfig(gradient_checkpointing=2)
    assert pool_settings(pool, dirs).gradient_checkpointing == 2
    assert pool_settings(TimeshareConfig(), dirs).gradient_checkpointing == 0
    rented = spot_zone(tmp_path)
    assert instance_settings(rented, dirs).gradient_checkpointing == 0
    again = rented.model_copy(update={"gradient_checkpointing": 2})
    assert instance_settings(again, dirs).gradient_checkpointing == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_must_be_measured_as_its_zone_computes(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "profile.json"
    profile = made_up_profile()
    write_profile(replace(profile, origin=replace(profile.origin, gradient_checkpointing=2)), file)
    needs = {"spot": 'market = "market.csv"\n', "edge": EDGE_SITES}.get(kind, "")
    if kind == "spot":
        market = spot_zone(tmp_path, name="market")
        needs += f"on_demand_price = {market.on_demand_price}\nslot_seconds = {SLOT_SECONDS}\n"
    given = f'profile = "{file}"\n'
    if kind == "auction":
        nodes = 'nodes = [{ id = "a", type = "local" }]'
        given = f'node_types.local = {{ profile = "{file}" }}\n{nodes}\n'
    for every, is_same in ((2, True), (0, False)):
        more = f"gradient_checkpointing = {every}\n{needs}{given}"
        config = read_config(write_zone(tmp_path, kind, more))
        if is_same:
            check_service(config)
            continue
        message = r"profile\.json: was measured with gradient_checkpointing = 2; "
        with pytest.raises(InputError, match=message + "expected gradient_checkpointing = 0"):
            check_service(config)


@pytest.mark.parametrize("kind", KINDS)
def test_owners_are_shown_decisions_and_failures_but_not_the_beginning_of_slots(kind: str) -> None:
    messages = KINDS[kind].projection.messages
    assert {EventType.DECIDED, EventType.FAILED} <= set(messages)
    assert EventType.SLOT_STARTED not in messages


def test_no_kind_calls_an_event_of_its_own_as_all_kinds_call_another() -> None:
    for own in (AuctionEventType, SpotEventType, TimeshareEventType, EdgeEventType):
        assert not set(map(str, EventType)) & set(map(str, own))


KIND = """
from typing import Literal
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.core.kind import ZoneKind

class Config(ZoneConfig):
    kind: Literal["barter"] = "barter"
    base: str = "tiny"
    goods: int = 1

class Kind(ZoneKind):
    config = Config

ENTRY = Kind()
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    find_kind.cache_clear()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write_zone(folder: Path, kind: str, more: str = "") -> Path:
    file = folder / "auctune.toml"
    file.write_text(f'[[zones]]\nkind = "{kind}"\n{more}')
    return file


def offer(folder: Path, package: str, name: str, source: str = KIND) -> None:
    install(folder, package, source, name, group="auctune.zone_kinds")


def test_the_settings_of_an_installed_kind_are_checked_by_its_own_model(packages: Path) -> None:
    offer(packages, "barter_one", "barter")
    config = read_config(write_zone(packages, "barter", "goods = 3\n"))
    (zone,) = config.zones
    assert (zone.kind, zone.model_dump()["goods"]) == ("barter", 3)
    check_service(config)
    for more, message in (
        ("price = 2\n", r"zones\[0\].price: is an unknown key; expected .*slot_seconds, goods$"),
        ('goods = "x"\n', r"zones\[0\].goods: 'x'; expected a valid integer"),
    ):
        with pytest.raises(InputError, match=message):
            read_config(write_zone(packages, "barter", more))


def test_an_unknown_kind_is_refused_with_the_names_of_all_kinds(packages: Path) -> None:
    offer(packages, "barter_two", "barter")
    expected = r"zones\[0\].kind: 'gift' is unknown; expected one of auction, .*, edge, barter$"
    with pytest.raises(InputError, match=expected):
        read_config(write_zone(packages, "gift"))


def test_a_package_cannot_replace_a_kind_of_auctune(packages: Path) -> None:
    offer(packages, "usurper_kind", "auction")
    config = read_config(write_zone(packages, "auction"))
    with pytest.raises(InputError, match="offered by auctune and by usurper_kind"):
        check_service(config)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", r"cannot be loaded \(ZeroDivisionError: "),
        ("ENTRY = 7", "has config None; expected a subclass of ZoneConfig"),
        (f"{KIND}\nclass Other:\n    config = Config\nENTRY = Other()", "is Other; expected"),
    ],
    ids=["fails", "no settings", "another object"],
)
def test_what_is_not_a_kind_is_refused_with_its_package(
    packages: Path, source: str, message: str, request: pytest.FixtureRequest
) -> None:
    package = f"odd_kind_{request.node.callspec.indices['source']}"
    offer(packages, package, "barter", source)
    with pytest.raises(InputError, match=rf"kind: 'barter' of {package} 1.0 .*{message}"):
        check_service(read_config(write_zone(packages, "barter")))


@pytest.mark.slow
def test_settings_without_such_a_kind_load_no_package(packages: Path) -> None:
    offer(packages, "loud_kind", "barter", "raise SystemExit('loaded')")
    file = write_zone(packages, "auction")
    code = (
        "from pathlib import Path; from auctune.service.config.models import read_config; "
        f"read_config(Path({str(file)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=packages, check=True)
