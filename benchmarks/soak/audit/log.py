"""The log against rows, ledger, prices and responses; and the ledger against itself."""

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from auctune.engine.unix_time import SlotClock
from auctune.service.event_writer import from_minor_units, to_minor_units
from auctune.service.ledger import HELD, hold_account, user_account
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.kinds import KINDS
from soak.history import History, LedgerEntry
from soak.observed_job import JobView
from soak.zones import Model, SoakZone


class ReplayedZone:
    """The read models of a zone, rebuilt from its events.

    Args:
        zone: of the soak.
        events: all of them, oldest first.

    Attributes:
        rows: of jobs, by id.
        entries: of the ledger.
    """

    def __init__(self, zone: SoakZone, events: Sequence[ZoneEvent]) -> None:
        self._zone = zone
        self._events = events
        self._settings = events[0].body
        self.rows: dict[str, JobReadModel] = {}
        self.entries: list[LedgerEntry] = []

    def apply_events(self, prices: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """Apply all events; check invariants of the state and, at its slot, the price table.

        Args:
            prices: tables that the service has returned, by zone.
        """
        model = self._zone.empty_model(self._settings)
        table = prices.get(self._zone.name)
        for event in self._events:
            if table is not None and _starts_slot_after(event, table["first_slot"]):
                yield from self._check_prices(model, table)
                table = None
            effects = model.apply(event)
            self.rows.update({row.id: row for row in effects.rows})
            self.entries += [
                LedgerEntry(event.seq, event.job, entry.account, to_minor_units(entry.amount))
                for entry in effects.entries
            ]
            yield from self._zone.check_state(model, event)
        if table is not None:
            yield from self._check_prices(model, table)

    def check(self, history: History, views: Mapping[str, JobView]) -> Iterator[str]:
        """Compare the rows with those stored, and with the jobs that the service has returned."""
        clock = SlotClock(self._settings["epoch"], self._settings["slot_seconds"], lambda: 0.0)
        projection = KINDS[self._settings["kind"]].projection
        for name, row in self.rows.items():
            stored = history.jobs[name].row if name in history.jobs else None
            if stored is None or _columns(stored) != _columns(row):
                found = {} if stored is None else _columns(stored)
                yield f"{name}: stored row, replayed row: {_differences(found, _columns(row))}"
            if name in views:
                outcome = {"status": row.status.value, "result_files": row.body["files"]}
                market = _plain(projection.market(row, clock))
                differences = _differences(views[name], outcome)
                differences |= _differences(views[name]["market"], market)
                if differences:
                    yield f"{name}: response, replayed row: {differences}"

    def _check_prices(self, model: Model, table: Mapping[str, Any]) -> Iterator[str]:
        for name, value in self._zone.price_table(model).items():
            if value != table[name]:
                yield f"{self._zone.name}: replayed {name} of slot {table['first_slot']} differs"


def check_entries(history: History, zones: Iterable[ReplayedZone]) -> Iterator[str]:
    """Compare the stored entries of each event with the replayed ones."""
    stored, replayed = (
        _by_event(entries)
        for entries in (history.entries, [entry for zone in zones for entry in zone.entries])
    )
    for seq in stored.keys() | replayed.keys():
        if stored.get(seq) != replayed.get(seq):
            yield f"event {seq}: entries {stored.get(seq)}, replayed {replayed.get(seq)}"


def check_replay(config: Path, data: Path, zone: str) -> Iterator[str]:
    """Check that `auctune replay` makes the recorded decisions again."""
    command = [sys.executable, "-m", "auctune", "replay", "--data", str(data)]
    command += ["--config", str(config), "--zone", zone, "--json"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        output = (completed.stdout + completed.stderr)[-1500:]
        yield f"auctune replay of {zone} exited with {completed.returncode}: {output}"


def check_ledger(
    history: History, balances: Mapping[str, str], budgets: Mapping[str, Decimal]
) -> Iterator[str]:
    """Check the ledger once all jobs have ended.

    Each event's entries sum to 0, no hold remains, no budget was exceeded after any event, and the
    balances are those of the service.

    Args:
        history: with the ledger.
        balances: returned by the service.
        budgets: by user.
    """
    sums: Counter[str] = Counter()
    exceeded: set[str] = set()
    limits = {
        (user_account(user), hold_account(user)): to_minor_units(budget)
        for user, budget in budgets.items()
    }
    for seq, entries in _by_event(history.entries).items():
        if total := sum(entry.amount for entry in entries):
            yield f"entries of event {seq} sum to {total}"
        for entry in entries:
            sums[entry.account] += entry.amount
        exceeded |= {
            accounts[0]
            for accounts, limit in limits.items()
            if sum(sums[account] for account in accounts) > limit
        }
    yield from (f"{account} exceeds its budget" for account in exceeded)
    for account, total in sums.items():
        if (account == HELD or account.startswith("hold:")) and total:
            yield f"{account} is {total} although all jobs have ended"
    if total := sum(sums.values()):
        yield f"the ledger does not balance: {total}"
    for account in sums.keys() | balances.keys():
        balance = Decimal(balances.get(account, "0"))
        expected = from_minor_units(sums[account])
        if balance != expected:
            yield f"{account} has a balance of {balance}, and its entries sum to {expected}"


def _by_event(entries: Iterable[LedgerEntry]) -> dict[int, list[LedgerEntry]]:
    by_event: defaultdict[int, list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        by_event[entry.seq].append(entry)
    return dict(by_event)


def _starts_slot_after(event: ZoneEvent, slot: int) -> bool:
    return event.type == EventType.SLOT_STARTED and event.body["slot"] > slot


def _columns(row: JobReadModel) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in ("id", "zone", "seq", "owner", "created_at")}
    return {**columns, "status": row.status, **_plain(row.body)}


def _differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return found and expected values by name, for those names that differ."""
    return {
        name: (found.get(name), value)
        for name, value in expected.items()
        if found.get(name) != value
    }


def _plain(value: Any) -> Any:
    """Return a value as it is after a round trip through JSON."""
    return orjson.loads(orjson.dumps(value))
