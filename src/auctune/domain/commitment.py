"""A commitment: an admitted task whose plan is not over yet."""

from dataclasses import dataclass

from auctune.domain.schedule import Schedule
from auctune.domain.task import Task


@dataclass(frozen=True, slots=True)
class Commitment:
    """What was promised to an admitted task, and how much of it is still to be done.

    Attributes:
        task: the task.
        schedule: its plan as it stands, cells that have passed included.
        work_left: samples still to be trained on from the current slot on.
    """

    task: Task
    schedule: Schedule
    work_left: float

    @property
    def ready(self) -> int:
        """The first slot for which its data are prepared."""
        delays = {quote.vendor: quote.delay for quote in self.task.quotes}
        return self.task.arrival + delays.get(self.schedule.vendor or "", 0)
