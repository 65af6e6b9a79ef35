"""The folder of a standing pool, and what lies where in it.

DIR/
  state/journal.jsonl     what happened, in order (auctune.run.open_pool.state)
  state/threads/ID        checkpoints of a thread
  state/best/ID           the checkpoint of its least loss
  state/results/ID        what a thread that left has learned
  .lock                   held by who runs it
"""

from pathlib import Path

from auctune.run.run_directory import RunDirectory


class OpenPoolFolder(RunDirectory):
    """Paths of one pool."""

    def checkpoints(self, thread: str) -> Path:
        """From which a thread is taken up again."""
        return self.state / "threads" / thread

    def best(self, thread: str) -> Path:
        """Of the unit with the thread's least loss."""
        return self.state / "best" / thread

    @property
    def results(self) -> Path:
        """What threads have learned, by their ids."""
        return self.state / "results"

    def result(self, thread: str) -> Path:
        """What a thread has learned."""
        return self.results / thread
