"""Folder of a run without a service: its layout, copies of its inputs, and how a run starts in it.

DIR/
  tasks/ID/               results of a job; jobs/ID/ at sites, results/ID/ on a shared device, and
                          adapter/ of a rented job
  state/                  what a resumed run needs; nothing in it is for people
    inputs/               the run's file and every file that it names
    auctune.db            log of the zone's events; without it there is no run
    work/ID/              checkpoints of a job, and its repaired data
    nodes/ID.log          what a node's process wrote on standard error
  .lock                   held by the process of the run, and by its workers

A run starts completely or not at all. Its inputs are copied to a staging folder and checked there,
and the log is created beside them. An earlier run is moved into the staging folder; then the staged
state folder is renamed to its place. A start that was killed leaves its staging folder, by which
the next one knows that other files there are of a run.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from auctune.domain import InputError
from auctune.engine.file_lock import RUN_LOCK, lock_file
from auctune.engine.journal import JOURNAL
from auctune.files.atomic import sync_path, write_atomically
from auctune.service.storage.engine import FILE_NAME
from auctune.train.adapter_files import pack_adapter

STAGING = ".state.new"

T = TypeVar("T")


@dataclass(frozen=True)
class RunFolder:
    """Folder of one run.

    Attributes:
        root: the folder.
        command: that starts such a run.
        results: name of the folder of results.
        outputs: names of what a run writes beside its state.
        earlier_input: an input in the folders of earlier releases, by which they are known.
    """

    root: Path

    command: ClassVar[str] = "run"
    results: ClassVar[str] = "tasks"
    outputs: ClassVar[tuple[str, ...]] = ("tasks", "decisions.jsonl", "report.json", "report.html")
    earlier_input: ClassVar[str] = "state/inputs/names.json"

    @property
    def state(self) -> Path:
        """All that a resumed run needs."""
        return self.root / "state"

    @property
    def lock(self) -> Path:
        """Lock file."""
        return self.root / RUN_LOCK

    @property
    def report(self) -> Path:
        """Figures of a run that has ended."""
        return self.root / "report.json"

    @property
    def inputs(self) -> Path:
        """Copies of the run's file and of the files that it names."""
        return self.state / "inputs"

    @property
    def log(self) -> Path:
        """Database with the log of the zone's events."""
        return self.state / FILE_NAME

    @property
    def worker_logs(self) -> Path:
        """Standard error of the nodes' workers."""
        return self.state / "nodes"

    @property
    def work(self) -> Path:
        """Folder of checkpoints and repaired data, by job."""
        return self.state / "work"

    def repaired(self, job: str) -> Path:
        """Return a job's data as its vendor repaired them."""
        return self.work / job / "data.jsonl"

    def result(self, job: str) -> Path:
        """Return the folder of a job's result."""
        return self.root / self.results / job

    @property
    def copies(self) -> dict[str, Path]:
        """The copy of each file that the run's file names; that file itself is ""."""
        names: dict[str, str] = json.loads((self.inputs / "names.json").read_bytes())
        return {given: self.inputs / name for given, name in names.items()}

    def resolve(self, given: str) -> Path:
        """Return the copy of a file."""
        return self.copies[given]

    def input_digests(self) -> dict[str, str]:
        """Return the SHA-256 of each input, by its path in the state folder."""
        paths = sorted(self.inputs.glob("*"))
        return file_digests({path.relative_to(self.state).as_posix(): path for path in paths})

    def check_inputs(self, created: Mapping[str, Any]) -> None:
        """Make sure that the inputs are those with which the run was started.

        Args:
            created: body of the zone's first event; its key `inputs` holds their digests.

        Raises:
            InputError: naming the file that was changed, lost or added.
        """
        check_unchanged(
            self.input_digests(),
            created["inputs"],
            "the copy made then",
            place=lambda name: str(self.state / name),
        )

    def exists(self) -> bool:
        """Return whether a run was started here, by this release or an earlier one."""
        return self.log.exists() or self.journal.exists()

    def is_earlier(self) -> bool:
        """Return whether the run here ended under an earlier release, whose log was a journal.

        Otherwise it is of this release, and can be resumed.

        Raises:
            InputError: if there is no run of the command here, or an earlier release has not ended
                it.
        """
        place = f"--resume {self.root}"
        if self.log.exists():
            return False
        if not self.journal.exists():
            raise InputError(place, "holds no run", "the --out folder of an earlier run")
        if not (self.root / self.earlier_input).exists():
            raise self.of_another_command()
        # It was written at the end of a run.
        if not self.report.exists():
            expected = "that release to finish it, or a new run with --fresh"
            raise InputError(place, "was begun by an earlier release", expected)
        return True

    def of_another_command(self) -> InputError:
        """Return the error about a folder with a run of another command."""
        expected = f"the --out folder of an earlier `auctune {self.command}`"
        return InputError(f"--resume {self.root}", "holds a run of another command", expected)

    def earlier_report(self, read: Callable[[Any], T]) -> T | None:
        """Return the report of a run that ended under an earlier release; None: see `is_earlier`.

        Args:
            read: makes the report of the values in its file.

        Raises:
            InputError: as `is_earlier`; if the report is damaged.
        """
        if not self.is_earlier():
            return None
        try:
            return read(json.loads(self.report.read_bytes()))
        except (ValueError, KeyError, TypeError):
            expected = "a report as this release writes it"
            found = "is damaged, or of another release"
            raise InputError(str(self.report), found, expected) from None

    @property
    def journal(self) -> Path:
        """Log of a run that an earlier release began."""
        return self.state / JOURNAL

    def check_new(self, *, fresh: bool) -> None:
        """Refuse a folder that holds an earlier run (unless it may be deleted), or anything else.

        Raises:
            InputError: naming the folder.
        """
        root = self.root
        if root.exists() and not root.is_dir():
            raise InputError(f"--out {root}", "is a file", "a folder that is new or empty")
        if self.exists():
            if fresh:
                return
            raise InputError(
                f"--out {root}",
                "holds a run already",
                f"--resume {root} to go on with it, --fresh to delete it, or another folder",
            )
        names = {path.name for path in root.iterdir()} if root.exists() else set()
        of_a_run = {STAGING, *self.outputs} if STAGING in names else set()
        if names - {self.lock.name} - of_a_run:
            raise InputError(f"--out {root}", "holds other files", "a folder that is new or empty")

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the folder for this process; new ones in which no run starts are removed again.

        Yields:
            Descriptor of the lock, which workers inherit.

        Raises:
            InputError: if another process holds it.
        """
        new = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
        self.root.mkdir(parents=True, exist_ok=True)
        with lock_file(self.lock, str(self.root)) as descriptor:
            try:
                yield descriptor
            finally:
                if new and [*self.root.iterdir()] == [self.lock]:
                    self.lock.unlink()
                    for folder in new:
                        # Another process may have put something beside it.
                        with suppress(OSError):
                            folder.rmdir()

    @contextmanager
    def locked_new(self, *, fresh: bool) -> Iterator[int]:
        """Lock a folder in which a new run is to begin, as `locked`; `fresh` as of `check_new`."""
        self.check_new(fresh=fresh)
        with self.locked() as descriptor:
            # Another process may have begun a run here.
            self.check_new(fresh=fresh)
            yield descriptor

    @contextmanager
    def staged(
        self, files: Mapping[str, Path], fields: Mapping[str, str] | None = None
    ) -> Iterator["RunFolder"]:
        """Start a run, in place of an earlier one; an error leaves the folder as it was.

        Args:
            files: what the run reads, by the names in its file; a folder is that of an adapter.
            fields: fields of the run's file that name them, for errors.

        Yields:
            The staged folder: the inputs are in it, and the log is to be created in it.

        Raises:
            InputError: if one of the files cannot be read, or a folder holds no adapter.
        """
        staging = RunFolder(self.root / STAGING)
        _empty(staging.root)
        try:
            staging._copy(files, fields or {})
            yield staging
        except BaseException:
            shutil.rmtree(staging.root)
            raise
        for path in (staging.state, *staging.state.rglob("*")):
            sync_path(path)
        self._put_aside(staging.root / "earlier")
        staging.state.replace(self.state)
        sync_path(self.root)
        shutil.rmtree(staging.root)

    def clean_temp_files(self) -> None:
        """Remove temporary files of reports and results whose writers were killed."""
        for pattern in (*(f".{name}.*" for name in self.outputs), f"{self.results}/*/.*.json*"):
            for path in self.root.glob(pattern):
                path.unlink()

    def _copy(self, files: Mapping[str, Path], fields: Mapping[str, str]) -> None:
        self.inputs.mkdir(parents=True)
        names = {}
        for index, (given, path) in enumerate(files.items()):
            names[given] = f"{index:03d}-{path.name[-60:]}"
            copy = pack_adapter if path.is_dir() else _copy_file
            try:
                copy(path, self.inputs / names[given])
            except InputError as error:
                raise error.within(fields[given]) if given in fields else error from None
        (self.inputs / "names.json").write_text(json.dumps(names, indent=1))

    def _put_aside(self, place: Path) -> None:
        place.mkdir()
        self.clean_temp_files()
        # The state first: without it the rest is not a run.
        for name in ("state", *self.outputs):
            if (self.root / name).exists():
                (self.root / name).rename(place / name)


def _copy_file(source: Path, target: Path) -> None:
    try:
        file = source.open("rb")
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(source), found, "a file that can be read") from None
    with file, target.open("xb") as copy:
        shutil.copyfileobj(file, copy)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file that appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def _empty(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    # The folder itself stays throughout: it marks a start that is in progress.
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def file_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its name."""
    digests = {}
    for name, path in files.items():
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def check_unchanged(
    found: Mapping[str, str],
    begun: Mapping[str, str],
    expected: str,
    place: Callable[[str], str] = str,
) -> None:
    """Make sure that files are those with which a run was started.

    Args:
        found, begun: `file_digests` of now, and of that time.
        expected: of a file that is not.
        place: of a file of a name, for the error.

    Raises:
        InputError: naming the file that was changed, lost or added.
    """
    for name in sorted({*found, *begun}):
        if found.get(name) != begun.get(name):
            what = "is not as it was when the run began" if name in found else "is gone"
            raise InputError(place(name), what, expected)
