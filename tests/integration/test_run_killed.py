"""kill -9 at random moments, again and again: nothing that counted is lost, no decision changes."""

import random
import signal
from pathlib import Path

import pytest

from auctune.standalone.market import resume_market, run_market
from auctune.train.checkpoint import load_latest
from support.market_runs import (
    Child,
    Commands,
    Table,
    living,
    quiet,
    read_decisions,
    read_events,
    report_of,
    with_change,
    write_market,
)
from support.processes import kill
from support.waits import poll

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

TASKS = ("sums", "mood", "codes")


@pytest.fixture(scope="module")
def finished(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an exact run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        run_market(_exact_market(folder / "market"), folder / "out", quiet())
    return folder / "out"


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    finished: Path, auctune: Commands, tmp_path: Path
) -> None:
    draw = random.Random(20240813)
    out = tmp_path / "out"
    child = auctune.start("run", _exact_market(tmp_path / "market"), "--out", out)
    events: list[Table] = []
    rows = dict.fromkeys(TASKS, 0)
    victims = []
    for victim in ("market", "node", "all"):
        if not _progressed(child, out, draw.randrange(1, 5)):
            break
        _kill(child, victim, draw)
        victims.append(victim)
        if victim != "node":
            child = auctune.start("run", "--resume", out)
        now, trained = read_events(out), _checkpointed(out)
        assert now[: len(events)] == events, "the journal only grows"
        assert all(trained[task] >= rows[task] for task in TASKS), "no checkpoint is lost"
        events, rows = now, trained

    assert child.wait() == 0, child.text
    assert len(victims) == 3, "the market ended before it was disturbed enough"
    assert read_decisions(out) == read_decisions(finished)
    _assert_same_training(out, finished)


def test_a_node_that_dies_again_and_again_ends_the_run_in_one_line_and_resumably(
    auctune: Commands, tmp_path: Path, finished: Path, in_cache: Path
) -> None:
    out = tmp_path / "out"
    child = auctune.start("run", _exact_market(tmp_path / "market"), "--out", out)
    child.poll(lambda: bool(read_events(out)))
    killed: set[int] = set()
    while child.poll(lambda: bool(set(child.nodes()) - killed)):
        for pid in set(child.nodes()) - killed:
            kill(pid)
            killed.add(pid)

    assert child.wait() == 1
    last = child.text.splitlines()[-1]
    assert last.startswith("auctune: node ")
    assert "ended 3 times in a row: killed by SIGKILL" in last
    assert last.endswith(f"resume with: auctune run --resume {out}")
    assert "Traceback" not in child.text

    resume_market(out, quiet())
    assert read_decisions(out) == read_decisions(finished)
    _assert_same_training(out, finished)


@pytest.mark.ray
def test_a_run_on_a_cluster_of_its_own_decides_and_trains_as_one_without(
    finished: Path, auctune: Commands, tmp_path: Path
) -> None:
    table = with_change(("executor",), "ray", with_change(("mode",), "exact"))
    out = tmp_path / "out"
    code, text = auctune.run("run", write_market(tmp_path / "market", table), "--out", out)
    assert code == 0, text
    assert (out / "state" / "nodes" / "ray.log").exists()
    assert read_decisions(out) == read_decisions(finished)
    _assert_same_training(out, finished)


def _exact_market(folder: Path) -> Path:
    return write_market(folder, with_change(("mode",), "exact"))


def _progressed(child: Child, out: Path, more: int) -> bool:
    """Wait until so many more slots of nodes are trained than now."""
    start = _trained(out)
    return child.poll(lambda: _trained(out) >= start + more)


def _trained(out: Path) -> int:
    return sum(event["type"] == "job.trained" for event in read_events(out))


def _kill(child: Child, victim: str, draw: random.Random) -> None:
    nodes = child.nodes()
    if victim == "node":
        kill(draw.choice(nodes))
        return
    if victim == "market":
        kill(child.pid)
    else:
        child.kill_group(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    # Nobody told them: they see that their market is gone.
    poll(lambda: not living(nodes))


def _checkpointed(out: Path) -> dict[str, int]:
    """Rows of each task in its newest whole checkpoint."""
    rows = {}
    for task in TASKS:
        found = load_latest(out / "state" / "work" / task / "checkpoints")
        rows[task] = 0 if found is None else found[0].state["cursor"]["done"]
    return rows


def _assert_same_training(out: Path, expected: Path) -> None:
    for task in TASKS:
        files = ("adapter/adapter_model.safetensors", "losses.jsonl", "receipt.json")
        for name in files:
            found = (out / "tasks" / task / name).read_bytes()
            assert found == (expected / "tasks" / task / name).read_bytes(), f"{task}: {name}"
    before, after = report_of(expected), report_of(out)
    assert after.to_json()["tasks"] == before.to_json()["tasks"]
    assert after.totals == before.totals
