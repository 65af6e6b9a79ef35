"""A service that opens on logs of a soak says of them what it said when they were recorded.

Zones of all kinds, with kills of the service, of nodes and of jobs' processes, at two moments: with
jobs under way, and at the end. Rows of jobs, entries, snapshots, answers to owners and operator,
and what `auctune replay` decides again: all of it bit for bit.

A change that is meant to change nothing leaves this test and its fixture as they are. See
`benchmarks/record_logs.py` for how they came about, and for when they may be replaced.
"""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from support.recorded_logs import (
    Found,
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
    snapshots,
    unpack,
)

pytestmark = pytest.mark.slow

END, UNDER_WAY = "end", "under way"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    return {moment: observed(tmp_path_factory.mktemp("at"), moment) for moment in moments()}


def first(found: Found, wanted: Found) -> list[str]:
    return list(islice(differences(wanted, found), 20))


@pytest.mark.parametrize("moment", [UNDER_WAY, END])
def test_all_is_as_it_was_when_the_log_was_recorded(seen: dict[str, Found], moment: str) -> None:
    assert first(seen[moment], expected(moment)) == []


def test_logs_fold_into_the_rows_and_entries_that_the_service_wrote(seen: dict[str, Found]) -> None:
    assert first(seen[END]["jobs"], recorded_jobs()) == []
    assert seen[END]["entries"] == recorded_entries()


@pytest.mark.parametrize("zone", ["owned", "rented", "pool", "sites"])
def test_each_decision_comes_out_as_it_was_recorded(seen: dict[str, Found], zone: str) -> None:
    replayed = seen[END][f"replay of {zone}"]
    assert replayed["exit code"] == 0
    assert replayed["figures"]["identical"]
    assert replayed["figures"]["num_decisions"] > 5


def test_a_service_on_snapshots_says_what_one_on_its_whole_log_does(tmp_path: Path) -> None:
    made = unpack(tmp_path, UNDER_WAY)
    refold(made)
    with opened(made) as served:
        before = snapshots(served), operator_answers(served)
        keep_snapshots(served)
    with opened(made) as served:
        assert first(snapshots(served), before[0]) == []
        assert first(operator_answers(served), before[1]) == []


def test_there_is_something_to_see_in_each_zone(seen: dict[str, Found]) -> None:
    for zone in ("owned", "rented", "pool", "sites"):
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
