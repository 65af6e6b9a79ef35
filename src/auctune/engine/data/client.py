"""Client of the data processes: requests in, futures out.

There are three processes, by the size of files: up to `SHORT_BYTES`, up to `MEDIUM_BYTES`, where
results are archived too, and above. So a large file delays no small one. In each, owners take turns
(auctune.engine.data.process). How long a request about a file may run follows from the file's size,
and how much memory it may take is bounded.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS
from auctune.domain.start_adapter import StartAdapter
from auctune.engine.data.examination import examination_digest
from auctune.engine.data.process import DataError, DataFuture, DataProcess, Request
from auctune.engine.messages.data import (
    Appraisal,
    AppraiseFile,
    Archived,
    ArchiveFolder,
    DataFacts,
    DataRequest,
    FileRequest,
    MeasureFile,
    Prepare,
    ReadAdapter,
    RepairFile,
    SizeFile,
    StoreFile,
)
from auctune.engine.vendors import RepairParams, RepairReport
from auctune.train.stored_tokens import tokens_folder

__all__ = ["WORKER", "DataClient", "DataError", "tokens_folder"]

WORKER = "auctune.engine.workers.data"

SHORT_BYTES, MEDIUM_BYTES = 16 * 1024, 256 * 1024
"""Sizes up to which a file does not wait for larger ones: with a whole core, some hundredths of a
second of work, and most of a second."""
REPAIR_FACTOR = 16
"""As so many times its size a file counts that is to be repaired, which takes longer."""

# A tokenizer is loaded within the first; the others are a fraction (1/20, 1/12) of the speeds of
# one core on short rows: the machine may be busy.
_LOAD_SECONDS = 60.0
_BYTES_PER_SECOND = 50_000
_REPAIR_BYTES_PER_SECOND = 3_000
# However large the file is: a request about it takes no longer.
MAX_FILE_SECONDS = 1800.0
# In addition to what the process itself takes.
_MEMORY_BYTES = 2 * 1024**3
# One core for each process: the others are the trainers'.
_ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


class DataClient:
    """Three data processes: for short requests, started at once, and for medium and long ones.

    Its futures end with `InputError` where data or arguments are wrong (place, found, expected),
    or a file's examination took too long, or ended its process twice; with `DataError` where that
    happened to another request, or the client was closed.

    Requests take an `owner`: owners take turns.

    Args:
        cache: folder of bases that are built here.
        hub: whether bases with a hub's name may be fetched; else only what is here already.
        seconds: that a request may take which is not about one file, and a repair at most.
        log: file for what the processes write on standard error; `None`: nobody keeps it.
        module: of the worker.
        memory_bytes: that a request may take, beside what its process takes without it.
        max_row_characters: of a row's line; a file with a longer one is refused.
        reserve_bytes: that stored tokens leave free on the disk.
        weight: of an owner: with twice the weight one gets twice as much time.
    """

    def __init__(
        self,
        cache: Path,
        *,
        hub: bool = False,
        seconds: float = 600.0,
        log: Path | None = None,
        module: str = WORKER,
        memory_bytes: int = _MEMORY_BYTES,
        max_row_characters: int = DEFAULT_MAX_ROW_CHARACTERS,
        reserve_bytes: int = 0,
        weight: Callable[[str], float] = lambda _owner: 1.0,
    ) -> None:
        if not seconds > 0:
            raise InputError("seconds", f"{seconds!r}", "a number > 0")
        self._seconds = seconds
        self._cache, self._weight = cache, weight
        argument = {
            "cache": str(cache),
            "memory_bytes": memory_bytes,
            "max_row_characters": max_row_characters,
            "reserve_bytes": reserve_bytes,
        }
        environment = _ENVIRONMENT | ({} if hub else _OFFLINE)
        self._short, self._medium, self._long = (
            # Many services never see a large file.
            DataProcess(
                f"data process, {kind}", module, argument, environment, log, lazy=kind != "short"
            )
            for kind in ("short", "medium", "long")
        )

    @property
    def pid(self) -> int | None:
        """Process id of the worker that examines small files, or `None` while none runs."""
        return self._short.pid

    def prepare(
        self, base: str, *, owner: str = "", seconds: float | None = None
    ) -> DataFuture[int | None]:
        """Load a base's tokenizer; the longest row in tokens that the base can read, if limited.

        Args:
            base: "tiny", a folder, or a hub's name.
            owner: whose turn it takes.
            seconds: that it may take; `None`: as all requests.
        """
        return self._request(Prepare(base=base), owner, seconds=seconds)

    def examination(self, base: str) -> str:
        """Return the digest of all that sizes by a base follow from; does not wait."""
        return examination_digest(base, self._cache)

    def size(
        self,
        base: str,
        path: Path,
        place: str,
        max_length: int,
        *,
        owner: str = "",
        store: bool = False,
    ) -> DataFuture[DataFacts]:
        """Look at a data set that is to be trained on as it is.

        Args:
            base: whose tokenizer counts.
            path: the file.
            place: how errors call it.
            max_length: tokens of a row at most; the base's own limit holds as well.
            owner: whose turn it takes.
            store: whether to store its tokens beside it; those of a small file are not worth it.
        """
        message = SizeFile(
            base=base,
            path=path,
            place=place,
            max_length=max_length,
            store=store and _size(path) > MEDIUM_BYTES,
        )
        return self._request(message, owner, path)

    def store(
        self, base: str, path: Path, place: str, max_length: int, *, owner: str = ""
    ) -> DataFuture[None]:
        """Store a data set's tokens beside it, unless they are; arguments as of `size`."""
        if _size(path) <= MEDIUM_BYTES:
            done: DataFuture[None] = DataFuture()
            done.set_result(None)
            return done
        message = StoreFile(base=base, path=path, place=place, max_length=max_length)
        return self._request(message, owner, path)

    def measure(
        self, base: str, path: Path, place: str, max_length: int, *, owner: str = ""
    ) -> DataFuture[DataSize]:
        """How much a data set is that somebody else is to repair; arguments as of `size`."""
        message = MeasureFile(base=base, path=path, place=place, max_length=max_length)
        return self._request(message, owner, path)

    def appraise(
        self,
        base: str,
        path: Path,
        place: str,
        max_length: int,
        vendors: Sequence[RepairParams],
        *,
        owner: str = "",
    ) -> DataFuture[Appraisal]:
        """Look at a data set that is to be repaired; `vendors` are asked, and work on trial."""
        message = AppraiseFile(
            base=base, path=path, place=place, max_length=max_length, vendors=tuple(vendors)
        )
        return self._request(message, owner, path)

    def repair(
        self, source: Path, target: Path, vendor: RepairParams, *, owner: str = ""
    ) -> DataFuture[RepairReport]:
        """Have a vendor repair `source`; `target` appears whole or not at all."""
        message = RepairFile(source=source, target=target, vendor=vendor, place="training_file")
        return self._request(message, owner, source)

    def adapter(self, path: Path, place: str, *, owner: str = "") -> DataFuture[StartAdapter]:
        """Read the archive of an adapter that a job is to start from; see `read_start`."""
        return self._request(ReadAdapter(path=path, place=place), owner, path)

    def archive(
        self, folder: Path, target: Path, name: str, *, owner: str = ""
    ) -> DataFuture[Archived]:
        """Pack a folder; see `archive_folder`."""
        return self._request(ArchiveFolder(folder=folder, target=target, name=name), owner)

    def close(self) -> None:
        """End the processes; requests that are not done fail."""
        for process in (self._short, self._medium, self._long):
            process.close()

    def _request(
        self,
        message: DataRequest,
        owner: str,
        path: Path | None = None,
        seconds: float | None = None,
    ) -> DataFuture[Any]:
        size, is_repair = _size(path), isinstance(message, AppraiseFile | RepairFile)
        limit = self._seconds if seconds is None else seconds
        if path is not None and seconds is None:
            limit = min(MAX_FILE_SECONDS, _LOAD_SECONDS + size / _BYTES_PER_SECOND)
            if is_repair:
                limit = min(self._seconds, _LOAD_SECONDS + size / _REPAIR_BYTES_PER_SECOND)
        # Files do not change: the same question about one has the same answer.
        key = message if isinstance(message, FileRequest | ReadAdapter) else None
        failure_key = key
        # Whole rows are tokenized, whatever they are truncated to then.
        if isinstance(message, FileRequest):
            failure_key = replace(message, max_length=0)
        if isinstance(failure_key, SizeFile):
            failure_key = replace(failure_key, store=False)
        request = Request(message, owner, limit, self._weight(owner), key, failure_key)
        future: DataFuture[Any] = DataFuture()
        self._process(message, REPAIR_FACTOR * size if is_repair else size).submit(request, future)
        return future

    def _process(self, message: DataRequest, size: int) -> DataProcess:
        if size > MEDIUM_BYTES:
            return self._long
        if size > SHORT_BYTES or isinstance(message, ArchiveFolder):
            return self._medium
        return self._short


def _size(path: Path | None) -> int:
    """Return the size of a request's file; one that is gone is the worker's to report."""
    try:
        return 0 if path is None else path.stat().st_size
    except OSError:
        return 0
