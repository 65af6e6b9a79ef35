"""Run the service with uvicorn until it is stopped; an application answers until it is open."""

import asyncio
import errno
import gc
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import structlog
import uvicorn
import uvloop
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.domain import AuctuneError, InputError
from auctune.engine.base_facts import Report, processor_warning
from auctune.engine.file_lock import NODES_LOCK, lock_file
from auctune.engine.runtime.local import start_fork_server
from auctune.engine.service_manager import notify_manager
from auctune.engine.unix_time import SteadyClock
from auctune.service import logging
from auctune.service.accounts.registry import NO_TERMS, AccountRegistry, Budget, Role, generate_key
from auctune.service.app import make_app
from auctune.service.config.models import ServiceConfig
from auctune.service.config.zone import ZoneConfig, core_warnings, divide_cores
from auctune.service.http.connections import MAX_CONNECTIONS, ConnectionLimits, LimitedServer
from auctune.service.http.errors import ApiError
from auctune.service.listening import join_address, listen
from auctune.service.private_files import make_private, write_private
from auctune.service.service import Service, build_service, profile_zone
from auctune.service.storage import Store, open_store
from auctune.service.storage.identity import bind
from auctune.service.zones.core.worker import BaseProfiles, DataDirs
from auctune.service.zones.kinds import find_kind

_RETRY = {"Retry-After": "5"}


class StartupGate:
    """ASGI application that passes requests on once the service is open.

    Until then /health is 200, and all other paths are 503 with what the service waits for.
    """

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._reason = "the service is starting"

    def report(self, stage: str, share: float) -> None:
        """Note the step of the start, and the share of it that is done; from any thread."""
        done = f" ({share:.0%})" if 0 < share < 1 else ""
        self._reason = f"the service is starting: {stage}{done}"

    def open(self, app: ASGIApp) -> None:
        """Pass requests on to this application from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app if self._app is not None else self._response(scope["path"])
        await app(scope, receive, send)

    def _response(self, path: str) -> Response:
        if path == "/health":
            return JSONResponse({"status": "ok"})
        if path == "/ready":
            return JSONResponse({"status": "not ready", "reason": self._reason}, 503, _RETRY)
        return ApiError(503, self._reason, "unavailable", headers=_RETRY).response()


FIRST_KEY = "first-key"
"""File of the data folder with the first operator key."""

# More than any system allows by default.
_MAX_OPEN_FILES = 1 << 20
# A thread that computes hands the interpreter over after so long: a bid crosses four threads, and
# waited 5 ms at each of them, Python's default, while others' lists were read.
_SWITCH_SECONDS = 0.0005
_MAX_STEP_SLOTS = 2
_DAY_SECONDS = 86_400.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Objects of the youngest generation, then collections of the generation below.
_GC_THRESHOLDS = (700, 10, 1000)

_log = structlog.get_logger(__name__)


class FatalServiceError(AuctuneError):
    """The service stopped because of an error; started again, it continues from its log."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(
            f"the service ended: {cause}. All that was acknowledged is on disk; once the cause is "
            "fixed, start it again, and it continues from there"
        )


def serve(
    config: ServiceConfig,
    place: DataDirs,
    report: Report,
    ready: Callable[[str, str | None], None],
) -> None:
    """Serve until stopped by a signal.

    Args:
        config: the settings.
        place: of data and cache; the data folder exists.
        report: called with the progress of the start.
        ready: called with the URL, and with the first key if it was made by this start.

    Raises:
        FatalServiceError: if the service stopped because of an error.
    """
    open_files = raise_open_files()
    sys.setswitchinterval(_SWITCH_SECONDS)
    # A smaller step is a correction, from which jobs with slack recover.
    clock = SteadyClock(_MAX_STEP_SLOTS * min(zone.slot_seconds for zone in config.zones))
    clock.share()
    with (
        # First: "the folder is in use" is a better error than "the port is in use".
        open_store(config.database or place.data, place.data) as store,
        _bind(config.host, config.port) as listening,
        lock_file(place.data / NODES_LOCK, str(place.data)) as lock,
        logging.configure(place.data / "logs"),
    ):
        start_fork_server()
        divide_cores(config.zones)
        for warning in core_warnings(config.zones):
            _log.warning(warning)
        bind(store.writer, place.data, store.label)
        # Only now it is known to be the folder of this service.
        if count := make_private(place.data):
            _log.warning(
                f"{place.data}: {count} files and folders were accessible to other accounts of "
                "this machine; access removed"
            )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            error = runner.run(
                _serve(config, store, place, listening, lock, clock, open_files, report, ready)
            )
    if error is not None:
        raise FatalServiceError(error)


def _profile_zones(
    zones: Sequence[ZoneConfig], place: DataDirs, report: Report
) -> dict[str, BaseProfiles]:
    """Load or measure the profiles of all zones' bases, while the startup tasks run."""
    with ExitStack() as ends:
        tasks = [
            ends.enter_context(
                find_kind(kind).prepare([zone for zone in zones if zone.kind == kind])
            )
            for kind in dict.fromkeys(zone.kind for zone in zones)
        ]

        def wait(report: Report) -> None:
            for task in tasks:
                task.wait(report)

        facts = {zone.name: profile_zone(zone, place, report, wait) for zone in zones}
        for zone in zones:
            for node_type, base in facts[zone.name].items():
                warnings = base.profile.warnings()
                # Where nothing trains here, the profile is one of other machines.
                other = processor_warning(base.profile) if zone.num_cpu_workers else None
                if other is not None:
                    warnings.append(f"its profile {other}; without `profile` it is measured")
                for warning in warnings:
                    _log.warning(warning, zone=zone.name, node_type=node_type)
        wait(report)
    return facts


async def _serve(
    config: ServiceConfig,
    store: Store,
    place: DataDirs,
    listening: socket.socket,
    lock: int,
    clock: SteadyClock,
    open_files: int,
    report: Report,
    ready: Callable[[str, str | None], None],
) -> Exception | None:
    """Serve; return the error that stopped the service, if one did."""
    host, port = listening.getsockname()[:2]
    url, gate = f"http://{join_address(host, port)}", StartupGate()
    options = uvicorn.Config(
        gate,
        # Warnings are about invalid HTTP: any client could fill the log with them. Errors go to the
        # service's log, which is rotated.
        log_config=None,
        log_level="error",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        # Less than `ConnectionLimits.head_seconds`, and more than clients keep connections for.
        timeout_keep_alive=15,
        server_header=False,
        # Any other client could claim any address.
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=config.trusted_proxies,
    )
    connections = min(MAX_CONNECTIONS, open_files // 2)
    server = LimitedServer(options, ConnectionLimits(connections))
    shutdown = Shutdown(server)

    def report_stage(stage: str, share: float) -> None:
        gate.report(stage, share)
        report(stage, share)

    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        facts = await asyncio.to_thread(_profile_zones, config.zones, place, report_stage)
        report_stage("opening the market", 0.0)
        # A log is replayed into millions of objects, hardly any of which is garbage.
        gc.disable()
        opened = await build_service(
            config, facts, store, place, report_stage, shutdown.report, lock, clock, url=url
        )
        try:
            await seed_accounts(opened.service, config)
            key = await ensure_operator_key(opened.service.accounts, place.data)
            await opened.start(report_stage)
            app = make_app(opened.service)
            freeze_startup_objects()
            shutdown.handle_signals()
            ready(url, key)
            server.server_state.is_flooding = opened.service.late.is_flooding
            server.end_streams = opened.service.generation.stop
            gate.open(app)
            await serving
        finally:
            await opened.close()
    finally:
        server.should_exit = True
        await serving
    return shutdown.error


class Shutdown:
    """Stops the server on SIGTERM, on SIGINT (Ctrl-C) or after a fatal error.

    After the first signal open requests are completed; after the second one they are dropped. A
    fatal error means that the state in memory is not what is on disk: the next start reads it.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self.error: Exception | None = None
        self._server = server
        self._num_signals = 0
        self._loop = asyncio.get_running_loop()

    def handle_signals(self) -> None:
        """Take over the signals; until now they have ended the process at once."""
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._on_signal)

    def report(self, error: Exception) -> None:
        """Report a fatal error, from any thread."""
        self._loop.call_soon_threadsafe(self._on_error, error)

    def _on_signal(self) -> None:
        self._num_signals += 1
        self._apply()

    def _on_error(self, error: Exception) -> None:
        self.error = self.error or error
        _log.critical("the service ends", reason=str(error), exc_info=error)
        self._apply()

    def _apply(self) -> None:
        notify_manager("STOPPING=1")
        self._server.should_exit = True
        self._server.force_exit = self._num_signals > 1


def freeze_startup_objects() -> None:
    """Tune the cyclic garbage collector so that full collections do not stall requests.

    Reference counts free nearly all garbage of a bid. A full collection stops all Python threads
    for a tenth of a second and more; with all modules in it, for half a second. So all objects that
    exist now are excluded, the young generations are collected as usual, and the oldest one only
    after some hundred thousand admitted jobs.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_GC_THRESHOLDS)


async def seed_accounts(service: Service, config: ServiceConfig) -> None:
    """Add users and keys of the settings that do not exist yet. A revoked key stays revoked."""
    keys = [(entry, entry.key(f"keys[{index}]")) for index, entry in enumerate(config.keys)]
    for user in config.users:
        if service.accounts.user(user.name) is None:
            budget = None
            if user.budget is not None:
                budget = Budget(user.budget, user.budget_days * _DAY_SECONDS)
            await service.put_user(user.name, None, budget, user.default_terms or NO_TERMS)
    for entry, key in keys:
        role, terms = Role(entry.role), entry.default_terms or NO_TERMS
        await service.accounts.import_key(entry.user, role, entry.name, key, terms)
    for team in config.limits.team_weights:
        if service.accounts.team(team) is None:
            _log.warning("limits.team_weights names a team that there is not (yet)", team=team)


async def ensure_operator_key(directory: AccountRegistry, data: Path) -> str | None:
    """Create an operator's key at the first start, and write it to a private file; or return None.

    The file is written before the key becomes valid: if the service is killed in between, the next
    start creates another key.
    """
    if any(one.role is Role.OPERATOR for one in directory.all_keys()):
        return None
    secret, key = generate_key()
    write_private(data / FIRST_KEY, secret + "\n")
    if directory.user("operator") is None:
        await directory.put_user("operator", None, None)
    await directory.import_key("operator", Role.OPERATOR, "first key", key)
    return secret


def raise_open_files() -> int:
    """Raise the limit on open files as far as the system allows, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return _MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def _bind(host: str, port: int) -> socket.socket:
    """Listen at the port; connections wait until the server takes them."""
    try:
        return listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            found, expected = "is in use", "a free port: choose one with --port"
            raise InputError(f"port {port}", found, expected) from None
        reason = str(error.strerror).partition(" (")[0]
        found, expected = (
            f"cannot be opened ({reason})",
            "an address and a free port of this machine",
        )
        raise InputError(join_address(host, port), found, expected) from None
