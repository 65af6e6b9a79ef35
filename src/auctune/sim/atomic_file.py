"""Files that appear whole or not at all, several of them together.

All are written beside their places under temporary names. Only when everything is written are
they flushed to disk and renamed; an error before that leaves no trace.
"""

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TextIO

from auctune.domain import InputError


class AtomicFiles:
    """A context with one open text file for each path; leaving it puts them in place.

    Args:
        paths: where the files go; none may be given twice.

    Raises:
        InputError: on entry, naming the path that is given twice, is no regular file, or lies in
            a folder that is missing or cannot be written.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._given = tuple(paths)
        self._paths: list[Path] = []
        for path in paths:
            resolved = _checked(path)
            if resolved in self._paths:
                raise InputError(str(path), "is given twice", "a file for each output")
            self._paths.append(resolved)
        self._drafts: list[tuple[Path, TextIO]] = []

    def __enter__(self) -> list[TextIO]:
        try:
            for path, given in zip(self._paths, self._given, strict=True):
                self._drafts.append(_open_draft(path, given))
        except BaseException:
            self._drop()
            raise
        return [file for _, file in self._drafts]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._put_in_place()
        finally:
            self._drop()

    def _put_in_place(self) -> None:
        for _, file in self._drafts:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for path, (draft, _) in zip(self._paths, self._drafts, strict=True):
            draft.replace(path)

    def _drop(self) -> None:
        for draft, file in self._drafts:
            # Closing flushes, which fails again where the disk is full.
            with contextlib.suppress(OSError):
                file.close()
            draft.unlink(missing_ok=True)


def _checked(path: Path) -> Path:
    # Renaming would put a file in a link's or a device's place.
    resolved = path.resolve()
    if resolved.exists() and not resolved.is_file():
        raise InputError(str(path), "is no regular file", "a file to write")
    return resolved


def _open_draft(path: Path, given: Path) -> tuple[Path, TextIO]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        return draft, draft.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(
            str(given), f"cannot be written ({error.strerror})", "a file in a folder that is there"
        ) from None
