"""Attempts to train a job: only the newest one may save.

The number of the newest attempt is in a file in the job's folder. Whoever has a job trained begins
a new attempt each time. A worker that was cut off, and has been replaced, is refused from then on.
"""

from pathlib import Path

from auctune.domain.errors import CheckpointError
from auctune.files.atomic import write_atomically

_FILE = "attempt"


def begin_attempt(folder: Path) -> int:
    """Return the number of a new attempt to train the job of a folder; earlier ones are refused.

    One process at a time begins attempts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    attempt = _newest_attempt(folder) + 1
    write_atomically(folder / _FILE, str(attempt).encode())
    return attempt


def check_attempt(folder: Path, attempt: int) -> None:
    """Check that an attempt is the newest one of a job.

    Raises:
        CheckpointError: if it is not.
    """
    newest = _newest_attempt(folder)
    if attempt != newest:
        raise CheckpointError(f"attempt {attempt} was replaced by attempt {newest}")


def _newest_attempt(folder: Path) -> int:
    try:
        text = (folder / _FILE).read_text()
    except FileNotFoundError:
        return 0
    return int(text) if text.isdecimal() else 0
