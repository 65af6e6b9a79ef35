"""Jobs are logged to Weights & Biases from their first step to their end, whatever fails."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import support.recorded_wandb
from auctune.service.config.wandb import WandbConfig
from auctune.service.integrations import wandb_logger
from auctune.service.storage.queries import read_values
from support.serving import Served, make_file, serving
from support.waits import poll

KEY = "wandb-key-of-the-operator"
PROJECT = "market"
# What `Served.train` records for these rows, by step.
LOSSES = {5: 2.5 / 41, 12: 2.5 / 101}


@dataclass
class Recorded:
    """What W&B's package was called with, and a service that logs to it."""

    folder: Path
    calls_file: Path

    @contextmanager
    def serving(self, **settings: Any) -> Iterator[Served]:
        values = settings or {"key_variable": "AUCTUNE_WANDB_KEY"}
        config = make_file().model_copy(update={"wandb": WandbConfig(**values)})
        with serving(self.folder, config) as served:
            yield served

    def calls(self, run: str) -> list[tuple[str, Any]]:
        """Calls about a run, by all processes so far."""
        text = self.calls_file.read_text() if self.calls_file.exists() else ""
        # The last line may still be being written.
        lines = text.splitlines()[: text.count("\n")]
        return [(call, value) for of, call, value in map(json.loads, lines) if of == run]

    def count(self, run: str, call: str) -> int:
        return sum(name == call for name, _ in self.calls(run))

    def last(self, run: str) -> list[tuple[str, Any]]:
        """Calls about a run since it was made last."""
        calls = self.calls(run)
        made = [index for index, (name, _) in enumerate(calls) if name == "init"]
        return calls[made[-1] :] if made else []

    def losses(self, run: str) -> dict[int, float]:
        logged = [value for name, value in self.last(run) if name == "log"]
        return {one["step"]: one["train_loss"] for one in logged}

    def outcome(self, run: str) -> int:
        """The exit code of a run, once it is complete."""
        poll(lambda: [name for name, _ in self.last(run)][-1:] == ["finish"])
        return int(self.last(run)[-1][1])


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    packages = tmp_path / "packages"
    packages.mkdir()
    shutil.copy(support.recorded_wandb.__file__, packages / "wandb.py")
    found = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *([found] if found else [])]))
    monkeypatch.setenv("RECORDED_WANDB", str(tmp_path / "calls"))
    monkeypatch.setenv("AUCTUNE_WANDB_KEY", KEY)
    monkeypatch.setattr(wandb_logger, "INITIAL_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(wandb_logger, "_PAUSE_SECONDS", 0.01)
    return Recorded(tmp_path / "market", tmp_path / "calls")


def submit(served: Served, *projects: str, user: str = "ada", **fields: Any) -> str:
    """A job of a user that is logged to these projects."""
    key = served.users.get(user) or served.key(user)
    integrations = [{"type": "wandb", "wandb": {"project": one, **fields}} for one in projects]
    made = served.client(key).fine_tuning.jobs.create(
        model="tiny",
        training_file=served.upload(key),
        integrations=integrations,
        extra_body={"market": {"bid": "100", "deadline": "+20m"}},
    )
    assert made.market["decision"] == "admitted"
    return str(made.id)


def train(served: Served, job: str, rows: Sequence[int] = (40, 100)) -> None:
    for count in rows:
        served.train(job, count)


def marks(served: Served) -> set[str]:
    """Jobs that are not logged completely."""
    return set(read_values(served.service.store.reader, "wandb.open:"))


def pid(served: Served) -> int | None:
    return served.service.wandb._process.pid


def test_a_run_has_all_steps_of_a_job_and_its_outcome(recorded: Recorded) -> None:
    with recorded.serving() as served:
        job = submit(served, PROJECT, name="first", entity="team", tags=["mine"])
        train(served, job)
        served.finish(job, "ada")
        assert recorded.outcome(job) == 0
        poll(lambda: not marks(served))
        # The process ends with the last run.
        assert pid(served) is None
    (_, init), *_ = recorded.last(job)
    expected = {
        "project": PROJECT,
        "id": job,
        "name": "first",
        "entity": "team",
        "tags": ["mine", "auctune/finetune", "auctune/tiny", f"auctune/{job}"],
        "reinit": "create_new",
        "console": "off",
    }
    assert {name: init[name] for name in expected} == expected
    assert (init["config"]["model"], init["config"]["epochs"]) == ("tiny", 3)
    assert recorded.losses(job) == LOSSES
    assert ("define_metric", ["*", "step"]) in recorded.last(job)
    assert recorded.count(job, "init") == 1
    # Only runs that are offline keep their files.
    assert not Path(init["dir"]).exists()


def test_the_key_is_in_the_environment_of_the_process_and_nowhere_else(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://wandb.example"
    with recorded.serving(key_variable="AUCTUNE_WANDB_KEY", base_url=url) as served:
        # So that of the variables only the process's own has the key.
        monkeypatch.delenv("AUCTUNE_WANDB_KEY")
        job = submit(served, PROJECT)
        train(served, job)
        poll(lambda: len(recorded.losses(job)) == 2)
        (_, init), *_ = recorded.last(job)
        environment = init["environment"]
        assert environment["WANDB_API_KEY"] == KEY
        assert (environment["WANDB_BASE_URL"], environment["WANDB_MODE"]) == (url, "online")
        assert KEY.encode() not in Path(f"/proc/{init['pid']}/cmdline").read_bytes()
        assert init["pid"] == pid(served)
    written = [path for path in recorded.folder.rglob("*") if path.is_file()]
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
def test_a_job_that_does_not_succeed_is_a_failed_run(recorded: Recorded, ends: str) -> None:
    with recorded.serving() as served:
        job = submit(served, PROJECT)
        train(served, job)
        if ends == "fails":
            served.ask(lambda zone: zone.fail(job, "training_failed", "diverged", None))
        else:
            served.client().fine_tuning.jobs.cancel(job)
        assert recorded.outcome(job) == 1
    assert recorded.losses(job) == LOSSES


def test_a_job_without_a_step_has_no_run(recorded: Recorded) -> None:
    with recorded.serving() as served:
        job = submit(served, PROJECT)
        assert marks(served) == {job}
        served.client().fine_tuning.jobs.cancel(job)
        poll(lambda: not marks(served))
        assert pid(served) is None
    assert recorded.calls(job) == []


def test_a_job_has_a_run_for_each_integration(recorded: Recorded) -> None:
    with recorded.serving(key_variable="AUCTUNE_WANDB_KEY", entity="team") as served:
        job = submit(served, PROJECT, "other")
        train(served, job)
        served.finish(job, "ada")
        assert [recorded.outcome(run) for run in (job, f"{job}-2")] == [0, 0]
    for run, project in ((job, PROJECT), (f"{job}-2", "other")):
        (_, init), *_ = recorded.last(run)
        assert (init["project"], init["entity"], init["name"]) == (project, "team", job)
        assert recorded.losses(run) == LOSSES


@pytest.mark.slow
def test_after_a_restart_a_run_is_made_anew_from_the_first_step(recorded: Recorded) -> None:
    with recorded.serving() as served:
        job = submit(served, PROJECT)
        train(served, job, [40])
        poll(lambda: len(recorded.losses(job)) == 1)
    with recorded.serving() as served:
        poll(lambda: recorded.count(job, "init") == 2)
        train(served, job, [100])
        served.finish(job, "ada")
        assert recorded.outcome(job) == 0
    assert recorded.losses(job) == LOSSES


@pytest.mark.slow
def test_a_job_that_ended_before_it_was_logged_is_logged_after_a_restart(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSED_PROJECTS", PROJECT)
    monkeypatch.setattr(wandb_logger, "INITIAL_BACKOFF_SECONDS", 1000.0)
    with recorded.serving() as served:
        job = submit(served, PROJECT)
        train(served, job)
        served.finish(job, "ada")
    monkeypatch.delenv("REFUSED_PROJECTS")
    with recorded.serving() as served:
        assert recorded.outcome(job) == 0
        poll(lambda: not marks(served))
    assert recorded.losses(job) == LOSSES
    with recorded.serving():
        pass
    assert recorded.count(job, "init") == 1


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["pid", "child"])
def test_runs_of_a_killed_process_are_made_anew(recorded: Recorded, killed: str) -> None:
    with recorded.serving() as served:
        job, other = submit(served, PROJECT), submit(served, PROJECT)
        for one in (job, other):
            train(served, one, [40])
        poll(lambda: len(recorded.losses(job)) == len(recorded.losses(other)) == 1)
        (_, init), *_ = recorded.last(job)
        # The process, or W&B's own process below it, without which runs can be neither logged nor
        # made. The other run is logged nothing meanwhile.
        os.kill(init[killed], signal.SIGKILL)
        if killed == "pid":
            poll(lambda: pid(served) is None)
        train(served, job, [100])
        served.finish(job, "ada")
        assert recorded.outcome(job) == 0
    assert recorded.losses(job) == LOSSES
    assert recorded.count(job, "init") == 2


@pytest.mark.slow
def test_errors_of_a_run_end_in_one_warning_and_concern_neither_its_job_nor_other_runs(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSED_PROJECTS", "private")
    monkeypatch.setattr(wandb_logger, "MAX_ATTEMPTS", 3)
    with recorded.serving() as served, capture_logs() as logs:
        job = submit(served, "private", PROJECT)
        train(served, job)
        served.finish(job, "ada")
        assert recorded.outcome(f"{job}-2") == 0
        poll(lambda: not marks(served))
        assert served.client().fine_tuning.jobs.retrieve(job).status == "succeeded"
    # What is below a warning is not logged in tests.
    assert [log for log in logs if log.get("job") == job] == [
        {
            "event": "job not logged to W&B",
            "log_level": "warning",
            "reason": "PermissionError: no access to ...",
            "attempt": 3,
            "job": job,
            "user": "ada",
        }
    ]
    assert recorded.calls(job) == []


def test_more_runs_than_may_be_open_wait_for_one_that_ends(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_logger, "MAX_RUNS", 1)
    with recorded.serving() as served:
        first, second = submit(served, PROJECT), submit(served, PROJECT, user="ben")
        train(served, first, [40])
        poll(lambda: len(recorded.losses(first)) == 1)
        train(served, second)
        served.finish(second, "ben")
        train(served, first, [100])
        poll(lambda: len(recorded.losses(first)) == 2)
        assert recorded.calls(second) == []
        served.finish(first, "ada")
        assert [recorded.outcome(job) for job in (first, second)] == [0, 0]
    assert recorded.losses(second) == LOSSES


def test_runs_that_are_offline_keep_their_files_until_their_user_is_erased(
    recorded: Recorded,
) -> None:
    with recorded.serving(offline=True) as served:
        job = submit(served, "privateproject", user="leaver", tags=["privatetag"])
        train(served, job)
        served.finish(job, "leaver")
        assert recorded.outcome(job) == 0
        (_, init), *_ = recorded.last(job)
        assert init["environment"]["WANDB_MODE"] == "offline"
        assert "WANDB_API_KEY" not in init["environment"]
        assert Path(init["dir"]) == recorded.folder / "wandb" / job
        poll(lambda: not marks(served))
        assert list((recorded.folder / "wandb").rglob("run-files"))
        with served.http(served.operator) as http:
            assert http.delete("/v1/users/leaver/data").json()["jobs"] == 1
        assert list((recorded.folder / "wandb").iterdir()) == []
        for word in (b"privateproject", b"privatetag"):
            files = recorded.folder.glob("auctune.db*")
            assert [path.name for path in files if word in path.read_bytes()] == []
