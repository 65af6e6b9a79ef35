"""Data worker: runs one request after the other; tokenizers are loaded once each.

A request may allocate a limited amount of memory beside what the process holds without it; one that
needs more fails alone. Whatever a request raises is its answer: the process continues.

Its messages are those of `auctune.engine.messages.data`.
"""

import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.engine.data.archive import archive_folder
from auctune.engine.data.examiner import Examiner
from auctune.engine.messages.base import ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.data import (
    DATA_MESSAGES,
    AdapterRead,
    AppraiseFile,
    ArchiveFolder,
    DataReply,
    DataRequest,
    DataResponse,
    FileAppraised,
    FileMeasured,
    FileRepaired,
    FileRequest,
    FileSized,
    FileStored,
    FolderArchived,
    MeasureFile,
    Prepare,
    Prepared,
    ReadAdapter,
    RepairFile,
    SizeFile,
    StoreFile,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.vendors import RepairVendor
from auctune.files.atomic import clean_temp_files
from auctune.train.adapter_files import read_start

MESSAGES = DATA_MESSAGES
Parent = ParentChannel[DataReply, DataRequest | Stop]


class RequestHandlers:
    """Handlers of the requests.

    Args:
        cache: folder of bases that are built here.
        max_row_characters, reserve_bytes: as of `Examiner`.
    """

    def __init__(self, cache: Path, max_row_characters: int, reserve_bytes: int) -> None:
        self._cache = cache
        self._max_row_characters = max_row_characters
        self._reserve_bytes = reserve_bytes
        self._examiners: dict[str, Examiner] = {}

    def _examiner(self, base: str) -> Examiner:
        from auctune.train.tokenizer import load_tokenizer

        if base not in self._examiners:
            tokenizer, context = load_tokenizer(base, cache=self._cache)
            self._examiners[base] = Examiner(
                tokenizer, context, self._max_row_characters, self._reserve_bytes
            )
        return self._examiners[base]

    def prepare(self, request: DataRequest) -> None:
        """Load what stays after a request: its memory is not the request's."""
        if isinstance(request, Prepare | FileRequest):
            self._examiner(request.base)

    def handle(self, request: DataRequest) -> DataResponse:
        """Do what a request says.

        Raises:
            AuctuneError: if it cannot be done.
        """
        match request:
            case Prepare():
                return Prepared(value=self._examiner(request.base).context_tokens)
            case SizeFile():
                examiner = self._examiner(request.base)
                facts = examiner.facts(
                    request.path, request.place, request.max_length, store=request.store
                )
                return FileSized(value=facts)
            case StoreFile():
                self._examiner(request.base).store(request.path, request.place, request.max_length)
                return FileStored()
            case MeasureFile():
                examiner = self._examiner(request.base)
                return FileMeasured(
                    value=examiner.raw_size(request.path, request.place, request.max_length)
                )
            case AppraiseFile():
                vendors = [RepairVendor(params) for params in request.vendors]
                appraise = self._examiner(request.base).appraise
                found = appraise(request.path, request.place, request.max_length, vendors)
                return FileAppraised(value=found)
            case RepairFile():
                clean_temp_files(request.target)
                return FileRepaired(
                    value=RepairVendor(request.vendor).repair(request.source, request.target)
                )
            case ReadAdapter():
                return AdapterRead(value=read_start(request.path, request.place)[0])
            case ArchiveFolder():
                clean_temp_files(request.target)
                return FolderArchived(
                    value=archive_folder(request.folder, request.target, request.name)
                )


def answer(
    parent: Parent, handlers: RequestHandlers, request: DataRequest, memory_bytes: int
) -> None:
    """Do a request and send its answer."""
    place = "" if isinstance(request, Prepare | ArchiveFolder) else request.place
    try:
        handlers.prepare(request)
        with limited_memory(memory_bytes):
            response = handlers.handle(request)
    except AuctuneError as error:
        record = _without_paths(ErrorRecord.of(error), request)
    except MemoryError:
        found = f"needs more than {memory_bytes // 2**20:,} MiB of memory to be examined"
        record = ErrorRecord(place, found, "fewer rows")
    # Errors of libraries in Rust are not `Exception`s; none of them may end the process.
    except BaseException as error:
        # Its text may quote paths, and rows: only the log has it.
        traceback.print_exc()
        found = f"could not be examined ({type(error).__name__})"
        record = ErrorRecord(place, found, "data that can be tokenized")
    else:
        parent.send(response)
        return
    parent.send(Failed(error=record))


# Fields of requests with paths of the service.
_PATHS = ("path", "source", "target", "folder")


def _without_paths(record: ErrorRecord, request: DataRequest) -> ErrorRecord:
    """Return an error for the owner of the data, with names of files in place of paths."""
    place, found = record.place, record.found
    for path in (getattr(request, name) for name in _PATHS if hasattr(request, name)):
        place = place.replace(str(path), path.name)
        found = found.replace(str(path), path.name)
    return replace(record, place=place, found=found)


@contextmanager
def limited_memory(num_bytes: int) -> Iterator[None]:
    """Limit what the process may allocate within the block; beyond it `MemoryError` is raised.

    Code and files that are mapped do not count.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = _data_bytes() + num_bytes
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _data_bytes() -> int:
    """Return what counts towards RLIMIT_DATA by now."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024


def main(parent: Parent, settings: dict[str, Any]) -> None:
    """Serve requests; the argument is that of `DataClient`."""
    handlers = RequestHandlers(
        Path(settings["cache"]), settings["max_row_characters"], settings["reserve_bytes"]
    )
    parent.send(Ready())
    while not isinstance(request := parent.inbox.get(), Stop):
        answer(parent, handlers, request, settings["memory_bytes"])
