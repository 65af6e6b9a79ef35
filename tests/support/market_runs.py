"""Small real markets, and `auctune` as a child process that can be watched, stopped and killed."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor

from auctune.engine.base_place import base_cache
from auctune.engine.market.market_file import read_market
from auctune.engine.market.report_data import MarketReport
from auctune.files.device_profile import Profile
from auctune.service.storage import EventLog, open_readonly
from auctune.service.zones.core.snapshots import read_event
from auctune.standalone.folder import RunFolder
from auctune.standalone.preparation import Prepared, Report, file_fields, input_files, prepare
from support.waits import WAIT_SECONDS, poll

EXAMPLE = Path(__file__).parents[2] / "examples" / "first-market"

Table = dict[str, Any]


def small_market() -> Table:
    """Two nodes, ten slots, four bids: two that train at once, one to be repaired, one too low."""
    return {
        "title": "Small market",
        "base": "tiny",
        "slots": 10,
        "slot_seconds": 1.0,
        "sample_tokens": 32.0,
        "threads": 1,
        "auction": {
            "compute_low": 0.0005,
            "compute_high": 0.004,
            "memory_low": 0.01,
            "memory_high": 1.0,
        },
        "node_types": {"slow": {"profile": "slow.json", "energy_cost": 0.02}},
        "nodes": [{"id": "alpha", "type": "slow"}, {"id": "beta", "type": "slow"}],
        "vendors": [{"name": "house", "price": 0.05, "delay": 1}],
        "bids": [
            {"id": "sums", "data": "sums.jsonl", "bid": 4.0, "arrival": 0, "deadline": 7,
             "epochs": 3, "rank": 4, "learning_rate": 0.01, "validation": "check.jsonl",
             "share": 0.12},
            {"id": "mood", "data": "mood.jsonl", "bid": 3.0, "arrival": 0, "deadline": 9,
             "epochs": 3, "rank": 8, "learning_rate": 0.01, "dropout": 0.1, "share": 0.15},
            {"id": "poor", "data": "mood.jsonl", "bid": 0.0001, "arrival": 1, "deadline": 9},
            {"id": "codes", "data": "codes.jsonl", "bid": 2.0, "arrival": 1, "deadline": 9,
             "epochs": 2, "repair": True, "learning_rate": 0.01},
        ],
    }  # fmt: skip


# Rows of validation in a task's count, by task: eight after each of three epochs.
VALIDATION_ROWS = {"sums": 24, "mood": 0, "codes": 0}


def write_market(folder: Path, table: Table | None = None) -> Path:
    """A market file in `folder`, with the files that the small market names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source, first, last in (
        ("sums", "sums", 0, 40),
        ("mood", "mood", 0, 48),
        ("codes", "messy", 0, 24),
        ("check", "sums", 40, 48),
    ):
        lines = (EXAMPLE / "data" / f"{source}.jsonl").read_text().splitlines()[first:last]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    # So slow that a few rows take several slots, which really last far less than they are sold as.
    profile |= {
        "step_seconds": 0.01,
        "token_seconds": 2e-4,
        "task_load_seconds": 0.01,
        "suspend_seconds": 0.01,
    }
    (folder / "slow.json").write_text(json.dumps(profile))
    market = folder / "market.toml"
    market.write_text(to_toml(small_market() if table is None else table))
    return market


def prepare_market(
    market: Path, known: Mapping[str, Profile] | None = None, report: Report = lambda *_: None
) -> Prepared:
    """Prepare a market from copies of its files, as the command does; the copies are deleted."""
    table, place = read_market(market), str(market)
    base, files = input_files(table, market)
    with (
        TemporaryDirectory() as out,
        RunFolder(Path(out)).staged(files, file_fields(table, place)) as staged,
    ):
        return prepare(table, place, base, staged.resolve, base_cache(), known or {}, report)


def to_toml(table: Mapping[str, Any]) -> str:
    """A TOML document of plain values, one top-level key a line."""
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in table.items())


def with_change(path: tuple[str | int, ...], value: Any, table: Table | None = None) -> Table:
    """The small market with one value set, added, or (None) left out."""
    changed: Table = deepcopy(small_market() if table is None else table)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


@dataclass
class Child:
    process: "subprocess.Popen[bytes]"
    output: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        return "".join(self.output)

    def poll(self, is_so: Callable[[], bool]) -> bool:
        """Look again and again until it is so; false if the child ended before."""
        poll(lambda: is_so() or self.process.poll() is not None)
        return is_so()

    def wait_for(self, seen: Callable[[str], bool]) -> bool:
        """Wait until its output is so; false if it ended before."""
        with self._changed:
            assert self._changed.wait_for(lambda: seen(self.text) or self._ended, WAIT_SECONDS), (
                self.text
            )
            return seen(self.text)

    def wait(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join()
        return code

    def kill_group(self, number: signal.Signals) -> None:
        """Send a signal to the market and all its nodes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def nodes(self) -> list[int]:
        """Ids of its node processes."""
        return [pid for pid, parent in _parents().items() if parent == self.pid and _is_worker(pid)]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.output.append(line.decode())
                self._changed.notify_all()
        self.process.stdout.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Commands:
    def __init__(self, cache_home: Path) -> None:
        self._cache_home = cache_home
        self._children: list[Child] = []

    def start(self, *arguments: str | Path, cwd: Path | None = None) -> Child:
        process = subprocess.Popen(
            [sys.executable, "-m", "auctune", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=os.environ | {"XDG_CACHE_HOME": str(self._cache_home), "COLUMNS": "100"},
            start_new_session=True,
        )
        self._children.append(Child(process))
        return self._children[-1]

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> tuple[int, str]:
        child = self.start(*arguments, cwd=cwd)
        return child.wait(), child.text

    def clear(self) -> None:
        for child in self._children:
            child.kill_group(signal.SIGKILL)
            child.wait()


def read_events(out: Path) -> list[Table]:
    """Events in the log of a run: type, job and slot, and the fields of the body."""
    if not RunFolder(out).log.exists():
        return []
    with open_readonly(out / "state") as reader:
        log = EventLog(reader)
        return [
            {"type": event.type, "job": event.job, "slot": event.slot} | event.body
            for zone in log.zones()
            for event in map(read_event, log.read_zone(zone))
        ]


def read_decisions(out: Path) -> list[Table]:
    return [json.loads(line) for line in (out / "decisions.jsonl").read_text().splitlines()]


def living(pids: list[int]) -> list[int]:
    """Those that are still there, and not only waiting for their parent to notice."""
    parents = _parents()
    return [pid for pid in pids if pid in parents]


def parent_of(pid: int) -> int:
    """Which process started one that is there."""
    return _parents()[pid]


def descendants(pid: int) -> list[int]:
    """All that a process, and those that it started, have started."""
    parents, found = _parents(), [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


# The title of workers that a fork server has forked, with the process that they belong to.
_MADE_FOR = re.compile(rb"auctune -m \S+ for (\d+)")
# That of a worker of Ray which only waits for the one that was forked in its place.
_FORKED_AS = re.compile(rb"worker of Ray, forked as (\d+)")


def _is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"auctune.engine.workers.node" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _parents() -> dict[int, int]:
    """Parents by process, of all but zombies; forked workers have the one they belong to."""
    found, forked = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, *_ = stat.read_text().rpartition(")")[2].split()
            if state != "Z":
                line = (stat.parent / "cmdline").read_bytes()
                made_for = _MADE_FOR.match(line)
                found[int(stat.parent.name)] = int(made_for[1] if made_for else parent)
                if forked_as := _FORKED_AS.match(line):
                    forked[int(forked_as[1])] = int(parent)
    return found | forked


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def count_events(out: Path, kind: str) -> int:
    return sum(event["type"] == kind for event in read_events(out))


def quiet() -> Console:
    """A console that nobody reads, with what was printed in its `file`."""
    return Console(file=io.StringIO(), width=100, highlight=False)


def weights(out: Path, task: str) -> dict[str, Tensor]:
    return load_file(out / "tasks" / task / "adapter" / "adapter_model.safetensors")


def report_of(out: Path) -> MarketReport:
    return MarketReport.from_json(json.loads((out / "report.json").read_bytes()))
