"""The wheel in environments of its own: the client alone, with the bench, with all of a service."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import httpx2
import pytest

from auctune.engine.base_place import base_cache
from support.environments import build_wheel, make_environment, num_bytes
from support.market_runs import Child, small_market, write_market
from support.serving import ROWS, Served, make_file, serving

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

CLIENT_BYTES = 80e6
MISSING = re.compile(
    r"auctune: auctune [a-z ]+: missing packages: [\w., -]+; expected an installation with "
    r"\w+( and \w+)*, such as pip install 'auctune-[\d.]+-py3-none-any\.whl\[[a-z,]+\]'\n"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("client"), wheel)


@pytest.fixture(scope="module")
def bench(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("bench"), wheel, "sim")


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("server"), wheel, "service")


def environment(python: Path, **variables: str) -> dict[str, str]:
    """Variables of a command: the user's bases, and kernels of this installation alone."""
    known = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "XDG_CACHE_HOME": str(base_cache().parents[1]),
        "NUMBA_CACHE_DIR": str(python.parents[1] / "kernels"),
        "COLUMNS": "200",
    }
    return known | variables


def run(
    python: Path, *arguments: str, cwd: Path | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    command: list[str | Path] = [python.with_name("auctune"), *arguments]
    env = environment(python, **variables)
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def service(python: Path, folder: Path, *options: str) -> Iterator[httpx2.Client]:
    """`auctune serve` in a folder, without a terminal; it is stopped at the end."""
    process = subprocess.Popen(
        [python.with_name("auctune"), "serve", "--port", "0", *options],
        env=environment(python),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    child = Child(process)
    try:
        assert child.wait_for(lambda text: "stop with Ctrl-C" in text), child.text
        url = (folder / "auctune-data" / "url").read_text().strip()
        with httpx2.Client(base_url=url, follow_redirects=True, timeout=60.0) as client:
            yield client
        process.terminate()
        assert child.wait() == 0, child.text
    finally:
        child.kill_group(signal.SIGKILL)


def commands(python: Path, *path: str) -> Iterator[tuple[Sequence[str], str]]:
    """Each command that a help names, and why its own help is not there; empty: it is."""
    done = run(python, *path, "--help")
    listed = re.search(r"^Commands:\n((?:  .*\n?)+)", done.stdout, re.MULTILINE)
    if listed is None:
        yield path, done.stderr
        return
    for line in listed[1].splitlines():
        if (name := re.match(r"  (\S+)  +\S", line)) is not None:
            yield from commands(python, *path, name[1])


def missing(found: Iterable[tuple[Sequence[str], str]]) -> dict[str, str]:
    """The commands that are not there, each with its one line of error."""
    errors = {" ".join(path): error for path, error in found if error}
    assert [error for error in errors.values() if not MISSING.fullmatch(error)] == []
    return errors


def test_the_client_is_small_and_has_no_package_that_computes(client: Path) -> None:
    (site,) = client.parents[1].glob("lib/python*/site-packages")
    names = {path.name for path in site.iterdir()}
    assert not names & {"numpy", "numba", "scipy", "polars", "pyarrow", "torch", "sqlalchemy"}
    assert num_bytes(site) < CLIENT_BYTES


def test_commands_say_in_one_line_which_extra_they_lack(
    client: Path, bench: Path, server: Path
) -> None:
    found = list(commands(client))
    assert len(found) > 50
    of_client = missing(found)
    assert set(of_client) >= {"simulate", "spot advise", "edge make", "replay", "run", "db"}
    lacking = [name.split() for name in of_client]
    of_bench, of_server = (
        missing((path, run(python, *path, "--help").stderr) for path in lacking)
        for python in (bench, server)
    )
    assert set(of_bench) < set(of_client)
    assert not {"simulate", "spot advise", "edge make", "timeshare compare"} & set(of_bench)
    assert not {"replay", "db"} & set(of_server)
    assert set(of_server) <= {"data", "run", "edge run", "spot run", "timeshare run"}


def test_settings_are_written_without_what_trains(server: Path, tmp_path: Path) -> None:
    done = run(server, "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "no GPU is searched for: torch is not installed\n"
    assert (tmp_path / "auctune.toml").is_file()


def test_a_service_without_training_says_so_in_one_line(server: Path, tmp_path: Path) -> None:
    done = run(server, "serve", "--data", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert MISSING.fullmatch(done.stderr)
    assert "with service and train" in done.stderr


def test_doctor_says_what_is_installed(client: Path, tmp_path: Path) -> None:
    told = run(client, "doctor", cwd=tmp_path).stdout
    assert "the core is installed" in told
    for extra in ("sim", "service", "train"):
        assert re.search(rf"\[{extra}\] \([a-z ]+\) is not installed", told)


def test_the_client_submits_watches_and_fetches(client: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "market", make_file()) as served:
        key = served.key("ada")
        shop = Shop(served, key, client, tmp_path)
        (tmp_path / "rows.jsonl").write_text(ROWS)
        bid = ("--bid", "100", "--deadline", "+20m")
        job = json.loads(shop.ask("submit", "rows.jsonl", "--model", "tiny", *bid, "--json"))
        served.finish(job["id"], "ada", content=archive("adapter_config.json"))
        assert "rows done" in shop.ask("watch", job["id"])
        assert job["id"] in shop.ask("jobs")
        shop.ask("fetch", job["id"], "--out", "adapter")
        assert (tmp_path / "adapter" / "job.json").is_file()


def archive(name: str) -> bytes:
    """A result of one empty file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(f"adapter/{name}", "{}")
    return packed.getvalue()


class Shop:
    """A user with the client alone."""

    def __init__(self, served: Served, key: str, python: Path, folder: Path) -> None:
        self._known = {"AUCTUNE_URL": served.url, "AUCTUNE_API_KEY": key}
        self._python, self._folder = python, folder

    def ask(self, *arguments: str) -> str:
        done = run(self._python, *arguments, cwd=self._folder, **self._known)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def test_the_bench_simulates(bench: Path, tmp_path: Path) -> None:
    for arguments in (
        ("workload", "--set", "slots=12", "--out", "market.json"),
        (
            "simulate",
            "market.json",
            *("--mechanism", "pdftsp", "--report", "report.json", "--decisions", "bids.jsonl"),
        ),
    ):
        done = run(bench, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "report.json").read_text())


def test_a_service_in_an_empty_folder_trains_and_is_verified(
    wheel: Path, tmp_path: Path, tiny_cache: Path
) -> None:
    python = make_environment(tmp_path / "environment", wheel, "service", "train")
    folder = tmp_path / "empty"
    folder.mkdir()

    def ask(*arguments: str) -> str:
        done = run(python, *arguments, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with service(python, folder) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        page = client.get("/")
        assert page.status_code == 200
        files = set(re.findall(r'(?:href|src)="([^"]*/static/[^"]+)"', page.text))
        assert {Path(name.partition("?")[0]).suffix for name in files} >= {".css", ".js"}
        assert {client.get(name).status_code for name in files} == {200}
        findings = ask("doctor")
        assert "error" not in {line.split()[0] for line in findings.splitlines()}

        # So little that the service sells it even if it measured a busy machine.
        few = small_market()["bids"][0] | {"epochs": 1, "deadline": 900}
        market = write_market(tmp_path / "bids", small_market() | {"slots": 1000, "bids": [few]})
        rows = folder / "rows.jsonl"
        rows.write_text("".join(ROWS.splitlines(keepends=True)[:8]))
        watched = ask("submit", "rows.jsonl", "--set", "epochs=1", "--watch")
        assert "rows done: loss " in watched
        ask("submit", "--market", str(market))
        jobs = json.loads(ask("jobs", "--json"))
        assert {job["market"]["decision"] for job in jobs} == {"admitted"}
    ask("replay")

    # The settings of `auctune init` are those of the service without a file.
    ask("init", "--currency", "eur")
    with service(python, folder, "--config", "auctune.toml") as client:
        assert client.get("/ready").json() == {"status": "ready"}
        assert len(json.loads(ask("jobs", "--json"))) == len(jobs)
