"""The best that a thread has learned: the checkpoint of the unit with its least loss.

It is written before its unit is on record, and dropped if the unit never gets there. So what is on
record as a thread's best is always to be had.
"""

from auctune.atomic_files import remove_folder
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.open_thread import OpenThread
from auctune.run.open_pool.state import Member
from auctune.train.checkpoint import load_latest, save_checkpoint


class BestKept:
    """Of the threads of a pool.

    Args:
        place: the pool's folder.
    """

    def __init__(self, place: OpenPoolFolder) -> None:
        self._place = place

    def is_better(self, member: Member, batches: int, loss: float) -> bool:
        """Whether a unit that is not on record yet is a member's best, and not its last."""
        threshold = member.learning.threshold
        return batches > 0 and threshold < loss < (member.best or (0, float("inf")))[1]

    def keep(self, member: Member, batches: int, thread: OpenThread) -> None:
        """Write a thread as it is after that many more batches than are on record."""
        name = member.learning.id
        save_checkpoint(self._place.best(name), member.batches + batches, thread.state())

    def drop_ahead(self, member: Member) -> None:
        """Drop what was written for a unit that is not on record."""
        folder = self._place.best(member.learning.id)
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            if path.name.isdecimal() and int(path.name) > member.batches:
                remove_folder(path)

    def bring(self, member: Member, thread: OpenThread) -> bool:
        """Bring a thread, which is on the device, to its best; whether there is any.

        Raises:
            CheckpointError: if it is damaged.
        """
        if member.best is None:
            return False
        if member.best[0] == thread.batches:
            return True
        found = load_latest(self._place.best(member.learning.id))
        if found is None:
            return False
        thread.restore(found[0])
        return True
