"""A file that a market reads, noted before it is read: a change meanwhile does not go unseen."""

from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as it was found.

    Attributes:
        given: how the market file names it; the market file itself has no such name.
        path: where it lies.
        size: in bytes.
        changed: time of its last change, in nanoseconds.
    """

    given: str
    path: Path
    size: int
    changed: int

    @classmethod
    def note(cls, given: str, path: Path) -> "InputFile":
        """A file as it is now.

        Raises:
            OSError: if it is not there.
        """
        stat = path.stat()
        return cls(given, path, stat.st_size, stat.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Make sure that it is as it was noted.

        Raises:
            InputError: if it is not.
        """
        try:
            unchanged = InputFile.note(self.given, self.path) == self
        except OSError:
            unchanged = False
        if not unchanged:
            raise InputError(
                str(self.path), "was changed while the market was prepared", "files that stay"
            )
