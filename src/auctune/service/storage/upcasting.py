"""Versions of the log: events and snapshots of earlier versions are read as those of this one.

Events are append-only, so a new format does not rewrite them: each names the version that it was
written in, and reading takes its body through one step for each version since. To change the
format, raise the version, add the step from the version before, and leave the earlier steps as they
are; record a log of the version before, if `tests/data/recorded_logs` has none. Types of events do
not change. Bodies of one type, and states, differ between kinds of zones: a step recognizes what it
changes by its fields. Rows of jobs have no version: a migration of the tables changes them.
"""

from collections.abc import Callable, Mapping

import orjson

from auctune.domain import InputError
from auctune.service.storage.events import EventType, Record

OLDEST_VERSION = 11
VERSION = 14
"""Version of the log: of the bodies of events."""

SNAPSHOT_VERSION = 9
"""Version of the states in snapshots: raised with any change of a state or of its reducers."""

Upcast = Callable[[Record], Record]


def _charge_without_fraction(body: Record) -> Record:
    return {"carried": None, **body}


def _state_without_squares(state: Record) -> Record:
    # Sizes of data have them by default.
    return state


def _state_without_fractions(state: Record) -> Record:
    return {"fractions": {}, **state}


EVENT_UPCASTS: Mapping[int, Mapping[str, Upcast]] = {
    11: {EventType.TOKENS_USED: _charge_without_fraction},
    # Since then runs of rented jobs are in the log; a zone imports those that were in folders.
    12: {},
    # Since then sizes of data have squares of row lengths, and estimates may have a cap: a release
    # that does not know them must not read them.
    13: {},
}
"""By version, and by the type of events whose body changed: from that version to the next."""

SNAPSHOT_UPCASTS: Mapping[int, Upcast] = {
    7: _state_without_fractions,
    8: _state_without_squares,
}
"""By version: from the state in a snapshot of that version to the next. A snapshot of a version
that no chain of steps leads from is skipped, and the log is folded: the other way to change states.
"""


def upcast_event(version: int, type_: str, body: bytes) -> bytes:
    """Return the body of an event as this version has it."""
    for one in range(version, VERSION):
        step = EVENT_UPCASTS[one].get(type_)
        if step is not None:
            body = orjson.dumps(step(orjson.loads(body)))
    return body


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


def check_version(place: str, version: int) -> None:
    """Refuse a log that this release cannot read."""
    found = f"is of version {version}"
    if version > VERSION:
        expected = f"at most version {VERSION}: a newer release of auctune wrote it"
        raise InputError(place, found, expected)
    if version < OLDEST_VERSION:
        expected = f"version {OLDEST_VERSION} or newer; start with a new data folder"
        raise InputError(place, found, expected)
