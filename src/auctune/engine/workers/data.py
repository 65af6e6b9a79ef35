"""Data worker: runs one request after the other; tokenizers are loaded once each.

A request may allocate a limited amount of memory beside what the process holds without it; one that
needs more fails alone. Whatever a request raises is its answer: the process continues.

| request | value of `done` |
| --- | --- |
| prepare {base} | the longest row that the base can read, or null |
| digest {base} | SHA-256 over all that the tokens of a file follow from, beside its content |
| size {base, path, place, max_length, store} | `DataFacts`; with `store`, tokens are stored too |
| store {base, path, place, max_length} | null, once the file's tokens are stored beside it |
| measure {base, path, place, max_length} | `DataSize` |
| appraise {base, path, place, max_length, vendors} | `Appraisal` |
| repair {source, target, vendor} | `RepairReport` |
| adapter {path, place} | `StartAdapter` |
| archive {folder, target, name} | `Archived` |

Each request has an id, and one `DataMessage` as its response.
"""

import resource
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from auctune.atomic_files import clean_temp_files
from auctune.domain import AuctuneError
from auctune.engine.data.archive import archive_folder
from auctune.engine.data.examiner import Examiner
from auctune.engine.data.facts import APPRAISALS, FACTS, REPAIR_PARAMS, START_ADAPTERS
from auctune.engine.data.process import DataMessage
from auctune.engine.runtime.channel import ErrorRecord, Message, ParentChannel, error_record
from auctune.engine.vendors import RepairVendor
from auctune.train.adapter_files import read_start


class RequestHandlers:
    """Handlers of the requests, by name.

    Args:
        cache: folder of bases that are built here.
        max_row_characters, reserve_bytes: as of `Examiner`.
    """

    def __init__(self, cache: Path, max_row_characters: int, reserve_bytes: int) -> None:
        self._cache = cache
        self._max_row_characters = max_row_characters
        self._reserve_bytes = reserve_bytes
        self._examiners: dict[str, Examiner] = {}
        self.by_name: dict[str, Callable[[Message], Any]] = {
            "prepare": self._prepare,
            "size": self._size,
            "store": self._store,
            "measure": self._measure,
            "appraise": self._appraise,
            "repair": self._repair,
            "adapter": self._adapter,
            "archive": self._archive,
        }

    def _examiner(self, base: str) -> Examiner:
        from auctune.train.tokenizer import load_tokenizer

        if base not in self._examiners:
            tokenizer, context = load_tokenizer(base, cache=self._cache)
            self._examiners[base] = Examiner(
                tokenizer, context, self._max_row_characters, self._reserve_bytes
            )
        return self._examiners[base]

    def prepare(self, request: Message) -> None:
        """Load what stays after a request: its memory is not the request's."""
        if "base" in request:
            self._examiner(request["base"])

    def _prepare(self, request: Message) -> Any:
        return self._examiner(request["base"]).context_tokens

    def _size(self, request: Message) -> Any:
        examiner, path = self._examiner(request["base"]), Path(request["path"])
        store = request["store"]
        facts = examiner.facts(path, request["place"], request["max_length"], store=store)
        return FACTS.dump_python(facts, mode="json")

    def _store(self, request: Message) -> None:
        examiner, path = self._examiner(request["base"]), Path(request["path"])
        examiner.store(path, request["place"], request["max_length"])

    def _measure(self, request: Message) -> Any:
        examiner, path = self._examiner(request["base"]), Path(request["path"])
        return examiner.raw_size(path, request["place"], request["max_length"]).to_record()

    def _appraise(self, request: Message) -> Any:
        vendors = [
            RepairVendor(REPAIR_PARAMS.validate_python(record)) for record in request["vendors"]
        ]
        examiner, path = self._examiner(request["base"]), Path(request["path"])
        appraisal = examiner.appraise(path, request["place"], request["max_length"], vendors)
        return APPRAISALS.dump_python(appraisal, mode="json")

    def _repair(self, request: Message) -> Any:
        target = Path(request["target"])
        clean_temp_files(target)
        vendor = RepairVendor(REPAIR_PARAMS.validate_python(request["vendor"]))
        return vendor.repair(Path(request["source"]), target).to_json()

    def _adapter(self, request: Message) -> Any:
        start, _ = read_start(Path(request["path"]), request["place"])
        return START_ADAPTERS.dump_python(start, mode="json")

    def _archive(self, request: Message) -> Any:
        target = Path(request["target"])
        clean_temp_files(target)
        return asdict(archive_folder(Path(request["folder"]), target, request["name"]))


def answer(
    parent: ParentChannel[DataMessage],
    handlers: RequestHandlers,
    request: Message,
    memory_bytes: int,
) -> None:
    """Do a request and send its answer."""
    place = request.get("place", "")
    try:
        handlers.prepare(request)
        with limited_memory(memory_bytes):
            value = handlers.by_name[request["do"]](request)
    except AuctuneError as error:
        record = _without_paths(error_record(error), request)
    except MemoryError:
        found = f"needs more than {memory_bytes // 2**20:,} MiB of memory to be examined"
        record = ErrorRecord(place=place, found=found, expected="fewer rows")
    # Errors of libraries in Rust are not `Exception`s; none of them may end the process.
    except BaseException as error:
        # Its text may quote paths, and rows: only the log has it.
        traceback.print_exc()
        found = f"could not be examined ({type(error).__name__})"
        record = ErrorRecord(place=place, found=found, expected="data that can be tokenized")
    else:
        parent.send({"kind": "done", "id": request["id"], "value": value})
        return
    parent.send({"kind": "failed", "id": request["id"], **record})


# Fields of requests with paths of the service.
_PATHS = ("path", "source", "target", "folder")


def _without_paths(record: ErrorRecord, request: Message) -> ErrorRecord:
    """Return an error for the owner of the data, with names of files in place of paths."""
    for path in (Path(request[name]) for name in _PATHS if name in request):
        for field in ("place", "found"):
            record[field] = record[field].replace(str(path), path.name)
    return record


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


def main(parent: ParentChannel[DataMessage], settings: dict[str, Any]) -> None:
    """Serve requests; the argument is that of `DataClient`."""
    handlers = RequestHandlers(
        Path(settings["cache"]), settings["max_row_characters"], settings["reserve_bytes"]
    )
    parent.send({"kind": "started"})
    while (request := parent.inbox.get())["do"] != "stop":
        answer(parent, handlers, request, settings["memory_bytes"])
