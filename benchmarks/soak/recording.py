"""Convert the data folder of a soak into the fixture of `tests/integration/test_recorded_logs.py`.

The fixture has the events of each zone, the rows of the tables beside them, the settings, and two
moments at which a service is opened on it: one with jobs under way in all zones, and the end.
API keys, whose secrets nobody knows, and files' contents are left out.
"""

import json
import lzma
import re
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from auctune.service.storage.event_log import checksum

Row = dict[str, Any]

TABLES = ("teams", "users", "files", "jobs", "entries", "idempotency_keys")

# A commit holds events of one moment: a cut between two of them is a state that is on no disk.
_GAP_SECONDS = 0.1
_WAITS, _RUNS = "waits", "runs"


def record(site: Path, to: Path) -> None:
    """Write the fixture.

    Args:
        site: folder with the soak's settings and data.
        to: the fixture's folder; replaced.
    """
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    database = f"file:{site / 'data' / 'auctune.db'}?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as connection:
        events = list(read_table(connection, "events", "seq"))
        tables = {name: list(read_table(connection, name, "rowid")) for name in TABLES}
    zones = list(dict.fromkeys(event["zone"] for event in events))
    for zone in zones:
        of_zone = [without_checksum(event) for event in events if event["zone"] == zone]
        write_lines(to / f"events-{zone}.jsonl.xz", of_zone)
    for name, rows in tables.items():
        write_lines(to / f"{name}.jsonl.xz", rows)
    for name in ("auctune.toml", "profile.json", "vendor.token"):
        shutil.copyfile(site / name, to / name)
    (to / "market.csv.xz").write_bytes(lzma.compress((site / "market.csv").read_bytes()))
    last = events[-1]
    moments = {
        "under way": under_way(events, zones),
        "end": {"seq": last["seq"], "at": last["at"]},
    }
    recording = {"base": base(site / "data"), "moments": moments}
    (to / "recording.json").write_text(json.dumps(recording, indent=2) + "\n")
    check_anonymous(to, str(site.parent.resolve()))


def read_table(connection: sqlite3.Connection, table: str, order: str) -> Iterator[Row]:
    """Rows by column; bytes as the JSON that they are, which must come out as the same bytes."""
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
    names = [column[0] for column in cursor.description]
    for values in cursor:
        yield {
            name: read_bytes(value) if isinstance(value, bytes) else value
            for name, value in zip(names, values, strict=True)
        }


def read_bytes(value: bytes) -> Any:
    """Return JSON of which the service's encoder makes the same bytes."""
    found = json.loads(value)
    assert orjson.dumps(found) == value
    return found


def without_checksum(event: Row) -> Row:
    """Return an event without what follows from the rest, so that a script may change the rest."""
    rest = {name: value for name, value in event.items() if name != "checksum"}
    assert checksum(**rest | {"body": orjson.dumps(rest["body"])}) == event["checksum"]
    return rest


def under_way(events: list[Row], zones: Iterable[str]) -> dict[str, Any]:
    """The moment with most jobs under way in the zone that has fewest, and none undecided."""
    jobs: defaultdict[str, dict[str, str]] = defaultdict(dict)
    best, found = (-1, -1), events[0]
    for event, following in pairwise(events):
        _follow(event, jobs[event["zone"]])
        if following["at"] - event["at"] < _GAP_SECONDS:
            continue
        if any(_WAITS in of_zone.values() for of_zone in jobs.values()):
            continue
        counts = [len(jobs[zone]) for zone in zones]
        score = min(counts), sum(counts)
        if score >= best:
            best, found = score, event
    assert best[0] > 0, "there is no moment with a job under way in each zone"
    return {"seq": found["seq"], "at": found["at"]}


def _follow(event: Row, jobs: dict[str, str]) -> None:
    match event["type"]:
        case "job.received":
            jobs[event["job"]] = _WAITS
        case "job.decided" if event["body"]["decision"]["admitted"]:
            jobs[event["job"]] = _RUNS
        case "job.decided" | "job.finished" | "job.cancelled" | "job.failed":
            jobs.pop(event["job"], None)


def base(data: Path) -> dict[str, Any]:
    """What the service had learned of its base."""
    (learned,) = (data / "profiles").glob("base-*.json")
    record = json.loads(learned.read_text())
    return {name: record[name] for name in ("digest", "context_tokens")}


def write_lines(file: Path, rows: Iterable[Row]) -> None:
    """Rows as compressed lines of JSON."""
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    file.write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))


def check_anonymous(folder: Path, place: str) -> None:
    """That nothing names a place on the machine of the soak."""
    for file in folder.iterdir():
        content = file.read_bytes()
        text = (lzma.decompress(content) if file.suffix == ".xz" else content).decode()
        found = re.search(rf"{re.escape(place)}|/home/|/root/|/tmp/|/work/", text)
        assert found is None, f"{file.name} names {text[found.start() : found.start() + 200]}"
