"""One run at a time in a folder, and no trace of one that did not begin."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.domain import InputError
from auctune.run.claimed_folder import ClaimedFolder
from auctune.run.lock import hold


@contextmanager
def claim(place: ClaimedFolder, *, resume: bool) -> Iterator[None]:
    """Have a folder to oneself.

    A run that goes wrong before its first event is on record leaves a folder as it was; one that
    is stopped or killed leaves its inputs, with which it can still begin.

    Args:
        place: made if it is not there.
        resume: a run was begun in it.

    Raises:
        InputError: as of `check_folder`; if another process has it, or it cannot be made.
    """
    check_folder(place, resume=resume)
    is_made = not place.root.exists()
    try:
        place.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"cannot be made ({error.strerror})"
        raise InputError(str(place.root), found, "a folder that can be written") from None
    with hold(place.lock, str(place.root)) as descriptor:
        _check_held(place, descriptor)
        # Again, as a run may have ended meanwhile.
        check_folder(place, resume=resume)
        is_empty = [*place.root.iterdir()] == [place.lock]
        try:
            place.work.mkdir(exist_ok=True)
            yield
        except Exception:
            if is_empty and not place.is_begun:
                _clear(place, drop_root=is_made)
            raise


def check_folder(place: ClaimedFolder, *, resume: bool) -> None:
    """Refuse a folder that a run cannot begin in, or go on in.

    Raises:
        InputError: naming the folder.
    """
    if resume and not place.is_begun:
        raise InputError(str(place.root), "holds no run", "the folder of a run that was begun")
    if place.root.exists() and not place.root.is_dir():
        raise InputError(str(place.root), "is no folder", "a new folder, or to resume its run")
    # A run that did not get as far as its first event has left no more than these.
    left = {place.work, place.lock, place.inputs}
    if not resume and place.root.exists() and (place.is_begun or {*place.root.iterdir()} - left):
        raise InputError(str(place.root), "is not empty", "a new folder, or to resume its run")


def _check_held(place: ClaimedFolder, descriptor: int) -> None:
    # A run that did not begin drops its lock's file: whoever waited for that holds nothing.
    if not place.lock.exists() or not os.path.samestat(os.fstat(descriptor), place.lock.stat()):
        raise InputError(str(place.root), "is in use by another process", "a folder that is free")


def _clear(place: ClaimedFolder, *, drop_root: bool) -> None:
    for folder in (place.work, place.inputs):
        shutil.rmtree(folder, ignore_errors=True)
    place.lock.unlink()
    if drop_root:
        place.root.rmdir()
