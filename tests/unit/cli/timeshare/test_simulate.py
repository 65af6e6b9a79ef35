"""`auctune timeshare` on small files: figures are those of the mechanisms, errors name a place."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from auctune.registry.policies import TIMESHARE_ALLOCATORS
from auctune.sim.timeshare.bundle_file import bundle_of_file, read_bundle_file
from auctune.sim.timeshare.recorded import read_curves
from auctune.sim.timeshare.table_bundles import draw_bundle
from auctune.timeshare import (
    Allocator,
    Exploration,
    Laira,
    Ls,
    Planner,
    Rollout,
    Wls,
    lara,
)
from support.timeshare_files import write_bundle, write_curves

Ask = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def ask(auctune: Ask, tmp_path: Path) -> Ask:
    """`auctune timeshare NAME` on made-up curves."""
    curves = write_curves(tmp_path / "curves")
    write_bundle(tmp_path / "bundle.toml")

    def run(name: str, *more: str | Path) -> tuple[int, str, list[str]]:
        return auctune("timeshare", name, *more, "--curves", curves)

    return run


def test_simulate_shows_and_writes_what_the_allocator_does(ask: Ask, tmp_path: Path) -> None:
    path, out = tmp_path / "bundle.toml", tmp_path / "units.parquet"
    code, shown, errors = ask("simulate", path, "--allocator", "rollout", "--out", out)
    assert (code, errors) == (0, [])
    file = read_bundle_file(path)
    bundle = bundle_of_file(file, read_curves(tmp_path / "curves"), path)
    outcome = bundle.play(Rollout())
    best = bundle.optimum().num_done
    assert f"{outcome.num_done} of 3 done, clairvoyant optimum {best}" in shown
    assert pl.read_parquet(out)["share"].to_list() == outcome.shares.ravel().tolist()
    code, shown, _ = ask("simulate", path)
    assert code == 0
    assert lara(Exploration(batches=30.0)).name in shown


def test_compare_shows_and_writes_all_allocators_on_drawn_bundles(ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "comparison.parquet"
    code, shown, _ = ask("compare", "--threads", "4", "--bundles", "3", "--seed", "7", "--out", out)
    assert code == 0
    frame = pl.read_parquet(out)
    assert frame.height == 3 * len(TIMESHARE_ALLOCATORS.names())
    bundle = draw_bundle(read_curves(tmp_path / "curves"), 4, 7, index=1)
    own = frame.filter(pl.col("bundle") == bundle.name, pl.col("allocator") == Rollout().name)
    assert own["done"].to_list() == [bundle.play(Rollout()).num_done]
    for name in TIMESHARE_ALLOCATORS.names():
        assert f" {name} " in shown


def test_compare_takes_a_file_or_a_bundle_of_the_tables(ask: Ask, tmp_path: Path) -> None:
    two = ("--allocator", "uniform", "--allocator", "lara:estimator=ls")
    code, shown, _ = ask("compare", "--bundle", tmp_path / "bundle.toml", *two)
    assert code == 0
    assert "1 bundle;" in shown
    code, shown, _ = ask("compare", "--bundle", "pure", *two)
    assert code == 0
    assert "1 bundle;" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "--threads", "0"), "--threads: 0; expected"),
        (("compare", "--bundles", "0"), "--bundles: 0; expected"),
        (("compare", "--seed", "-1"), "--seed: -1; expected"),
        (("compare", "--allocator", "best"), "--allocator: 'best' is not offered"),
        (
            ("compare", "--allocator", "stf", "--allocator", "stf"),
            "--allocator: stf is given twice",
        ),
        (("compare", "--allocator", "lara:gamma=2"), "--allocator lara:gamma=2: gamma: 2.0"),
        (("compare", "--allocator", "stf:x=1"), "--allocator stf:x=1: x: is not a setting"),
        (("compare", "--bundle", "none.toml"), "none.toml: cannot be read"),
    ],
)
def test_what_is_wrong_is_named(ask: Ask, arguments: tuple[str, ...], message: str) -> None:
    code, shown, errors = ask(*arguments)
    assert (code, shown) == (2, "")
    assert message in errors[0]


def test_no_command_writes_over_its_bundle(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bundle.toml"
    before = path.read_text()
    assert ask("simulate", path, "--out", path)[0] == 2
    assert path.read_text() == before


def made(name: str, settings: dict[str, str]) -> Allocator:
    return TIMESHARE_ALLOCATORS.build(name, settings)


def test_names_stand_for_allocators_with_their_settings() -> None:
    assert made("lara", {}) == lara()
    assert made("rollout", {}) == Rollout()
    settings = {"estimator": "ls", "exploration": "0.2"}
    assert made("lara", settings) == Planner(Ls(), Exploration(share=0.2))
    settings = {"exploration": "0.2", "unit": "time"}
    assert made("lara", settings) == lara(Exploration(share=0.2, unit="time"))
    settings = {"estimator": "wls", "gamma": "0.8", "spread": "0.7"}
    assert made("rollout", settings) == Rollout(Wls(0.8), spread=0.7)
    assert made("laira", {"look_ahead": "false"}) == Laira(look_ahead=False)
    assert len({made(name, {}) for name in TIMESHARE_ALLOCATORS.names()}) == 11
