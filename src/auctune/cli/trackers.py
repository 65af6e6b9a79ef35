"""Experiment trackers that `auctune watch` logs jobs to: TensorBoard, MLflow, Weights & Biases.

Their packages are no dependencies of auctune; each is imported when its option is used.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

import typer

from auctune.client import Job
from auctune.client.watch import JobChanged
from auctune.domain import AuctuneError, InputError
from auctune.wandb_run import WandbRun

# Experiment of MLflow that has the jobs as its runs.
_EXPERIMENT = "auctune"


class Run(Protocol):
    """One job at a tracker."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics of an optimizer step."""

    def close(self) -> None:
        """Write what is buffered; nothing more is logged."""


class TensorBoardRun:
    """Event files in a folder named by the job's id."""

    def __init__(self, folder: str, job: Job) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # `purge_step` hides what an earlier watch has logged.
        self._writer: Any = SummaryWriter(Path(folder) / job.id, purge_step=0)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class MlflowRun:
    """A run named as the job, with its id as the tag `auctune.job`."""

    def __init__(self, uri: str, job: Job) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._metric, self._client = Metric, MlflowClient(uri)
        found = self._client.get_experiment_by_name(_EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(_EXPERIMENT)
        run = self._client.create_run(experiment, run_name=job.name, tags={"auctune.job": job.id})
        self._run = run.info.run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        values = [self._metric(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run, values)

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _wandb_run(project: str, job: Job) -> WandbRun:
    return WandbRun(project, job.id, job.name)


@dataclass(frozen=True)
class TrackerOptions:
    """Options that name trackers; makes runs of jobs."""

    tensorboard: Annotated[
        str | None, typer.Option(metavar="DIR", help="Log metrics for TensorBoard to this folder.")
    ] = None
    mlflow: Annotated[
        str | None, typer.Option(metavar="URI", help="Log metrics to this MLflow tracking URI.")
    ] = None
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Log metrics to this W&B project.")
    ] = None

    def open(self) -> "Trackers":
        """Return the trackers; raise `InputError` if a package is not installed."""
        makers: dict[str, Callable[[Job], Run]] = {}
        for option, place, package, run in (
            ("--tensorboard", self.tensorboard, "tensorboard", TensorBoardRun),
            ("--mlflow", self.mlflow, "mlflow", MlflowRun),
            ("--wandb", self.wandb, "wandb", _wandb_run),
        ):
            if place is None:
                continue
            needed = ("torch", package) if run is TensorBoardRun else (package,)
            for name in needed:
                if find_spec(name) is None:
                    found = f"needs {name}, which is not installed"
                    raise InputError(option, found, f"pip install {name}")
            makers[option] = partial(run, place)
        return Trackers(makers)


class Trackers:
    """Runs of jobs at trackers, made when a job's first metrics arrive; a context manager.

    Args:
        makers: what makes the run of a job, by option.
    """

    def __init__(self, makers: Mapping[str, Callable[[Job], Run]]) -> None:
        self._makers = makers
        self._runs: dict[tuple[str, str], Run] = {}

    def __bool__(self) -> bool:
        return bool(self._makers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for (option, _job), run in self._runs.items():
                stack.enter_context(_errors_of(option))
                stack.callback(run.close)

    def log(self, update: JobChanged) -> None:
        """Log the metrics of an update. An error of a package becomes an `AuctuneError`."""
        for option, make in self._makers.items():
            with _errors_of(option):
                for metrics in update.steps:
                    key = option, update.job.id
                    run = self._runs.get(key) or self._runs.setdefault(key, make(update.job))
                    known = {name: one for name, one in metrics.items() if one is not None}
                    run.log(known.pop("step"), known)


@contextmanager
def _errors_of(option: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Each package has errors of its own, which cannot be named without it.
        raise AuctuneError(f"{option}: {error}") from error
