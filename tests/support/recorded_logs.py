"""A service opened on recorded logs, and all that it then answers.

The fixture is what `benchmarks/record_logs.py` wrote. Only this module knows names of the service's
insides; the test compares what `observe` returns with what was expected at the recording.
"""

import contextlib
import json
import lzma
import math
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import numpy as np
import orjson
from typer.testing import CliRunner

from auctune.cli.app import app
from auctune.domain import read_snapshot, write_snapshot
from auctune.engine.base_facts import BaseFacts
from auctune.files.device_profile import read_profile
from auctune.service.config.models import read_config
from auctune.service.event_writer import job_record
from auctune.service.files.repository import size_key
from auctune.service.private_files import write_private
from auctune.service.storage import Snapshots, upgrade
from auctune.service.storage import snapshots as snapshot_store
from auctune.service.storage.engine import FILE_NAME
from auctune.service.storage.event_log import checksum
from auctune.service.zones.core.snapshots import Snapshotter
from auctune.service.zones.core.state import SnapshotWriter
from auctune.service.zones.core.zone import AnyZone
from soak.audit.log import ReplayedZone
from soak.history import read_history
from soak.zones import CLEAN, MESSY, ZONES, EdgeZone
from support.old_logs import make_tables
from support.serving import Clock, Served, SharedDataClient, serving

LOGS = Path(__file__).parents[1] / "data" / "recorded_logs"
FIXTURES = sorted(LOGS.glob("v*"), key=lambda folder: int(folder.name[1:]))
"""A recording of each version of the log that has been."""
FIXTURE = FIXTURES[-1]

Row = dict[str, Any]
Found = dict[str, Any]

CHARGED_KEY = "key-of-ada"

# So many bids are priced in each zone.
_BIDS = 4


def read_lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]


@dataclass(frozen=True)
class Moment:
    """A folder of a service as it stood at a moment.

    Attributes:
        folder: with settings and data.
        fixture: that it is made of.
        at: unix time.
        seq: of the newest event.
    """

    folder: Path
    fixture: Path
    at: float
    seq: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> Path:
        return self.folder / "auctune.toml"


def moments(fixture: Path = FIXTURE) -> dict[str, Any]:
    """Sequence number and time of each moment, by name."""
    found: dict[str, Any] = json.loads((fixture / "recording.json").read_text())["moments"]
    return found


def unpack(folder: Path, moment: str, fixture: Path = FIXTURE) -> Moment:
    """Make a data folder as it stood, and upgrade it; rows of jobs and snapshots are left out."""
    made = Moment(folder, fixture, **moments(fixture)[moment])
    for name in ("auctune.toml", "profile.json"):
        shutil.copyfile(fixture / name, folder / name)
    write_private(folder / "vendor.token", (fixture / "vendor.token").read_text())
    (folder / "market.csv").write_bytes(lzma.decompress((fixture / "market.csv.xz").read_bytes()))
    made.data.mkdir()
    recording = json.loads((fixture / "recording.json").read_text())
    make_tables(f"sqlite:///{made.data / FILE_NAME}", recording["revision"])
    events = [event for file in fixture.glob("events-*.xz") for event in read_lines(file)]
    for event in events:
        event["body"] = orjson.dumps(event["body"])
        event["version"] = recording["version"]
        event["checksum"] = checksum(**event)
    _insert(made, "events", sorted(events, key=lambda event: event["seq"]))
    for table in ("teams", "users", "entries", "idempotency_keys"):
        _insert(made, table, read_lines(fixture / f"{table}.jsonl.xz"))
    # Of all files the sizes are known. Their contents are left out, and nobody looks further.
    examination = SharedDataClient().examination("tiny")
    files = [_sized(row, examination) for row in read_lines(fixture / "files.jsonl.xz")]
    _insert(made, "files", files)
    (made.data / "files").mkdir()
    for row in files:
        if row["seq"] <= made.seq and row["deleted_at"] is None:
            (made.data / "files" / row["id"]).write_text('{"text": "left out"}\n')
    upgrade(made.data)
    return made


def _sized(row: Row, examination: str) -> Row:
    """A file whose sizes, recorded by base and length, are of the examination that is made now."""
    sizes = {
        size_key(f"{base}:{examination}", int(length)): size
        for key, size in row["body"]["data_sizes"].items()
        # Since version 12 the examination is between them.
        for base, *_, length in [key.split(":")]
    }
    return {**row, "body": {"data_sizes": sizes}}


def recorded_jobs(fixture: Path = FIXTURE) -> dict[str, Row]:
    """Rows of jobs as the service left them at the end, by id."""
    return {row["id"]: row for row in read_lines(fixture / "jobs.jsonl.xz")}


def recorded_entries(fixture: Path = FIXTURE) -> list[list[Any]]:
    """Sequence number, job, account and amount of each entry, in the order of events."""
    rows = sorted(read_lines(fixture / "entries.jsonl.xz"), key=lambda row: row["seq"])
    return [[row[name] for name in ("seq", "job", "account", "amount")] for row in rows]


def refold(made: Moment) -> tuple[dict[str, Row], list[list[Any]]]:
    """Rows of jobs by id, and entries of the ledger, as all zones' logs make them.

    They become the data folder's rows of jobs.
    """
    history = read_history(made.data)
    rows: dict[str, Row] = {}
    booked: list[list[Any]] = []
    for zone in ZONES:
        replayed = ReplayedZone(zone, history.events[zone.name])
        assert list(replayed.apply_events({})) == []
        rows |= {name: job_record(row) for name, row in replayed.rows.items()}
        booked += [[one.seq, one.job, one.account, one.amount] for one in replayed.entries]
    _insert(made, "jobs", sorted(rows.values(), key=lambda row: row["seq"]))
    shown = {name: {**row, "body": orjson.loads(row["body"])} for name, row in rows.items()}
    return shown, sorted(booked, key=lambda one: one[0])


def add_charges(made: Moment) -> None:
    """Charge a user for answers, which the soak did not: the first as before there were fractions.

    Both are events of version 11.
    """
    shared = {"user": "ada", "key": CHARGED_KEY, "team": None, "model": "tiny", "price": "0.0100"}
    fraction = {"carried": "0.00005"}
    later = replace(made, seq=made.seq + 10)
    for seq, tokens, carried in ((made.seq + 1, 9, {}), (made.seq + 4, 15, fraction)):
        counts = {"prompt_tokens": 2, "completion_tokens": tokens - 2, "amount": "0.0001"}
        event = {"zone": "owned", "slot": 10**6, "at": made.at, "type": "tokens.used", "job": None}
        body = orjson.dumps({**shared, **counts, **carried})
        row: Row = {"seq": seq, **event, "body": body, "version": 11}
        _insert(later, "events", [{**row, "checksum": checksum(**row)}])
        entry = {"seq": seq, "job": None, "at": made.at}
        _insert(
            later,
            "entries",
            [
                {"id": seq + 1, "account": "user:ada", "amount": 1, **entry},
                {"id": seq + 2, "account": "revenue", "amount": -1, **entry},
            ],
        )


def record_snapshots(fixture: Path, moment: str) -> None:
    """Write the state of each zone at a moment, as this version keeps it."""
    with TemporaryDirectory() as folder:
        made = unpack(Path(folder), moment, fixture)
        history = read_history(made.data)
        for zone in ZONES:
            events = history.events[zone.name]
            model = zone.empty_model(events[0].body)
            for event in events:
                model.apply(event)
            body = write_snapshot(SnapshotWriter().write(model))
            content = lzma.compress(body, preset=9 | lzma.PRESET_EXTREME)
            (fixture / f"snapshot-{zone.name}-{model.seq}.xz").write_bytes(content)


def restore_snapshots(made: Moment) -> dict[str, int]:
    """Put the recorded snapshots into a folder of their moment; their events, by zone."""
    rows: list[Row] = []
    for file in made.fixture.glob("snapshot-*.xz"):
        _, zone, seq = file.stem.split("-")
        packed = snapshot_store._pack(lzma.decompress(file.read_bytes()))
        rows.append({"zone": zone, "seq": int(seq), "at": made.at, "body": packed})
    _insert(made, "snapshots", rows)
    return {row["zone"]: row["seq"] for row in rows}


@contextlib.contextmanager
def opened(made: Moment) -> Iterator[Served]:
    """The service on a folder, while its clock stands at the moment."""
    clock = Clock()
    clock.time = made.at
    file = read_config(made.config)
    base = json.loads((made.fixture / "recording.json").read_text())["base"]
    profile = read_profile(made.folder / "profile.json")
    facts = BaseFacts("tiny", base["digest"], base["context_tokens"], profile)
    with serving(made.data, file, clock, base=facts) as served:
        yield served


def observe(made: Moment) -> Found:
    """All that is to be seen of a service that opens on a folder, by what it is."""
    with opened(made) as served:
        found = answers(served)
        found |= {f"snapshot of {zone}": tree for zone, tree in snapshots(served).items()}
    if made.seq == moments(made.fixture)["end"]["seq"]:
        found |= {f"replay of {zone.name}": replay(made, zone.name) for zone in ZONES}
    with contextlib.closing(sqlite3.connect(made.data / FILE_NAME)) as connection:
        added = connection.execute(
            "SELECT seq, zone, slot, at, type, job, body, checksum FROM events"
            " WHERE seq > ? ORDER BY seq",
            (made.seq,),
        ).fetchall()
    found["events on opening"] = [[*row[:6], orjson.loads(row[6]), row[7]] for row in added]
    return found


def answers(served: Served) -> Found:
    """Bodies of the API's answers to an operator and to owners."""
    found = operator_answers(served)
    for one in found["operator GET /v1/users"]["body"]["data"]:
        if one["id"] != "operator":
            with served.http(served.key(one["id"])) as client:
                _ask_as_owner(_Asked(found, one["id"], client))
    with served.http(served.operator) as client:
        operator = _Asked(found, "operator", client)
        for path in [path for path in found if path.endswith("/explanation")]:
            operator.get(path.split()[-1])
    return found


def operator_answers(served: Served) -> Found:
    """Bodies of the API's answers to an operator: zones, prices, plans, decisions, the books."""
    found: Found = {}
    with served.http(served.operator) as client:
        asked = _Asked(found, "operator", client)
        for path in (
            "/v1/zones",
            "/v1/ledger/balances",
            "/v1/ledger/history?hours=1",
            "/v1/ledger/history?hours=24",
            "/v1/users",
            "/v1/teams",
        ):
            asked.get(path)
        for zone in served.service.zones:
            for what in ("", "/state", "/plans"):
                asked.get(f"/v1/zones/{zone}{what}")
            asked.pages(f"/v1/zones/{zone}/decisions", "job")
    return found


def _ask_as_owner(asked: "_Asked") -> None:
    for path in ("/v1/ledger", "/v1/webhooks"):
        asked.get(path)
    asked.pages("/v1/ledger/entries", "id")
    asked.pages("/v1/files", "id")
    jobs = asked.pages("/v1/fine_tuning/jobs", "id")
    looked_at: set[tuple[Any, ...]] = set()
    for job in jobs:
        place, market = f"/v1/fine_tuning/jobs/{job['id']}", job["market"]
        how = (market["zone"], market["state"], market["reason"], (job["error"] or {}).get("code"))
        if market["decision"] == "admitted" or how not in looked_at:
            asked.get(f"{place}/events?limit=100")
        # Of jobs that stand alike one is looked at by itself.
        if how not in looked_at:
            looked_at.add(how)
            asked.get(place)
            asked.get(f"{place}/checkpoints")
            if market["decision"] is not None:
                asked.get(f"{place}/explanation")
    trained = [job["training_file"] for job in jobs if job["market"]["plan"] is not None]
    for file in dict.fromkeys(trained[:1]):
        _price(asked, file)


def _price(asked: "_Asked", file: str) -> None:
    """Ask what bids with a file of known size would be answered, which leaves no trace."""
    for zone in ZONES:
        # Its jobs need one file for each site.
        if isinstance(zone, EdgeZone):
            continue
        for seed in range(_BIDS):
            body = zone.bid(random.Random(seed), {CLEAN: [file], MESSY: [file]})
            market = {**body["market"], "zone": zone.name, "repair": False}
            asked.post("/v1/quotes", {**body, "market": market, "seed": 1}, f"{zone.name} {seed}")
            market["what_if"] = True
            body = {**body, "market": market, "seed": 1}
            asked.post("/v1/fine_tuning/jobs", body, f"{zone.name} {seed}")


class _Asked:
    """Asks, and notes what is answered."""

    def __init__(self, found: Found, who: str, client: httpx2.Client) -> None:
        self._found, self._who, self._client = found, who, client

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        return self._note(f"GET {path}", answer)

    def pages(self, path: str, key: str) -> list[Row]:
        """All pages of a list as one."""
        found: list[Row] = []
        query = "limit=100"
        while True:
            answer = self._client.get(f"{path}?{query}")
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found += page["data"]
            if not page["has_more"]:
                break
            query = f"limit=100&after={page['data'][-1][key]}"
        self._found[f"{self._who} GET {path}"] = found
        return found

    def post(self, path: str, body: Row, name: str) -> None:
        """What is answered, without the random id in it."""
        answer = self._client.post(path, json=body)
        self._note(f"POST {path} {name}", answer).pop("id", None)

    def _note(self, what: str, answer: httpx2.Response) -> Any:
        body = answer.json()
        self._found[f"{self._who} {what}"] = {"status": answer.status_code, "body": body}
        return body


def snapshots(served: Served) -> dict[str, Any]:
    """What each zone would keep of its state, by zone."""
    return {
        name: _plain(
            read_snapshot(
                write_snapshot(zone.actor.submit(lambda zone: zone.model.save()).result(600))
            )
        )
        for name, zone in served.service.zones.items()
    }


def _save(zone: AnyZone) -> dict[str, Any]:
    return zone.model.save()


def keep_snapshots(served: Served) -> None:
    """Have each zone keep a snapshot, of which its next life begins."""
    market = served.service
    for zone in market.zones.values():
        kept = Snapshots(market.store.reader)
        keeper = Snapshotter(zone.actor, zone.clock, kept, market.committer, interval=1)
        served.run(keeper.snapshot_if_due)


def replay(made: Moment, zone: str) -> Any:
    """What `auctune replay` says of a zone: whether all is decided again as it was."""
    named = ("--data", made.data, "--config", made.config, "--zone", zone, "--json")
    ended = CliRunner().invoke(app, ["replay", *map(str, named)], catch_exceptions=False)
    return {"exit code": ended.exit_code, "figures": json.loads(ended.stdout)}


def _plain(value: Any) -> Any:
    """A snapshot as JSON: arrays with their types, bytes of JSON as that."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and value.ndim == 1:
            with contextlib.suppress(ValueError):
                return orjson.loads(value.tobytes())
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": value.tolist()}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _insert(made: Moment, table: str, rows: list[Row]) -> None:
    """Rows up to the moment."""
    kept = [row for row in rows if row.get("seq", 0) <= made.seq and row.get("at", 0) <= made.at]
    with contextlib.closing(sqlite3.connect(made.data / FILE_NAME)) as connection:
        info = connection.execute(f"PRAGMA table_info({table})").fetchall()
        is_bytes = {column[1]: column[2] == "BLOB" for column in info}
        marks = ", ".join("?" * len(info))
        connection.executemany(
            f"INSERT INTO {table} ({', '.join(is_bytes)}) VALUES ({marks})",
            [
                [_stored(row[name]) if is_bytes[name] else row[name] for name in is_bytes]
                for row in kept
            ],
        )
        connection.commit()


def _stored(value: Any) -> bytes:
    return value if isinstance(value, bytes) else orjson.dumps(value)


def observed(folder: Path, moment: str, fixture: Path = FIXTURE) -> Found:
    """All that is to be seen at a moment, opened in an empty folder."""
    made = unpack(folder, moment, fixture)
    rows, entries = refold(made)
    found: Found = json.loads(json.dumps({"jobs": rows, "entries": entries, **observe(made)}))
    return found


def _file(fixture: Path, moment: str) -> Path:
    return fixture / f"expected-{moment.replace(' ', '-')}.json.xz"


def expected(moment: str, fixture: Path = FIXTURE) -> Found:
    """What was to be seen at a moment when the expectations were written."""
    found: Found = json.loads(lzma.decompress(_file(fixture, moment).read_bytes()))
    return found


def write_expectations(fixture: Path = FIXTURE) -> None:
    """Expect what is to be seen now. Never in a refactoring; see `benchmarks/record_logs.py`."""
    for moment in moments(fixture):
        with TemporaryDirectory() as folder:
            text = json.dumps(observed(Path(folder), moment, fixture), separators=(",", ":"))
        content = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        _file(fixture, moment).write_bytes(content)


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where two values differ, as paths with both sides; 1 and 1.0 differ.

    Amounts are texts, and equal. Floats differ in the last bits between processors, where they
    come of powers and exponentials.
    """
    if type(expected) is not type(found):
        yield f"{path}: expected {_short(expected)}, found {_short(found)}"
    elif isinstance(expected, dict):
        for name in expected.keys() | found.keys():
            inner = f"{path}[{name!r}]"
            if name not in found:
                yield f"{inner}: missing, expected {_short(expected[name])}"
            elif name not in expected:
                yield f"{inner}: not expected, found {_short(found[name])}"
            else:
                yield from differences(expected[name], found[name], inner)
    elif isinstance(expected, list):
        for index, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, f"{path}[{index}]")
        if len(expected) != len(found):
            yield f"{path}: expected {len(expected)} items, found {len(found)}"
    elif isinstance(expected, float):
        if not math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12):
            yield f"{path}: expected {expected!r}, found {found!r}"
    elif expected != found:
        yield f"{path}: expected {_short(expected)}, found {_short(found)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
