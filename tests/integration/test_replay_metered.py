"""`auctune replay` over the logs of zones that meter: a rented one, and a pool."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from auctune.service.storage.event_log import VERSION, checksum
from support.command_line import run_auctune
from support.metered_market import ON_DEMAND_PRICE, PRICE, Pool, Renter, ask, cancel, write_settings
from support.serving import EPOCH, SLOT_SECONDS, Served, make_file, make_pool, serving
from support.spot_zones import spot_zone

Replay = Callable[..., tuple[int, str, list[str]]]
Body = dict[str, Any]
RENTED, POOL = ("--zone", "rented"), ("--zone", "pool")


@dataclass(frozen=True)
class Site:
    """A market that was played.

    Attributes:
        served: it.
        config: its settings.
        capped: a rented job that its cap ended.
        done: a job of the pool that came to its target.
    """

    served: Served
    config: Path
    capped: str
    done: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    zones = [spot_zone(folder, price=ON_DEMAND_PRICE), make_pool(price_per_second=PRICE)]
    with serving(folder / "data", make_file(zones)) as served:
        file = served.upload()
        capped, done = rent(served, file), share(served, file)
        yield Site(served, write_settings(folder, folder / "rented.csv"), capped, done)


def rent(served: Served, file: str) -> str:
    """Jobs on time, late, capped, cancelled, refused; the one that was capped."""
    renter = Renter(served)

    def bid(cap: str = "40", slots: int = 8) -> str:
        deadline = f"+{slots * int(SLOT_SECONDS)}s"
        return ask(served, file, zone="rented", deadline=deadline, max_cost=cap)

    bid(cap="0.0001")
    on_time, late, capped, cancelled = bid(), bid(slots=4), bid(), bid()
    for slot in range(5):
        served.clock.pass_slots(1)
        for job in (on_time, late, capped, cancelled):
            renter.rent(job)
        if slot == 1:
            renter.cap(capped)
            cancel(served, cancelled)
        if slot == 2:
            renter.end(on_time, 2.6)
            bid()
    renter.hold_late(late, 3.0, 3.4)
    renter.end(late, 3.4)
    return capped


def share(served: Served, file: str) -> str:
    """Jobs that reach their targets, and one that does not; one that does."""
    pool = Pool(served)

    def want(target: float, slots: int, cap: str = "9") -> str:
        deadline = f"+{slots * int(SLOT_SECONDS)}s"
        return ask(served, file, zone="pool", target_loss=target, deadline=deadline, max_cost=cap)

    first, second = want(0.5, 9), want(0.2, 6)
    for job in (first, second):
        pool.join(job)
    for unit in range(1, 6):
        pool.train(**{first: 2.0 / unit, second: 1.5 / unit**0.5})
        served.clock.pass_slots(1)
        # Of others there is something to be seen by now.
        want(0.6, 12)
    pool.leave(first, "reached")
    pool.leave(second, "missed")
    want(0.3, 10, cap="0.5")
    return first


@pytest.fixture
def replay(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Replay:
    def run(*options: str, data: Path = site.served.folder) -> tuple[int, str, list[str]]:
        named: list[str | Path] = ["replay", "--data", data, "--config", site.config, *options]
        return run_auctune(named, monkeypatch, capsys)

    return run


def figures(answer: tuple[int, str, list[str]]) -> Any:
    code, out, lines = answer
    assert code == 0, (out, lines)
    return json.loads(out)


def at(slot: int) -> str:
    return datetime.fromtimestamp(EPOCH + slot * SLOT_SECONDS, UTC).isoformat()


def logged(site: Site, zone: str, kind: str) -> int:
    return sum(row.type == kind for row in site.served.service.log.read_zone(zone))


@pytest.mark.parametrize("zone", ["rented", "pool"])
def test_each_decision_and_charge_comes_out_as_it_was(
    site: Site, replay: Replay, zone: str
) -> None:
    code, out, lines = replay("--zone", zone)
    assert (code, lines) == (0, []), out
    decided, charged = logged(site, zone, "job.decided"), logged(site, zone, "job.metered")
    assert min(decided, charged) > 5
    assert f"{decided} decisions and {charged} charges" in out
    found = figures(replay("--zone", zone, "--json"))
    assert (found["identical"], found["differences"]) == (True, [])
    assert (found["num_decisions"], found["num_charges"]) == (decided, charged)


@pytest.mark.parametrize("zone", ["rented", "pool"])
def test_periods_that_follow_each_other_have_each_once(
    site: Site, replay: Replay, zone: str
) -> None:
    decided = charged = 0
    for begin, end in pairwise([0, 2, 4]):
        options = ("--from", at(begin), "--to", at(end))
        found = figures(replay("--zone", zone, *options, "--json"))
        assert found["identical"]
        decided, charged = decided + found["num_decisions"], charged + found["num_charges"]
    rest = figures(replay("--zone", zone, "--from", at(4), "--json"))
    assert decided + rest["num_decisions"] == logged(site, zone, "job.decided")
    assert charged + rest["num_charges"] == logged(site, zone, "job.metered")


def test_other_policies_rent_for_the_same_jobs_beside_what_was(replay: Replay) -> None:
    found = figures(replay(*RENTED, "--compare", "od-only,msu,robust:risk=0.1", "--json"))
    was, (on_demand, msu, robust) = found["recorded"], found["mechanisms"]
    assert was["mechanism"] == "msu"
    # The refused one is no job; the cancelled one and the one under way tell nothing.
    assert (was["num_jobs"], found["num_left_out"]) == (3, 2)
    # What the cap ended never came.
    assert (was["num_late"], was["num_capped"]) == (2, 1)
    for one in (on_demand, msu, robust):
        assert one["num_jobs"] == 3
        assert one["utility"] == pytest.approx(one["value"] - one["cost"])
    # Each is done in one slot of one instance on demand, or of four that cost 0.3 each.
    assert on_demand["cost"] == pytest.approx(3 * 1.5)
    assert msu["cost"] == pytest.approx(3 * 4 * 0.3 * 1.5)
    code, out, _ = replay(*RENTED, "--mechanism", "od-only")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[4:] if line.strip()] == [
        "jobs", "late", "ended", "cost", "value", "utility", "left",
    ]  # fmt: skip
    assert out.splitlines()[-1].startswith("left out: 2 jobs (cancelled")


@pytest.mark.slow
def test_other_allocators_share_out_the_same_pool_beside_what_was(replay: Replay) -> None:
    found = figures(replay(*POOL, "--compare", "uniform,stf,lara", "--json"))
    was, others = found["recorded"], found["mechanisms"]
    assert (was["mechanism"], was["num_jobs"], was["num_done"]) == ("rollout", 2, 1)
    assert was["pool_seconds"] == pytest.approx(5 * SLOT_SECONDS)
    assert found["num_left_out"] == 6
    assert all(one["num_jobs"] == 2 and one["num_done"] <= 2 for one in others)
    # Even shares are what it had.
    assert others[0]["num_done"] - others[0]["num_forecast"] == 1


Edit = Callable[[Body], None]


def changed(data: Path, source: Path, zone: str, kind: str, edit: Edit | None) -> str:
    """A copy of a log whose first event of a kind is another, or is gone; its job."""
    with (
        closing(sqlite3.connect(source / "auctune.db")) as original,
        closing(sqlite3.connect(data / "auctune.db")) as copy,
    ):
        original.backup(copy)
        for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            copy.execute(f"DROP TRIGGER {name}")
        seq, slot, at, job, text = copy.execute(
            "SELECT seq, slot, at, job, body FROM events WHERE zone = ? AND type = ?"
            " ORDER BY seq LIMIT 1",
            (zone, kind),
        ).fetchone()
        if edit is None:
            copy.execute("DELETE FROM events WHERE seq = ?", (seq,))
        else:
            body = orjson.loads(text)
            edit(body)
            # Whoever changes a log on purpose changes its checksums too.
            new = orjson.dumps(body)
            values = (new, checksum(seq, zone, slot, at, kind, job, new, VERSION), seq)
            copy.execute("UPDATE events SET body = ?, checksum = ? WHERE seq = ?", values)
        copy.commit()
    return job or ""


def put(path: str, value: Any) -> Edit:
    *outer, last = path.split(".")

    def edit(body: Body) -> None:
        for name in outer:
            body = body[name]
        assert body[last] != value
        body[last] = value

    return edit


@pytest.mark.parametrize(
    ("zone", "kind", "edit", "field"),
    [
        ("rented", "slot.started", put("price", 0.123), "slot.started: price"),
        ("rented", "job.decided", put("decision.admitted", True), "decision.admitted"),
        ("rented", "job.decided", put("decision.min_max_cost", "1"), "min_max_cost"),
        ("rented", "job.decided", put("decision.estimate.risk", 0.9), "estimate.risk"),
        ("rented", "job.decided", put("held", "7.0000"), "job.decided: held"),
        ("rented", "job.metered", put("amount", "99999.0000"), "job.metered: amount"),
        ("rented", "job.metered", put("price", 0.01), "job.metered: price"),
        ("rented", "job.metered", put("spot", 99), "job.metered: spot"),
        ("rented", "job.metered", None, "job.metered: slot"),
        ("rented", "job.training_completed", put("worth", "5"), "job.training_completed: worth"),
        ("pool", "job.decided", put("decision.estimate.expected_cost", "0.5"), "expected_cost"),
        ("pool", "job.decided", put("decision.max_cost", "3.0000"), "decision.max_cost"),
        ("pool", "job.decided", put("deadline_unit", 40), "deadline_unit"),
        ("pool", "job.metered", put("seconds", 3.0), "job.metered: amount"),
        ("pool", "job.metered", put("amount", "0.0001"), "job.metered: amount"),
        ("pool", "pool.unit_trained", None, "job.metered"),
    ],
)
def test_a_log_that_was_changed_is_found_out_by_job_and_field(
    site: Site, replay: Replay, tmp_path: Path, zone: str, kind: str, edit: Edit | None, field: str
) -> None:
    job = changed(tmp_path, site.served.folder, zone, kind, edit)
    code, out, lines = replay("--zone", zone, "--json", data=tmp_path)
    assert (code, lines) == (1, [])
    found = json.loads(out)
    assert found["identical"] is False
    those = [one for one in found["differences"] if job in one["name"]]
    assert those[0] == found["differences"][0]
    assert any(field in one["what"] for one in those)
    assert all(one["recorded"] != one["found"] for one in those)


def test_an_event_that_the_service_cannot_have_written_is_one_line(
    site: Site, replay: Replay, tmp_path: Path
) -> None:
    changed(tmp_path, site.served.folder, "pool", "job.decided", lambda body: body.clear())
    code, out, lines = replay(*POOL, data=tmp_path)
    assert (code, out, len(lines)) == (2, "", 1)
    assert "cannot be read" in lines[0]


def test_differences_are_shown_with_both_sides(site: Site, replay: Replay, tmp_path: Path) -> None:
    edit = put("amount", "0.0001")
    job = changed(tmp_path, site.served.folder, "pool", "job.metered", edit)
    code, out, _ = replay(*POOL, data=tmp_path)
    assert code == 1
    assert f"  {job}: job.metered: amount: recorded 0.0001, found 0.3000" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*RENTED, "--mechanism", "pdftsp"), "auctune: pdftsp: policy: 'pdftsp' is not offered"),
        ((*RENTED, "--mechanism", "ahap:window=0"), "auctune: ahap:window=0: window: "),
        ((*POOL, "--compare", "rollout,msu"), "auctune: msu: allocator: 'msu' is not offered"),
        ((*POOL, "--mechanism", "rollout:units=x"), "auctune: rollout:units=x: units: "),
    ],
)
def test_mechanisms_of_other_kinds_are_refused(
    replay: Replay, options: tuple[str, ...], message: str
) -> None:
    code, out, lines = replay(*options)
    assert (code, out, len(lines)) == (2, "", 1)
    assert lines[0].startswith(message)


def test_a_rented_zone_needs_its_market_and_no_other(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named: list[str | Path] = ["replay", "--data", site.served.folder, *RENTED]
    _, _, lines = run_auctune(named, monkeypatch, capsys)
    assert lines[0].startswith("auctune: --config: has no market; expected auctune.toml with")
    text = site.config.read_text()
    (tmp_path / "auctune.toml").write_text(text.replace("start = 100", "start = 99"))
    code, _, lines = run_auctune(
        [*named, "--config", tmp_path / "auctune.toml"], monkeypatch, capsys
    )
    assert code == 2
    assert lines[0].startswith("auctune: zone rented: market: differs from the recorded one; ")
