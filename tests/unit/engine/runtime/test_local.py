"""Worker processes of this machine: forked from the fork server, or interpreters of their own."""

import asyncio
import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from auctune.engine.messages.base import Alive, Missing
from auctune.engine.messages.node import (
    NODE_MESSAGES,
    NodeReady,
    Ping,
    RequestFailed,
    TrainSlotRequest,
)
from auctune.engine.runtime import local
from auctune.engine.runtime.local import (
    PRELOAD,
    AsyncWorker,
    WorkerProcess,
    device_in_child,
    gpu_allocator,
    start_fork_server,
    start_node,
    visible_gpus,
    wait_for_fork_server,
)
from auctune.engine.runtime.nodes import NodeSettings
from auctune.service.charts.messages import CHART_MESSAGES, Draw, Drawn
from support.market_runs import living, parent_of
from support.one_fork_server import in_another_process
from support.scripted_node import READY
from support.waits import poll

pytest_plugins = ["support.tiny_bases"]

Inbox = queue.SimpleQueue[Any]


def received(inbox: Inbox) -> Any:
    """The next message that is not a heartbeat."""
    while True:
        message = inbox.get(timeout=120)
        if not isinstance(message, Alive):
            return message


def idle(folder: Path, *, fork: bool) -> tuple[WorkerProcess, Inbox]:
    """A worker that has started."""
    inbox: Inbox = queue.SimpleQueue()
    argument = {"base": '["idle"]', "cache": str(folder)}
    worker = WorkerProcess("support.scripted_node", argument, inbox.put, NODE_MESSAGES, fork=fork)
    assert received(inbox) == READY
    return worker, inbox


@pytest.mark.parametrize("fork", [True, False])
def test_how_a_worker_ended_is_known(tmp_path: Path, fork: bool) -> None:
    worker, inbox = idle(tmp_path, fork=fork)
    os.kill(worker.pid, signal.SIGKILL)
    assert received(inbox) is None
    assert worker.exit_reason() == "killed by SIGKILL"
    assert worker.is_gone
    # It may be killed, and sent something, whether it has ended or not.
    worker.send(Ping())
    worker.kill()


def test_a_worker_may_be_killed_by_several_threads_at_once(tmp_path: Path) -> None:
    worker, inbox = idle(tmp_path, fork=True)
    # Closed twice at the same time, a descriptor is bad the second time, or another file's.
    closing = worker._connection.close
    both = threading.Barrier(2, timeout=1)

    def close() -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait()
        assert not worker._releasing.acquire(blocking=False)
        closing()

    worker._connection.close = close  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(worker.kill) for _ in range(2)]:
            done.result()
    assert received(inbox) is None


@pytest.mark.parametrize("fork", [True, False])
def test_a_worker_stops_when_asked_and_a_frozen_one_is_killed(tmp_path: Path, fork: bool) -> None:
    worker, inbox = idle(tmp_path, fork=fork)
    worker.stop()
    assert received(inbox) is None
    frozen, _ = idle(tmp_path, fork=fork)
    os.kill(frozen.pid, signal.SIGSTOP)
    frozen.stop(0.1)
    poll(lambda: not living([frozen.pid]))


def test_a_forked_worker_is_entitled_as_what_it_is_and_for_whom(tmp_path: Path) -> None:
    worker, _ = idle(tmp_path, fork=True)
    title = Path(f"/proc/{worker.pid}/cmdline").read_text()
    assert title.rstrip("\0") == f"auctune -m support.scripted_node for {os.getpid()}"
    assert parent_of(worker.pid) == os.getpid()
    worker.kill()


@pytest.mark.parametrize("fork", [True, False])
def test_other_users_do_not_see_the_argument_of_a_worker(tmp_path: Path, fork: bool) -> None:
    worker, _ = idle(tmp_path, fork=fork)
    assert b"idle" not in Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    worker.kill()


def test_a_worker_that_exits_well_has_no_reason_but_its_code(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    log = tmp_path / "log"
    worker = start_node(
        NodeSettings("warns", str(tmp_path)), inbox.put, log=log, module="support.environment"
    )
    assert received(inbox) is None
    assert log.read_text() == "a warning\n"
    assert worker.exit_reason() == "exit code 0"
    worker.kill()


def test_why_a_worker_ended_is_known_after_its_handle_is_released(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    worker = start_node(
        NodeSettings("tiny", str(tmp_path), threads=0), inbox.put, log=tmp_path / "log"
    )
    assert received(inbox) is None
    worker.kill()
    worker.kill()
    expected = "RuntimeError: set_num_threads expects a positive integer"
    assert worker.exit_reason() == worker.exit_reason() == expected


def test_a_worker_whose_message_cannot_be_handled_ends_with_one_logged_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox: Inbox = queue.SimpleQueue()

    def refuse(message: object) -> None:
        if message is not None:
            raise LookupError("of the parent")
        inbox.put(None)

    argument = {"base": '["idle"]', "cache": str(tmp_path)}
    worker = WorkerProcess("support.scripted_node", argument, refuse, NODE_MESSAGES)
    assert received(inbox) is None
    assert worker.exit_reason() == "sent a message that could not be handled (LookupError)"
    assert not living([worker.pid])
    worker.kill()
    assert [one.message for one in caplog.records] == ["a worker's message could not be handled"]


def test_a_message_that_cannot_be_read_is_named_by_both_sides(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    argument = {"base": '["idle"]', "cache": str(tmp_path)}
    worker = WorkerProcess("support.scripted_node", argument, inbox.put, NODE_MESSAGES)
    worker._outbox.put(b'{"type": "load_job"}')
    while received(inbox) is not None:
        pass
    assert "MessageError: load_job.job: Field required" in worker.exit_reason()
    worker.kill()
    worker = WorkerProcess("support.scripted_node", argument, inbox.put, CHART_MESSAGES)
    assert received(inbox) is None
    expected = "sent a message that could not be handled (Input tag 'ready' found using 'type'"
    assert worker.exit_reason().startswith(expected)
    worker.kill()


@pytest.fixture
def own_fork_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fork server of this test, which may be killed: all others share one."""
    server: Any = forkserver.ForkServer()
    server.set_forkserver_preload(["queue"])
    monkeypatch.setattr(forkserver, "_forkserver", server)
    for name in ("ensure_running", "connect_to_new_process"):
        monkeypatch.setattr(forkserver, name, getattr(server, name))
    server.ensure_running()
    yield server
    os.close(server._forkserver_alive_fd)


def test_a_fork_server_that_was_killed_is_restarted_without_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_fork_server: Any
) -> None:
    killed = own_fork_server._forkserver_pid
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    os.kill(killed, signal.SIGKILL)
    poll(lambda: not living([killed]))
    worker, _ = idle(tmp_path, fork=True)
    assert own_fork_server._forkserver_pid != killed
    worker.kill()


def test_a_fork_server_that_was_killed_preloads_again_and_one_that_runs_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    own_fork_server: Any,
) -> None:
    own_fork_server.set_forkserver_preload(["support.preloaded"])
    monkeypatch.setattr(local, "_fork_server_of", None)
    monkeypatch.setattr(local, "_preload", local._preload)
    os.kill(own_fork_server._forkserver_pid, signal.SIGKILL)
    loaded = tmp_path / "loaded"
    for count in (1, 2):
        poll(lambda: not living([own_fork_server._forkserver_pid]))
        start_fork_server("support.preloaded", str(loaded))
        wait_for_fork_server()
        assert loaded.read_text() == "loaded\n" * count
        os.kill(own_fork_server._forkserver_pid, signal.SIGKILL)
    assert PRELOAD not in os.environ
    assert not caplog.records
    start_fork_server("support.preloaded", "another")
    assert [one.message for one in caplog.records] == [
        "a fork server is there already: workers of support.preloaded load for themselves"
    ]


def test_a_forked_worker_has_the_environment_and_the_folder_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMED_BY_A_TEST", "this")
    monkeypatch.chdir(tmp_path)
    inbox: Inbox = queue.SimpleQueue()
    worker = WorkerProcess(
        "support.environment", "NAMED_BY_A_TEST", inbox.put, NODE_MESSAGES, fork=True
    )
    assert received(inbox) == Missing(what=f"this in {tmp_path}")
    worker.kill()


def test_a_worker_holds_the_lock_of_its_parent(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    with (tmp_path / "lock").open("w") as lock:
        worker = WorkerProcess(
            "support.scripted_node",
            {"base": '["idle"]', "cache": str(tmp_path)},
            inbox.put,
            NODE_MESSAGES,
            lock=lock.fileno(),
            fork=True,
        )
        assert received(inbox) is not None
        held = [path.resolve() for path in Path(f"/proc/{worker.pid}/fd").iterdir()]
        assert tmp_path / "lock" in held
    worker.kill()


def test_what_differs_in_its_environment_or_computes_on_a_gpu_is_not_forked(tmp_path: Path) -> None:
    for options in ({"environment": {"HF_HUB_OFFLINE": "1"}}, {"device": "cuda"}):
        worker = WorkerProcess(
            "support.scripted_node",
            {"base": '["idle"]', "cache": str(tmp_path)},
            lambda _: None,
            NODE_MESSAGES,
            fork=True,
            **options,
        )
        title = Path(f"/proc/{worker.pid}/cmdline").read_text()
        assert not title.startswith("auctune")
        worker.kill()


def test_a_node_that_cannot_load_its_base_says_so_and_ends(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    worker = start_node(NodeSettings("./none", str(tmp_path)), inbox.put)
    message = received(inbox)
    assert isinstance(message, RequestFailed)
    assert message.error.place == "base './none'"
    assert received(inbox) is None
    worker.send(TrainSlotRequest(0, ()))
    worker.stop()


def test_a_node_on_a_numbered_gpu_is_told_the_only_one_that_it_sees(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    settings = NodeSettings("tiny", str(tmp_path), device="cuda:3")
    worker = start_node(settings, inbox.put, module="support.environment")
    assert received(inbox) == Missing(what="cuda is 3")
    worker.stop()


def test_a_node_that_crashes_leaves_its_last_line_and_its_log(tmp_path: Path) -> None:
    inbox: Inbox = queue.SimpleQueue()
    log = tmp_path / "alpha.log"
    log.write_text("of an earlier process\n")
    worker = start_node(NodeSettings("tiny", str(tmp_path), threads=-1), inbox.put, log=log)
    assert received(inbox) is None
    assert worker.exit_reason() == "RuntimeError: set_num_threads expects a positive integer"
    worker.stop()
    assert log.read_text().startswith("of an earlier process\nTraceback")


@pytest.mark.slow
def test_a_node_ignores_files_of_the_current_folder_and_stops_when_asked(
    tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    inbox: Inbox = queue.SimpleQueue()
    worker = start_node(NodeSettings("tiny", str(tiny_cache)), inbox.put)
    assert isinstance(received(inbox), NodeReady)
    worker.stop()
    assert received(inbox) is None


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
    assert visible_gpus(device, environment) == expected
    assert device_in_child(device, environment) == ("cuda" if expected else device)


@pytest.mark.parametrize(
    ("device", "seen", "expected"),
    [
        ("cpu", None, None),
        ("cuda", "4,5", None),
        ("cuda:1", None, "1,2"),
        ("cuda:1", "2, GPU-5e,7", "GPU-5e,7"),
        ("cuda:1", "2,GPU-5e", None),
    ],
)
def test_a_child_on_several_gpus_sees_those_alone(
    device: str, seen: str | None, expected: str | None
) -> None:
    environment = {} if seen is None else {"CUDA_VISIBLE_DEVICES": seen}
    variables = {} if expected is None else {"CUDA_VISIBLE_DEVICES": expected}
    assert visible_gpus(device, environment, 2) == variables
    assert device_in_child(device, environment, 2) == ("cuda" if variables else device)


@pytest.mark.parametrize(
    ("device", "environment", "expected"),
    [
        ("cpu", {}, {}),
        ("cuda:1", {}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ("cuda", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, {}),
        ("cuda", {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}, {}),
    ],
)
def test_memory_of_a_gpu_is_handed_out_in_segments_that_grow(
    device: str, environment: dict[str, str], expected: dict[str, str]
) -> None:
    assert gpu_allocator(device, environment) == expected


def test_an_event_loop_goes_on_while_a_worker_starts_and_ends() -> None:
    may_start = threading.Event()
    received: list[Any] = []
    ended: list[str] = []

    def start(on_message: Any) -> WorkerProcess:
        # As for the lock of a fork server that still imports its modules.
        assert may_start.wait(60)
        return WorkerProcess("support.odd_drawing", None, on_message, CHART_MESSAGES)

    async def run() -> None:
        worker = AsyncWorker(start, received.append, ended.append)
        worker.send(Draw(chart="plan", data={"number": 0}, text=""))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not received
        may_start.set()
        while not any(isinstance(one, Drawn) for one in received):
            await asyncio.sleep(0.01)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await worker.closed()
        assert ended == ["killed by SIGKILL"]

        killed = AsyncWorker(start, received.append, ended.append)
        killed.kill()
        await killed.closed()

        def fail(_: Any) -> WorkerProcess:
            raise FileNotFoundError(2, "No such file or directory")

        await AsyncWorker(fail, received.append, ended.append).closed()
        assert ended[1:] == ["it cannot be started (No such file or directory)"]

    asyncio.run(run())


def test_no_process_is_started_on_an_event_loop() -> None:
    async def run() -> None:
        WorkerProcess("support.odd_drawing", None, print, CHART_MESSAGES)

    with pytest.raises(AssertionError, match="use AsyncWorker"):
        asyncio.run(run())


def test_a_client_that_is_killed_before_it_asks_does_not_end_the_fork_server() -> None:
    start_fork_server()
    server: Any = forkserver._forkserver
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server._forkserver_address)
    assert in_another_process(os.getpid) != os.getpid()
