"""What `auctune init` writes: true as it is, and with each setting that it leaves out."""

import re
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.settings.access_entries import KeyEntry, UserEntry
from auctune.service.settings.auction_entry import AuctionEntry, NodeTypeEntry
from auctune.service.settings.check import check_service
from auctune.service.settings.service_file import (
    LimitsEntry,
    ServiceFile,
    WebhooksEntry,
    read_service_file,
)
from auctune.service.settings.template import TEMPLATE
from auctune.service.settings.vendor_entries import HouseEntry, VendorEntry
from support.spot_files import daily_market, write_market

LINES = TEMPLATE.splitlines()
SETTINGS = [index for index, line in enumerate(LINES) if re.match(r"#\w+ = ", line)]
# From here on whole tables are left out, each behind its own heading.
TABLES = next(index for index, line in enumerate(LINES) if line.startswith("#[["))
LEFT_OUT = [index for index in SETTINGS if index < TABLES]
IN_TABLES = [index for index in SETTINGS if index > TABLES]
# Their values are examples; or a choice of the machine's, or of another pricing.
EXAMPLES = {"database", "public_url", "slots", "threads", "languages", "pricing", "profile"}
EXAMPLES |= {"energy_price", "power_kw", "budget", "executor", "ray", "resource"}
EXAMPLES |= {"market_slot_seconds", "trusted_proxies"}
# What can only be said with another setting.
NEEDS = {"power_kw": "energy_price", "ray": "executor", "resource": "executor"}
OF_PRICING = {"compute_low", "compute_high", "memory_low", "memory_high"}
OTHER_KINDS = ["spot", "timeshare", "edge"]
# Only one of them can be said.
SOURCES = {"secret_variable", "secret_file", "sha256"}


def name_of(index: int) -> str:
    return LINES[index].lstrip("#").partition(" = ")[0]


def read(lines: list[str], folder: Path) -> ServiceFile:
    path = folder / "auctune.toml"
    path.write_text("\n".join(lines) + "\n")
    return read_service_file(path)


def with_settings(*indices: int) -> list[str]:
    return [line[1:] if number in indices else line for number, line in enumerate(LINES)]


def with_setting(index: int) -> list[str]:
    needed = NEEDS.get(name_of(index))
    return with_settings(index, *[i for i in LEFT_OUT if name_of(i) == needed][:1])


def table_of(index: int) -> list[int]:
    """The heading and the settings of the table that a setting is in."""
    headings = [i for i, line in enumerate(LINES) if line.startswith("#[[")]
    begin = max(i for i in headings if i < index)
    end = min((i for i in headings if i > index), default=len(LINES))
    return [begin, *(i for i in IN_TABLES if begin < i < end)]


def least_tables() -> list[int]:
    """All tables with what they need."""
    needed = []
    for heading in [i for i, line in enumerate(LINES) if line.startswith("#[[")]:
        own = table_of(heading + 1)
        sources = [i for i in own if name_of(i) in SOURCES]
        least = {"url", "market"} | ({"name"} if LINES[heading] == "#[[zones]]" else set())
        needed += [*own[:2], *(i for i in own[2:] if name_of(i) in least), *sources[:1]]
    return needed


def test_as_it_is_it_says_what_holds_without_a_file(tmp_path: Path) -> None:
    found = read(LINES, tmp_path)
    (zone,) = found.zones
    assert isinstance(zone, AuctionEntry)
    assert zone.auction == {"mechanism": "pdftsp"}
    bare = zone.model_copy(update={"auction": {}})
    assert found.model_copy(update={"zones": [bare]}) == ServiceFile().beside(tmp_path)


@pytest.mark.parametrize("index", LEFT_OUT, ids=lambda index: f"line {index + 1}")
def test_each_setting_that_is_left_out_is_one_and_is_shown_with_its_default(
    index: int, tmp_path: Path
) -> None:
    name = name_of(index)
    found, before = read(with_setting(index), tmp_path), read(LINES, tmp_path)
    if name in EXAMPLES | OF_PRICING:
        assert found != before
    else:
        assert found == before


@pytest.mark.parametrize("index", IN_TABLES, ids=lambda index: f"line {index + 1}")
def test_each_setting_of_a_table_that_is_left_out_is_one_and_is_shown_with_its_default(
    index: int, tmp_path: Path
) -> None:
    name, chosen = name_of(index), set(least_tables())
    before = read(with_settings(*chosen), tmp_path)
    if name in SOURCES:
        chosen -= {i for i in table_of(index) if name_of(i) in SOURCES}
    found = read(with_settings(*chosen, index), tmp_path)
    if index not in least_tables():
        assert (found == before) == (name not in EXAMPLES | SOURCES)


def test_all_settings_together_are_taken(tmp_path: Path) -> None:
    named: dict[str, int] = {}
    for index in LEFT_OUT:
        # Of two examples of one setting, and of two ways to say a cost, one.
        named.setdefault("cost" if "energy_cost" in LINES[index] else name_of(index), index)
    del named["cost"]
    found = read(with_settings(*named.values(), *least_tables()), tmp_path)
    zone = found.zones[0]
    assert isinstance(zone, AuctionEntry)
    assert found.model_fields_set == set(ServiceFile.model_fields)
    assert zone.model_fields_set == set(AuctionEntry.model_fields)


def test_zones_of_other_kinds_are_opened_as_they_stand(tmp_path: Path) -> None:
    tables = [i for i, line in enumerate(LINES) if line == "#[[zones]]"]
    chosen = [i for heading in tables for i in (heading, *table_of(heading + 1)[1:])]
    found = read(with_settings(*chosen), tmp_path)
    assert [zone.kind for zone in found.zones] == ["auction", *OTHER_KINDS]
    market = daily_market(200, 1800.0, period=48)
    with pytest.raises(InputError, match=r"market\.csv"):
        check_service(found)
    write_market(tmp_path / "market.csv", market, 1.0)
    check_service(found)


def test_a_line_that_is_no_setting_explains() -> None:
    for index, line in enumerate(LINES):
        is_setting = index in SETTINGS or line.startswith("#[[")
        assert is_setting or not line.startswith("#") or line.startswith("# "), line


def test_no_setting_is_missing() -> None:
    shown = {match[1] for line in LINES if (match := re.match(r"#?(\w+) = ", line))}
    tables = {"zones", "limits", "webhooks", "users", "keys"}
    tables |= {"auction", "node_types", "nodes", "house", "vendors"}
    zones = (AuctionEntry, NodeTypeEntry, HouseEntry, VendorEntry)
    for model in (ServiceFile, LimitsEntry, WebhooksEntry, *zones, UserEntry, KeyEntry):
        missing = set(model.model_fields) - shown - tables
        assert not missing, model


def test_a_profile_lies_where_the_file_says_from_its_own_folder(tmp_path: Path) -> None:
    (index,) = [i for i in LEFT_OUT if LINES[i].startswith("#profile")]
    (zone,) = read(with_setting(index), tmp_path).zones
    assert isinstance(zone, AuctionEntry)
    assert zone.node_types["local"].profile == str(tmp_path / "profile.json")


def test_a_mistyped_setting_is_named_by_its_place(tmp_path: Path) -> None:
    lines = [line.replace("#energy_cost", "energy_cots") for line in LINES]
    with pytest.raises(InputError, match=r"zones\[0\]\.node_types\.local\.energy_cots"):
        read(lines, tmp_path)
