"""`auctune replay` over the log of a service, which goes on meanwhile."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from auctune.domain import write_snapshot
from auctune.replay.auction import AuctionReplay
from auctune.replay.compare import LogRange, ReplayInput
from auctune.service.storage import EventLog, Snapshots, open_readonly
from auctune.service.storage.committer import durable
from auctune.service.storage.event_log import VERSION, checksum
from support.command_line import run_auctune
from support.serving import EPOCH, SLOT_SECONDS, Served, make_file, make_zone, serving

Replay = Callable[..., tuple[int, str, list[str]]]
SNAPSHOT_SLOT = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A market that has seen bids, lines, cancellations, a node that went, and a snapshot."""
    file = make_file([make_zone(nodes=2), make_zone("second", nodes=1)])
    with serving(tmp_path_factory.mktemp("market"), file) as opened:
        play(opened)
        yield opened


def play(served: Served) -> None:
    client, file = served.client(), served.upload()
    for slot in range(10):
        for number in range(6):
            bid = str(1 + 7 * number)
            share, deadline = (1.0, 0.5)[number % 2], f"+{180 + 60 * (slot + number)}s"
            job = served.bid(client, file, bid=bid, share=share, deadline=deadline)
            if slot % 3 == 0 and number == 4 and job.market["decision"] == "admitted":
                client.fine_tuning.jobs.cancel(job.id)
        served.bid(client, file, zone="second")
        accept(served, file)
        if slot == 6:
            served.ask(lambda zone: zone.drain_node("default-1", "drained"))
        if slot == 8:
            served.ask(lambda zone: zone.return_node("default-1"))
        if slot == SNAPSHOT_SLOT:
            keep_snapshot(served)
        served.clock.pass_slots(1)


def accept(served: Served, file: str) -> None:
    with served.http() as http:
        body = {"model": "tiny", "training_file": file, "market": {"zone": "default"}}
        quoted = http.post("/v1/quotes", json=body).json()
        if quoted["lines"]:
            terms = {"quote": quoted["id"], "line": len(quoted["lines"]) - 1}
            http.post("/v1/fine_tuning/jobs", json={"market": terms})


def keep_snapshot(served: Served) -> None:
    seq, body = served.ask(lambda zone: (zone.state.seq, write_snapshot(zone.model.save())))

    async def write() -> None:
        with open_readonly(served.folder) as reader:
            unit = Snapshots(reader).write_batch("default", seq, served.clock.time, body)
            await durable(served.service.committer, unit)

    served.run(write)


@pytest.fixture
def replay(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Replay:
    def run(*options: str, data: Path = served.folder) -> tuple[int, str, list[str]]:
        return run_auctune(["replay", "--data", data, *options], monkeypatch, capsys)

    return run


def figures(answer: tuple[int, str, list[str]]) -> Any:
    code, out, lines = answer
    assert code == 0, (out, lines)
    return json.loads(out)


def at(slot: float) -> str:
    return datetime.fromtimestamp(EPOCH + slot * SLOT_SECONDS, UTC).isoformat()


def num_decided(served: Served, zone: str = "default", after_slot: int = -1) -> int:
    rows = served.service.log.read_zone(zone)
    return sum(row.type == "job.decided" and row.slot > after_slot for row in rows)


def test_all_comes_out_as_it_was(served: Served, replay: Replay) -> None:
    code, out, lines = replay()
    assert (code, lines) == (0, [])
    assert out.startswith("zone default, ")
    decided = num_decided(served)
    assert decided > 60
    assert f"identical under pdftsp: {decided:,} decisions" in out
    found = figures(replay("--json"))
    assert (found["identical"], found["num_decisions"]) == (True, decided)
    assert found["num_price_updates"] > 5
    assert found["num_plans"] > 0
    assert figures(replay("--zone", "second", "--json"))["num_decisions"] == num_decided(
        served, "second"
    )


def test_periods_that_follow_each_other_have_each_decision_once(
    served: Served, replay: Replay
) -> None:
    bounds = [None, at(0.5), at(3), at(SNAPSHOT_SLOT + 1), at(7), None]
    counts = []
    for begin, end in pairwise(bounds):
        options = [*(("--from", begin) if begin else ()), *(("--to", end) if end else ())]
        found = figures(replay(*options, "--json"))
        assert found["identical"]
        counts.append(found["num_decisions"])
    assert min(counts) > 0
    assert sum(counts) == num_decided(served)
    compared = figures(replay("--from", at(3), "--mechanism", "eft", "--json"))
    assert compared["first_slot"] == 3
    assert compared["recorded"]["num_bids"] == num_decided(served, after_slot=2)


def test_a_late_period_starts_at_the_snapshot_before_it(served: Served) -> None:
    with open_readonly(served.folder) as reader:
        log, snapshots = EventLog(reader), Snapshots(reader)
        for slot, is_short in ((SNAPSHOT_SLOT, False), (SNAPSHOT_SLOT + 1, True)):
            found = LogRange("default", log, EPOCH + slot * SLOT_SECONDS)
            verifier = AuctionReplay(ReplayInput(found, snapshots, None)).verifier()
            assert (verifier.state.seq > 0) == is_short


def test_what_is_recorded_is_what_the_books_say(served: Served, replay: Replay) -> None:
    with served.http(served.operator) as http:
        accounts = http.get("/v1/ledger/balances").json()["accounts"]
    paid = -Decimal(accounts.get("held", "0")) - Decimal(accounts.get("revenue", "0"))
    revenue = Decimal(0)
    for zone in ("default", "second"):
        found = figures(replay("--zone", zone, "--mechanism", "eft", "--json"))
        revenue += Decimal(found["recorded"]["revenue"])
    assert revenue == paid > 0


def test_others_are_shown_side_by_side(served: Served, replay: Replay, tmp_path: Path) -> None:
    out = tmp_path / "week.json"
    code, text, _ = replay("--compare", "eft,pdftsp:pricing=exponential,pdftsp", "--out", str(out))
    assert code == 0
    rows = {line[:17].strip(): line.split()[-4:] for line in text.splitlines()[4:]}
    assert {"bids", "admitted", "welfare", "revenue", "operating cost", "compute used"} <= set(rows)
    assert rows["bids"] == [f"{num_decided(served):,}"] * 4
    written = json.loads(out.read_text())
    recorded, (eft, exponential, same) = written["recorded"], written["mechanisms"]
    assert exponential["settings"] == {"pricing": "exponential"}
    # It charges what is bid.
    assert Decimal(eft["revenue"]) > Decimal(recorded["revenue"])
    assert 0 < same["compute_used"] <= 1
    for one in (recorded, eft, same):
        assert one["welfare"] > 0
        assert float(one["operating_cost"]) > 0


def test_a_log_that_was_changed_is_found_out(
    served: Served, replay: Replay, tmp_path: Path
) -> None:
    with (
        sqlite3.connect(served.folder / "auctune.db") as source,
        sqlite3.connect(tmp_path / "auctune.db") as copy,
    ):
        source.backup(copy)
        for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            copy.execute(f"DROP TRIGGER {name}")
        found = copy.execute(
            "SELECT seq, slot, at, job, body FROM events"
            " WHERE type = 'job.decided' AND zone = 'default'"
        )
        seq, slot, at, job, text = next(
            row for row in found if orjson.loads(row[4])["decision"]["reason"] == "unprofitable"
        )
        body = orjson.loads(text)
        body["decision"]["price"] = "0.0001"
        # Whoever changes a log on purpose changes its checksums too.
        new = orjson.dumps(body)
        values = (new, checksum(seq, "default", slot, at, "job.decided", job, new, VERSION), seq)
        copy.execute("UPDATE events SET body = ?, checksum = ? WHERE seq = ?", values)
    source.close()
    copy.close()
    code, out, _ = replay(data=tmp_path)
    assert code == 1
    assert f"  {job}: job.decided: decision.price: recorded 0.0001, found " in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--zone", "mars"), "auctune: --zone: the log has no zone 'mars'; expected one of def"),
        (("--from", "soon"), "auctune: --from: 'soon'; expected a time such as"),
        (("--from", at(1), "--to", at(1)), "auctune: --to: "),
        (("--from", at(1.2), "--to", at(1.8)), "auctune: --to: "),
        (("--from", at(99)), "auctune: --from: "),
        (("--mechanism", "nobody"), "auctune: nobody: mechanism: 'nobody'"),
        (("--mechanism", "eft,ntm"), "auctune: --mechanism: 'eft,ntm'; expected one mechanism"),
        (("--compare", "pdftsp:pricing=free"), "auctune: pdftsp:pricing=free: pricing: 'free'"),
        (("--out", "/nowhere/figures.json"), "auctune: /nowhere"),
    ],
)
def test_bad_input_is_one_line(replay: Replay, options: tuple[str, ...], message: str) -> None:
    code, out, lines = replay(*options)
    assert (code, out, len(lines)) == (2, "", 1)
    assert lines[0].startswith(message)
