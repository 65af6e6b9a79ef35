"""How a run begins in its folder: whole or not at all, in place of an earlier one if so wished.

All inputs are copied into a draft beside the state folder, with a journal that says that the run
has begun. An earlier run, in which the inputs may lie, is moved into the draft too once they are
copied; then the draft's state folder is renamed to its place. A beginning that was killed leaves
its draft, by which the next one knows that what else lies there is of a run.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from auctune.atomic_files import sync_path
from auctune.domain import InputError
from auctune.run.event_log import EventLog, EventRecord
from auctune.run.folder import DRAFT, LOCK, REPORTS, RunFolder
from auctune.run.input_file import InputFile


def check_new(folder: RunFolder, *, fresh: bool) -> None:
    """Make sure that a new run may use this folder.

    Args:
        fresh: an earlier run in it may be deleted.

    Raises:
        InputError: if it holds an earlier run (and not `fresh`), or anything else.
    """
    root = folder.root
    if root.exists() and not root.is_dir():
        raise InputError(f"--out {root}", "is a file", "a folder that is new or empty")
    if folder.exists():
        if fresh:
            return
        raise InputError(
            f"--out {root}",
            "holds a run already",
            f"--resume {root} to go on with it, --fresh to delete it, or another folder",
        )
    names = {path.name for path in root.iterdir()} if root.exists() else set()
    of_a_run = {DRAFT, "tasks", *REPORTS} if DRAFT in names else set()
    if names - {LOCK} - of_a_run:
        raise InputError(f"--out {root}", "holds other files", "a folder that is new or empty")


def begin(
    folder: RunFolder,
    files: Sequence[InputFile],
    profiles: Mapping[str, str],
    begun: EventRecord,
) -> None:
    """Begin a run, in place of an earlier one: what comes later needs nothing from outside.

    Args:
        folder: held by this process.
        files: the market file, and those that it names.
        profiles: measured ones, as JSON, by node type.
        begun: the journal's first event; the digests of all inputs are added to it.

    Raises:
        InputError: if a file is no longer as it was noted; an earlier run is still there then.
    """
    draft = RunFolder(folder.root / DRAFT)
    _empty(draft.root)
    _copy_inputs(draft, files)
    for name, text in profiles.items():
        draft.profile(name).parent.mkdir(exist_ok=True)
        draft.profile(name).write_text(text)
    journal = EventLog(draft.event_log)
    journal.append(begun | {"inputs": draft.digests()})
    journal.close()
    for path in (draft.state, *draft.state.rglob("*")):
        sync_path(path)
    for file in files:
        file.check_unchanged()
    _put_aside(folder, draft.root / "earlier")
    draft.state.replace(folder.state)
    sync_path(folder.root)
    shutil.rmtree(draft.root)


def _empty(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    # The folder itself stays throughout: it says that a beginning is under way.
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _copy_inputs(draft: RunFolder, files: Sequence[InputFile]) -> None:
    draft.inputs.mkdir(parents=True)
    names = {}
    for index, file in enumerate(files):
        if file.given in names:
            continue
        names[file.given] = f"{index:03d}-{file.path.name[-60:]}"
        shutil.copyfile(file.path, draft.inputs / names[file.given])
    (draft.inputs / "names.json").write_text(json.dumps(names, indent=1))


def _put_aside(folder: RunFolder, place: Path) -> None:
    """Move what there is of an earlier run, its journal first: half of a run is none."""
    place.mkdir()
    folder.drop_drafts()
    for name in ("state", "tasks", *REPORTS):
        if (folder.root / name).exists():
            (folder.root / name).rename(place / name)
