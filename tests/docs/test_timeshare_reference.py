"""The reference of files for time sharing against the models that read them."""

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import BaseModel

from auctune.sim.timeshare import bundle_file
from auctune.sim.timeshare.bundle_file import BundleFile
from auctune.sim.timeshare.recorded import COLUMNS, CurveEntry
from auctune.timeshare.named import ALLOCATORS
from support.pages import blocks, default_of, rows

PAGE = Path("docs/reference/timeshare-files.md")
COMMAND_LINE = Path("docs/reference/command-line.md")


def table(heading: str, page: Path = PAGE) -> dict[str, str]:
    found = {row.codes()[0]: row.cells[1] for row in rows(page) if row.heading == heading}
    assert found, heading
    return found


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("[pool]", bundle_file.PoolEntry),
        ("[lara]", bundle_file.LaraEntry),
        ("[[thread]]", bundle_file.ThreadEntry),
    ],
)
def test_each_table_lists_its_keys_with_their_defaults(
    heading: str, model: type[BaseModel]
) -> None:
    check(table(heading), model)


def check(shown: dict[str, str], model: type[BaseModel]) -> None:
    assert list(shown) == list(model.model_fields)
    for key, field in model.model_fields.items():
        if field.is_required():
            assert shown[key] == "required", key
        else:
            assert default_of(shown[key]) == field.get_default(call_default_factory=True), key


def test_curves_are_listed_with_keys_and_columns() -> None:
    shown = table("Recorded curves")
    columns = {key: shown.pop(key) for key in COLUMNS}
    assert list(columns) == list(COLUMNS)
    check(shown, CurveEntry)


def test_the_file_shown_can_be_read() -> None:
    (block,) = blocks(PAGE, "toml")
    file = BundleFile.model_validate(tomllib.loads(block.text))
    assert [entry.name for entry in file.thread] == ["first", "second"]


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_each_allocator_is_listed_with_its_settings() -> None:
    shown = table("Allocators", COMMAND_LINE)
    assert list(shown) == list(ALLOCATORS)
    for name, entry in ALLOCATORS.items():
        wanted = [
            field.name if field.default is None else f"{field.name}={as_text(field.default)}"
            for field in fields(entry.settings)
        ]
        if shown[name] == "those of `lara`":
            wanted, shown[name] = [], ""
        assert [text.strip("` ") for text in shown[name].split(",") if text] == wanted, name
