"""`auctune timeshare run`: to its end in this process, and errors in one line."""

import json
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from auctune.cli.timeshare.run import RunDisplay
from auctune.engine.pool.events import JobOutlook, JobStatus, QuantumTrained
from lara_tasks.module_job import ModuleJob
from lara_tasks.tasks import make_task

BUNDLE = """
[pool]
allocator = "lara"

[[thread]]
name = "quick"
deadline = 4
threshold = 2.4
kind = "lara_tasks:cnn"
batches_per_unit = 2

[[thread]]
name = "hopeless"
deadline = 3
threshold = 0.001
kind = "lara_tasks:cnn"
batches_per_unit = 2
"""


def make_tired(seed: int, device: str) -> ModuleJob:
    """A thread of a user's own that fails after it was measured."""
    thread = make_task("cnn", seed, device)
    step = thread.step

    def tired(batches: int) -> float:
        if batches == 1:
            raise RuntimeError("tired")
        return step(batches)

    thread.step = tired  # type: ignore[method-assign]
    return thread


QUANTUM = QuantumTrained(
    7, 8.0, 1.0, ["digits"], [0.25], [5], [1.5], [0.1], rates=[5.0], read=[(0, 0)]
)

Ask = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def ask(auctune: Ask) -> Ask:
    """`auctune timeshare` and more."""
    return partial(auctune, "timeshare")


def test_a_bundle_is_run_to_its_report_and_said_again_by_resume(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bundle.toml"
    path.write_text(BUNDLE)
    code, shown, errors = ask("run", path, "--out", tmp_path / "out")
    assert (code, errors) == (0, [])
    assert "quick: done at 1 of 4, 1 batches" in shown
    assert "hopeless: missed of 3" in shown
    assert "1 of 2 threads done" in shown
    assert json.loads((tmp_path / "out" / "report.json").read_text())["done"] == 1
    assert (tmp_path / "out" / "results" / "quick" / "model.safetensors").is_file()
    # The bundle's file is not needed any more.
    path.unlink()
    code, again, errors = ask("run", "--resume", tmp_path / "out")
    assert (code, errors) == (0, [])
    assert shown.endswith(again)
    (copy,) = (tmp_path / "out" / "state" / "inputs").glob("*-bundle.toml")
    copy.write_text(BUNDLE.replace("0.001", "0.002"))
    code, _, errors = ask("run", "--resume", tmp_path / "out")
    assert code == 2
    assert f"{copy}: is not as it was when the run began" in errors[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "BUNDLE.toml: is missing; expected a bundle file, or --resume DIR"),
        (["b.toml"], "--out: is missing; expected a folder for the run"),
        (["b.toml", "--resume", "d"], "--resume: cannot be combined with other arguments"),
        (["--resume", "nowhere"], "--resume nowhere: holds no run"),
        (["nothing.toml", "--out", "d"], "nothing.toml: cannot be read"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    ask: Ask, given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = ask("run", *given)
    assert code == 2
    assert len(errors) == 1
    assert message in errors[0]
    assert not (tmp_path / "d").exists()


def test_a_folder_that_is_not_empty_is_left_as_it_is(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bundle.toml"
    path.write_text(BUNDLE)
    code, _, errors = ask("run", path, "--out", tmp_path)
    assert code == 2
    assert "holds other files; expected a folder that is new or empty" in errors[0]
    assert [one.name for one in tmp_path.iterdir()] == ["bundle.toml"]


def test_a_run_is_replaced_only_if_that_is_said_and_replay_verifies_its_log(
    ask: Ask, auctune: Ask, tmp_path: Path
) -> None:
    path, out = tmp_path / "bundle.toml", tmp_path / "out"
    path.write_text(BUNDLE)
    assert ask("run", path, "--out", out)[0] == 0
    code, _, errors = ask("run", path, "--out", out)
    assert code == 2
    assert "holds a run already; expected --resume" in errors[0]
    path.write_text(BUNDLE.replace("threshold = 2.4", "threshold = 0.002"))
    code, shown, _ = ask("run", path, "--out", out, "--fresh")
    assert code == 0
    assert "0 of 2 threads done" in shown
    assert not (out / "results").exists()
    code, shown, _ = auctune("replay", "--data", out / "state")
    assert code == 0
    assert "identical under recorded measurements of its jobs: 2 decisions" in shown


def test_a_bundle_whose_threads_cannot_be_made_leaves_nothing(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bundle.toml"
    settings = 'kind = "lora"\nsettings = { data = "none.jsonl" }\n'
    path.write_text(BUNDLE.replace('kind = "lara_tasks:cnn"\n', settings, 1))
    code, _, (error,) = ask("run", path, "--out", tmp_path / "out")
    assert code == 2
    assert f"{path}: thread[0].settings.data: there is no file '{tmp_path / 'none.jsonl'}'" in error
    assert not (tmp_path / "out").exists()


def test_a_run_that_ends_with_a_threads_error_says_how_to_go_on(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "bundle.toml"
    path.write_text(BUNDLE.replace('kind = "lara_tasks:cnn"', f'kind = "{__name__}:make_tired"', 1))
    code, _, errors = ask("run", path, "--out", tmp_path / "out")
    assert code == 1
    assert "quick failed in unit 0: RuntimeError: tired" in errors[-1]
    assert f"resume with: auctune timeshare run --resume {tmp_path / 'out'}" in errors[-1]


def _outlook(status: JobStatus) -> JobOutlook:
    return JobOutlook("digits", 0.25, 1234, 1.5, 0.5, 90, 42.4, status)


def _shown(outlooks: list[JobOutlook], *, terminal: bool) -> str:
    text = StringIO()
    console = Console(file=text, force_terminal=terminal, width=100, color_system=None)
    with RunDisplay(console) as display:
        for outlook in outlooks:
            display(QUANTUM, [outlook])
    return text.getvalue()


def test_a_terminal_shows_a_table_of_all_threads() -> None:
    shown = _shown([_outlook(JobStatus.IN_TIME)], terminal=True)
    line = next(line for line in shown.splitlines() if "digits" in line)
    for cell in ("25%", "1,234", "1.5", "0.5", "42", "90", "in time"):
        assert cell in line
    assert "unit 7" in shown


def test_elsewhere_a_line_is_written_when_it_stands_otherwise() -> None:
    statuses = (JobStatus.LATE, JobStatus.LATE, JobStatus.DONE)
    lines = _shown([_outlook(status) for status in statuses], terminal=False).splitlines()
    assert lines == [
        "unit    7  digits: late, 1234 batches, loss 1.5",
        "unit    7  digits: done, 1234 batches, loss 1.5",
    ]
