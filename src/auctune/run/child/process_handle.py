"""A process of this machine, however it was made."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Streams:
    """What a child gets of its parent.

    Attributes:
        stdin, stdout, stderr: descriptors.
        kept: more of them, to be kept open.
    """

    stdin: int
    stdout: int
    stderr: int
    kept: tuple[int, ...] = ()

    @property
    def descriptors(self) -> list[int]:
        """All of them, in this order."""
        return [self.stdin, self.stdout, self.stderr, *self.kept]


class ProcessHandle(Protocol):
    """What of `subprocess.Popen` is used."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | None:
        """How it ended, below 0 by a signal; none: that was not noticed yet."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended.

        Raises:
            subprocess.TimeoutExpired: if it has not within so many seconds.
        """
        ...

    def kill(self) -> None:
        """End it at once; may be repeated."""
        ...


def start_fresh(
    program: Sequence[str], argument: str, streams: Streams, environment: Mapping[str, str]
) -> ProcessHandle:
    """An interpreter of its own.

    Raises:
        OSError: if it cannot be started.
    """
    return subprocess.Popen(
        # -P: a file of the user's in the current folder is no module of ours.
        [sys.executable, "-P", *program, argument],
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
        pass_fds=streams.kept,
        env=dict(environment),
    )
