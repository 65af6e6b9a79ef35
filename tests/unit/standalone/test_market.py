"""Folders of runs whose log was a journal, as an earlier release wrote them."""

import json
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.event_log import EventLog
from auctune.standalone.market import resume_market
from support.market_runs import quiet
from support.sample_report import make_report


def _write_earlier(out: Path, *types: str) -> None:
    log = EventLog(out / "state" / "journal.jsonl")
    for type_ in types:
        log.append({"type": type_, "version": 2})
    log.close()


def test_a_run_that_an_earlier_release_has_not_ended_is_refused_by_name(tmp_path: Path) -> None:
    _write_earlier(tmp_path, "begun", "decided")

    with pytest.raises(InputError, match=r"was begun by an earlier release; expected .* --fresh"):
        resume_market(tmp_path, quiet())


def test_a_run_that_an_earlier_release_has_ended_has_its_report(tmp_path: Path) -> None:
    _write_earlier(tmp_path, "begun", "ended")
    report = make_report().to_json()
    (tmp_path / "report.json").write_text(json.dumps(report))

    assert resume_market(tmp_path, quiet()).to_json() == report
