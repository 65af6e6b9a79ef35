"""The data process as the service holds it: requests in, futures out.

One request is done at a time, so that the process's end is that request's doing: it is tried once
more, with a new process, and then failed; no other is touched. A request that takes too long is
failed, and its process killed.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from auctune.domain import AuctuneError, InputError
from auctune.run.child import Calls, ChildProcess, Message
from auctune.run.child.messages import read_error
from auctune.run.data.archive import Archived
from auctune.run.data.facts import Appraisal, DataFacts, DataSize
from auctune.run.data.image_rows import ImageFacts
from auctune.run.data.messages import params_record
from auctune.run.vendors.repair_params import RepairParams
from auctune.run.vendors.repair_report import RepairReport

WORKER = ("-m", "auctune.run.data.worker")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_TRIES = 2
_LOOK_SECONDS = 0.2
_STOP_SECONDS = 2.0

T = TypeVar("T")


class DataError(AuctuneError):
    """The data process could not do what it was asked, through no known fault of the data."""


@dataclass(slots=True)
class _Request:
    message: Message
    read: Callable[[Any], Any]
    future: "Future[Any]"
    seconds: float
    tries: int = 0
    began: float = 0.0


class DataClient:
    """A data process, started at once and again whenever it is needed.

    Its futures end with `InputError` where data or arguments are wrong (place, found, expected),
    and with `DataError` where its process ended twice, took too long, or was closed.

    Args:
        cache: folder of bases that are built here.
        hub: whether bases with a hub's name may be fetched; else only what is here already.
        seconds: that a request may take.
        log: file for what the process writes on standard error; none: nobody keeps it.
        program: its process's, as arguments for the interpreter.
    """

    def __init__(
        self,
        cache: Path,
        *,
        hub: bool = False,
        seconds: float = 600.0,
        log: Path | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        if not seconds > 0:
            raise InputError("seconds", f"{seconds!r}", "a number > 0")
        self._cache = cache
        self._environment = {} if hub else _OFFLINE
        self._seconds = seconds
        self._log = log
        self._program = program
        self._ids = count(1)
        self._calls = Calls()
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None
        self._process: ChildProcess | None = None
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="data process", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Of its process now; none if there is none."""
        process = self._process
        return None if process is None else process.pid

    def prepare(self, base: str, *, seconds: float | None = None) -> "Future[int | None]":
        """Load a base's tokenizer; the longest row in tokens that the base can read, if limited.

        Args:
            base: "tiny", a folder, or a hub's name.
            seconds: that it may take; none: as all requests.
        """
        return self._ask({"do": "prepare", "base": base}, _as_it_is, seconds)

    def size(
        self, base: str, path: Path, place: str, max_length: int, *, seconds: float | None = None
    ) -> "Future[DataFacts]":
        """Look at a data set that is to be trained on as it is.

        Args:
            base: whose tokenizer counts.
            path: the file.
            place: how errors call it.
            max_length: tokens of a row at most; the base's own limit holds as well.
            seconds: as for `prepare`.
        """
        asked: Message = {"do": "size", "base": base, "path": str(path)}
        asked |= {"place": place, "max_length": max_length}
        return self._ask(asked, DataFacts.from_record, seconds)

    def measure(
        self, base: str, path: Path, place: str, max_length: int, *, seconds: float | None = None
    ) -> "Future[DataSize]":
        """How much a data set is that somebody else is to repair; arguments as of `size`."""
        asked: Message = {"do": "measure", "base": base, "path": str(path)}
        asked |= {"place": place, "max_length": max_length}
        return self._ask(asked, lambda value: DataSize(**value), seconds)

    def appraise(
        self,
        base: str,
        path: Path,
        place: str,
        max_length: int,
        vendors: Sequence[RepairParams],
        *,
        seconds: float | None = None,
    ) -> "Future[Appraisal]":
        """Look at a data set that is to be repaired; `vendors` are asked, and work on trial."""
        asked: Message = {"do": "appraise", "base": base, "path": str(path)}
        asked |= {"place": place, "max_length": max_length}
        asked |= {"vendors": [params_record(vendor) for vendor in vendors]}
        return self._ask(asked, Appraisal.from_record, seconds)

    def repair(
        self, source: Path, target: Path, vendor: RepairParams, *, seconds: float | None = None
    ) -> "Future[RepairReport]":
        """Have a vendor repair `source`; `target` appears whole or not at all."""
        asked: Message = {"do": "repair", "source": str(source), "target": str(target)}
        asked |= {"vendor": params_record(vendor)}
        return self._ask(asked, RepairReport.from_json, seconds)

    def images(
        self, path: Path, place: str, *, seconds: float | None = None
    ) -> "Future[ImageFacts]":
        """Look at labelled images; see `image_facts`."""
        asked: Message = {"do": "images", "path": str(path), "place": place}
        return self._ask(asked, ImageFacts.from_record, seconds)

    def archive(
        self, folder: Path, target: Path, name: str, *, seconds: float | None = None
    ) -> "Future[Archived]":
        """Pack a folder; see `archive_folder`."""
        asked: Message = {
            "do": "archive",
            "folder": str(folder),
            "target": str(target),
            "name": name,
        }
        return self._ask(asked, lambda value: Archived(**value), seconds)

    def close(self) -> None:
        """End the process; requests that are not done fail."""
        self._calls.close()
        self._thread.join()

    def _ask(
        self, message: Message, read: Callable[[Any], T], seconds: float | None
    ) -> "Future[T]":
        future: Future[T] = Future()
        limit = self._seconds if seconds is None else seconds
        request = _Request(message | {"id": next(self._ids)}, read, future, limit)
        self._calls.put(partial(self._waiting.append, request))
        return future

    def _run(self) -> None:
        self._start()
        while not self._calls.is_closed:
            self._look()
            # An answer that has come is not late.
            self._calls.make(_LOOK_SECONDS)
        if self._process is not None:
            self._process.stop(0.0 if self._current is not None else _STOP_SECONDS)
            self._process = None
        # Those that were asked for last.
        self._calls.make()
        closed = DataError("the data process was closed")
        for request in (*filter(None, [self._current]), *self._waiting):
            if request is self._current or request.future.set_running_or_notify_cancel():
                request.future.set_exception(closed)

    def _start(self) -> None:
        self._number += 1
        hear = partial(self._hear, self._number)
        try:
            self._process = ChildProcess(
                self._program,
                str(self._cache),
                hear,
                log=self._log,
                environment=self._environment,
            )
        except OSError as error:
            self._end(f"cannot be started ({error.strerror})")

    def _hear(self, number: int, message: Message | None) -> None:
        self._calls.put(partial(self._heard, number, message))

    def _look(self) -> None:
        """Begin what waits, or end what takes too long."""
        request = self._current
        if request is None:
            if self._waiting:
                self._begin(self._waiting.popleft())
        elif time.monotonic() > request.began + request.seconds:
            request.tries = _TRIES
            self._end(f"took longer than {request.seconds:g} s")

    def _begin(self, request: _Request) -> None:
        if not request.tries and not request.future.set_running_or_notify_cancel():
            return
        request.tries += 1
        request.began = time.monotonic()
        self._current = request
        if self._process is None:
            self._start()
        if self._process is not None:
            self._process.tell(request.message)

    def _heard(self, number: int, message: Message | None) -> None:
        if number != self._number or self._process is None:
            return
        if message is None:
            self._end(self._process.ending())
        elif message["kind"] != "alive":
            request, self._current = self._current, None
            assert request is not None
            assert message["id"] == request.message["id"]
            if message["kind"] == "done":
                request.future.set_result(request.read(message["value"]))
            else:
                request.future.set_exception(read_error(message, DataError))

    def _end(self, how: str) -> None:
        """Let go of the process; the request that it was at is tried again, or has failed."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        request, self._current = self._current, None
        if request is None:
            return
        if request.tries < _TRIES:
            self._waiting.appendleft(request)
        else:
            what = request.message["do"]
            request.future.set_exception(DataError(f"{what}: the data process {how}"))


def _as_it_is(value: Any) -> Any:
    return value
