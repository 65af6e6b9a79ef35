"""A zone's process that is kept going."""

from dataclasses import dataclass, field
from itertools import pairwise

from auctune.engine.messages.base import Alive
from auctune.engine.messages.spot import RunEvent
from auctune.engine.runtime.channel import OnMessage
from auctune.service.zones.core.worker import ProcessSupervisor


@dataclass
class Scripted:
    hear: OnMessage
    killed: bool = False
    stopped: bool = False

    def exit_reason(self) -> str:
        return "killed by SIGKILL"

    def kill(self) -> None:
        self.killed = True

    def stop(self, seconds: float = 30.0) -> None:
        self.stopped = True


@dataclass
class Played:
    """A keeper with a clock that is set."""

    time: float = 0.0
    started: list[Scripted] = field(default_factory=list)
    heard: list[object] = field(default_factory=list)

    def keeper(self) -> ProcessSupervisor:
        def launch(hear: OnMessage) -> Scripted:
            self.started.append(Scripted(hear))
            return self.started[-1]

        return ProcessSupervisor(
            launch, self.heard.append, lambda message: message == UNIT, lambda: self.time
        )


UNIT = RunEvent(event={"type": "quantum"})


def test_one_that_ended_is_started_at_once_and_then_after_growing_pauses() -> None:
    played = Played()
    keeper = played.keeper()
    starts = []
    for tenth in range(600):
        played.time = tenth / 10
        if keeper.poll():
            starts.append(played.time)
            played.started[-1].hear(None)
    assert [round(later - sooner) for sooner, later in pairwise(starts)] == [0, 1, 2, 4, 30]
    assert keeper.is_crash_looping
    assert all(process.killed for process in played.started[:-1])


def test_a_unit_ends_the_row() -> None:
    played = Played()
    keeper = played.keeper()
    while len(played.started) < 5:
        played.time += 60
        if keeper.poll():
            played.started[-1].hear(None)
    keeper.poll()
    assert keeper.is_crash_looping
    played.time += 60
    assert keeper.poll()
    played.started[-1].hear(UNIT)
    assert played.heard == [UNIT]
    # The next ending is the first of a row again: no pause.
    played.started[-1].hear(None)
    assert keeper.poll()


def test_one_that_is_killed_counts_as_an_exit_until_it_makes_progress() -> None:
    played = Played()
    keeper = played.keeper()
    for _ in range(5):
        assert keeper.poll()
        keeper.kill("its pool failed")
        assert played.started[-1].killed
        # There is none to be killed now.
        keeper.kill("again")
        assert keeper.last_exit == "its pool failed"
        played.time += 60
    assert keeper.is_crash_looping
    assert keeper.poll()
    keeper.record_progress()
    assert not keeper.is_crash_looping


def test_a_silent_one_is_ended_and_one_that_is_alive_is_left() -> None:
    played = Played()
    keeper = played.keeper()
    keeper.poll()
    (first,) = played.started
    for _ in range(20):
        played.time += 100
        first.hear(Alive())
        assert not keeper.poll()
    played.time += 121
    # At once, as it is the first of a row.
    assert keeper.poll()
    assert first.killed
    keeper.stop()
    assert played.started[-1].stopped


def test_one_that_ended_before_its_start_returned_is_started_again() -> None:
    started: list[Scripted] = []

    def launch(hear: OnMessage) -> Scripted:
        started.append(Scripted(hear))
        hear(None)
        return started[-1]

    keeper = ProcessSupervisor(launch, lambda _: None, lambda _: False, lambda: 0.0)
    assert keeper.poll()
    assert keeper.poll()
    assert [one.killed for one in started] == [True, False]


def test_one_that_was_stopped_is_not_started_again() -> None:
    played = Played()
    keeper = played.keeper()
    keeper.poll()
    keeper.stop()
    played.time += 60
    assert not keeper.poll()
