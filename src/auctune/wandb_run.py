"""A run of Weights & Biases. Its package is no dependency, and is imported with the first run."""

from collections.abc import Mapping
from typing import Any


class WandbRun:
    """A run with a job's id; it replaces an earlier one with this id.

    `options` are more arguments of `wandb.init`.
    """

    def __init__(self, project: str, job: str, name: str | None, **options: Any) -> None:
        import wandb

        # Runs are open side by side, and the output of the process is of all of them.
        self._run = wandb.init(
            project=project,
            id=job,
            name=name,
            reinit="create_new",
            settings=wandb.Settings(console="off"),
            **options,
        )
        # A step that was trained again is lower than the step before, which W&B's own drops.
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics of an optimizer step."""
        self._run.log({"step": step, **metrics})

    def close(self, exit_code: int = 0) -> None:
        """Write what is buffered; a run whose exit code is not 0 is shown as failed."""
        self._run.finish(exit_code=exit_code)
