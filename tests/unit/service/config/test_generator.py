"""What `auctune init` writes, and the tables of the reference page."""

import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.accounts.registry import NO_TERMS
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.generator import (
    TABLES,
    StarterAnswers,
    reference_table,
    starter_file,
    to_toml,
    update_page,
)
from auctune.service.config.models import FIRST_TERMS, ServiceConfig, read_config
from auctune.service.zones.kinds import check_bases, check_service

ROOT = Path(__file__).resolve().parents[4]
LINES = starter_file(StarterAnswers()).splitlines()
LEFT_OUT = re.compile(r"#(\w+ = |\[)")


def read(lines: list[str], folder: Path) -> ServiceConfig:
    path = folder / "auctune.toml"
    path.write_text("\n".join(lines) + "\n")
    return read_config(path)


def uncommented() -> list[str]:
    """The starter file with all that it leaves out."""
    return [line[1:] if LEFT_OUT.match(line) else line for line in LINES]


def test_the_starter_file_holds_the_defaults_and_the_first_terms(tmp_path: Path) -> None:
    config = read(LINES, tmp_path)
    assert config.default_terms == FIRST_TERMS
    bare = config.model_copy(update={"default_terms": NO_TERMS})
    assert bare == read(["[[zones]]"], tmp_path)
    check_service(config)


def test_what_the_starter_file_leaves_out_is_valid(tmp_path: Path) -> None:
    config = read(uncommented(), tmp_path)
    (zone,), (user,) = config.zones, config.users
    assert isinstance(zone, AuctionConfig)
    assert zone.mechanism == ("pdftsp", {"pricing": "exponential"})
    assert (user.name, user.budget, user.budget_days) == ("ada", Decimal(100), 30.0)
    check_service(config)


@pytest.mark.parametrize("devices", [("cpu",), ("cuda:0",), ("cuda:1",), ("cuda:0", "cuda:1")])
@pytest.mark.parametrize("base", ["tiny", 'models/é "1b"', "hub:org/model"])
def test_all_answers_are_valid_settings(
    tmp_path: Path, devices: tuple[str, ...], base: str
) -> None:
    folder = tmp_path / base
    folder.mkdir(parents=True)
    answers = StarterAnswers(devices, base, slot_seconds=0.1 + 0.2, currency="EUR")
    lines = starter_file(answers).splitlines()
    config = read(lines, tmp_path)
    check_service(config)
    check_bases(config)
    (zone,) = config.zones
    assert isinstance(zone, AuctionConfig)
    assert (zone.base, zone.slot_seconds) == (base, answers.slot_seconds)
    assert zone.dtype == ("float32" if "cpu" in devices or base == "tiny" else "bfloat16")
    assert tuple(zone.node_types[node.type].device for node in zone.nodes) == devices
    assert len({node.id for node in zone.nodes}) == len(devices)
    assert config.billing.currency == "EUR"


def test_the_starter_file_is_short_and_explains_each_table() -> None:
    assert len(LINES) < 50
    for before, line in pairwise(LINES):
        assert not line.startswith(("[", "#[")) or before.startswith("# "), line
        # A line that is neither a setting nor a header is a comment.
        assert not line.startswith("#") or line.startswith("# ") or LEFT_OUT.match(line), line


def test_a_mistyped_setting_is_named_by_its_place(tmp_path: Path) -> None:
    lines = [line.replace("energy_cost", "energy_cots") for line in LINES]
    with pytest.raises(InputError, match=r"zones\[0\]\.node_types\.local\.energy_cots"):
        read(lines, tmp_path)


@pytest.mark.parametrize("heading", list(TABLES))
def test_every_key_is_described(heading: str) -> None:
    assert "| None |" not in reference_table(TABLES[heading])


def test_values_are_written_as_toml() -> None:
    value = {"a": [1, 20_000, 0.5], "b": True, "c": 'x "y"', "d": {}}
    assert to_toml(value) == '{ a = [1, 20_000, 0.5], b = true, c = "x \\"y\\"", d = {} }'


def test_generating_the_tables_of_the_reference_page_again_changes_nothing() -> None:
    page = (ROOT / "docs/reference/auctune-toml.md").read_text()
    assert update_page(page) == page
