"""Record what runs of every kind come to, and check that another revision comes to the same.

    python benchmarks/recordings.py record FOLDER [--only NAME ...] [--python PATH]
    python benchmarks/recordings.py check FOLDER [--only NAME ...] [--python PATH]

A scenario runs `auctune` as a user would, on the data of the examples: undisturbed, on Ray, or
killed at random moments and resumed. FOLDER has a JSON file for each: exit code, messages,
decisions, bills, receipts, loss curves, digests of adapters, and the run's events. `check` runs
them again and prints each difference; exit code 1 if there is any. A killed run is compared with
the recording of the undisturbed one, its messages and events apart.

Adapters are the same bit for bit on one kind of processor alone: record on the machine that checks,
from the revision before the change, whose interpreter `--python` names. Logs of the service are
checked by tests/integration/test_recorded_logs.py, texts of messages by tests/docs.
"""

import argparse
import difflib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from auctune.service.config.generator import to_toml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.market_runs import descendants, with_change, write_market
from support.market_runs import read_events as read_log

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

# Facts that depend on how fast the machine is, or on where and when something ran.
VOLATILE = frozenset({
    "seconds", "switch_seconds", "moment", "overhead", "switching", "measured", "inputs", "notes",
    "most_bytes", "max_bytes", "suspended", "resumed", "host", "pid", "trace", "created_at",
    "finished_at", "time_unix", "estimated_finish", "version",
})  # fmt: skip
# Of workers that are killed.
OF_KILLS = frozenset({"crashed"})
# What is later, as a float, is a moment in unix time.
UNIX_TIME = 1.6e9
# Lines of progress, which come as often as there is time for.
PROGRESS = re.compile(
    r"^(loading|reading|readying|building|starting|compiling|note: slot \d+ took)|"
    r"lasted longer than|^watch with:|training \d+|packing \d+"
)
NUMBER_OF_SECONDS = re.compile(r"\b\d+(\.\d+)? s\b")
WORKERS = re.compile(rb"^ray::|^auctune -m \S+ for|channel import main")
RUN_SECONDS = 1800.0
POLL_SECONDS = 0.1
KILLS = 3
MAX_LINES = 60
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run that is recorded.

    Attributes:
        name: of its file.
        run: runs it in an empty folder, and returns the facts.
        of: the scenario whose facts it must come to: undisturbed, or without Ray; else its own.
    """

    name: str
    run: Callable[["Program", Path], Facts]
    of: str = ""


@dataclass(slots=True)
class Program:
    """The `auctune` that is recorded.

    Attributes:
        python: interpreter of its environment.
        draw: moments of kills.
        num_kills: so far.
    """

    python: str
    draw: random.Random = field(default_factory=lambda: random.Random(36))
    num_kills: int = 0

    def start(
        self, *arguments: str | Path, stdout: Any = subprocess.PIPE
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.python, "-P", "-m", "auctune", *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | {"COLUMNS": "200", "TERM": "dumb"},
            text=True,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *arguments: str | Path) -> tuple[int, str]:
        """Run a command to its end; return exit code and output."""
        child = self.start(*arguments)
        text, _ = child.communicate(timeout=RUN_SECONDS)
        return child.returncode, text

    def run_killed(self, resume: Sequence[str], *arguments: str | Path, out: Path) -> Facts:
        """Run a command into a folder, kill all of it or a worker again and again, to its end."""
        kills = 0
        child = self.start(*arguments, "--out", out, stdout=subprocess.DEVNULL)
        while kills < KILLS and _waits(child, self.draw.uniform(4.0, 15.0)):
            kills += 1
            if self.draw.random() < 0.5 and kill_worker(child.pid, self.draw):
                continue
            kill_all(child)
            child = self._restart(resume, arguments, out)
        self.num_kills += kills
        # A worker that is killed once too often ends some runs, which can be resumed.
        for _ in range(KILLS):
            if child.wait(RUN_SECONDS):
                child = self._restart(resume, arguments, out, is_new=child.returncode == 2)
        assert child.wait(RUN_SECONDS) == 0, "the run does not end"
        return read_out(out)

    def _restart(
        self,
        resume: Sequence[str],
        arguments: Sequence[str | Path],
        out: Path,
        *,
        is_new: bool = False,
    ) -> "subprocess.Popen[str]":
        # One that was killed while it stored its inputs has nothing to resume.
        if is_new or not out.exists():
            shutil.rmtree(out, ignore_errors=True)
            return self.start(*arguments, "--out", out, stdout=subprocess.DEVNULL)
        return self.start(*resume, "--resume", out, stdout=subprocess.DEVNULL)


def _waits(child: "subprocess.Popen[str]", seconds: float) -> bool:
    """Wait; return whether the child still runs."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(seconds)
    return child.poll() is None


def kill_all(child: "subprocess.Popen[str]") -> None:
    """Kill a command; its workers notice that it is gone."""
    workers = descendants(child.pid)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/exe").exists() for pid in workers) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def kill_worker(pid: int, draw: random.Random) -> bool:
    """Kill one of the workers of a command; return whether it had any."""
    found = []
    for worker in descendants(pid):
        with suppress(OSError):
            if WORKERS.search(Path(f"/proc/{worker}/cmdline").read_bytes().replace(b"\0", b" ")):
                found.append(worker)
    if not found:
        return False
    with suppress(ProcessLookupError):
        os.kill(draw.choice(found), signal.SIGKILL)
    return True


def scrub(value: Any, volatile: Collection[str] = VOLATILE) -> Any:
    """Return facts without what depends on the machine, or on what else is named."""
    if isinstance(value, Mapping):
        return {
            key: scrub(one, volatile)
            for key, one in value.items()
            if key not in volatile and not (isinstance(one, float) and one > UNIX_TIME)
        }
    if isinstance(value, list | tuple):
        return [scrub(one, volatile) for one in value]
    return value


def messages(text: str, out: Path) -> list[str]:
    """Return the lines of an output, sorted, without progress and seconds."""
    lines = (line.replace(str(out), "OUT").rstrip() for line in text.splitlines())
    return sorted(
        NUMBER_OF_SECONDS.sub("# s", line) for line in lines if line and not PROGRESS.search(line)
    )


def read_out(out: Path) -> Facts:
    """Return what a command has written for its user: values of JSON, digests of all else."""
    facts = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out)
        if not path.is_file() or name.parts[0] in ("state", "inputs", ".lock"):
            continue
        if path.suffix == ".json":
            facts[str(name)] = scrub(json.loads(path.read_bytes()))
        elif path.suffix == ".jsonl":
            facts[str(name)] = [scrub(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".safetensors":
            facts[str(name)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            # Pages have the same facts as the files.
            facts[str(name)] = "a file"
    return facts


def read_events(out: Path) -> list[Any]:
    """Return the events of a run; nodes that train side by side are in the order of names."""
    journal = out / "state" / "journal.jsonl"
    if journal.exists():
        events = [scrub(json.loads(line.partition(b" ")[2])) for line in journal.open("rb")]
    else:
        # The first one has the time of the start.
        events = scrub(read_log(out)[1:])
    groups = groupby(events, key=lambda event: event["type"])
    return [event for _, group in groups for event in sorted(group, key=to_text)]


def command(
    name: str, *arguments: str, market: Any = None, of: str = "", killed: bool = True
) -> list[Scenario]:
    """Return the scenarios of a command that ends by itself.

    Args:
        name: of the scenario.
        arguments: the command; `MARKET` stands for a file that `market` writes.
        market: writes a file into a folder, and returns it; or None.
        of: the scenario whose facts it must come to, or none.
        killed: whether it is killed and resumed as well.
    """
    words = [word for word in arguments[:2] if word in ("spot", "timeshare", "edge", "run")]

    def prepare(folder: Path) -> list[str | Path]:
        file = None if market is None else market(folder / "market")
        return [file if word == "MARKET" and file else word for word in arguments]

    def undisturbed(program: Program, folder: Path) -> Facts:
        out = folder / "out"
        code, text = program.run(*prepare(folder), "--out", out)
        shown = {"code": code, "messages": messages(text, out), "events": read_events(out)}
        return {"facts": read_out(out), "shown": shown}

    def disturbed(program: Program, folder: Path) -> Facts:
        return {"facts": program.run_killed(words, *prepare(folder), out=folder / "out")}

    found = [Scenario(name, undisturbed, of)]
    return [*found, Scenario(f"{name}-killed", disturbed, of or name)] if killed else found


def service(kind: str, submits: Sequence[Sequence[str]], **settings: Any) -> list[Scenario]:
    """Return the scenarios of a service with one zone, and of jobs that train in it.

    Args:
        kind: of the zone.
        submits: arguments of `auctune submit`, one a job.
        settings: of the zone, in place of those of examples/service/all-kinds.toml.
    """

    def run(program: Program, folder: Path, kills: int) -> Facts:
        data = folder / "data"
        config = write_zone(folder, kind, settings)
        with serving(program, config, data) as restart:
            for arguments in submits:
                code, text = program.run("submit", *arguments, "--data", data)
                assert code == 0, text
            for _ in range(kills):
                time.sleep(program.draw.uniform(4.0, 12.0))
                restart()
            program.num_kills += kills
            code, text = program.run("watch", "--data", data)
            assert code == 0, text
            return {"facts": read_jobs(data)}

    name = f"service-{kind}"
    return [
        Scenario(name, lambda program, folder: run(program, folder, 0)),
        Scenario(f"{name}-killed", lambda program, folder: run(program, folder, KILLS), of=name),
    ]


def write_zone(folder: Path, kind: str, changes: Mapping[str, Any]) -> Path:
    """Write the settings of a service with the example's zone of a kind."""
    table = tomllib.loads((EXAMPLES / "service" / "all-kinds.toml").read_text())
    zone = next(one for one in table["zones"] if one.get("kind", "auction") == kind)
    for place in (zone, *zone.get("node_types", {}).values()):
        for key in ("profile", "market"):
            if key in place:
                place[key] = str((EXAMPLES / "service" / place[key]).resolve())
    zone |= changes
    lines = "".join(f"{key} = {to_toml(value)}\n" for key, value in zone.items())
    file = folder / "auctune.toml"
    file.write_text(f"[[zones]]\n{lines}")
    return file


@contextmanager
def serving(program: Program, config: Path, data: Path) -> Iterator[Callable[[], None]]:
    """Run a service; the value kills it or one of its workers, and starts it again."""
    log = (config.parent / "serve.log").open("a")

    def start() -> "subprocess.Popen[str]":
        (data / "url").unlink(missing_ok=True)
        child = program.start(
            "serve", "--config", config, "--data", data, "--port", "0", stdout=log
        )
        end = time.monotonic() + 300
        while not (data / "url").exists():
            assert child.poll() is None, Path(log.name).read_text()
            assert time.monotonic() < end, "the service does not start"
            time.sleep(POLL_SECONDS)
        return child

    running = [start()]

    def restart() -> None:
        if program.draw.random() < 0.5 and kill_worker(running[0].pid, program.draw):
            return
        kill_all(running[0])
        running[0] = start()

    try:
        yield restart
    finally:
        running[0].terminate()
        running[0].wait(60)
        log.close()


def read_jobs(data: Path) -> Facts:
    """Return what the service says of its jobs, and the digests of their adapters."""
    url = (data / "url").read_text().strip()
    key = (data / "first-key").read_text().strip()

    def get(path: str) -> bytes:
        request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request) as response:
            content: bytes = response.read()
        return content

    jobs = json.loads(get("/v1/fine_tuning/jobs?limit=100"))["data"]
    facts = {}
    for job in jobs:
        market = job["market"]
        known: Facts = {"status": job["status"], "error": job["error"]}
        # What a second of a pool trains depends on the machine, and so do the rows at a target.
        if market.get("target") is None:
            known["trained_tokens"] = job["trained_tokens"]
            # What is metered depends on the price of the hour.
            known["payment"] = None if market.get("metered") else market["payment"]
            known["metrics"], *known["adapters"] = [
                read_result(get(f"/v1/files/{file}/content")) for file in job["result_files"]
            ]
        facts[job["metadata"]["name"]] = known
    return facts


def read_result(content: bytes) -> Any:
    """Return the digest of the adapter in an archive, or the lines of a table."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return content.decode().splitlines()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".safetensors"))
        return hashlib.sha256(archive.read(name)).hexdigest()


def exact_market(**changes: Any) -> Callable[[Path], Path]:
    """Return what writes a small market whose adapters do not depend on their company."""
    table = with_change(("mode",), "exact")
    for key, value in changes.items():
        table = with_change((key,), value, table)
    return lambda folder: write_market(folder, table)


def small_rental(folder: Path) -> Path:
    """Write the example's job for two instances, as this machine has few cores."""
    job = tomllib.loads((EXAMPLES / "spot" / "job.toml").read_text())
    job["job"] |= {"workload": 12, "n_max": 2}
    job["training"]["data"] = str(EXAMPLES / "spot" / job["training"]["data"])
    folder.mkdir()
    file = folder / "job.toml"
    tables = (
        f"[{name}]\n" + "".join(f"{key} = {to_toml(value)}\n" for key, value in table.items())
        for name, table in job.items()
    )
    file.write_text("".join(tables))
    return file


SPOT = ("--market", "examples/spot/market.csv", "--start", "297", "--model-time")
EDGE = ("edge", "run", "examples/edge/instance.json", "--training", "examples/edge/training.toml")
DATA = "examples/first-market/data"
SCENARIOS = [
    *command("first-market", "run", "examples/first-market/market.toml", killed=False),
    *command("market", "run", "MARKET", market=exact_market()),
    *command("market-ray", "run", "MARKET", market=exact_market(executor="ray"), of="market"),
    *command("spot", "spot", "run", "examples/spot/job.toml", *SPOT, "--warm", killed=False),
    *command("rental", "spot", "run", "MARKET", *SPOT, "--warm", market=small_rental),
    *command("rental-cold", "spot", "run", "MARKET", *SPOT, market=small_rental, of="rental"),
    *command("rental-ray", "spot", "run", "MARKET", *SPOT, "--provider", "ray",
             market=small_rental, of="rental"),
    *command("timeshare", "timeshare", "run", "examples/timeshare/adapters.toml"),
    *command("edge", *EDGE),
    *service(
        "auction",
        [
            (f"{DATA}/weather.jsonl", "--bid", "40", "--deadline", "+900s", "--name", "weather",
             "--set", "epochs=4", "--set", "seed=7"),
            (f"{DATA}/mood.jsonl", "--bid", "40", "--deadline", "+900s", "--name", "mood",
             "--set", "epochs=4", "--set", "seed=7", "--set", "dropout=0.1"),
        ],
        mode="exact",
        slots=200,
    ),
    *service(
        "spot",
        [
            (f"{DATA}/weather.jsonl", "--max-cost", "500", "--value", "400@+900s..+1200s",
             "--name", "weather", "--set", "epochs=2", "--set", "seed=7"),
        ],
    ),
    *service(
        "timeshare",
        [
            (f"{DATA}/weather.jsonl", "--target-loss", "1.5", "--max-cost", "50", "--deadline",
             "+900s", "--name", "weather", "--set", "seed=7", "--set", "learning_rate=0.01"),
        ],
    ),
    *service(
        "edge",
        [
            ("--site", "harbour=out/sites/harbour.jsonl", "--site",
             "station=out/sites/station.jsonl", "--bid", "30", "--deadline", "+2000s", "--name",
             "ships", "--set", "epochs=1", "--set", "seed=7"),
        ],
        slot_seconds=40,
        sites=[
            {"id": "harbour", "capacity": {"cpu": 1.5}},
            {"id": "station", "capacity": {"cpu": 1.5}},
        ],
    ),
]  # fmt: skip


def run(scenario: Scenario, program: Program, keep: Path | None) -> Facts:
    """Run a scenario in a new folder."""
    folder = Path(tempfile.mkdtemp(prefix="auctune-recording-"))
    started = time.monotonic()
    kills = program.num_kills
    try:
        facts = scenario.run(program, folder)
    finally:
        if keep is not None:
            shutil.copytree(folder, keep / scenario.name, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    seconds, kills = time.monotonic() - started, program.num_kills - kills
    print(f"{scenario.name}: {seconds:.0f} s, {kills} kills", file=sys.stderr, flush=True)
    return facts


def to_text(facts: Facts) -> str:
    return json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def differences(name: str, recorded: str, found: str) -> list[str]:
    return list(
        difflib.unified_diff(
            recorded.splitlines(),
            found.splitlines(),
            f"{name}, recorded",
            f"{name}, now",
            n=3,
            lineterm="",
        )
    )


def main() -> int:
    """Record or check; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("record", "check", "list"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/recordings"))
    parser.add_argument("--only", nargs="*", metavar="NAME", help="some scenarios; default: all")
    parser.add_argument("--python", default=sys.executable, help="interpreter with auctune")
    parser.add_argument(
        "--times", type=int, default=1, help="how often; each time with other kills"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs' folders there")
    options = parser.parse_args()
    chosen = [one for one in SCENARIOS if not options.only or one.name in options.only]
    if options.action == "list":
        print("\n".join(one.name for one in chosen))
        return 0
    make_sites = [sys.executable, str(EXAMPLES / "edge" / "make_sites.py")]
    subprocess.run(
        [*make_sites, str(ROOT / "out" / "sites")], check=True, stdout=subprocess.DEVNULL
    )
    program = Program(options.python)
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for one in chosen * options.times:
        facts = run(one, program, options.keep)
        file = options.folder / f"{one.of or one.name}.json"
        if options.action == "record" and not one.of:
            file.write_text(to_text(facts))
            continue
        recorded = json.loads(file.read_text())
        if one.of:
            recorded, facts = (scrub({"facts": of["facts"]}, OF_KILLS) for of in (recorded, facts))
        found = differences(one.name, to_text(recorded), to_text(facts))
        failed += bool(found)
        shown = found[:MAX_LINES] + [f"... {len(found)} lines"] * (len(found) > MAX_LINES)
        print("\n".join(shown) if found else f"{one.name}: the same", flush=True)
    print(
        f"{len(chosen) * options.times} runs, {program.num_kills} kills, {failed} differ",
        file=sys.stderr,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
