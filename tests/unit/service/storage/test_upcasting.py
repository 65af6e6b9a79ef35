"""Logs and snapshots of earlier versions are read as those of this one; later ones are refused."""

import orjson
import pytest

from auctune.domain import InputError
from auctune.service.storage import (
    Committer,
    EventLog,
    Store,
    WriteBatch,
    open_readonly,
    open_store,
    upgrade,
)
from auctune.service.storage.event_log import (
    EVENT_UPCASTS,
    NAME,
    OLDEST_VERSION,
    VERSION,
    EventType,
    log_versions,
    upcast_event,
)
from auctune.service.storage.snapshots import SNAPSHOT_VERSION, upcast_snapshot
from auctune.service.storage.tables import events, meta
from support.store_rows import event_row, write

pytest_plugins = ["support.store_fixtures"]


def test_there_is_a_step_from_each_version_to_the_next() -> None:
    assert sorted(EVENT_UPCASTS) == list(range(OLDEST_VERSION, VERSION))


def test_a_body_takes_the_steps_of_its_type_since_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = {
        11: {"a": lambda body: {**body, "unit": "s"}},
        12: {},
        13: {},
        14: {},
        15: {"a": lambda body: {"took": [body["seconds"], body["unit"]]}},
    }
    monkeypatch.setattr("auctune.service.storage.event_log.EVENT_UPCASTS", steps)
    monkeypatch.setattr("auctune.service.storage.event_log.VERSION", 16)
    assert upcast_event(11, "a", b'{"seconds": 2}') == b'{"took":[2,"s"]}'
    assert upcast_event(13, "a", b'{"seconds": 2, "unit": "min"}') == b'{"took":[2,"min"]}'
    # Bodies that no step changes keep their bytes.
    assert upcast_event(11, "b", b'{"seconds": 2}') == b'{"seconds": 2}'


@pytest.mark.parametrize(
    ("settings", "as_read"),
    [
        ({"pricing": "exponential"}, {"pricing": "exponential", "aggregate": "max"}),
        ({"compute_low": "1"}, {"compute_low": "1", "aggregate": "max"}),
        ({"pricing": "exponential", "aggregate": "sum"}, None),
        ({"pricing": "learned"}, None),
        ({}, None),
    ],
)
def test_exponential_prices_of_earlier_zones_stay_those_of_the_dearest_cell(
    settings: dict[str, str], as_read: dict[str, str] | None
) -> None:
    body = {"mechanism": "pdftsp", "settings": settings}
    read = orjson.loads(upcast_event(15, EventType.ZONE_CREATED, orjson.dumps(body)))
    assert read["settings"] == (settings if as_read is None else as_read)
    assert orjson.loads(upcast_event(VERSION, EventType.ZONE_CREATED, orjson.dumps(body))) == body


def test_events_of_all_versions_are_read_as_those_of_this_one(
    store: Store, committer: Committer
) -> None:
    charge = b'{"user":"ann","amount":"0.0001"}'
    rows = [
        event_row(1, version=11),
        event_row(2, version=11, type="tokens.used", body=charge),
        event_row(3, type="tokens.used", body=charge),
    ]
    assert write(committer, WriteBatch().insert(events, *rows)) == [None]
    read = list(EventLog(store.reader).read_zone("north"))
    assert [event.body for event in read] == [
        rows[0]["body"],
        b'{"carried":null,"user":"ann","amount":"0.0001"}',
        charge,
    ]
    assert log_versions(store.writer) == (11, VERSION)


def test_a_log_of_a_newer_release_is_refused_whatever_is_read_of_it(
    store: Store, committer: Committer, database: str
) -> None:
    assert write(committer, WriteBatch().insert(events, event_row(1))) == [None]
    row = {"name": NAME, "value": str(VERSION + 1)}
    assert write(committer, WriteBatch().upsert(meta, row)) == [None]
    committer.close()
    store.close()
    expected = (
        rf"log: is of version {VERSION + 1}; "
        f"expected at most version {VERSION}: a newer release of auctune wrote it"
    )
    for act in (open_store, upgrade):
        with pytest.raises(InputError, match=expected):
            act(database)
    with pytest.raises(InputError, match=expected), open_readonly(database):
        pass


def test_an_event_of_a_newer_release_is_refused_by_its_number(
    store: Store, committer: Committer
) -> None:
    rows = [event_row(1), event_row(2, version=VERSION + 1)]
    assert write(committer, WriteBatch().insert(events, *rows)) == [None]
    with pytest.raises(InputError, match=r"event 2 of zone north .*: is of version"):
        list(EventLog(store.reader).read_zone("north"))


def test_the_version_of_an_event_is_under_its_checksum(store: Store, committer: Committer) -> None:
    altered = {**event_row(1), "version": 11}
    assert write(committer, WriteBatch().insert(events, altered)) == [None]
    with pytest.raises(InputError, match="does not match its checksum"):
        list(EventLog(store.reader).read_zone("north"))


def test_states_of_earlier_snapshots_are_read_and_unknown_ones_are_skipped() -> None:
    now = {"seq": 3, "fractions": {}}
    assert upcast_snapshot({"version": 7, "seq": 3}) == now
    assert upcast_snapshot({"version": SNAPSHOT_VERSION, **now}) == now
    sizes = [{"rows": 2, "has_pairs": is_paired} for is_paired in (False, True)]
    methods = [{"rows": 2, "method": method} for method in ("supervised", "dpo")]
    assert upcast_snapshot({"version": 9, "jobs": {"a": sizes}}) == {"jobs": {"a": methods}}
    for version in (None, 6, SNAPSHOT_VERSION + 1):
        with pytest.raises(ValueError, match=f"snapshot of version {version}, expected"):
            upcast_snapshot({"version": version, "seq": 3})


def test_price_updates_and_mechanisms_of_earlier_versions_have_their_words_of_today() -> None:
    assert upcast_event(15, "prices.updated", b'{"slot":2,"lesson":{"lam":[1]}}') == (
        b'{"slot":2,"update":{"lam":[1]}}'
    )
    # Names that users chose stay.
    state = {"users": {"book": 1}}
    before = {"book": {"nodes": ["a"]}, "taught": 3, "pricing": {"taught": 3, "diary": {"now": 3}}}
    now = {
        "ledger": {"nodes": ["a"]},
        "last_update": 3,
        "pricing": {"last_update": 3, "history": {"now": 3}},
    }
    read = upcast_snapshot({"version": 10, **state, "mechanism": before})
    assert read == {**state, "mechanism": now}
