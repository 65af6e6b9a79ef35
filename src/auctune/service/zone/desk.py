"""The thread that decides for a zone: one command after the other, none answered before it is kept.

A command runs on the zone; the events that it made are handed to the log, and its answer is given
once they are on disk. Meanwhile the next command runs: a flush of the disk is shared by all that
wait for it. If the log fails, what is in memory is ahead of what is on disk: the desk closes, and
the zone must be read from the log again.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from auctune.domain import AuctuneError
from auctune.service.zone.recorder import Recorder
from auctune.service.zone.zone import Zone

T = TypeVar("T")


class DeskClosedError(AuctuneError):
    """The zone takes no commands now."""


class _Command(Generic[T]):
    def __init__(self, run: Callable[[Zone], T]) -> None:
        self.run = run
        self.answer: Future[T] = Future()


class Desk:
    """One zone's thread.

    Args:
        zone: touched by nobody else from now on.
        recorder: the log.
    """

    def __init__(self, zone: Zone, recorder: Recorder) -> None:
        self._zone = zone
        self._recorder = recorder
        self._commands: queue.SimpleQueue[_Command[object] | None] = queue.SimpleQueue()
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._work, name=f"desk-{zone.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """Of the zone."""
        return self._zone.name

    @property
    def broken(self) -> Exception | None:
        """What went wrong with the log; none: all is well."""
        return self._broken

    def ask(self, run: Callable[[Zone], T]) -> Future[T]:
        """Run a command on the zone; its answer comes when all that it did is on disk."""
        command = _Command(run)
        self._commands.put(command)  # type: ignore[arg-type]
        return command.answer

    def close(self) -> None:
        """Answer what was asked so far, and end."""
        self._commands.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (command := self._commands.get()) is not None:
            if command.answer.set_running_or_notify_cancel():
                self._do(command)

    def _do(self, command: _Command[T]) -> None:
        if self._broken is not None:
            command.answer.set_exception(_closed(self._broken))
            return
        try:
            answer = command.run(self._zone)
        except Exception as error:
            # What a command did before it failed has happened; it is kept like the rest.
            failure = error
            self._keep(lambda lost: command.answer.set_exception(lost or failure))
        else:
            self._keep(
                lambda lost: (
                    command.answer.set_result(answer)
                    if lost is None
                    else command.answer.set_exception(lost)
                )
            )

    def _keep(self, answer: Callable[[Exception | None], None]) -> None:
        happened = self._zone.take_events()
        if not happened:
            answer(None)
            return

        def done(error: Exception | None) -> None:
            if error is None:
                answer(None)
            else:
                self._broken = error
                answer(_closed(error))

        self._recorder.record(happened, done)


def _closed(error: Exception) -> DeskClosedError:
    return DeskClosedError(f"the log cannot be written ({error}); try again later")
