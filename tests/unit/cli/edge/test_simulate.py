"""`auctune edge` on small files: figures are those of the mechanisms, errors name their place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.edge import ErisEntry, Tiresias
from auctune.numerics.jit import compiling
from auctune.sim.edge.comparison import play
from auctune.sim.edge.decision_file import parse_edge_decision
from auctune.sim.edge.instance_file import read_edge_instance, write_edge_instance
from auctune.sim.edge.settings import make_instance, paper_testbed

INSTANCE = make_instance(paper_testbed(num_sites=3, num_jobs=4, slots=12, arrival_slots=6))

Ask = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def ask(auctune: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`auctune edge NAME` in a folder with `market.json`."""
    write_edge_instance(INSTANCE, tmp_path / "market.json")
    monkeypatch.chdir(tmp_path)

    def run(name: str, *more: str | Path) -> tuple[int, str, list[str]]:
        code, shown, errors = auctune("edge", name, *more)
        # The first run on a machine says that it compiles.
        return code, shown, [line for line in errors if line != compiling("the edge's")]

    return run


def test_make_writes_the_setting_that_was_asked_for(ask: Ask, tmp_path: Path) -> None:
    sizes = ["--set", "num_sites=3", "--set", "num_jobs=4", "--set", "slots=12"]
    more = ["--set", "arrival_slots=6", "--out", "made.json"]
    code, shown, errors = ask("make", "--setting", "testbed", *sizes, *more)
    assert (code, errors) == (0, [])
    assert shown == "made.json: 3 sites, 12 slots, 4 jobs\n"
    assert read_edge_instance(tmp_path / "made.json") == INSTANCE


def test_simulate_writes_what_the_mechanism_decides(ask: Ask, tmp_path: Path) -> None:
    files = ["--decisions", "d.jsonl", "--report", "r.json", "--charts", "charts"]
    code, shown, errors = ask("simulate", "market.json", "--bound", "lp", *files)
    assert (code, errors) == (0, [])
    played = play("eris", ErisEntry(), INSTANCE)
    lines = (tmp_path / "d.jsonl").read_text().splitlines()
    assert tuple(parse_edge_decision(json.loads(line)) for line in lines) == played.decisions
    figures = json.loads((tmp_path / "r.json").read_text())
    assert figures["welfare"] == played.welfare
    assert figures["bound"]["kind"] == "lp"
    assert f"{played.welfare:,.1f}" in shown
    assert (tmp_path / "charts" / "edge-use.svg").read_text().startswith("<svg")


def test_compare_shows_all_of_them_in_their_order(ask: Ask, tmp_path: Path) -> None:
    asked = ["--mechanism", "tiresias:workers=12", "--mechanism", "eris"]
    code, shown, errors = ask(
        "compare", "market.json", *asked, "--report", "r.json", "--charts", "charts"
    )
    assert (code, errors) == (0, [])
    figures = json.loads((tmp_path / "r.json").read_text())
    assert [one["mechanism"] for one in figures] == ["tiresias:workers=12", "eris"]
    assert figures[0]["welfare"] == play("t", Tiresias(workers=12), INSTANCE).welfare
    assert shown.index("tiresias:workers=12") < shown.index("eris ")
    assert (tmp_path / "charts" / "edge-welfare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["make", "--out", "x.json", "--setting", "lab"], "--setting: 'lab' is not offered"),
        (["make", "--out", "x.json", "--set", "num_jobs=0"], "--set num_jobs: 0; expected"),
        (["make", "--out", "x.json", "--set", "num_jobs"], "--set: 'num_jobs'; expected"),
        (["simulate", "none.json"], "none.json: the file: cannot be read"),
        (["simulate", "market.json", "--bound", "all"], "--bound: 'all' is not offered"),
        (["simulate", "market.json", "--time-limit", "0"], "--time-limit: 0.0; expected"),
        (["simulate", "market.json", "--mechanism", "x"], "--mechanism: 'x' is not offered"),
        (["simulate", "market.json", "--decisions", "x", "--report", "./x"], "x: is given twice"),
        (["simulate", "market.json", "--report", "market.json"], "market.json: is read by this"),
        (["compare", "market.json", "--mechanism", "eris", "--mechanism", "eris"], "--mechanism"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    ask: Ask, tmp_path: Path, arguments: list[str], said: str
) -> None:
    before = sorted(tmp_path.iterdir())
    code, _, errors = ask(*arguments)
    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith(f"auctune: {said}")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (["market.json", "--training", "t.toml"], "--out"),
        (["market.json", "--out", "out"], "--training"),
        (["--out", "out"], "INSTANCE"),
        (["market.json", "--training", "t.toml", "--out", "out", "--device", "abacus"], "--device"),
        (["market.json", "--resume", "out"], "--resume"),
        (["--resume", "out", "--device", "cuda"], "--resume"),
        (["--resume", "out"], "out"),
    ],
)
def test_a_run_that_cannot_begin_says_why_and_writes_nothing(
    ask: Ask, tmp_path: Path, more: list[str], place: str
) -> None:
    code, _, errors = ask("run", *more)
    assert code == 2
    assert len(errors) == 1
    assert place in errors[0]
    assert not (tmp_path / "out").exists()
