"""The reference of files for renting by deadline against the models that read them."""

import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from pydantic import BaseModel

from auctune.domain.training import PARAMETERS
from auctune.sim.spot import job_file, pool_file
from auctune.sim.spot.job_file import JobFile, parse_job_file
from auctune.sim.spot.pool_file import PoolFile
from auctune.sim.spot.trace import COLUMNS, MarketRecipe
from auctune.spot import default_pool
from support.pages import blocks, default_of, rows

PAGE = Path("docs/reference/spot-files.md")


def table(heading: str) -> dict[str, str]:
    found = {row.codes()[0]: row.cells[1] for row in rows(PAGE) if row.heading == heading}
    assert found, heading
    return found


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("[job]", job_file.JobEntry),
        ("[scaling]", job_file.ScalingEntry),
        ("[overhead]", job_file.OverheadEntry),
        ("[market]", job_file.MarketEntry),
        ("[training]", job_file.TrainingEntry),
        ("[[ahap]]", pool_file.AhapEntry),
        ("[[ahanp]]", pool_file.AhanpEntry),
        ("[[up]]", pool_file.UniformProgressEntry),
        ("[[robust]]", pool_file.RobustEntry),
    ],
)
def test_each_table_lists_its_keys_with_their_defaults(
    heading: str, model: type[BaseModel]
) -> None:
    shown = table(heading)
    own = {key: field for key, field in model.model_fields.items() if key not in PARAMETERS}
    assert list(shown) == list(own)
    for key, field in own.items():
        if field.is_required():
            assert shown[key] == "required", key
        else:
            default = field.get_default(call_default_factory=True)
            plain = list(default) if isinstance(default, tuple) else default
            assert default_of(shown[key]) == plain, key


def test_each_table_of_the_files_has_a_heading() -> None:
    headings = {row.heading for row in rows(PAGE)}
    assert {f"[{name}]" for name in JobFile.model_fields} <= headings
    for name, field in PoolFile.model_fields.items():
        assert (f"[[{name}]]" in headings) != (field.annotation is bool), name


def test_columns_and_recipe_are_those_of_the_loader() -> None:
    assert list(table("Market")) == list(COLUMNS)
    shown = table("Recipe")
    recipe = {field.name: field.default for field in fields(MarketRecipe)}
    assert list(shown) == list(recipe)
    for name, default in recipe.items():
        if default is MISSING:
            assert shown[name] == "required", name
        else:
            assert default_of(shown[name]) == default, name


def test_the_files_shown_can_be_read() -> None:
    job, pool = (tomllib.loads(block.text) for block in blocks(PAGE, "toml"))
    assert parse_job_file(job, "JOB.toml").spot_job().n_max == 12
    assert PoolFile.model_validate(pool).pool() == default_pool()
