"""Directory of one run: its layout, its lock, and what an unsuccessful start leaves.

DIR/
  inputs/                 copies of what the run was started with
  state/journal.jsonl     event log
  .lock                   held by the processes of the run

A run has started once its event log holds an event.

The lock is the kernel's, on an open file: it ends with the last process that has the file open,
however that process ends. Worker processes inherit it, so that no run starts where a worker of a
killed one may still write. The file holds the id of the process that took it: while only its
workers are left, the next one waits for them, as they notice at once that their parent is gone.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from auctune.domain import InputError
from auctune.engine.event_log import EventRecord

NODES_LOCK = "nodes.lock"
"""Lock file in a service's data folder that its worker processes inherit."""

# Workers end within milliseconds; this is for a busy machine.
_WORKERS_END_SECONDS = 20.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Directory of one run; each kind of run adds paths of its own."""

    root: Path

    @property
    def inputs(self) -> Path:
        """Copies of what the run was started with."""
        return self.root / "inputs"

    @property
    def state(self) -> Path:
        """All that a resumed run needs."""
        return self.root / "state"

    @property
    def event_log(self) -> Path:
        """Event log (`auctune.engine.event_log`)."""
        return self.state / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Lock file."""
        return self.root / ".lock"

    @property
    def has_started(self) -> bool:
        """Whether the event log holds an event."""
        return self.event_log.exists() and self.event_log.stat().st_size > 0

    @property
    def input_files(self) -> Iterable[Path]:
        """All copies of inputs."""
        return self.inputs.glob("*")

    def input_digests(self) -> dict[str, str]:
        """Return the SHA-256 of each input, by its path in the folder that holds `inputs`."""
        folder, digests = self.inputs.parent, {}
        for path in sorted(self.input_files):
            with path.open("rb") as file:
                name = path.relative_to(folder).as_posix()
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return digests

    def check_inputs(self, begun: EventRecord) -> None:
        """Make sure that the inputs are those with which the run was started.

        Args:
            begun: first event of the log; its key `inputs` holds the digests of that time.

        Raises:
            InputError: naming the file that was changed, lost or added.
        """
        found, expected = self.input_digests(), begun["inputs"]
        for name in sorted({*found, *expected}):
            if found.get(name) != expected.get(name):
                raise InputError(
                    str(self.inputs.parent / name),
                    "is not as it was when the run began" if name in found else "is gone",
                    "the copy made then",
                )

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[int]:
        """Create or resume the run's directory, and lock it for this process.

        An error before the run has started leaves the directory as it was; a run that is stopped
        or killed leaves its inputs, with which it can still start.

        Args:
            resume: whether a run has started in it.

        Yields:
            Descriptor of the lock, which worker processes inherit.

        Raises:
            InputError: as of `check`; if another process has it, or it cannot be created.
        """
        self.check(resume=resume)
        is_new = not self.root.exists()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            found = f"cannot be created ({error.strerror})"
            raise InputError(str(self.root), found, "a folder that can be written") from None
        with lock_file(self.lock, str(self.root)) as descriptor:
            self._check_locked(descriptor)
            # Again, as a run may have ended meanwhile.
            self.check(resume=resume)
            is_empty = [*self.root.iterdir()] == [self.lock]
            try:
                self.state.mkdir(exist_ok=True)
                yield descriptor
            except Exception:
                if is_empty and not self.has_started:
                    self._remove(with_root=is_new)
                raise

    def check(self, *, resume: bool) -> None:
        """Refuse a directory in which a run cannot start, or be resumed.

        Raises:
            InputError: naming the directory.
        """
        if resume and not self.has_started:
            raise InputError(str(self.root), "holds no run", "the folder of a run that was started")
        if self.root.exists() and not self.root.is_dir():
            raise InputError(
                str(self.root), "is not a folder", "a new folder, or to resume its run"
            )
        # A run that was stopped before its first event has left at most these.
        left = {self.state, self.lock, self.inputs}
        if resume or not self.root.exists():
            return
        if self.has_started or {*self.root.iterdir()} - left:
            raise InputError(str(self.root), "is not empty", "a new folder, or to resume its run")

    def _check_locked(self, descriptor: int) -> None:
        # A run that did not start removes its lock file: a process that waited for it has nothing.
        if not self.lock.exists() or not os.path.samestat(os.fstat(descriptor), self.lock.stat()):
            raise InputError(
                str(self.root), "is in use by another process", "a folder that is free"
            )

    def _remove(self, *, with_root: bool) -> None:
        for folder in (self.state, self.inputs):
            shutil.rmtree(folder, ignore_errors=True)
        self.lock.unlink()
        if with_root:
            self.root.rmdir()


@contextmanager
def lock_file(path: Path, place: str) -> Iterator[int]:
    """Lock a file for this process and its workers; yield the descriptor that they inherit.

    Args:
        path: lock file, created if it does not exist.
        place: what it locks, for errors.

    Raises:
        InputError: if another process holds it.
    """
    with path.open("a+") as file:
        if not _acquire(file):
            raise _in_use(place)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _acquire(file: TextIO) -> bool:
    """Take the lock; wait only for workers whose parent is gone."""
    deadline = time.monotonic() + _WORKERS_END_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            if _is_alive(file.read()) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _in_use(place: str) -> InputError:
    return InputError(place, "is in use by another process", "a folder that is free")


def _is_alive(pid: str) -> bool:
    # A process that has just taken the lock has not written its id yet.
    if not pid:
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
