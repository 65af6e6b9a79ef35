"""A market of made-up devices, opened and served in the test's own process.

Its clock stands still until the test moves it; nothing is trained, and the data process counts
words. Everything else is what `auctune serve` runs.
"""

import asyncio
import functools
import json
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import openai
import uvicorn
from fastapi import FastAPI

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.base_facts import BaseFacts
from auctune.engine.data import DataClient, DataFuture
from auctune.engine.unix_time import SteadyClock
from auctune.service.accounts.registry import Role
from auctune.service.app import make_app
from auctune.service.config.auction import AuctionConfig, NodeConfig
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.models import LimitsConfig, ServiceConfig
from auctune.service.config.spot import SpotConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.http.connections import ConnectionLimits, LimitedServer
from auctune.service.logging import MinimumLevel
from auctune.service.service import Service, ServiceRuntime, build_service
from auctune.service.storage import open_store
from auctune.service.storage.event_log import EventType
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.events import EpochCheckpoint
from auctune.service.zones.core.worker import DataDirs
from auctune.service.zones.edge.kind import SITE
from auctune.service.zones.spot.kind import INSTANCE
from auctune.service.zones.timeshare.kind import NODE_TYPE
from support.openai_contract import check
from support.waits import WAIT_SECONDS
from support.zones import made_up_profile, record

T = TypeVar("T")

_WORDS = "support.word_data"
_WARNINGS = MinimumLevel(logging.WARNING)

EPOCH = 1_800_000_000.0
SLOT_SECONDS = 60.0
ROWS = "".join(
    f'{{"prompt": "how is the weather on day {day}", "completion": "rain and {day} degrees"}}\n'
    for day in range(50)
)


class Clock:
    """Unix time, moved by hand."""

    def __init__(self) -> None:
        self.time = EPOCH
        self._set_forward = 0.0

    def __call__(self) -> float:
        return self.time

    def pass_slots(self, count: int) -> None:
        self.time += count * SLOT_SECONDS

    def jump(self, seconds: float) -> None:
        """The machine's clock is set forward, or back; no time passes."""
        self.time += seconds
        self._set_forward += seconds

    def since_boot(self) -> float:
        return self.time - self._set_forward


def made_up_facts(name: str = "tiny", speed: float = 1.0) -> BaseFacts:
    """A base on a device that trains `speed` * 1000 tokens a second, more or less."""
    made_up = made_up_profile()
    profile = replace(
        made_up,
        origin=replace(made_up.origin, base_name=name, architecture="0" * 64),
        features={"layers.*.q_proj": 256, "layers.*.v_proj": 256},
        default_modules=("layers.*.q_proj", "layers.*.v_proj"),
        bytes_per_parameter=16.0,
        token_seconds=0.001 / speed,
        micro_batch_tokens=512,
        checkpoint_seconds=0.05,
        sweep=(),
        mixes=(),
    )
    return BaseFacts(name, "0" * 64, 512, profile)


def make_zone(
    name: str = "default",
    base: str = "tiny",
    nodes: int = 2,
    slots: int = 30,
    energy_cost: float = 2.0,
) -> Any:
    return AuctionConfig(
        name=name,
        base=base,
        slot_seconds=SLOT_SECONDS,
        slots=slots,
        nodes=[NodeConfig(id=f"{name}-{i}", type="local") for i in range(nodes)],
        # A price from the first bid on, so that menus and payments are not all zero.
        node_types={"local": {"energy_cost": energy_cost}},  # type: ignore[dict-item]
    )


def make_pool(name: str = "pool", **settings: Any) -> TimeshareConfig:
    """A zone of kind `timeshare`; nobody trains in it."""
    return TimeshareConfig(name=name, slot_seconds=SLOT_SECONDS, **settings)


def make_file(zones: Sequence[ZoneConfig] = (), **limits: Any) -> ServiceConfig:
    return ServiceConfig(zones=list(zones) or [make_zone()], limits=LimitsConfig(**limits))


@functools.cache
def _data_processes() -> DataClient:
    """Of all markets of this process: starting two takes longer than starting a market."""
    return DataClient(Path(tempfile.gettempdir()), module=_WORDS)


class SharedDataClient(DataClient):
    """Client of data processes that outlive its market."""

    def __init__(self) -> None:
        self._cache = Path(tempfile.gettempdir())
        self._pending: set[Future[Any]] = set()

    @property
    def pid(self) -> int | None:
        return _data_processes().pid

    def prepare(self, base: str, **options: Any) -> DataFuture[int | None]:
        # Words need no base, and many markets no data process.
        return DataFuture()

    def _request(self, *request: Any, **more: Any) -> DataFuture[Any]:
        future = _data_processes()._request(*request, **more)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def close(self) -> None:
        wait(list(self._pending), 60)


@dataclass
class Served:
    """A market that is served.

    Attributes:
        url: where.
        folder: of its data.
        opened: what is behind it; `app` answers.
        clock: its time.
        loop: on which it runs.
        operator: an operator's key.
        users: keys of users, by name.
    """

    url: str
    folder: Path
    opened: ServiceRuntime
    app: FastAPI
    clock: Clock
    loop: asyncio.AbstractEventLoop
    operator: str = ""
    users: dict[str, str] = field(default_factory=dict)
    _clients: list[openai.OpenAI] = field(default_factory=list)

    @property
    def service(self) -> Service:
        return self.opened.service

    def run(self, work: Callable[[], Any]) -> Any:
        """What a coroutine function gives, on the market's loop."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(600)

    def auction(self, zone: str = "default") -> AuctionGateway:
        found = self.service.zones[zone]
        assert isinstance(found, AuctionGateway)
        return found

    def ask(self, run: Callable[[AuctionZone], T], zone: str = "default") -> T:
        return self.auction(zone).actor.submit(run).result(600)

    def key(self, user: str, role: Role = Role.USER, **account: Any) -> str:
        """A new key of a user, who is added if need be."""

        async def add() -> str:
            directory = self.service.accounts
            if directory.user(user) is None:
                await self.service.put_user(user, account.get("team"), account.get("budget"))
            return (await directory.add_key(user, role, ""))[1]

        secret: str = self.run(add)
        self.users[user] = secret
        return secret

    def client(self, key: str | None = None, *, strict: bool = True) -> openai.OpenAI:
        """The official client, which tries nothing again by itself; closed with the market."""
        made = openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=key or self.users.get("ada") or self.key("ada"),
            max_retries=0,
            # Loading certificates, which http does not need, takes longer than most requests.
            http_client=openai.DefaultHttpxClient(verify=False, event_hooks=_CONTRACT),
            _strict_response_validation=strict,
        )
        self._clients.append(made)
        return made

    def close_clients(self) -> None:
        """Close them: left to be collected, one may be noticed, open, in another test."""
        for client in self._clients:
            client.close()

    def http(self, key: str | None = None, *, is_checked: bool = True) -> httpx2.Client:
        """A plain client with somebody's key; ada's if none is named.

        Unchecked for requests beyond the ranges of OpenAI's document, which answers repeat.
        """
        found = key or self.users.get("ada") or self.key("ada")
        return httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {found}"},
            timeout=WAIT_SECONDS,
            verify=False,
            event_hooks=_CONTRACT if is_checked else None,
        )

    def upload(self, key: str | None = None, rows: str = ROWS, name: str = "data.jsonl") -> str:
        """Upload a data set, and have it looked at; its id."""
        client = self.client(key)
        file = client.files.create(file=(name, rows.encode()), purpose="fine-tune")
        done = client.files.wait_for_processing(file.id, poll_interval=0.05, max_wait_seconds=30)
        return str(done.id)

    @contextmanager
    def held_answers(self, base: str = "tiny") -> Iterator[None]:
        """The process that answers for a base, which has started, stands still in the block."""
        pid = self.service.generation._generators[base].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def num_open_answers(self, base: str = "tiny") -> int:
        """Requests that the process which answers for a base has."""
        return len(self.service.generation._generators[base]._requests)

    def upload_pairs(self) -> str:
        """Upload twenty pairs of answers; the id of their file."""

        def answer(text: str) -> list[dict[str, str]]:
            return [{"role": "assistant", "content": text}]

        row = {
            "input": {"messages": [{"role": "user", "content": "Is it open?"}]},
            "preferred_output": answer("Yes, until six."),
            "non_preferred_output": answer("Look it up."),
        }
        return self.upload(rows="".join(f"{json.dumps(row)}\n" for _ in range(20)))

    def bid(self, client: openai.OpenAI, file: str, bid: str | None = "100", **terms: Any) -> Any:
        """A job of this client's; what its market says is in `job.market`."""
        market = {"bid": bid, "deadline": "+20m", "zone": "default", **terms}
        body = {name: value for name, value in market.items() if value is not None}
        return client.fine_tuning.jobs.create(
            model="tiny", training_file=file, extra_body={"market": body}
        )

    def wait_for(self, look: Callable[[], T], status: str) -> T:
        """What `look` returns once its status is this one."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = look()
            if found.status == status:  # type: ignore[attr-defined]
                return found
            time.sleep(0.05)
        raise AssertionError(f"it did not become {status}")

    def train(self, job: str, rows: int, zone: str = "default") -> None:
        """What the zone notes when a node has trained so many rows in all."""

        def trained(actor: AuctionZone) -> None:
            actor.begin_slots()
            found = actor.state.jobs[job]
            result = {
                "rows": rows,
                "total_rows": found.total_rows,
                "tokens": rows * 8,
                "steps": rows // 8,
                "losses": [[rows // 8, rows, rows * 40, 2.5 / (1 + rows), 0.5]],
                "state": "suspended",
                "note": "",
                "validation": [],
            }
            body = {"node": found.cells[0].node, "slot": found.cells[0].slot, "seconds": 1.0}
            record(actor, EventType.TRAINED, job, {**body, "result": result})

        self.ask(trained, zone)

    def finish(
        self,
        job: str,
        owner: str,
        zone: str = "default",
        content: bytes = b"PK adapter",
        epochs: Sequence[EpochMetrics] = (),
    ) -> str:
        """What the zone notes when a job's adapter is packed; the id of its archive."""

        async def keep(name: str, data: bytes) -> str:
            (self.folder / name).write_bytes(data)
            files = self.service.files
            return (await files.import_result(owner, name, self.folder / name)).id

        def kept(name: str, data: bytes) -> str:
            return str(self.run(lambda: keep(name, data)))

        files = [kept(f"{job}.csv", b"step"), kept(f"{job}.zip", content)]
        # The adapters of epochs have the same content.
        checkpoints = [
            EpochCheckpoint(file=kept(f"{job}.{one.step}.zip", content), metrics=one)
            for one in epochs
        ]
        self.ask(lambda actor: actor.finish(job, files, checkpoints), zone)
        return files[1]


def _check_contract(response: Any) -> None:
    """Fail if an answer breaks OpenAI's interface, whatever the test asks for."""
    if response.headers.get("content-type") == "application/json":
        response.read()
        request = response.request
        check(request.url.path, request.method, response.status_code, response.json())


_CONTRACT: dict[str, list[Callable[..., Any]]] = {"response": [_check_contract]}


@contextmanager
def serving(
    folder: Path,
    file: ServiceConfig | None = None,
    clock: Clock | None = None,
    limits: ConnectionLimits | None = None,
    base: BaseFacts | None = None,
    cache: Path | None = None,
    bases: Path | None = None,
    database: str | None = None,
) -> Iterator[Served]:
    """A market over a folder, open until the end of the block; what it needs is closed then.

    All its zones have one base, if one is given. With a cache of bases, jobs are trained, by the
    machine's clock; with `bases`, that of models that answer, nothing is.
    """
    with _WARNINGS:
        ready: Future[Served] = Future()
        thread = threading.Thread(
            target=lambda: asyncio.run(
                _serve(
                    folder,
                    file or make_file(),
                    limits,
                    clock or Clock(),
                    base,
                    cache,
                    bases,
                    database,
                    ready,
                )
            ),
            name="serving",
            # A market that does not open shall fail its test, and not hold up all that follow.
            daemon=True,
        )
        thread.start()
        # Where the kernels are not compiled yet, opening compiles; others may be at work.
        served = ready.result(1800)
        try:
            yield served
        finally:
            served.close_clients()
            served.loop.call_soon_threadsafe(served.app.state.stop)
            thread.join()


def _node_types(zone: ZoneConfig) -> Iterable[str]:
    if isinstance(zone, AuctionConfig):
        return zone.node_types
    if isinstance(zone, EdgeConfig):
        return [SITE]
    return [INSTANCE] if isinstance(zone, SpotConfig) else [NODE_TYPE]


async def _serve(
    folder: Path,
    file: ServiceConfig,
    limits: ConnectionLimits | None,
    clock: Clock,
    base: BaseFacts | None,
    cache: Path | None,
    bases: Path | None,
    database: str | None,
    ready: "Future[Served]",
) -> None:
    try:
        folder.mkdir(exist_ok=True)
        facts = {
            zone.name: {name: base or made_up_facts(zone.base) for name in _node_types(zone)}
            for zone in file.zones
        }
        with open_store(database or folder) as store:
            steady = SteadyClock(2 * SLOT_SECONDS, unix=clock, boot=clock.since_boot)
            data = SharedDataClient() if cache is None else None
            opened = await build_service(
                file,
                facts,
                store,
                DataDirs(folder, cache or bases or folder / "cache"),
                report=lambda what, share: None,
                on_fatal_error=lambda error: None,
                now=steady if cache is None else time.time,
                data=data,
            )
            if cache is None:
                # Nodes need a base to train; tests report results in their place.
                opened.workers.clear()
            await opened.start()
            try:
                await _listen(opened, file, limits, folder, clock, ready)
            finally:
                await opened.close()
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)


async def _listen(
    opened: ServiceRuntime,
    file: ServiceConfig,
    limits: ConnectionLimits | None,
    folder: Path,
    clock: Clock,
    ready: "Future[Served]",
) -> None:
    app = make_app(opened.service)
    config = uvicorn.Config(
        app,
        port=0,
        log_level="error",
        access_log=False,
        lifespan="off",
        proxy_headers=bool(file.trusted_proxies),
        forwarded_allow_ips=file.trusted_proxies,
    )
    server = LimitedServer(config, limits)
    server.server_state.is_flooding = opened.service.late.is_flooding
    app.state.server = server
    app.state.stop = lambda: setattr(server, "should_exit", True)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    port = server.servers[0].sockets[0].getsockname()[1]
    served = Served(
        f"http://127.0.0.1:{port}", folder, opened, app, clock, asyncio.get_running_loop()
    )

    async def operator() -> None:
        directory = opened.service.accounts
        if directory.user("operator") is None:
            await directory.put_user("operator", None, None)
        served.operator = (await directory.add_key("operator", Role.OPERATOR, ""))[1]

    await operator()
    ready.set_result(served)
    await serving
