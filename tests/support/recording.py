"""A live market beside its record, as the service keeps it: all that happened, in order."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from auctune.domain import (
    Admission,
    Cluster,
    Commitment,
    Decision,
    Event,
    MarketState,
    MenuLine,
    NodeLost,
    NodeReturned,
    Offered,
    Released,
    Schedule,
    Task,
)


class Recorder:
    """Drives a mechanism, and notes all that happened."""

    def __init__(self, mechanism: Admission, cluster: Cluster) -> None:
        self.mechanism = mechanism
        self.events: list[Event] = []
        self.lost: set[str] = set()
        self._types = {node.id: node.type for node in cluster.nodes}
        self._plans: dict[str, tuple[Task, Schedule]] = {}

    def offer(self, task: Task, now: int) -> Decision:
        self.events += self.mechanism.advance(now)
        decision = self.mechanism.offer(task, now)
        self._note(task, decision, now)
        return decision

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        self.events += self.mechanism.advance(now)
        decision = self.mechanism.take(task, line, now)
        if decision is not None:
            self._note(task, decision, now)
        return decision

    def release(self, name: str, kept: int) -> None:
        """The task gives up all cells of its plan but the first `kept`."""
        task, plan = self._plans.pop(name)
        cells = plan.cells[kept:]
        self.mechanism.release(task, cells)
        self.events.append(Released(task, cells))
        if kept:
            self._plans[name] = (task, Schedule(plan.cells[:kept], plan.vendor))

    def play(self, outage: NodeLost | NodeReturned) -> None:
        self.events += self.mechanism.advance(outage.now)
        self.events.append(outage)
        if isinstance(outage, NodeReturned):
            self.lost.discard(outage.node)
            self.mechanism.apply(outage)
            return
        self.lost.add(outage.node)
        running = list(self._running(outage.now))
        replanned = self.mechanism.lose_node(outage.node, outage.now, running)
        self.events += replanned
        for event in replanned:
            task, before = self._plans.pop(event.task.id)
            if not event.refunded:
                plan = Schedule(event.cells(before), before.vendor)
                self._plans[task.id] = (task, plan)

    def _note(self, task: Task, decision: Decision, now: int) -> None:
        self.events.append(Offered(task, decision, now))
        if decision.schedule is not None:
            self._plans[task.id] = (task, decision.schedule)

    def _running(self, now: int) -> Iterator[Commitment]:
        for task, plan in self._plans.values():
            if plan.finish >= now:
                done = sum(
                    task.throughput[self._types[node]] for slot, node in plan.cells if slot < now
                )
                yield Commitment(task, plan, max(task.work - done, 0.0))


def play_day(
    recorder: Recorder,
    tasks: Sequence[Task],
    nodes: Sequence[str],
    rng: np.random.Generator,
    look: Callable[[int], None] = lambda _index: None,
) -> None:
    """Bids in order of arrival, some of them by a line of their menu; cells come back and nodes go.

    Args:
        recorder: of the market.
        tasks: by arrival.
        nodes: of which one at a time may be lost.
        rng: for what happens.
        look: called before each bid with its index.
    """
    for index, task in enumerate(tasks):
        look(index)
        now = task.arrival
        if rng.random() < 0.06:
            node = str(rng.choice(nodes))
            if recorder.lost:
                recorder.play(NodeReturned(recorder.lost.copy().pop(), now))
            else:
                recorder.play(NodeLost(node, now))
        decision = _by_menu(recorder, task, now) if rng.random() < 0.2 else None
        decision = decision or recorder.offer(task, now)
        if decision.schedule is not None and rng.random() < 0.2:
            recorder.release(task.id, int(rng.integers(0, len(decision.schedule.cells))))


def _by_menu(recorder: Recorder, task: Task, now: int) -> Decision | None:
    lines = [line for line in recorder.mechanism.quote(task, now).lines if line.price <= task.bid]
    return recorder.take(task, lines[-1], now) if lines else None


def rebuilt(mechanism: Admission, events: Sequence[Event]) -> Admission:
    """A new mechanism, told all that happened."""
    for event in events:
        mechanism.apply(event)
    return mechanism


def assert_same_state(first: MarketState, second: MarketState) -> None:
    """To the last bit."""
    assert first.first_slot == second.first_slot
    for name in ("compute_price", "memory_price", "compute_used", "memory_used"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def assert_alike(first: Admission, second: Admission, tasks: Sequence[Task]) -> int:
    """Two mechanisms go on alike, to the last bit; the number of updates on the way."""
    assert_same_state(first.state(), second.state())
    updates = 0
    for task in tasks:
        events = first.advance(task.arrival)
        assert [type(event) for event in events] == [
            type(event) for event in second.advance(task.arrival)
        ]
        updates += len(events)
        assert first.quote(task, task.arrival) == second.quote(task, task.arrival)
        assert first.offer(task, task.arrival) == second.offer(task, task.arrival)
        assert_same_state(first.state(), second.state())
    return updates
