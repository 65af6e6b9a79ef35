"""A soak: bids and faults, then recovery, and the audit."""

import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from soak.actions import act, make_actions
from soak.audit import audit
from soak.client import Client, ClientRecord
from soak.environment import NODES, VENDOR_TOKEN, Environment, faulty_vendor
from soak.faults import COMMON_FAULTS, FaultInjector
from soak.final_state import check_results, read_final_state
from soak.history import count_open_jobs, read_history
from soak.report import Progress, SoakResult
from soak.zones import DATA_SETS, ZONES
from support.lying_vendor import lying_vendor
from support.ray_nodes import ray_nodes
from support.vendor_process import VendorProcess

# Two clients each; the last one has a budget.
_USERS = ("ada", "bert", "poor")
_CLIENTS_PER_USER = 2
_BUDGET = "6.00"
_MEAN_PAUSE_SECONDS = 0.8
# The latest deadlines are seven minutes after the last bid; then results are packed.
_SETTLE_SECONDS = 720.0


def soak(
    folder: Path, minutes: float, seed: int, weights: Sequence[float] | None = None
) -> SoakResult:
    """Run a soak.

    Args:
        folder: new, for the service's settings and data.
        minutes: duration of bids and faults.
        seed: of all draws.
        weights: relative frequencies of bids for each of `ZONES`; by default the zones' own.
    """
    with _open_environment(folder, seed) as environment:
        clients = _make_clients(environment, seed, weights)
        until = time.monotonic() + minutes * 60
        progress = Progress(environment, clients, until)
        progress.start()
        try:
            _inject_faults(environment, clients, seed, until, progress)
            _settle(environment, clients)
            state = read_final_state(environment, clients)
            check_results(clients, state)
        finally:
            environment.stop_requested.set()
            progress.close()
        environment.stop_service()
        environment.start_service()
        restarted = read_final_state(environment, clients)
        environment.stop_service()
        history = read_history(environment.data)
        records = [client.record for client in clients]
        violations = [*environment.violations, *state.compare(restarted)]
        budgets = {_USERS[-1]: Decimal(_BUDGET)}
        violations += audit(environment.config, environment.data, history, records, state, budgets)
    return SoakResult(
        minutes,
        seed,
        history,
        records,
        environment.fault_counts,
        environment.missed_fault_counts,
        environment.start_seconds,
        state.num_results,
        violations,
    )


@contextmanager
def _open_environment(folder: Path, seed: int) -> Iterator[Environment]:
    arguments = ("--price", "0.02", "--delay-seconds", "2")
    with (
        ray_nodes(*NODES) as cluster,
        lying_vendor(faulty_vendor(seed)) as faulty_url,
        VendorProcess(folder / "orders", VENDOR_TOKEN, *arguments) as vendor,
    ):
        environment = Environment(folder / "service", cluster, vendor, faulty_url)
        environment.write_settings(zone.settings(environment) for zone in ZONES)
        try:
            environment.start_service()
            yield environment
        finally:
            with suppress(ProcessLookupError):
                environment.service.kill()


def _make_clients(
    environment: Environment, seed: int, weights: Sequence[float] | None
) -> list[Client]:
    """Create users, and clients with one data set of each key in `DATA_SETS`."""
    clients = []
    for user in _USERS:
        budget = {"amount": _BUDGET, "seconds": 86_400.0} if user == _USERS[-1] else None
        environment.create("/v1/users", {"id": user, "budget": budget})
        for number in range(_CLIENTS_PER_USER):
            key = environment.create("/v1/keys", {"user": user, "role": "user"})["secret"]
            rng = random.Random(f"{seed} {user} {number}")
            client = Client(ClientRecord(user, key), environment, rng, weights)
            for data_set in DATA_SETS:
                client.upload(data_set)
            clients.append(client)
    return clients


def _inject_faults(
    environment: Environment,
    clients: Sequence[Client],
    seed: int,
    until: float,
    progress: Progress,
) -> None:
    """Inject faults while clients act, then recover and stop the clients."""
    actions = make_actions(clients)
    faults = [*COMMON_FAULTS, *(fault for zone in ZONES for fault in zone.faults)]
    rng = random.Random(f"{seed} weather")
    injector = FaultInjector(environment, faults, rng, progress.on_fault)
    with ThreadPoolExecutor(len(clients)) as executor:
        running = [executor.submit(act, client, actions, _MEAN_PAUSE_SECONDS) for client in clients]
        try:
            injector.run(until)
            injector.recover_all()
        finally:
            environment.stop_requested.set()
    for future in running:
        future.result()
    environment.stop_requested.clear()


def _settle(environment: Environment, clients: Sequence[Client]) -> None:
    """Wait until all jobs have ended; retry unanswered requests, resume or cancel paused jobs."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        environment.check_service()
        for client in clients:
            for request in client.record.requests:
                if request.is_repeatable and not request.is_answered:
                    client.request_job_until_answered(request)
            for job in client.record.open_jobs:
                client.refresh(job.id)
                if job.is_paused and client.change(job.id, "resume") == 400:
                    client.change(job.id, "cancel")
        # An unanswered request may have created a job that its client does not have.
        if not count_open_jobs(environment.data):
            break
        time.sleep(2.0)
