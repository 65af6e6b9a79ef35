"""Record the logs of a soak as a fixture of `tests/integration/test_recorded_logs.py`.

    python benchmarks/service_soak.py --minutes 5 --even --keep FOLDER
    python benchmarks/record_logs.py FOLDER [--to tests/data/recorded_logs/vVERSION]
    python benchmarks/record_logs.py --expectations

The fixture has the events of each zone, the rows of the tables beside them, the settings, two
moments at which the test starts a service on it (one with jobs under way in all zones, and the
end), and a snapshot of each zone at the first.
API keys and contents of files are left out.

The log of version 15 is that of version 14 under its number: between them no body of the types in
it changed.

The first form adds the fixture of a version of the log, and refuses one that is there: logs of
earlier versions must be read in all later ones. The last form keeps the logs and replaces only the
expected responses of all fixtures. That is legitimate after a deliberate change of a response,
named in the commit, and never in a refactoring: the test exists to show that a refactoring changes
nothing. Where a change renames what is stored, or adds a key to the rows of jobs
(`jobs.jsonl.xz`), convert the fixture by a script and leave the meaning of the expectations
unchanged.
"""

import argparse
import json
import lzma
import os
import re
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from auctune.service.storage.event_log import VERSION, checksum

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.recorded_logs import FIXTURES, LOGS, record_snapshots, write_expectations

Row = dict[str, Any]

UNDER_WAY = "under way"

TABLES = ("teams", "users", "files", "jobs", "entries", "idempotency_keys")
# Events of one commit are closer: between two of them there is no state that was ever on disk.
_MIN_GAP_SECONDS = 0.1
_PRICES = "prices.updated"
_PENDING, _ADMITTED = "pending", "admitted"


def record(service: Path, to: Path) -> None:
    """Write the logs of the fixture.

    Args:
        service: folder with the service's settings and data.
        to: the fixture's folder, which must not exist.
    """
    to.mkdir(parents=True)
    database = f"file:{service / 'data' / 'auctune.db'}?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as connection:
        events = list(read_table(connection, "events", "seq"))
        tables = {name: list(read_table(connection, name, "rowid")) for name in TABLES}
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    zones = list(dict.fromkeys(event["zone"] for event in events))
    for zone in zones:
        of_zone = [without_checksum(event) for event in events if event["zone"] == zone]
        write_lines(to / f"events-{zone}.jsonl.xz", of_zone)
    for name, rows in tables.items():
        write_lines(to / f"{name}.jsonl.xz", rows)
    for name in ("auctune.toml", "profile.json", "vendor.token"):
        shutil.copyfile(service / name, to / name)
    market = (service / "market.csv").read_bytes()
    (to / "market.csv.xz").write_bytes(lzma.compress(market))
    (base_file,) = (service / "data" / "profiles").glob("base-*.json")
    base = json.loads(base_file.read_text())
    recording = {
        "version": VERSION,
        "revision": revision,
        "base": {name: base[name] for name in ("digest", "context_tokens")},
        "moments": {UNDER_WAY: _under_way(events, zones), "end": _moment(events[-1])},
    }
    (to / "recording.json").write_text(json.dumps(recording, indent=2) + "\n")
    check_anonymous(to, str(service.parent.resolve()))


def read_table(connection: sqlite3.Connection, table: str, order: str) -> Iterator[Row]:
    """Yield rows by column; bytes as the JSON that they encode."""
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
    names = [column[0] for column in cursor.description]
    for values in cursor:
        yield {
            name: _decode(value) if isinstance(value, bytes) else value
            for name, value in zip(names, values, strict=True)
        }


def _decode(content: bytes) -> Any:
    """Return JSON that the service's encoder encodes as the same bytes."""
    value = json.loads(content)
    assert orjson.dumps(value) == content
    return value


def without_checksum(event: Row) -> Row:
    """Return an event without its checksum, so that a script may convert the event.

    All of a fixture's events are of one version, which is left out too.
    """
    assert event["version"] == VERSION
    rest = {name: value for name, value in event.items() if name != "checksum"}
    assert checksum(**rest | {"body": orjson.dumps(rest["body"])}) == event["checksum"]
    del rest["version"]
    return rest


def _under_way(events: list[Row], zones: Iterable[str]) -> dict[str, Any]:
    """Return the moment without pending jobs that maximizes the least number of jobs per zone."""
    jobs: defaultdict[str, dict[str, str]] = defaultdict(dict)
    learning = {event["zone"] for event in events if event["type"] == _PRICES}
    # Zones whose prices do not know the newest decision: a service that opens there updates them,
    # at any time after it.
    stale: set[str] = set()
    best, found = (-1, -1), events[0]
    for event, following in pairwise(events):
        _update(jobs[event["zone"]], event)
        if event["type"] == _PRICES:
            stale.discard(event["zone"])
        elif event["type"] == "job.decided" and event["zone"] in learning:
            stale.add(event["zone"])
        if following["at"] - event["at"] < _MIN_GAP_SECONDS:
            continue
        if stale:
            continue
        if any(_PENDING in of_zone.values() for of_zone in jobs.values()):
            continue
        counts = [len(jobs[zone]) for zone in zones]
        score = min(counts), sum(counts)
        if score >= best:
            best, found = score, event
    assert best[0] > 0, "at no moment each zone has a job under way"
    return _moment(found)


def _update(jobs: dict[str, str], event: Row) -> None:
    match event["type"]:
        case "job.received":
            jobs[event["job"]] = _PENDING
        case "job.decided" if event["body"]["decision"]["admitted"]:
            jobs[event["job"]] = _ADMITTED
        case "job.decided" | "job.finished" | "job.cancelled" | "job.failed":
            jobs.pop(event["job"], None)


def _moment(event: Row) -> dict[str, Any]:
    return {"seq": event["seq"], "at": event["at"]}


def write_lines(file: Path, rows: Iterable[Row]) -> None:
    """Write rows as compressed lines of JSON."""
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    file.write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))


def check_anonymous(folder: Path, path: str) -> None:
    """Check that no file contains a path of the machine of the soak."""
    for file in folder.iterdir():
        content = file.read_bytes()
        text = (lzma.decompress(content) if file.suffix == ".xz" else content).decode()
        found = re.search(rf"{re.escape(path)}|/home/|/root/|/tmp/|/work/", text)
        assert found is None, f"{file.name} has {text[found.start() : found.start() + 200]}"


def main() -> None:
    """Write the fixture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("soak", type=Path, nargs="?", help="folder that a soak has kept")
    parser.add_argument("--expectations", action="store_true", help="keep the logs as they are")
    parser.add_argument("--to", type=Path, default=LOGS / f"v{VERSION}", help="new folder")
    options = parser.parse_args()
    if (options.soak is None) != options.expectations:
        parser.error("name the folder of a soak, or --expectations")
    if options.soak is not None:
        record(options.soak / "service", options.to)
        record_snapshots(options.to, UNDER_WAY)
    # Processes that the service starts import the tests' support too, and the same sources.
    sources = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], *filter(None, sources)])
    for fixture in FIXTURES if options.expectations else [options.to]:
        write_expectations(fixture)
        for file in sorted(fixture.iterdir()):
            print(f"{file.stat().st_size:>9,} {file}")


if __name__ == "__main__":
    main()
