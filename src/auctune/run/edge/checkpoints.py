"""Where jobs go on: a file after each slot, whole or not there."""

from auctune.atomic_files import clean_temp_files, write_atomically
from auctune.domain.errors import CheckpointError
from auctune.run.edge.folder import EdgeFolder
from auctune.train.edge.descent import Floats, TrainingState


class Checkpoints:
    """The checkpoints of a run's jobs.

    Args:
        place: the run's folder.
    """

    def __init__(self, place: EdgeFolder) -> None:
        self._place = place

    def write(self, job: str, state: TrainingState, before: int) -> None:
        """Write a job's state; those older than the one of `before` steps go."""
        path = self._place.checkpoint(job, state.steps)
        path.parent.mkdir(parents=True, exist_ok=True)
        clean_temp_files(path)
        write_atomically(path, state.to_bytes())
        for old in path.parent.glob("*.npz"):
            if old.stem.isdigit() and int(old.stem) < before:
                old.unlink()

    def read(self, job: str, steps: int, first: Floats) -> TrainingState:
        """A job's state after a number of steps.

        Args:
            job: its id.
            steps: on record.
            first: its weights before the first.

        Raises:
            CheckpointError: if it is gone or damaged.
        """
        if steps == 0:
            return TrainingState.first(first)
        path = self._place.checkpoint(job, steps)
        try:
            state = TrainingState.from_bytes(path.read_bytes())
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error.strerror})") from None
        if state.steps != steps or state.weights.shape != first.shape:
            raise CheckpointError(f"{path} is of something else")
        return state
