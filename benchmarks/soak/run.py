"""A soak from its beginning to its end."""

import os
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from soak.audit.audit import audit
from soak.client import Client, ClientThread
from soak.diary import Diary
from soak.fault import Fault
from soak.faults import COMMON
from soak.kinds import KINDS
from soak.log import num_open, read_log
from soak.moves import change, look_at, moves
from soak.progress import Progress
from soak.report import Soaked
from soak.served import Served, check_results, read_served
from soak.site import BUDGET, NODES, TOKEN, Site, write_site
from soak.stage import Stage
from soak.vendors import HONEST, LIAR, liar
from soak.weather import Weather
from support.lying_vendor import lying_vendor
from support.ray_nodes import ENVIRONMENT, ray_nodes
from support.service_process import ServiceProcess
from support.tiny_architecture import tiny_architecture
from support.vendor_process import VendorProcess

# Two clients each; the last one has a budget.
USERS = ("ada", "bert", "poor")
_CLIENTS_EACH = 2
_PAUSE_SECONDS = 0.8
# The last deadlines are seven minutes away when nobody bids any more; then results are packed.
_SETTLE_SECONDS = 720.0


def soak(folder: Path, minutes: float, seed: int, weights: Sequence[float] | None = None) -> Soaked:
    """Bid and break for so long, wait for all jobs, and look at everything.

    Args:
        folder: a new one, for settings and data.
        minutes: in which clients bid, and things break.
        seed: of all that is drawn.
        weights: how many of all bids are for a kind, by comparison; by the kinds' own if `None`.
    """
    with _stage(folder, seed) as (stage, site):
        clients = _clients(stage, seed, weights)
        until = time.monotonic() + minutes * 60
        progress = Progress(stage, clients, site.data, until)
        progress.start()
        try:
            _rage(stage, clients, seed, until, progress)
            served = _settle(stage, clients)
        finally:
            stage.over.set()
            progress.close()
        again = _again(stage, clients)
        log = read_log(site.data)
        diaries = [client.diary for client in clients]
        wrong = [*stage.wrong, *served.compare(again)]
        wrong += audit(site, log, KINDS, diaries, served, {USERS[-1]: Decimal(BUDGET)})
    return Soaked(
        minutes, seed, log, diaries, stage.struck, stage.start_seconds, served.num_results, wrong
    )


@contextmanager
def _stage(folder: Path, seed: int) -> Iterator[tuple[Stage, Site]]:
    """A service on a cluster, with two vendors; all of it ends with the block."""
    # The service is the cluster's driver.
    os.environ |= ENVIRONMENT
    with (
        ray_nodes(*NODES) as cluster,
        lying_vendor(liar(seed)) as lies,
        VendorProcess(
            folder / "orders", TOKEN, "--price", "0.02", "--delay-seconds", "2"
        ) as vendor,
    ):
        site = Site(folder / "site", cluster.address, {HONEST: vendor.url, LIAR: lies})
        service = ServiceProcess(
            write_site(site, tiny_architecture(), KINDS), site.data, _free_port()
        )
        stage = Stage(service, cluster, vendor)
        try:
            stage.start()
            yield stage, site
        finally:
            with suppress(ProcessLookupError):
                service.kill()


def _clients(stage: Stage, seed: int, weights: Sequence[float] | None) -> list[Client]:
    """Users with two clients each, and a data set of each sort to begin with."""
    clients = []
    for user in USERS:
        budget = {"amount": BUDGET, "seconds": 86_400.0} if user == USERS[-1] else None
        _made(stage, "/v1/users", {"id": user, "budget": budget})
        for number in range(_CLIENTS_EACH):
            key = _made(stage, "/v1/keys", {"user": user, "role": "user"})["secret"]
            draw = random.Random(f"{seed} {user} {number}")
            client = Client(Diary(user, key), stage, KINDS, draw, weights)
            for sort in client.sorts:
                client.upload(sort)
            clients.append(client)
    return clients


def _made(stage: Stage, path: str, body: dict[str, object]) -> dict[str, str]:
    status, made = stage.service.ask("POST", path, body)
    assert status == 200, made
    return made


def _rage(
    stage: Stage, clients: Sequence[Client], seed: int, until: float, progress: Progress
) -> None:
    """Clients bid while things break."""
    threads = [ClientThread(client, moves(clients), _PAUSE_SECONDS) for client in clients]
    faults: list[Fault] = [*COMMON, *(fault for kind in KINDS for fault in kind.faults)]
    weather = Weather(stage, faults, random.Random(f"{seed} weather"), progress.note)
    for thread in threads:
        thread.start()
    weather.rage(until)
    weather.clear()
    stage.over.set()
    for thread in threads:
        thread.join()
        if thread.failure is not None:
            raise thread.failure
    stage.over.clear()


def _settle(stage: Stage, clients: Sequence[Client]) -> Served:
    """Wait for all jobs, and ask what came of them; then the service is asked to end."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        stage.look()
        for client in clients:
            _look_again(client)
        # There may be jobs of which no client knows: nobody answered it.
        if not num_open(stage.service.data):
            break
        time.sleep(2.0)
    served = read_served(stage, clients, KINDS)
    check_results(clients, served)
    return served


def _look_again(client: Client) -> None:
    """Look at a client's jobs, and have those go on that wait for it."""
    for request in client.diary.requests:
        if request.is_repeatable and not request.is_answered:
            client.send_until_answered(request)
    for job in client.diary.open_jobs:
        look_at(client, job.id)
        if job.is_paused and change(client, job.id, "resume") == 400:
            change(client, job.id, "cancel")


def _again(stage: Stage, clients: Sequence[Client]) -> Served:
    """What the next life says, after an orderly end."""
    stage.stop()
    stage.start()
    again = read_served(stage, clients, KINDS)
    stage.stop()
    return again


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
