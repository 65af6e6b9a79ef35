"""A service that opens on logs of a soak says of them what it said when they were recorded.

A recording of each version of the log is unpacked as its release left it, and upgraded.

Zones of all kinds, with kills of the service, of nodes and of jobs' processes, at two moments: with
jobs under way, and at the end. Rows of jobs, entries, snapshots, answers to owners and operator,
and what `auctune replay` decides again: all of it bit for bit.

A change that is meant to change nothing leaves this test and its fixture as they are. See
`benchmarks/record_logs.py` for how they came about, and for when they may be replaced.
"""

import json
from collections import Counter
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy import select

from auctune.service.accounts.budgets import _of_key, _stored_payments
from auctune.service.erasure import erase
from auctune.service.storage import EventLog
from auctune.service.storage.event_log import OLDEST_VERSION, VERSION
from auctune.service.storage.tables import events
from support.recorded_logs import (
    CHARGED_KEY,
    FIXTURES,
    Found,
    add_charges,
    differences,
    expected,
    keep_snapshots,
    moments,
    observed,
    opened,
    operator_answers,
    recorded_entries,
    recorded_jobs,
    refold,
    replay,
    restore_snapshots,
    snapshots,
    unpack,
)
from support.serving import Served
from support.thorough import THOROUGH
from support.waits import WAIT_SECONDS

pytestmark = pytest.mark.slow

END, UNDER_WAY = "end", "under way"
ZONES = ("owned", "rented", "pool", "sites")
# The oldest log passes all upcasters.
SAMPLE = FIXTURES if THOROUGH else [FIXTURES[0], FIXTURES[-1]]


@pytest.fixture(scope="module", params=SAMPLE, ids=lambda fixture: fixture.name)
def fixture(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def seen(fixture: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    return {
        moment: observed(tmp_path_factory.mktemp("at"), moment, fixture)
        for moment in moments(fixture)
    }


def recorded_version(fixture: Path) -> int:
    version: int = json.loads((fixture / "recording.json").read_text())["version"]
    return version


def first(found: Found, wanted: Found) -> list[str]:
    return list(islice(differences(wanted, found), 20))


@pytest.mark.parametrize("moment", [UNDER_WAY, END])
def test_all_is_as_it_was_when_the_log_was_recorded(
    seen: dict[str, Found], fixture: Path, moment: str
) -> None:
    assert first(seen[moment], expected(moment, fixture)) == []


def test_logs_fold_into_the_rows_and_entries_that_the_service_wrote(
    seen: dict[str, Found], fixture: Path
) -> None:
    assert first(seen[END]["jobs"], recorded_jobs(fixture)) == []
    assert seen[END]["entries"] == recorded_entries(fixture)


@pytest.mark.parametrize("zone", ZONES)
def test_each_decision_comes_out_as_it_was_recorded(seen: dict[str, Found], zone: str) -> None:
    replayed = seen[END][f"replay of {zone}"]
    assert replayed["exit code"] == 0
    assert replayed["figures"]["identical"]
    assert replayed["figures"]["num_decisions"] > 5


def test_there_is_a_recording_of_each_version_that_the_log_has_had() -> None:
    assert set(map(recorded_version, FIXTURES)) >= set(range(OLDEST_VERSION, VERSION))


def test_a_service_goes_on_from_snapshots_that_an_earlier_release_took(
    fixture: Path, tmp_path: Path
) -> None:
    made = unpack(tmp_path, UNDER_WAY, fixture)
    refold(made)
    taken = restore_snapshots(made)
    assert taken.keys() == set(ZONES)
    wanted = expected(UNDER_WAY, fixture)
    with opened(made) as served:
        for zone, state in snapshots(served).items():
            assert first(state, wanted[f"snapshot of {zone}"]) == []
            folded = served.service.zones[zone].actor.submit(lambda zone: zone.model.num_applied)
            # The snapshot was not skipped: what it stands for was not folded again.
            assert folded.result(WAIT_SECONDS) <= made.seq - taken[zone]


def test_a_service_on_snapshots_says_what_one_on_its_whole_log_does(tmp_path: Path) -> None:
    made = unpack(tmp_path, UNDER_WAY)
    refold(made)
    with opened(made) as served:
        before = snapshots(served), operator_answers(served)
        keep_snapshots(served)
    with opened(made) as served:
        assert first(snapshots(served), before[0]) == []
        assert first(operator_answers(served), before[1]) == []


def test_a_user_in_a_log_of_an_earlier_version_is_erased_and_the_books_stay(
    fixture: Path, tmp_path: Path
) -> None:
    made = unpack(tmp_path, END, fixture)
    rows, _ = refold(made)
    add_charges(made)
    jobs = {name for name, row in rows.items() if row["owner"] == "ada"}

    def texts(served: Served) -> bytes:
        log = EventLog(served.service.store.reader)
        return b"".join(event.body for job in jobs for event in log.read_job(job))

    with opened(made) as served:
        assert b'"metadata":{"token":' in texts(served)
        before = served.service.queries.balances()
        served.run(partial(erase, served.service, "ada"))
    with opened(made) as served:
        assert b'"token"' not in texts(served)
        assert served.service.queries.balances() == before
        with served.service.store.reader.connect() as connection:
            versions = connection.execute(select(events.c.job, events.c.version)).all()
    # Only events with texts of hers were rewritten.
    recorded = recorded_version(fixture)
    assert {version for job, version in versions if job in jobs} == {recorded, VERSION}
    assert {version for job, version in versions if job in rows.keys() - jobs} == {recorded}
    for zone in ZONES:
        assert replay(made, zone)["figures"]["identical"]


def test_charges_of_an_earlier_version_count_to_the_budget_of_their_key(
    fixture: Path, tmp_path: Path
) -> None:
    made = unpack(tmp_path, END, fixture)
    refold(made)
    add_charges(made)
    with opened(made) as served:
        reader = served.service.store.reader
        paid = _of_key(reader, _stored_payments(reader, ["ada"], 0.0), CHARGED_KEY)
    assert [one.amount for one in paid] == [Decimal("0.0001")] * 2


def test_there_is_something_to_see_in_each_zone(seen: dict[str, Found]) -> None:
    for zone in ZONES:
        rows = [row for row in seen[END]["jobs"].values() if row["zone"] == zone]
        statuses = Counter(row["status"] for row in rows)
        assert min(statuses["succeeded"], statuses["failed"]) > 0, zone
        under_way = [row for row in seen[UNDER_WAY]["jobs"].values() if row["zone"] == zone]
        assert {row["status"] for row in under_way} & {"queued", "running"}, zone


def test_differences_name_where_they_are() -> None:
    wanted = {"jobs": {"a": [1, 2.5, None], "b": "x"}, "rest": [1]}
    assert list(differences(wanted, {"jobs": {"a": [1, 2.5, None], "b": "x"}, "rest": [1]})) == []
    found = {"jobs": {"a": [1.0, 2.5, 0], "c": "x"}, "rest": [1, 2]}
    assert sorted(differences(wanted, found)) == [
        "['jobs']['a'][0]: expected 1, found 1.0",
        "['jobs']['a'][2]: expected null, found 0",
        "['jobs']['b']: missing, expected \"x\"",
        "['jobs']['c']: not expected, found \"x\"",
        "['rest']: expected 1 items, found 2",
    ]
