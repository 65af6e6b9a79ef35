"""Snapshots: the state of a zone after an event, so that a restart folds only later events.

Snapshots are an optimization: one that cannot be read is skipped, and without any the whole log is
folded. The body is compressed, behind a checksum of the uncompressed state.
"""

import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import Engine, select

from auctune.domain import InputError, read_snapshot
from auctune.service.identifiers import JOB_ID
from auctune.service.storage.committer import OnDone, WriteBatch, noop
from auctune.service.storage.event_log import Record, Upcast
from auctune.service.storage.tables import snapshots

KEPT = 3
"""Snapshots of a zone that are kept."""
SNAPSHOT_VERSION = 11
"""Version of the states in snapshots: raised with any change of a state or of its reducers."""

_JOB = re.compile(JOB_ID)

_log = structlog.get_logger(__name__)

State = TypeVar("State")


def _state_without_squares(state: Record) -> Record:
    # Sizes of data have them by default.
    return state


def _state_without_fractions(state: Record) -> Record:
    return {"fractions": {}, **state}


def _state_with_methods(state: Record) -> Record:
    # Sizes of data said whether rows were pairs, and nowhere else stands such a key.
    changed = {key: _with_methods(value) for key, value in state.items()}
    if (has_pairs := changed.pop("has_pairs", None)) is not None:
        changed["method"] = "dpo" if has_pairs else "supervised"
    return changed


def _with_methods(value: Any) -> Any:
    if isinstance(value, dict):
        return _state_with_methods(value)
    return [_with_methods(one) for one in value] if isinstance(value, list) else value


def _state_with_ledger(state: Record) -> Record:
    # Only where names stand that users did not choose.
    names = {"book": "ledger", "taught": "last_update", "diary": "history"}

    def renamed(record: Record) -> Record:
        return {names.get(name, name): value for name, value in record.items()}

    if not isinstance(state.get("mechanism"), dict):
        return state
    mechanism = renamed(state["mechanism"])
    if isinstance(mechanism.get("pricing"), dict):
        mechanism["pricing"] = renamed(mechanism["pricing"])
    return {**state, "mechanism": mechanism}


SNAPSHOT_UPCASTS: Mapping[int, Upcast] = {
    7: _state_without_fractions,
    8: _state_without_squares,
    9: _state_with_methods,
    10: _state_with_ledger,
}
"""By version: from the state in a snapshot of that version to the next, with what its mechanism
saved as `mechanism`. A snapshot of a version that no chain of steps leads from is skipped, and the
log is folded: the other way to change states.
"""


def upcast_snapshot(state: Record) -> Record:
    """Return the state of a snapshot as this version has it, without its version.

    Raises:
        ValueError: if it is of a version that is not known here; the log holds all of it.
    """
    state = dict(state)
    version = state.pop("version", None)
    while version != SNAPSHOT_VERSION:
        if version not in SNAPSHOT_UPCASTS:
            raise ValueError(f"snapshot of version {version}, expected {SNAPSHOT_VERSION}")
        state = SNAPSHOT_UPCASTS[version](state)
        version += 1
    return state


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[State]):
    """The state of a zone after the event `seq`, taken at a unix time."""

    zone: str
    seq: int
    at: float
    state: State


class Snapshots:
    """The snapshots of a database, thread-safe."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader

    def write_batch(
        self, zone: str, seq: int, at: float, body: bytes, done: OnDone = noop
    ) -> WriteBatch:
        """Return the batch that writes a snapshot and removes all but the newest ones.

        `seq` is the last event in the state.
        """
        row = {"zone": zone, "seq": seq, "at": at, "body": _pack(body)}
        old = [stored for stored in self._stored(zone) if stored != seq][KEPT - 1 :]
        return (
            WriteBatch(done)
            .upsert(snapshots, row)
            .remove(snapshots, *({"zone": zone, "seq": stored} for stored in old))
        )

    def load_latest(
        self, zone: str, read: Callable[[bytes], State], until: int | None = None
    ) -> Snapshot[State] | None:
        """Return the newest snapshot of a zone that can be read, up to a sequence number, or None.

        `read` returns the state of a body, or raises ValueError.
        """
        for seq in self._stored(zone):
            if until is not None and seq > until:
                continue
            with self._reader.connect() as connection:
                row = connection.execute(
                    select(snapshots.c.at, snapshots.c.body).where(
                        snapshots.c.zone == zone, snapshots.c.seq == seq
                    )
                ).first()
            if row is None:
                continue
            try:
                state = read(_unpack(row.body))
            except ValueError as error:
                _log.warning("skipped a snapshot", zone=zone, seq=seq, reason=str(error))
            else:
                return Snapshot(zone, seq, row.at, state)
        return None

    def _stored(self, zone: str) -> list[int]:
        query = select(snapshots.c.seq).where(snapshots.c.zone == zone)
        with self._reader.connect() as connection:
            return list(connection.execute(query.order_by(snapshots.c.seq.desc())).scalars())


def holds_any(packed: bytes, jobs: Collection[str]) -> bool:
    """Return whether a stored snapshot names one of some jobs, or cannot be read."""
    try:
        saved = read_snapshot(_unpack(packed))
    except (ValueError, InputError):
        return True
    # Arrays as their bytes, one of which is the state as JSON.
    text = json.dumps(saved, default=lambda array: array.tobytes().decode("latin-1"))
    return any(job in jobs for job in _JOB.findall(text))


def _pack(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big") + zlib.compress(body, level=1)


def _unpack(packed: bytes) -> bytes:
    try:
        body = zlib.decompress(packed[4:])
    except zlib.error as error:
        raise ValueError(f"is damaged: {error}") from None
    if zlib.crc32(body).to_bytes(4, "big") != packed[:4]:
        raise ValueError("is damaged: wrong checksum")
    return body
