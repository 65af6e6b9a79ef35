"""Bad input: one line with the place and what was expected, exit code 2, nothing written."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auctune.domain import InputError
from support.command_line import run_auctune
from support.market_runs import prepare_market, small_market, to_toml, with_change, write_market
from support.thorough import drawn

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]

Run = Callable[[list[str | Path]], tuple[int, str, list[str]]]
KEPT = ("sums.jsonl", "mood.jsonl", "codes.jsonl", "check.jsonl", "slow.json")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_cache: Path) -> Run:
    return lambda arguments: run_auctune(arguments, monkeypatch, capsys)


WRONG: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "unknown key": (("colour",), 1, "colour: is an unknown key; expected one of"),
    "unknown key of a bid": (("bids", 1, "epoch"), 1, "bids[1].epoch: is an unknown key"),
    "DoRA": (("bids", 1, "use_dora"), True, "use_dora: DoRA is not supported; expected a plain"),
    "whole modules": (("bids", 1, "modules_to_save"), ["lm_head"], "training of whole modules"),
    "unknown key of a node type": (("node_types", "slow", "gpu"), 1, "node_types.slow.gpu: is an"),
    "missing number": (("slots",), None, "slots: is missing; expected a value"),
    "missing bid": (("bids", 0, "bid"), None, "bids[0].bid: is missing"),
    "negative bid": (("bids", 0, "bid"), -1.0, "bids[0].bid: -1.0 is negative"),
    "bid finer than money": (("bids", 0, "bid"), 0.00001, "more than 4 decimals"),
    "bid that is not a number": (("bids", 0, "bid"), nan, "bids[0].bid: nan is out of range"),
    "endless slots": (("slot_seconds",), inf, "slot_seconds: inf; expected"),
    "negative arrival": (("bids", 0, "arrival"), -1, "bids[0].arrival: -1; expected"),
    "text for a number": (("slots",), "10", "slots: '10'; expected a valid integer"),
    "true for a number": (("bids", 2, "deadline"), True, "bids[2].deadline: true; expected"),
    "number for a text": (("base",), 3, "base: 3; expected a valid string"),
    "table for a list": (("nodes",), {"id": "a"}, "nodes: a table; expected a valid list"),
    "absurd number": (("bids", 0, "epochs"), 10**400, "bids[0].epochs: "),
    "deadline before arrival": (
        ("bids", 2, "deadline"), 0, "bids[2].deadline: 0 is before arrival 1; expected a slot",
    ),
    "deadline beyond the horizon": (
        ("bids", 2, "deadline"), 10, "bids[2].deadline: 10 is beyond the last slot 9; expected",
    ),
    "lost data": (("bids", 0, "data"), "lost.jsonl", "bids[0].data: there is no file 'lost.jsonl'"),
    "data named too long": (("bids", 0, "data"), "x" * 300, "bids[0].data: there is no file"),
    "data of nobody": (("bids", 0, "data"), "~nobody-here/x", "bids[0].data: there is no file"),
    "lost validation": (("bids", 0, "validation"), "no", "bids[0].validation: there is no file"),
    "lost profile": (("node_types", "slow", "profile"), "no", "node_types.slow.profile: there is"),
    "empty data": (("bids", 1, "data"), "empty.jsonl", "bids[1] (mood): data empty.jsonl: has no"),
    "data that are not JSONL": (
        ("bids", 1, "data"), "prose.jsonl", "data prose.jsonl: line 1: is not JSON",
    ),
    "data of mixed kinds": (
        ("bids", 1, "data"), "mixed.jsonl",
        "line 2: is a row of kind text, while line 1 is of kind completion",
    ),
    "validation of mixed kinds": (
        ("bids", 0, "validation"), "mixed.jsonl", "bids[0] (sums): validation mixed.jsonl: line 2",
    ),
    "data beyond repair": (
        ("bids", 3, "data"), "blank.jsonl", "bids[3] (codes): data blank.jsonl: has no usable row",
    ),
    "data that repair leaves too long": (
        ("bids", 3, "max_length"), 1, "bids[3] (codes): data codes.jsonl after house repaired it",
    ),
    "unknown base": (("base",), "./no-such-base", "base './no-such-base': is unknown"),
    "no base": (("base",), "", "base '': is unknown"),
    "base of nobody": (("base",), "~nobody-here/x", "base '~nobody-here/x': is unknown"),
    "base named too long": (("base",), "/" + "x" * 300, "is unknown: there is no such folder"),
    "rank out of range": (
        ("bids", 0, "rank"), 10**7, "bids[0].rank: 10000000; expected less than or equal to 4096",
    ),
    "unknown node type": (("nodes", 1, "type"), "fast", "nodes[1].type: 'fast' is unknown; expect"),
    "profile and measure": (
        ("node_types", "slow", "measure"), True, "node_types.slow: has both profile and measure",
    ),
    "neither profile nor measure": (
        ("node_types", "slow", "profile"), None, "node_types.slow: has neither; expected either",
    ),
    "damaged profile": (
        ("node_types", "slow", "profile"), "prose.jsonl", "node_types.slow.profile: ",
    ),
    "same id twice": (("bids", 1, "id"), "sums", "bids[1].id: 'sums' is there twice"),
    "same node twice": (("nodes", 1, "id"), "alpha", "nodes[1].id: 'alpha' is there twice"),
    "id that is a path": (("bids", 0, "id"), "../x", "bids[0].id: '../x'; expected 1 to 64"),
    "id with a line's end": (("bids", 0, "id"), "x\n", "bids[0].id: 'x\\n'; expected"),
    "node with a path": (("nodes", 0, "id"), "a/b", "nodes[0].id: 'a/b'; expected 1 to 64"),
    "unknown auction setting": (("auction", "speed"), 1, "auction: speed: is not a setting of thi"),
    "wrong auction value": (("auction", "payment"), "gift", "auction: payment: 'gift'; expected"),
    "auction value of a wrong type": (("auction", "payment"), [1], "auction.payment"),
    "unknown mechanism": (("auction", "mechanism"), "lots", "auction: mechanism: 'lots' is not"),
    "no vendor to repair": (("vendors",), [], "bids[3].repair: is set, but there is no vendor"),
    "repair of pairs": (
        ("bids", 3, "method"), "dpo", "repair: is true for method 'dpo'; expected false: no vendor",
    ),
    "unknown target module": (
        ("bids", 0, "target_modules"), ["q_proj"], "bids[0] (sums): target_modules: 'q_proj' fits",
    ),
    "device of no kind": (("node_types", "slow", "device"), "gpu", "slow: device: 'gpu' is no"),
    "device not there": (
        ("node_types",),
        {
            "slow": {"profile": "slow.json"},
            "gpu": {"profile": "slow.json", "device": "cuda:99"},
        },
        "node_types.gpu: device: 'cuda:99'",
    ),
    "two nodes on one GPU": (
        ("node_types", "slow", "device"), "cuda", "nodes[1]: 'beta' is on cuda:0, where node 'alph",
    ),
    "two nodes of several GPUs": (
        ("node_types", "slow"),
        {"profile": "slow.json", "device": "cuda:2", "devices": 2},
        "nodes[1]: 'beta' is on cuda:2, where node 'alpha' is; expected one node per GPU",
    ),
    "profile of one device": (
        ("node_types", "slow", "devices"), 2, "slow.profile: was measured with devices = 1; expec",
    ),
    "no devices": (("node_types", "slow", "devices"), 0, "node_types.slow.devices: 0; expected"),
    "slots too short": (("slot_seconds",), 0.01, "slot_seconds (node_types.slow): 0.01 is too"),
    "costs of too few slots": (
        ("node_types", "slow", "energy_cost"), [0.1], "energy_cost: has 1 entries; expected a",
    ),
    "negative costs": (("node_types", "slow", "energy_cost"), -0.1, "slow.energy_cost"),
    "no bids": (("bids",), [], "bids: is empty; expected one bid at least"),
    "no nodes": (("nodes",), [], "nodes: is empty; expected one node at least"),
    "patience without validation": (("bids", 1, "patience"), 2, "bids[1].patience: is set without"),
    "dropout of all": (("bids", 1, "dropout"), 1.0, "bids[1].dropout: 1.0; expected less than 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_market_that_is_wrong_gives_one_line_and_leaves_nothing(
    name: str, run: Run, tmp_path: Path
) -> None:
    path, value, expected = WRONG[name]
    market = write_market(tmp_path / "market", with_change(path, value))
    (market.parent / "empty.jsonl").write_text("\n\n")
    (market.parent / "blank.jsonl").write_text("{}\n[]\n")
    (market.parent / "prose.jsonl").write_text("Once upon a time\n")
    (market.parent / "mixed.jsonl").write_text(
        '{"prompt": "a", "completion": "b"}\n{"text": "c"}\n'
    )

    code, _, lines = run(["run", market, "--out", tmp_path / "out"])

    assert len(lines) == 1
    assert lines[0].startswith(f"auctune: {market}: ")
    assert expected in lines[0]
    assert "; expected " in lines[0]
    assert code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"slots = \n", "is not TOML"), (b"\xff\xfe", "is not TOML"), (None, "cannot be read")],
)
def test_a_file_that_is_no_market_gives_one_line(
    content: bytes | None, expected: str, run: Run, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "market.toml").write_bytes(content)

    code, _, lines = run(["run", tmp_path / "market.toml", "--out", tmp_path / "out"])

    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(f"auctune: {tmp_path}/market.toml: {expected}")


def test_arguments_that_do_not_go_together_are_refused(run: Run, tmp_path: Path) -> None:
    for arguments, expected in (
        (["run"], "MARKET.toml: is missing; expected a market file, or --resume DIR"),
        (["run", "market.toml"], "--out: is missing; expected a folder for the run"),
        (
            ["run", "x.toml", "--resume", tmp_path],
            "--resume: cannot be combined with other arguments",
        ),
        (["run", "--resume", tmp_path], f"--resume {tmp_path}: holds no run; expected"),
    ):
        code, _, lines = run(arguments)  # type: ignore[arg-type]
        assert (code, len(lines)) == (2, 1)
        assert lines[0].startswith(f"auctune: {expected}")


def test_folders_that_hold_something_else_are_left_alone(run: Run, tmp_path: Path) -> None:
    market = write_market(tmp_path / "market")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("all my work")
    (tmp_path / "file").write_text("all my work")

    for arguments, expected in (
        (["--out", tmp_path / "out"], "holds other files; expected a folder that is new or empty"),
        (["--out", tmp_path / "out", "--fresh"], "holds other files"),
        (["--out", tmp_path / "file"], "is a file; expected a folder that is new or empty"),
    ):
        code, _, lines = run(["run", market, *arguments])  # type: ignore[list-item]
        assert (code, len(lines)) == (2, 1)
        assert expected in lines[0]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_wrong_market_leaves_an_earlier_run_untouched(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "state").mkdir(parents=True)
    (out / "state" / "journal.jsonl").write_text("an earlier run")
    wrong = write_market(tmp_path / "market", with_change(("bids", 0, "rank"), 10**7))

    for more in ([], ["--fresh"]):
        code, _, lines = run(["run", wrong, "--out", out, *more])
        assert (code, len(lines)) == (2, 1)
        assert "rank" in lines[0]
    assert (out / "state" / "journal.jsonl").read_text() == "an earlier run"


def _paths(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*place, key))
        if isinstance(item, dict | list):
            found += _paths(item, (*place, key))
    return found


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([10**9, 10**30, -(10**400), 1e-300, 1e9, 1e300, nan, inf, -inf, 0.0]),
    st.sampled_from(["", "tiny", "sums.jsonl", ".", "/", "~", "a\nb", "\x00", "[red]", "é" * 80]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=5),
    st.sampled_from([[], {}, [1], ["c_fc"], {"a": 1}, [{}], [[]]]),
)


@pytest.mark.slow
@example(changes=[(("auction", "compute_high"), 1e300)])
@example(changes=[(("vendors", 0, "price"), 1e11), (("node_types", "slow", "energy_cost"), 1e9)])
@settings(drawn(150))
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(_paths(small_market())), VALUES), min_size=1, max_size=2
    )
)
def test_whatever_is_changed_in_a_market_it_works_or_is_refused_by_name(
    changes: list[tuple[tuple[str | int, ...], Any]], in_cache: Path, tmp_path: Path
) -> None:
    table = small_market()
    for path, value in changes:
        try:
            table = with_change(path, value, table)
        except (LookupError, TypeError):
            continue
    market = tmp_path / "market.toml"
    if not (tmp_path / "sums.jsonl").exists():
        write_market(tmp_path)
    market.write_text(to_toml(table))
    refusal = f"{market}: "
    try:
        prepared = prepare_market(market)
        for bid in sorted(prepared.bids, key=lambda bid: bid.task.arrival):
            prepared.mechanism.offer(bid.task, bid.task.arrival)
    except InputError as error:
        refusal = str(error)
    assert refusal.startswith(f"{market}: ")
    assert {path.name for path in tmp_path.iterdir()} == {"market.toml", *KEPT}


def test_a_wrong_setting_of_the_auction_shows_before_anything_is_loaded(tmp_path: Path) -> None:
    market = write_market(tmp_path, with_change(("auction", "colour"), "red"))
    said: list[str] = []

    with pytest.raises(InputError, match=r"auction: colour: is not a setting of this mechanism"):
        prepare_market(market, report=lambda what, _: said.append(what))

    assert said == []
