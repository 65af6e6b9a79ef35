"""Children that are forked from a process that has imported what they need."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from auctune.run.child import ChildProcess, Message
from auctune.run.child.nursed import ADDRESS, NoNurseryError, NursedProcess
from auctune.run.child.nursery import Nursery, read_by_imports
from auctune.run.child.process import device_in_child, visible_gpu
from auctune.run.child.process_handle import Streams

# One that imports nothing beforehand.
_EMPTY = """
import sys
import auctune.run.child.nursery as nursery
nursery._IMPORTED = ()
nursery.main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Small:
    """A nursery of this test."""

    address: str
    process: "subprocess.Popen[bytes]"


@pytest.fixture
def small() -> Iterator[Small]:
    address = f"auctune-test-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0" + address)
        listening.listen()
        process = subprocess.Popen(
            [sys.executable, "-c", _EMPTY, str(listening.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(),),
        )
    yield Small(address, process)
    process.kill()
    process.communicate()


def born(
    small: Small, module: str, argument: str, out: Path, environment: dict[str, str] | None = None
) -> NursedProcess:
    with (
        out.open("ab") as written,
        Path(os.devnull).open("rb") as nothing,
    ):
        streams = Streams(nothing.fileno(), written.fileno(), written.fileno())
        return NursedProcess(
            small.address, module, argument, streams, os.environ | (environment or {})
        )


def test_a_child_runs_a_module_with_its_argument_in_the_folder_of_its_parent(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given.json").write_text('{"a":1}')
    monkeypatch.chdir(tmp_path)
    child = born(small, "json.tool", "given.json", tmp_path / "out")
    assert child.wait(30) == 0
    assert json.loads((tmp_path / "out").read_text()) == {"a": 1}


def test_how_a_child_ended_is_known(small: Small, tmp_path: Path) -> None:
    wrong = born(small, "json.tool", "missing.json", tmp_path / "out")
    assert wrong.wait(30) == 2
    assert "missing.json" in (tmp_path / "out").read_text()
    served = born(small, "http.server", "0", tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        served.wait(0.05)
    assert served.returncode is None
    served.kill()
    assert served.wait(30) == -9
    served.kill()


def test_a_child_is_entitled_as_what_it_is_and_for_whom(small: Small, tmp_path: Path) -> None:
    served = born(small, "http.server", "0", tmp_path / "log")
    while b"Serving" not in (tmp_path / "log").read_bytes():
        assert served.returncode is None
    title = Path(f"/proc/{served.pid}/cmdline").read_text()
    assert f"-m http.server for {os.getpid()}: 0" in title
    served.kill()
    served.wait(30)


def test_where_imports_would_have_read_another_environment_no_child_is_made(
    small: Small, tmp_path: Path
) -> None:
    with pytest.raises(NoNurseryError):
        born(small, "json.tool", "a", tmp_path / "out", {"HF_HUB_OFFLINE": "what else"})
    other = born(small, "json.tool", "a", tmp_path / "out", {"ANY_OTHER": "what else"})
    assert other.wait(30) == 2


def test_another_home_is_another_cache_of_the_hub_unless_that_is_named() -> None:
    here, there = {"HOME": "/home/ada"}, {"HOME": "/home/bert"}
    assert read_by_imports(here) != read_by_imports(there)
    named = {"HF_HOME": "/srv/hub"}
    assert read_by_imports(here | named) == read_by_imports(there | named)


def test_children_outlive_their_nursery_and_another_is_not_expected_of_it(
    small: Small, tmp_path: Path
) -> None:
    served = born(small, "http.server", "0", tmp_path / "log")
    small.process.kill()
    small.process.wait()
    with pytest.raises(subprocess.TimeoutExpired):
        served.wait(0.05)
    with pytest.raises(NoNurseryError):
        born(small, "json.tool", "a", tmp_path / "out")
    served.kill()
    assert served.wait(30) == 1


def test_a_nursery_ends_with_whoever_started_it(small: Small) -> None:
    assert small.process.stdin is not None
    small.process.stdin.close()
    assert small.process.wait(30) == 0


def test_a_nursery_that_has_ended_is_not_woken_by_children_that_end_then() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    before = signal.getsignal(signal.SIGCHLD)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("")
            listening.listen()
            assert Nursery(listening, reading, {}).serve() is None
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGCHLD, before)
        os.close(reading)


def test_who_breaks_off_or_lies_leaves_it_at_work(small: Small, tmp_path: Path) -> None:
    for sent in (b"", b"\0\0", b"\0\0\1\0{", b"\0\0\0\2[]"):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect("\0" + small.address)
            asking.sendall(sent)
    with contextlib.suppress(NoNurseryError), socket.socket(socket.AF_UNIX) as asking:
        asking.connect("\0" + small.address)
        asking.sendall(b"\0\0\0\2no")
        assert asking.recv(8) in (b"", bytes(8))
    assert born(small, "json.tool", "a", tmp_path / "out").wait(30) == 2


def test_where_there_is_no_nursery_a_child_is_an_interpreter_of_its_own(tmp_path: Path) -> None:
    heard: queue.Queue[Message | None] = queue.Queue()
    program = ("-m", "auctune.run.sampling.worker")
    environment = {ADDRESS: "nobody-is-here"}
    child = ChildProcess(program, "no order", heard.put, environment=environment)
    while heard.get(timeout=60) is not None:
        pass
    assert child.ending().startswith("TypeError")
    child.kill()


def parent_of(process: int) -> int:
    """The process that made another one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_child_that_computes_on_a_gpu_is_not_forked(small: Small) -> None:
    program = ("-m", "auctune.run.sampling.worker")
    parents = []
    for device in ("cpu", "cuda"):
        child = ChildProcess(
            program, "", lambda _: None, environment={ADDRESS: small.address}, device=device
        )
        parents.append(parent_of(child.pid))
        child.kill()
    assert parents == [small.process.pid, os.getpid()]


@pytest.mark.parametrize(
    ("device", "seen", "expected"),
    [
        ("cpu", None, {}),
        ("cuda", None, {}),
        ("cuda:1", None, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda:1", "2,GPU-5e", {"CUDA_VISIBLE_DEVICES": "GPU-5e"}),
        # One that is not there is for torch to refuse, by the name that the user gave it.
        ("cuda:2", "2,GPU-5e", {}),
    ],
)
def test_a_child_on_a_numbered_gpu_sees_that_one_alone(
    device: str, seen: str | None, expected: dict[str, str]
) -> None:
    environment = {} if seen is None else {"CUDA_VISIBLE_DEVICES": seen}
    assert visible_gpu(device, environment) == expected
    assert device_in_child(device, environment) == ("cuda" if expected else device)
