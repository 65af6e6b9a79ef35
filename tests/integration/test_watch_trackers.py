"""`auctune watch` logs the metrics of jobs to experiment trackers, none of which it depends on."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from auctune.cli.trackers import Trackers
from auctune.client import Job
from auctune.client.watch import JobChanged
from auctune.domain import AuctuneError
from support.command_line import run_auctune
from support.serving import Served
from support.waits import WAIT_SECONDS

pytest_plugins = ["support.served_market"]
pytestmark = pytest.mark.slow

PACKAGES = ("tensorboard", "mlflow", "wandb")
LOSS, ACCURACY = "train_loss", "train_mean_token_accuracy"
# What `Served.train` records, by step.
LOSSES = {5: 2.5 / 41, 12: 2.5 / 101}


def job(name: str) -> Job:
    return Job.read({"id": name, "status": "running", "market": {}})


def finished_job(served: Served) -> Any:
    client = served.client()
    made = served.bid(client, served.upload())
    served.train(made.id, 40)
    served.train(made.id, 100)
    served.finish(made.id, "ada")
    return client.fine_tuning.jobs.retrieve(made.id)


def watched(served: Served, job: str, *options: str | Path, **settings: str) -> str:
    """What `auctune watch` prints of a job, in a process of its own: trackers start threads."""
    where = ("--url", served.url, "--api-key", served.key("ada"))
    ended = subprocess.run(
        [sys.executable, "-m", "auctune", "watch", job, *map(str, options), *where],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_tensorboard_has_each_step_once_however_often_a_job_is_watched(
    served: Served, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = finished_job(served)
    for _ in range(2):
        watched(served, done.id, "--tensorboard", tmp_path)
    found = EventAccumulator(str(tmp_path / done.id)).Reload()
    assert sorted(found.Tags()["scalars"]) == [LOSS, ACCURACY]
    assert {one.step: one.value for one in found.Scalars(LOSS)} == pytest.approx(LOSSES)
    assert [one.step for one in found.Scalars(ACCURACY)] == [5, 12]


# Warnings of MLflow about what it imports itself.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow_has_a_run_of_a_job_with_its_metrics(served: Served, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    done = finished_job(served)
    uri = f"sqlite:///{tmp_path}/runs.db"
    watched(served, done.id, "--mlflow", uri, MLFLOW_DISABLE_TELEMETRY="true")
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("auctune").experiment_id
    (run,) = client.search_runs([experiment])
    assert (run.data.tags["auctune.job"], run.info.status) == (done.id, "FINISHED")
    found = {one.step: one.value for one in client.get_metric_history(run.info.run_id, LOSS)}
    assert found == LOSSES


def test_wandb_has_a_run_of_a_job_with_its_metrics(served: Served, tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    done = finished_job(served)
    settings = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_ERROR_REPORTING": "0"}
    watched(served, done.id, "--wandb", "market", **settings)
    (file,) = tmp_path.glob(f"wandb/offline-run-*/run-{done.id}.wandb")
    # W&B's package reads such a file only to upload it; values are JSON in it.
    content = file.read_bytes()
    for name, values in ((LOSS, LOSSES.values()), ("step", LOSSES), (ACCURACY, [0.5])):
        assert name.encode() in content
        assert [one for one in values if json.dumps(one).encode() not in content] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_tracker_that_is_not_installed_is_named_with_its_package(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    arguments: list[str | Path] = ["watch", "ftjob-1", f"--{package}", "there"]
    code, out, errors = run_auctune(arguments, monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert errors == [
        f"auctune: --{package}: needs {package}, which is not installed; "
        f"expected pip install {package}"
    ]


class RecordedRun:
    """Records what is logged; fails at a step."""

    def __init__(self, fails_at: int = 0) -> None:
        self.logged: list[Any] = []
        self._fails_at = fails_at

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self._fails_at:
            raise ValueError("no space left")
        self.logged.append((step, metrics))

    def close(self) -> None:
        self.logged.append("closed")


def steps(*numbers: int) -> Sequence[dict[str, Any]]:
    return [{"step": one, LOSS: 1.5, "valid_loss": None} for one in numbers]


def test_each_job_has_its_run_and_all_are_closed() -> None:
    runs: dict[str, RecordedRun] = {}
    with Trackers({"--one": lambda job: runs.setdefault(job.id, RecordedRun())}) as trackers:
        for name, numbers in (("a", (1,)), ("b", (1, 2)), ("a", (2,)), ("c", ())):
            trackers.log(JobChanged(None, job(name), steps(*numbers)))
    expected = [(1, {LOSS: 1.5}), (2, {LOSS: 1.5}), "closed"]
    assert {name: run.logged for name, run in runs.items()} == {"a": expected, "b": expected}


def test_an_error_of_a_tracker_is_one_line_and_the_others_are_closed() -> None:
    fails, works = RecordedRun(fails_at=2), RecordedRun()
    makers = {"--works": lambda _: works, "--fails": lambda _: fails}
    with pytest.raises(AuctuneError, match=r"^--fails: no space left$"), Trackers(makers) as opened:
        opened.log(JobChanged(None, job("a"), steps(1, 2)))
    assert [fails.logged[-1], works.logged[-1]] == ["closed", "closed"]
