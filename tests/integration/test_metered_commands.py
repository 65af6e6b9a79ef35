"""What users and operators type where jobs are metered; nobody trains here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.metered_shop import Pool, metered_market, rented_slot
from support.serving import ROWS, Served
from support.typing_as import Run, typing_as


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with metered_market(tmp_path_factory.mktemp("market")) as opened:
        yield opened


@pytest.fixture
def auctune(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    return typing_as(served.users["ada"], served, monkeypatch, capsys)


def line_of(out: str, name: str) -> str:
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
    return line


def test_an_estimate_is_shown_beside_what_other_zones_say_and_accepted_as_it_says(
    served: Served, auctune: Run
) -> None:
    file = served.upload()
    code, out, _ = auctune("quote", file, "--deadline", "+8m")
    assert code == 0
    assert "default, see below" in line_of(out, "rented")
    assert line_of(out, "owned").split()[1] == "auction"
    assert "unavailable: needs --target-loss" in line_of(out, "pool")
    (costs,) = [line.split()[-2:] for line in out.splitlines() if line.split()[:1] == ["cost"]]
    assert float(costs[0]) <= float(costs[1])
    (command,) = [line.split() for line in out.splitlines() if "auctune submit" in line]
    code, out, _ = auctune(*command[1:], "--name", "rain")
    assert code == 0
    assert f"rain admitted in rented: {costs[1]} at most, {costs[0]} expected" in out


@pytest.mark.slow
def test_a_job_of_the_pool_is_asked_for_without_a_bid_and_seen_by_all(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    (tmp_path / "north.jsonl").write_text(ROWS)
    terms = ("--deadline", "+20m", "--target-loss", "0.5", "--max-cost", "2")
    code, out, _ = auctune("submit", tmp_path / "north.jsonl", *terms, "--json")
    job = json.loads(out)
    assert (code, job["market"]["zone"]) == (0, "pool")
    pool = Pool(served)
    pool.join(job["id"])
    pool.train({job["id"]: 0.75}, 2.5)
    row = line_of(auctune("jobs")[1], job["id"]).split()
    assert row[1:7] == ["north", "pool", "training", "cap", "2.0000", "0.0400"]
    code, out, _ = auctune("explain", job["id"])
    assert code == 0
    assert "north admitted in pool: 2.0000 at most" in out
    assert "target loss reached" in out
    told = json.loads(auctune("explain", job["id"], "--json")[1])
    assert {one["zone"] for one in told["alternatives"]} == {"owned", "rented", "pool"}
    operator = ("--zone", "pool", "--api-key", served.operator)
    shares = line_of(auctune("prices", *operator)[1], job["id"])
    assert [one in shares.split() for one in ("2.500", "0.5", "75%", "0.0400")] == [True] * 4
    auctune("cancel", job["id"])


def test_what_is_missing_or_does_not_go_together_is_named_before_data_are_sent(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    files = len(served.client().files.list().data)
    data = tmp_path / "rows.jsonl"
    for words, place in (
        (("submit", "--bid", "3", "--deadline", "+8m"), "TRAINING_FILE"),
        (("submit", data, "--value", "3@+1h@+2h"), "--value"),
        (("submit", "--line", "0"), "--line"),
        (("submit", "--quote", "quote-a", "--value", "3"), "--value"),
        (("quote", data, "--site", "north"), "--site"),
    ):
        code, out, lines = auctune(*words)
        assert (code, out, len(lines)) == (2, "", 1), words
        assert lines[0].startswith(f"auctune: {place}: "), lines
    assert len(served.client().files.list().data) == files


@pytest.mark.slow
def test_terms_that_a_zone_needs_and_has_no_default_for_are_named_by_their_options(
    served: Served, auctune: Run
) -> None:
    file = served.upload()
    pool = ("--zone", "pool", "--target-loss", "2.5")
    for words, place in (
        (("--deadline", "+8m", "--zone", "owned"), "--bid"),
        (("--deadline", "+8m", "--zone", "owned", "--max-cost", "3"), "--bid"),
        (("--deadline", "+8m", "--zone", "rented"), "--max-cost"),
        (("--deadline", "+8m", *pool), "--max-cost"),
        (("--bid", "3", "--zone", "owned"), "--deadline"),
        (("--max-cost", "3", "--zone", "rented"), "--deadline"),
        (("--max-cost", "3", *pool), "--deadline"),
    ):
        code, out, lines = auctune("submit", file, *words)
        assert (code, out, len(lines)) == (2, "", 1), words
        assert lines[0].startswith(f"auctune: {place}: is missing"), lines


def test_a_value_and_its_fall_are_typed_in_one_word(served: Served, auctune: Run) -> None:
    file = served.upload()
    worth = ("--value", "40@+8m..+12m", "--zone", "rented")
    out = auctune("submit", file, *worth, "--json")[1]
    market = json.loads(out)["market"]
    assert (market["bid"], market["metered"]["max_cost"]) == ("40.0000", "40.0000")
    assert market["deadline"] == pytest.approx(served.clock() + 480)
    code, _, lines = auctune("submit", file, "--value", "40@+8m..+1m", "--zone", "rented")
    assert (code, "market.value.zero_at" in lines[0]) == (2, True)


def test_operators_see_the_market_that_a_zone_rents_from(served: Served, auctune: Run) -> None:
    file = served.upload()
    terms = ("--deadline", "+8m", "--max-cost", "40", "--zone", "rented", "--json")
    job = json.loads(auctune("submit", file, *terms)[1])["id"]
    served.clock.pass_slots(1)
    rented_slot(served, job, 0, on_demand=2, spot=1)
    operator = ("--zone", "rented", "--api-key", served.operator)
    out = auctune("prices", *operator)[1]
    assert [line.split()[-2:] for line in out.splitlines()].count(["2", "1"]) == 1
    zones = auctune("zones", "list")[1]
    assert [line_of(zones, name).split()[1] for name in ("owned", "rented", "pool")] == [
        "auction",
        "spot",
        "timeshare",
    ]


def test_a_zone_without_nodes_of_its_own_says_so(served: Served, auctune: Run) -> None:
    operator = ("--zone", "pool", "--api-key", served.operator)
    code, out, lines = auctune("nodes", "list", *operator)
    assert (code, out) == (2, "")
    assert "--zone" in lines[0]
    assert "zone pool (timeshare) has no nodes of its own" in lines[0]
    code, out, _ = auctune("prices", *operator)
    assert code == 0
    assert "jobs that share its pool" in out
