"""The reference of workloads against the code that it speaks of."""

import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from auctune.sim.workloads.build import KEYS, Sources
from auctune.sim.workloads.device import AssumedDevice
from auctune.sim.workloads.synthetic import SyntheticParams
from support.pages import rows

PAGE = Path("docs/reference/workloads.md")


def settings() -> dict[str, str]:
    shown = {}
    for row in rows(PAGE):
        if row.heading != "Settings":
            continue
        defaults = [part.strip() for part in row.cells[1].split(",")]
        for key, default in zip(row.codes(), defaults, strict=True):
            shown[key] = default.strip("`")
    return shown


def test_every_setting_is_listed() -> None:
    assert sorted(settings()) == sorted(KEYS)


@pytest.mark.parametrize("params", [SyntheticParams, Sources])
def test_settings_have_the_defaults_that_are_listed(
    params: type[SyntheticParams] | type[Sources],
) -> None:
    shown = settings()
    for field in fields(params):
        if field.default is MISSING:
            continue
        if isinstance(field.default, str) or field.default is None:
            assert shown[field.name] == (field.default or "none"), field.name
        else:
            found = tomllib.loads(f"value = {shown[field.name]}")["value"]
            assert found == field.default, field.name


def test_every_field_of_a_device_is_listed_in_order() -> None:
    shown = [key for row in rows(PAGE) if row.heading == "Devices" for key in row.codes()]
    assert shown == [field.name for field in fields(AssumedDevice)]
