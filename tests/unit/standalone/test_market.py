"""A market file that changes, and folders of another release or command, with a journal."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.event_log import EventLog
from auctune.standalone import market
from auctune.standalone.market import resume_market, run_market
from support.market_runs import quiet, write_market
from support.sample_report import make_report


def test_a_market_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_market(tmp_path / "market")

    def change() -> None:
        path.write_text(path.read_text().replace("Small market", "Another market"))

    # The file has been read then, and not copied.
    monkeypatch.setattr(market, "start_fork_server", change)
    with pytest.raises(InputError, match=r"was changed while it was read; expected a file that st"):
        run_market(path, tmp_path / "out", quiet())
    assert not (tmp_path / "out").exists()


def _write_earlier(out: Path, *types: str) -> None:
    _write_journal(out, {"type": "begun", "version": 2, "inputs": {"inputs/names.json": "0"}})
    _write_journal(out, *({"type": type_} for type_ in types))


def _write_journal(out: Path, *events: Mapping[str, object]) -> None:
    log = EventLog(out / "state" / "journal.jsonl")
    for event in events:
        log.append(dict(event))
    log.close()


def test_a_run_that_an_earlier_release_has_not_ended_is_refused_by_name(tmp_path: Path) -> None:
    _write_earlier(tmp_path, "decided")

    expected = r"was begun by an earlier release; expected .* --fresh"
    with pytest.raises(InputError, match=expected):
        resume_market(tmp_path, quiet())
    # Killed before its report was written.
    _write_earlier(tmp_path / "killed", "ended")
    with pytest.raises(InputError, match=expected):
        resume_market(tmp_path / "killed", quiet())


def test_a_run_that_an_earlier_release_has_ended_has_its_report(tmp_path: Path) -> None:
    _write_earlier(tmp_path, "ended")
    report = make_report().to_json()
    (tmp_path / "report.json").write_text(json.dumps(report))

    assert resume_market(tmp_path, quiet()).to_json() == report


@pytest.mark.parametrize("content", ['{"version": 1}', "{}", "{", '{"version": 3}'])
def test_a_report_that_cannot_be_read_is_named(content: str, tmp_path: Path) -> None:
    _write_earlier(tmp_path, "ended")
    (tmp_path / "report.json").write_text(content)

    with pytest.raises(InputError, match=r"report\.json: is damaged, or of another release"):
        resume_market(tmp_path, quiet())


@pytest.mark.parametrize(
    "first",
    [{"type": "started"}, {"type": "begun"}, {"type": "begun", "inputs": {"inputs/job.toml": "0"}}],
)
def test_the_run_of_another_command_is_refused_by_name(
    first: dict[str, object], tmp_path: Path
) -> None:
    _write_journal(tmp_path, first, {"type": "ended"})
    (tmp_path / "report.json").write_text("{}")

    with pytest.raises(InputError, match=r"holds no run of a market file; expected the --out"):
        resume_market(tmp_path, quiet())
