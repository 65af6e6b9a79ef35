"""`auctune serve` as a process that can be asked, watched and killed."""

import contextlib
import http.client
import json
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from auctune.files.device_profile import write_profile
from support.market_runs import descendants
from support.openai_contract import check
from support.patched_auctune import Constants, patched_command
from support.tiny_architecture import tiny_architecture
from support.waits import poll
from support.zones import made_up_profile

# Longer than the deadlines of jobs: what has not ended by then will not.
WAIT_SECONDS = 1000.0
Answer = dict[str, Any]


def write_service(
    folder: Path,
    architecture: str,
    *,
    slot_seconds: float,
    slots: int = 60,
    mode: str = "exact",
    tokens_per_second: float = 1000.0,
    share: float = 0.25,
    energy_cost: float = 0.01,
    executor: str = "local",
    more: str = "",
) -> Path:
    """Settings of a zone of one node, with a profile that says how much of it is sold.

    Args:
        more: lines for the end of the file, where the zone is still open.
    """
    write_profile_for(folder, architecture, tokens_per_second)
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
slot_seconds = {slot_seconds}
slots = {slots}
mode = "{mode}"
threads = 1
share = {share}
executor = "{executor}"
[zones.node_types.local]
profile = "{folder / "profile.json"}"
energy_cost = {energy_cost}
[[zones.nodes]]
id = "local-0"
type = "local"
{more}""",
        encoding="utf-8",
    )
    return file


def write_idle_service(folder: Path, **changes: Any) -> Path:
    """Settings of a zone whose slots are long and sell much: only requests keep it busy."""
    settings: dict[str, Any] = {
        "slot_seconds": 7200.0,
        "slots": 24,
        "tokens_per_second": 20_000.0,
        "share": 0.0004,
    }
    return write_service(folder, tiny_architecture(), **{**settings, **changes})


def write_pool_service(folder: Path, architecture: str, slot_seconds: float = 1.0) -> Path:
    """Settings of a zone of kind `timeshare`, `pool`, whose pool costs a hundredth a second."""
    write_profile_for(folder, architecture, 1000.0)
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
kind = "timeshare"
name = "pool"
slot_seconds = {slot_seconds}
price_per_second = "0.01"
threads = 1
profile = "profile.json"
""",
        encoding="utf-8",
    )
    return file


def write_profile_for(
    folder: Path, architecture: str, tokens_per_second: float, gradient_checkpointing: int = 0
) -> None:
    """profile.json in a folder: of a device that is so fast with a base."""
    folder.mkdir(parents=True, exist_ok=True)
    made_up = made_up_profile()
    profile = replace(
        made_up,
        origin=replace(
            made_up.origin,
            architecture=architecture,
            gradient_checkpointing=gradient_checkpointing,
        ),
        features={"transformer.h.*.attn.c_attn": 1536},
        default_modules=("c_attn",),
        bytes_per_parameter=16.0,
        memory_gb=8.0,
        step_seconds=0.0,
        token_seconds=1 / tokens_per_second,
        task_load_seconds=0.01,
        suspend_seconds=0.01,
        margin=0.0,
    )
    write_profile(profile, folder / "profile.json")


class ServiceProcess:
    """A service, over all of its lives.

    Args:
        config: its settings.
        data: its folder.
        port: of all its lives; 0: each has another one.
        constants: that are others in its process.
    """

    def __init__(
        self, config: Path, data: Path, port: int = 0, constants: Constants | None = None
    ) -> None:
        self._config = config
        self._port = port
        self._command = patched_command(constants or {})
        self.data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._key = ""
        self.address = ("127.0.0.1", 0)

    @property
    def url(self) -> str:
        """Where it is now."""
        host, port = self.address
        return f"http://{host}:{port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def key(self) -> str:
        """With which is asked: the first operator's, or the one to be used."""
        return self._key or (self.data / "first-key").read_text().strip()

    def use_key(self, key: str) -> None:
        self._key = key

    @property
    def log(self) -> Path:
        return self.data.with_suffix(".log")

    def start(self) -> float:
        """Begin a life; the seconds until it serves."""
        began = time.monotonic()
        seen = self.log.stat().st_size if self.log.exists() else 0
        options = ("--config", self._config, "--data", self.data, "--port", self._port)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "serve", *map(str, options)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        poll(lambda: b"serves at" in self._said(seen) or self.has_ended, "the service to serve")
        assert not self.has_ended, self._said(seen).decode()
        line = next(row for row in self._said(seen).splitlines() if b"serves at" in row)
        self.address = ("127.0.0.1", int(line.rpartition(b":")[2]))
        return time.monotonic() - began

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, seconds: float = 60.0) -> int:
        """Ask it to end, which may take so long; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(seconds)

    def workers(self) -> list[int]:
        """Its processes of nodes and pools, wherever on this machine they were started."""
        return self._children_of(b"auctune.engine.workers.node")

    def first_worker(self) -> int:
        """The first of its node processes; waits for it, as one that ended is started again."""
        return poll(self.workers, "a node's process")[0]

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Answer]:
        """A request with the operator's key; status and JSON."""
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        known = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, sent, known | dict(headers or {}))
            response = connection.getresponse()
            answer = json.loads(response.read())
        check(path.partition("?")[0], method, response.status, answer)
        return response.status, answer

    def download(self, file: str) -> bytes:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        with contextlib.closing(connection):
            known = {"authorization": f"Bearer {self.key}"}
            connection.request("GET", f"/v1/files/{file}/content", headers=known)
            return connection.getresponse().read()

    def upload(self, content: bytes, name: str = "data.jsonl", seen: str = "processed") -> str:
        """A data set; its id, once it was looked at and has this status."""
        body, headers = upload_form(content, name)
        status, answer = self.ask("POST", "/v1/files", body, headers)
        assert status == 200, answer
        file: str = answer["id"]
        poll(
            lambda: self.ask("GET", f"/v1/files/{file}")[1]["status"] == seen,
            "an upload to be looked at",
        )
        return file

    def job(self, name: str) -> Answer:
        return self.ask("GET", f"/v1/fine_tuning/jobs/{name}")[1]

    def wait_for_job(self, name: str, what: Callable[[Answer], bool]) -> Answer:
        """A job as soon as something is true of it, or it is over."""
        over = ("succeeded", "failed", "cancelled")
        poll(lambda: what(found := self.job(name)) or found["status"] in over, f"job {name}")
        return self.job(name)

    def _children_of(self, program: bytes) -> list[int]:
        return [pid for pid in descendants(self.pid) if program in command_line(pid)]

    def _said(self, since: int) -> bytes:
        return self.log.read_bytes()[since:] if self.log.exists() else b""


@contextlib.contextmanager
def running(
    config: Path, data: Path, constants: Constants | None = None
) -> Iterator[ServiceProcess]:
    """A service for a block; arguments as of `ServiceProcess`."""
    service = ServiceProcess(config, data, constants=constants)
    try:
        service.start()
        yield service
    finally:
        with contextlib.suppress(ProcessLookupError):
            service.kill()


def upload_form(content: bytes, name: str) -> tuple[bytes, dict[str, str]]:
    """A data set as a form, and the headers that say so."""
    mark = uuid.uuid4().hex
    parts = (
        f'--{mark}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
        f'--{mark}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
        "content-type: application/octet-stream\r\n\r\n"
    )
    body = parts.encode() + content + f"\r\n--{mark}--\r\n".encode()
    return body, {"content-type": f"multipart/form-data; boundary={mark}"}


def rows_of(count: int) -> bytes:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {n} and {n + 1}?"},
                {"role": "assistant", "content": f"It is {2 * n + 1}."},
            ]
        }
        for n in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def command_line(pid: int) -> bytes:
    """Of a process, words with a NUL behind each; of one that is gone: nothing."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
