"""What `auctune init` writes: valid as it is, and with each setting that it leaves out."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from auctune.domain import InputError
from auctune.service.accounts.registry import NO_TERMS
from auctune.service.config.auction import AuctionConfig, NodeConfig, NodeTypeConfig
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.generator import template, to_toml, update_page
from auctune.service.config.models import (
    FIRST_TERMS,
    KeyConfig,
    LimitsConfig,
    ServiceConfig,
    UserConfig,
    WebhooksConfig,
    read_config,
)
from auctune.service.config.spot import SpotConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.vendors import BuiltinVendorConfig, VendorConfig
from auctune.service.settings_check import check_service
from support.spot_files import daily_market, write_market

ROOT = Path(__file__).resolve().parents[4]
LINES = template().splitlines()
SETTINGS = [index for index, line in enumerate(LINES) if re.match(r"#\w+ = ", line)]
# From here on whole tables are left out, each behind its own header.
FIRST_TABLE = next(index for index, line in enumerate(LINES) if line.startswith("#[["))
LEFT_OUT = [index for index in SETTINGS if index < FIRST_TABLE]
IN_TABLES = [index for index in SETTINGS if index > FIRST_TABLE]
# Parameters of other prices than the default ones.
OF_PRICING = {"pricing", "compute_low", "compute_high", "memory_low", "memory_high"}
# Exactly one of them is given.
SOURCES = {"secret_variable", "secret_file", "sha256", "token_variable", "token_file"}
REQUIRED = {"url", "market"}
# Keys that are refused without another one.
ON_RAY = {"ray", "resource"}


def name_of(index: int) -> str:
    return LINES[index].lstrip("#").partition(" = ")[0]


def is_example(index: int) -> bool:
    """Whether the comment above a setting says that it shows an example, not the default."""
    while index in SETTINGS:
        index -= 1
    return LINES[index].endswith(("Example:", "Examples:"))


def read(lines: list[str], folder: Path) -> ServiceConfig:
    path = folder / "auctune.toml"
    path.write_text("\n".join(lines) + "\n")
    return read_config(path)


def with_settings(*indices: int) -> list[str]:
    """The template with some settings, and with what these settings require."""
    chosen, text = set(indices), "\n"
    for index in indices:
        if name_of(index) == "power_kw":
            chosen.add(next(i for i in LEFT_OUT if name_of(i) == "energy_price"))
        if name_of(index) == "resource":
            chosen.add(next(i for i in LEFT_OUT if name_of(i) == "ray"))
        if name_of(index) in ON_RAY and index in LEFT_OUT:
            text = '\nexecutor = "ray"\n'
        elif name_of(index) in ON_RAY and LINES[index].count("missing_seconds"):
            text = '\nprovider = "ray"\n'
    lines = [line[1:] if number in chosen else line for number, line in enumerate(LINES)]
    key = text.partition(" = ")[0].strip()
    if not key:
        return lines
    (place,) = [i for i in SETTINGS if name_of(i) == key]
    return [*lines[:place], text.strip(), *lines[place + 1 :]]


def table_of(index: int) -> list[int]:
    """The header and the settings of the table that a setting is in."""
    headers = [i for i, line in enumerate(LINES) if line.startswith("#[[")]
    begin = max(i for i in headers if i < index)
    end = min((i for i in headers if i > index), default=len(LINES))
    return [begin, *(i for i in IN_TABLES if begin < i < end)]


def smallest_tables() -> list[int]:
    """All tables that are left out, with the settings that they require."""
    required = []
    for header in [i for i, line in enumerate(LINES) if line.startswith("#[[")]:
        settings = table_of(header + 1)[1:]
        names = REQUIRED | ({"name"} if LINES[header] == "#[[zones]]" else set())
        sources = [i for i in settings if name_of(i) in SOURCES]
        chosen = [i for i in settings[1:] if name_of(i) in names]
        required += [header, settings[0], *chosen, *sources[:1]]
    return required


def test_as_it_is_it_holds_the_defaults(tmp_path: Path) -> None:
    config = read(LINES, tmp_path)
    (zone,) = config.zones
    assert isinstance(zone, AuctionConfig)
    assert zone.auction == {"mechanism": "pdftsp"}
    bare = zone.model_copy(update={"auction": {}})
    assert config.default_terms == FIRST_TERMS
    changes = {"zones": [bare], "default_terms": NO_TERMS}
    assert config.model_copy(update=changes) == read(["[[zones]]"], tmp_path)


@pytest.mark.parametrize("index", LEFT_OUT, ids=lambda index: f"line {index + 1}")
def test_each_setting_that_is_left_out_is_valid_and_shows_its_default_unless_it_is_an_example(
    index: int, tmp_path: Path
) -> None:
    is_other = is_example(index) or name_of(index) in OF_PRICING
    found, before = read(with_settings(index), tmp_path), read(LINES, tmp_path)
    assert (found == before) == (not is_other)


@pytest.mark.parametrize("index", IN_TABLES, ids=lambda index: f"line {index + 1}")
def test_each_setting_of_a_table_that_is_left_out_is_valid_and_shows_its_default(
    index: int, tmp_path: Path
) -> None:
    name, chosen = name_of(index), set(smallest_tables())
    before = read(with_settings(*chosen), tmp_path)
    if name in SOURCES:
        chosen -= {i for i in table_of(index) if name_of(i) in SOURCES}
    found = read(with_settings(*chosen, index), tmp_path)
    if index not in smallest_tables():
        assert (found == before) == (not is_example(index))


def test_all_settings_together_are_valid(tmp_path: Path) -> None:
    named: dict[tuple[int, str], int] = {}
    for index in LEFT_OUT:
        table = sum(line.startswith("[") for line in LINES[:index])
        # Of two examples of one setting the first, one way to say what energy costs, and one place
        # of W&B's key.
        if name_of(index) not in ("energy_cost", "executor", "key_variable"):
            named.setdefault((table, name_of(index)), index)
    config = read(with_settings(*named.values(), *smallest_tables()), tmp_path)
    zone = config.zones[0]
    assert isinstance(zone, AuctionConfig)
    assert config.model_fields_set == set(ServiceConfig.model_fields)
    assert zone.model_fields_set == set(AuctionConfig.model_fields)


def test_zones_of_other_kinds_can_be_opened_as_they_are_shown(tmp_path: Path) -> None:
    tables = [i for i, line in enumerate(LINES) if line == "#[[zones]]"]
    chosen = [
        i
        for header in tables
        for i in (header, *table_of(header + 1)[1:])
        if i == header or not is_example(i)
    ]
    config = read(with_settings(*chosen), tmp_path)
    assert [zone.kind for zone in config.zones] == ["auction", "spot", "timeshare", "edge"]
    market = daily_market(200, 60.0, period=48)
    with pytest.raises(InputError, match=r"market\.csv"):
        check_service(config)
    write_market(tmp_path / "market.csv", market, 1.0)
    check_service(config)


def test_a_line_that_is_not_a_setting_is_a_comment() -> None:
    for index, line in enumerate(LINES):
        is_setting = index in SETTINGS or line.startswith("#[[")
        assert is_setting or not line.startswith("#") or line.startswith("# "), line


@pytest.mark.parametrize(
    "model",
    [
        ServiceConfig, LimitsConfig, WebhooksConfig, AuctionConfig, NodeTypeConfig, NodeConfig,
        BuiltinVendorConfig, VendorConfig, SpotConfig, TimeshareConfig, EdgeConfig, UserConfig,
        KeyConfig,
    ],
)  # fmt: skip
def test_every_key_is_shown_and_described(model: type[BaseModel]) -> None:
    shown = {match[1] for line in LINES if (match := re.match(r"#?(\w+) = ", line))}
    shown |= {match[1] for line in LINES if (match := re.match(r"#?\[+(?:zones\.)?(\w+)", line))}
    assert set(model.model_fields) <= shown
    assert all(field.description for field in model.model_fields.values())


def test_a_profile_path_starts_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (index,) = [i for i in LEFT_OUT if LINES[i].startswith("#profile")]
    (zone,) = read(with_settings(index), tmp_path).zones
    assert isinstance(zone, AuctionConfig)
    assert zone.node_types["local"].profile == str(tmp_path / "profile.json")


def test_a_mistyped_setting_is_named_by_its_place(tmp_path: Path) -> None:
    lines = [line.replace("#energy_cost", "energy_cots") for line in LINES]
    with pytest.raises(InputError, match=r"zones\[0\]\.node_types\.local\.energy_cots"):
        read(lines, tmp_path)


def test_values_are_written_as_toml() -> None:
    value = {"a": [1, 20_000, 0.5], "b": True, "c": 'x "y"', "d": {}}
    assert to_toml(value) == '{ a = [1, 20_000, 0.5], b = true, c = "x \\"y\\"", d = {} }'


def test_generating_the_tables_of_the_reference_page_again_changes_nothing() -> None:
    page = (ROOT / "docs/reference/auctune-toml.md").read_text()
    assert update_page(page) == page
