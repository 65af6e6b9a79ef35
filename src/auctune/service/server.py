"""`auctune serve`: everything opened, served, and closed again."""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import structlog
import uvicorn
import uvloop

from auctune.domain import AuctuneError, InputError
from auctune.run.base_facts import Report
from auctune.run.child import nursery
from auctune.run.lock import NODES_LOCK, hold
from auctune.run.unix_time import SteadyClock
from auctune.service.api.app import make_app
from auctune.service.api.request_head import ConnectionLimits
from auctune.service.config.models import ServiceConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.first_keys import add_first_keys, first_operator_key
from auctune.service.logs import logs_in
from auctune.service.memory import settle
from auctune.service.opening import learn_zone, open_market
from auctune.service.stopping import Stop, StoppableServer
from auctune.service.store import Store, open_store
from auctune.service.store.identity import bind
from auctune.service.zones.kind import Facts
from auctune.service.zones.kinds import KINDS
from auctune.service.zones.premises import Place

# More than any system allows by default.
_MANY_FILES = 1 << 20

_log = structlog.get_logger(__name__)

_MAX_STEP_SLOTS = 2


class ServiceEndedError(AuctuneError):
    """The service ended by itself; started again, it goes on from its log."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(
            f"the service ended: {cause}. All that was acknowledged is on disk; once the cause is "
            "mended, start it again, and it goes on from there"
        )


def serve(
    file: ServiceConfig,
    place: Place,
    report: Report,
    ready: Callable[[str, str | None], None],
) -> None:
    """Serve until asked to stop.

    Args:
        file: the settings.
        place: of data and cache; the data folder is there.
        report: told how far opening is.
        ready: told the URL, and the first key if it was made just now.

    Raises:
        InputError: if something in the settings or the folder is wrong, or the port is taken.
        ServiceEndedError: if it ended by itself.
    """
    open_files = raise_open_files()
    # Two slots: less is a correction, from which jobs that have slack recover.
    clock = SteadyClock(_MAX_STEP_SLOTS * min(zone.slot_seconds for zone in file.zones))
    clock.share()
    with (
        # Whether another service is at work in the folder says more than that its port is taken.
        open_store(file.database or place.data, place.data) as store,
        _bind(file.host, file.port) as listening,
        hold(place.data / NODES_LOCK, str(place.data)) as lock,
        logs_in(place.data / "logs"),
        nursery(),
    ):
        bind(store.writer, place.data, store.place)
        with ExitStack() as ends:
            facts = _learn(file.zones, place, report, ends)
        report("opening the market", 0.0)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            failure = runner.run(
                _serve(file, facts, store, place, listening, lock, clock, open_files, report, ready)
            )
    if failure is not None:
        raise ServiceEndedError(failure)


def _learn(
    entries: Sequence[ZoneConfig], place: Place, report: Report, ends: ExitStack
) -> dict[str, Facts]:
    """What must be known of all zones' bases, while all else that takes long goes on beside."""
    under_way = [
        ends.enter_context(kind.prepare([entry for entry in entries if entry.kind == name]))
        for name, kind in KINDS.items()
    ]

    def wait(report: Report) -> None:
        for one in under_way:
            one.wait(report)

    facts = {entry.name: learn_zone(entry, place, report, wait) for entry in entries}
    for zone, types in facts.items():
        for node_type, base in types.items():
            for warning in base.profile.warnings():
                _log.warning(warning, zone=zone, node_type=node_type)
    wait(report)
    return facts


async def _serve(
    file: ServiceConfig,
    facts: dict[str, Facts],
    store: Store,
    place: Place,
    listening: socket.socket,
    lock: int,
    clock: SteadyClock,
    open_files: int,
    report: Report,
    ready: Callable[[str, str | None], None],
) -> Exception | None:
    """Serve; why it ended by itself, if it did."""
    stop, alarm = Stop(), _Alarm(asyncio.get_running_loop())
    host, port = listening.getsockname()[:2]
    url = f"http://{host}:{port}"
    opened = await open_market(file, facts, store, place, report, alarm.ring, lock, clock, url=url)
    try:
        await add_first_keys(opened.market, file)
        key = await first_operator_key(opened.market.directory, place.data)
        await opened.start(report)
        config = uvicorn.Config(
            make_app(opened.market),
            # Its warnings are of requests that are no HTTP: anybody could fill the log with them.
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=5,
            server_header=False,
            # Who comes from elsewhere could name any address.
            proxy_headers=bool(file.trusted_proxies),
            forwarded_allow_ips=file.trusted_proxies,
        )
        connections = min(file.limits.connections, open_files // 2)
        server = StoppableServer(config, ConnectionLimits(connections))
        stop.of(server)
        settle()
        ready(url, key)
        alarm.answer(server)
        await server.serve(sockets=[listening])
    finally:
        await opened.close()
    return alarm.error


class _Alarm:
    """Ends the service when its memory is no longer what is on disk: a new start reads it again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._server: uvicorn.Server | None = None
        self.error: Exception | None = None

    def ring(self, error: Exception) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._note, error)

    def answer(self, server: uvicorn.Server) -> None:
        """From now on this is what ends."""
        self._server = server
        if self.error is not None:
            server.should_exit = True

    def _note(self, error: Exception) -> None:
        self.error = self.error or error
        _log.critical("the service ends", reason=str(error), exc_info=error)
        if self._server is not None:
            self._server.should_exit = True


def raise_open_files() -> int:
    """Let this process open as many files as the system allows, and return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MANY_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def _bind(host: str, port: int) -> socket.socket:
    """The port, before anything takes long."""
    try:
        return socket.create_server((host, port), reuse_port=False, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            found, expected = "is in use", "a free one: choose another with --port"
            raise InputError(f"port {port}", found, expected) from None
        reason = str(error.strerror).partition(" (")[0]
        found, expected = f"cannot be opened ({reason})", "an address of this machine, a free port"
        raise InputError(f"{host}:{port}", found, expected) from None
