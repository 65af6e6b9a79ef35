"""The wheel in environments of its own: the client alone, with the bench, with the service."""

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from support.environments import build_wheel, make_environment, num_bytes
from support.serving import ROWS, Served, make_file, serving

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


def run(
    python: Path, *arguments: str, cwd: Path | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    known = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "COLUMNS": "200"}
    command: list[str | Path] = [python.with_name("auctune"), *arguments]
    env = {**known, **variables}
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)


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
    assert set(of_server) <= {"run", "edge run", "spot run", "timeshare run"}


def test_settings_are_written_without_what_trains(server: Path, tmp_path: Path) -> None:
    done = run(server, "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
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
