"""The reference's tables against the code that they speak of."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from auctune.auction import PdftspParams
from auctune.domain import Decision, Reason
from auctune.domain.training import PARAMETERS
from auctune.engine.market.market_file import (
    BidEntry,
    MarketFile,
    NodeEntry,
    NodeTypeEntry,
    VendorEntry,
)
from auctune.service.config.generator import TABLES, reference_table
from auctune.sim.result_file import decision_json
from auctune.standalone.results import receipt_record
from support.command_line import all_commands
from support.pages import Row, rows
from support.sample_report import make_report
from support.training_page import page

MARKET_FILE = Path("docs/reference/market-file.md")
RUN_FOLDER = Path("docs/reference/run-folder.md")
TRAINING = Path("docs/reference/training-settings.md")
COMMAND_LINE = Path("docs/reference/command-line.md")
SERVICE_FILE = Path("docs/reference/auctune-toml.md")
COMMANDS = all_commands()


def table(page: Path, heading: str) -> list[Row]:
    found = [row for row in rows(page) if row.heading == heading]
    assert found, f"{page} has no table under {heading!r}"
    return found


def documented(page: Path, heading: str) -> list[str]:
    return [key for row in table(page, heading) for key in row.codes()]


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("Top level", MarketFile),
        ("[node_types.NAME]", NodeTypeEntry),
        ("[[nodes]]", NodeEntry),
        ("[[vendors]]", VendorEntry),
        ("[[bids]]", BidEntry),
    ],
)
def test_market_file_lists_each_key_with_its_default(heading: str, model: type[BaseModel]) -> None:
    shown = {key: row.cells[2] for row in table(MARKET_FILE, heading) for key in row.codes()}
    own = {key: field for key, field in model.model_fields.items() if key not in PARAMETERS}
    assert list(shown) == list(own)
    for key, field in own.items():
        if field.is_required():
            assert shown[key] == "required", key
        else:
            assert read_default(shown[key]) == plain(field.get_default(call_default_factory=True))


@pytest.mark.parametrize("heading", list(TABLES))
def test_auctune_toml_has_the_table_that_is_generated_from_the_fields(heading: str) -> None:
    command = f"python -m auctune.service.config.generator {SERVICE_FILE}"
    shown = [list(row.cells) for row in table(SERVICE_FILE, heading)]
    lines = reference_table(TABLES[heading]).splitlines()[2:]
    assert shown == [[cell.strip() for cell in line.strip("|").split("|")] for line in lines], (
        command
    )


def test_training_settings_are_the_page_that_is_generated_from_their_declaration() -> None:
    command = f"python tests/support/training_page.py > {TRAINING}"
    assert TRAINING.read_text() == page(), command


def test_market_file_lists_each_setting_of_the_auction_with_its_default() -> None:
    shown = {key: row.cells[2] for row in table(MARKET_FILE, "[auction]") for key in row.codes()}
    defaults = {field.name: field.default for field in fields(PdftspParams)}
    assert {key: read_default(text) for key, text in shown.items()} == defaults


def read_default(cell: str) -> object:
    if cell == "none":
        return None
    return tomllib.loads(f"value = {cell.strip('`')}")["value"]


def plain(default: object) -> object:
    return list(default) if isinstance(default, tuple) else default


@pytest.mark.parametrize("name", list(COMMANDS))
def test_command_line_lists_each_option_with_its_default(name: str) -> None:
    shown = {
        key: row.cells[1] for row in table(COMMAND_LINE, f"auctune {name}") for key in row.codes()
    }
    options = {option_name(parameter): parameter for parameter in COMMANDS[name].params}
    assert shown.keys() == options.keys()
    for key, parameter in options.items():
        if shown[key] == "required":
            assert parameter.default is None, key
        elif shown[key] == "off":
            assert parameter.default is False, key
        elif shown[key] == "none":
            assert parameter.default is None, key
        else:
            assert shown[key].strip("`") == str(parameter.default), key


@pytest.mark.parametrize("name", list(COMMANDS))
def test_command_line_says_of_an_option_what_its_help_says(name: str) -> None:
    helps = {option_name(parameter): parameter.help for parameter in COMMANDS[name].params}
    for row in table(COMMAND_LINE, f"auctune {name}"):
        meaning = row.cells[2]
        # With code or a link in it, a page may say more.
        if "`" not in meaning and "](" not in meaning:
            (key,) = row.codes()
            assert plain_text(meaning) == plain_text(helps[key]), key


def plain_text(text: str) -> str:
    text = text.replace(". Default: ", "; default: ").replace("\\|", "|")
    return text.removesuffix(".").casefold() if not text.endswith("...") else text.casefold()


def option_name(parameter: Any) -> str:
    if parameter.opts[0].startswith("-"):
        return str(parameter.opts[0])
    return str(parameter.name).upper()


def test_run_folder_lists_the_keys_of_a_decision() -> None:
    decision = Decision("job", admitted=False, reason=Reason.NO_CAPACITY)
    assert documented(RUN_FOLDER, "decisions.jsonl") == list(decision_json(decision))
    (reasons,) = [row for row in table(RUN_FOLDER, "decisions.jsonl") if row.codes() == ("reason",)]
    assert set(reasons.codes(1)) == set(Reason)


def test_run_folder_lists_the_keys_of_a_receipt() -> None:
    assert documented(RUN_FOLDER, "receipt.json") == list(receipt_record(make_report().tasks[0]))


def test_run_folder_lists_the_keys_of_a_report() -> None:
    report = make_report().to_json()
    assert documented(RUN_FOLDER, "report.json") == list(report)
    (totals,) = [row for row in table(RUN_FOLDER, "report.json") if row.codes() == ("totals",)]
    assert list(totals.codes(1)) == list(report["totals"])
