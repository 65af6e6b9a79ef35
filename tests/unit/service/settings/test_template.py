"""What `auctune init` writes: true as it is, and with each setting that it leaves out."""

import re
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.settings.service_file import (
    LimitsEntry,
    NodeTypeEntry,
    ServiceFile,
    VendorEntry,
    ZoneEntry,
    read_service_file,
)
from auctune.service.settings.template import TEMPLATE

LINES = TEMPLATE.splitlines()
LEFT_OUT = [index for index, line in enumerate(LINES) if re.match(r"#\w+ = ", line)]
# Their values are examples; or a choice of the machine's, or of another pricing.
EXAMPLES = {"database", "slots", "threads", "languages", "pricing", "profile"}
OF_PRICING = {"compute_low", "compute_high", "memory_low", "memory_high"}


def read(lines: list[str], folder: Path) -> ServiceFile:
    path = folder / "auctune.toml"
    path.write_text("\n".join(lines) + "\n")
    return read_service_file(path)


def with_setting(index: int) -> list[str]:
    return [line[1:] if number == index else line for number, line in enumerate(LINES)]


def test_as_it_is_it_says_what_holds_without_a_file(tmp_path: Path) -> None:
    found = read(LINES, tmp_path)
    (zone,) = found.zones
    assert zone.auction == {"mechanism": "pdftsp"}
    bare = zone.model_copy(update={"auction": {}})
    assert found.model_copy(update={"zones": [bare]}) == ServiceFile()


@pytest.mark.parametrize("index", LEFT_OUT, ids=lambda index: f"line {index + 1}")
def test_each_setting_that_is_left_out_is_one_and_is_shown_with_its_default(
    index: int, tmp_path: Path
) -> None:
    name = LINES[index][1:].partition(" = ")[0]
    found, before = read(with_setting(index), tmp_path), read(LINES, tmp_path)
    if name in EXAMPLES | OF_PRICING:
        assert found != before
    else:
        assert found == before


def test_all_settings_together_are_taken(tmp_path: Path) -> None:
    databases = [index for index in LEFT_OUT if LINES[index].startswith("#database")]
    left_out = set(LEFT_OUT) - set(databases[1:])
    read([line[1:] if i in left_out else line for i, line in enumerate(LINES)], tmp_path)


def test_a_line_that_is_no_setting_explains() -> None:
    for index, line in enumerate(LINES):
        assert index in LEFT_OUT or not line.startswith("#") or line.startswith("# "), line


def test_no_setting_is_missing() -> None:
    shown = {match[1] for line in LINES if (match := re.match(r"#?(\w+) = ", line))}
    tables = {"zones", "limits", "auction", "node_types", "nodes", "vendors"}
    for model in (ServiceFile, LimitsEntry, ZoneEntry, NodeTypeEntry, VendorEntry):
        missing = set(model.model_fields) - shown - tables
        assert not missing, model


def test_a_profile_lies_where_the_file_says_from_its_own_folder(tmp_path: Path) -> None:
    (index,) = [i for i in LEFT_OUT if LINES[i].startswith("#profile")]
    (zone,) = read(with_setting(index), tmp_path).zones
    assert zone.node_types["local"].profile == str(tmp_path / "profile.json")


def test_a_mistyped_setting_is_named_by_its_place(tmp_path: Path) -> None:
    lines = [line.replace("#energy_cost", "energy_cots") for line in LINES]
    with pytest.raises(InputError, match=r"zones\[0\]\.node_types\.local\.energy_cots"):
        read(lines, tmp_path)
