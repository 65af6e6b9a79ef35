"""Folders of runs that an earlier release began, with a journal as log, and of other commands."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.engine.pool.bundle import Bundle
from auctune.standalone.edge import EdgeRunFolder, resume_edge
from auctune.standalone.edge_report import JobBill, write_report
from auctune.standalone.folder import RunFolder
from auctune.standalone.market import resume_market
from auctune.standalone.timeshare import BundleFolder, resume_bundle
from support.bundle_runs import ignore
from support.edge_runs import Watcher
from support.market_runs import quiet
from support.sample_report import make_report


@dataclass(frozen=True)
class Kind:
    """Runs of one command.

    Attributes:
        folder: class of their folders.
        report: contents of a report.json.
        resume: resumes a run; returns its report as report.json has it.
    """

    folder: type[RunFolder]
    report: Mapping[str, Any]
    resume: Callable[[Path], Any]


def _resume_edge(root: Path) -> Any:
    again = root / "again.json"
    write_report(again, resume_edge(EdgeRunFolder(root), Watcher()))
    return json.loads(again.read_bytes())


def _resume_bundle(root: Path) -> Any:
    def read(file: Path, beside: Path) -> Bundle:
        raise AssertionError("is read again")

    return resume_bundle(BundleFolder(root), read, ignore)


BILL = dict.fromkeys(JobBill.__slots__, 0.0) | {"job": "x", "state": "done", "payment": 3.9}
KINDS = {
    "market": Kind(
        RunFolder, make_report().to_json(), lambda root: resume_market(root, quiet()).to_json()
    ),
    "edge": Kind(
        EdgeRunFolder,
        {"welfare": 0.0, "income": 3.9, "lost_sites": {"b": 2}, "jobs": [BILL]},
        _resume_edge,
    ),
    "timeshare": Kind(BundleFolder, {"version": 1, "done": 0, "threads": []}, _resume_bundle),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _write_earlier(kind: Kind, root: Path) -> RunFolder:
    """Write what tells an earlier release's run, which has not ended."""
    folder = kind.folder(root)
    for name in ("state/journal.jsonl", folder.earlier_input):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return folder


@each_kind
def test_a_folder_without_a_run_is_refused(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run; expected the --out folder"):
        kind.resume(tmp_path)


@each_kind
def test_a_run_that_an_earlier_release_has_not_ended_is_refused(kind: Kind, tmp_path: Path) -> None:
    folder = _write_earlier(kind, tmp_path)

    assert folder.exists()
    with pytest.raises(InputError, match=r"was begun by an earlier release; expected .* --fresh"):
        kind.resume(tmp_path)


@each_kind
def test_a_run_that_an_earlier_release_has_ended_has_its_report(kind: Kind, tmp_path: Path) -> None:
    _write_earlier(kind, tmp_path).report.write_text(json.dumps(kind.report))

    assert kind.resume(tmp_path) == kind.report


@each_kind
@pytest.mark.parametrize("content", ['{"version": 99}', "{}", "{", "[]"])
def test_a_report_that_cannot_be_read_is_named(kind: Kind, content: str, tmp_path: Path) -> None:
    _write_earlier(kind, tmp_path).report.write_text(content)

    with pytest.raises(InputError, match=r"report\.json: is damaged, or of another release"):
        kind.resume(tmp_path)


@each_kind
def test_the_run_of_another_command_is_refused_by_name(kind: Kind, tmp_path: Path) -> None:
    folder = _write_earlier(kind, tmp_path)
    (tmp_path / folder.earlier_input).unlink()
    folder.report.write_text(json.dumps(kind.report))

    expected = f"holds a run of another command; expected the --out .*`auctune {folder.command}`"
    with pytest.raises(InputError, match=expected):
        kind.resume(tmp_path)
