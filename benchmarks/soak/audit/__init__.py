"""Audit of a soak: each check yields violations."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from soak.audit.clients import check_clients
from soak.audit.jobs import check_job
from soak.audit.log import ReplayedZone, check_entries, check_ledger, check_replay
from soak.client import ClientRecord
from soak.final_state import FinalState
from soak.history import History
from soak.zones import ZONES


def audit(
    config: Path,
    data: Path,
    history: History,
    clients: Sequence[ClientRecord],
    state: FinalState,
    budgets: Mapping[str, Decimal],
) -> Iterator[str]:
    """Run all checks once all jobs have ended.

    Args:
        config: the service's auctune.toml.
        data: the service's data folder.
        history: read from it.
        clients: records of all clients.
        state: returned by the service.
        budgets: by user.
    """
    yield from state.violations
    yield from check_ledger(history, state.balances, budgets)
    zones = {zone.name: zone for zone in ZONES}
    yield from check_clients(
        history, clients, lambda decided: zones[decided.zone].sold_cells(decided.body)
    )
    for job in history.jobs.values():
        yield from check_job(job, is_metered=zones[job.zone].is_metered)
    replayed = [ReplayedZone(zone, history.events[zone.name]) for zone in ZONES]
    for one in replayed:
        yield from one.apply_events(state.prices)
        yield from one.check(history, state.views)
    yield from check_entries(history, replayed)
    for zone in ZONES:
        yield from check_replay(config, data, zone.name)
